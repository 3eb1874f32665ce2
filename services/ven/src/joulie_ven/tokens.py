"""Access tokens by the client credentials grant (RFC 6749, section 4.4).

A token is used until shortly before its end, by the clock of this process alone, or until the VTN refuses it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from joulie_api.errors import DecodeError
from joulie_ven.http import VtnHttp
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.urls import check_secure_url
from joulie_ven.wire import decode_token, decode_token_url

_MARGIN_S: Final = 30.0
#: Of a token that lives for less than five minutes.
_MARGIN_SHARE: Final = 0.1
#: `maxLength` of the specification.
_MOST_CHARACTERS: Final = 4096


class VtnCredentials:
    """The files `client-id` and `client-secret` of a directory, read when they are needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self) -> tuple[str, str]:
        """Return id and secret.

        Raises:
            VtnError: a file cannot be read, is empty or too long.
        """
        return self._file("client-id"), self._file("client-secret")

    def _file(self, name: str) -> str:
        path = self._directory / name
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(_MOST_CHARACTERS + 2).strip()
        except (OSError, ValueError) as error:
            raise VtnError(VtnReason.CREDENTIALS_MISSING, f"{path}: {type(error).__name__}") from error
        if not 0 < len(text) <= _MOST_CHARACTERS:
            raise VtnError(
                VtnReason.CREDENTIALS_MISSING, f"{path}: empty, or longer than {_MOST_CHARACTERS} characters"
            )
        return text


class Tokens:
    """The token of one VTN.

    Args:
        http: sends the requests.
        vtn_url: base URL of the VTN.
        token_url: where tokens are requested; empty: where the VTN's `/auth/server` says.
        credentials: id and secret.
        scope: scopes, separated by spaces; empty: the server's default.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        http: VtnHttp,
        *,
        vtn_url: str,
        token_url: str,
        credentials: VtnCredentials,
        scope: str,
        clock: Callable[[], float],
    ) -> None:
        self._http = http
        self._vtn_url = vtn_url
        self._token_url = token_url
        self._credentials = credentials
        self._scope = scope
        self._clock = clock
        self._token = ""
        self._until = float("-inf")

    async def get(self) -> str:
        """Return a token, a new one where there is none that is valid for a while.

        Raises:
            VtnError: there is none.
        """
        if self._token and self._clock() < self._until:
            return self._token
        client_id, client_secret = self._credentials.read()
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        if self._scope:
            form["scope"] = self._scope
        asked_at = self._clock()
        answer = await self._http.send("POST", self._token_url or await self._discover(), form=form)
        try:
            token = decode_token(answer.body)
        except DecodeError as error:
            raise VtnError(VtnReason.INVALID_ANSWER, error.message) from error
        self._token = token.access_token
        lifetime_s = float("inf") if token.expires_in is None else float(token.expires_in)
        self._until = asked_at + lifetime_s - min(_MARGIN_S, max(0.0, lifetime_s) * _MARGIN_SHARE)
        return self._token

    def drop(self) -> None:
        """Forget the token: the VTN has refused it."""
        self._token = ""

    async def _discover(self) -> str:
        answer = await self._http.send("GET", f"{self._vtn_url}/auth/server")
        try:
            return check_secure_url(decode_token_url(answer.body))
        except (DecodeError, ValueError) as error:
            raise VtnError(VtnReason.INVALID_ANSWER, f"token URL of the VTN: {error}") from error
