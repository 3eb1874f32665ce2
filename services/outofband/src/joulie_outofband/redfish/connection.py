"""Requests to one Redfish service: session, deadlines, ETags.

Guarantees: one request at a time, if its methods are; every request has a deadline; an answer is not larger than
`MOST_BYTES`; requests go to the BMC's own address, whatever its links and redirects name; the session is deleted by
`close`. Every failure to decode an answer is a BmcError, and what of an answer is sent again, a link, a tag or a token,
is visible ASCII. Credentials and tokens are in no message.

Source: DMTF DSP0266 (Redfish Specification), sections on sessions and ETags.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from ssl import SSLCertVerificationError, SSLContext
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from joulie_api.answers import read_answer
from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_outofband.reasons import BmcError, BmcReason

ROOT: Final = "/redfish/v1"
#: Far more than a resource of a BMC has.
MOST_BYTES: Final = 1 << 20
_SESSIONS: Final = f"{ROOT}/SessionService/Sessions"
_TAG_REFUSED: Final = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED})
#: Another request is in progress, too many were made, or the service is starting.
_BUSY: Final = frozenset(
    {HTTPStatus.CONFLICT, HTTPStatus.LOCKED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
)
_WEAK: Final = "W/"
#: What a link, a tag or a token may be; far longer than any of them.
_SENDABLE: Final = re.compile(r"[!-~]{1,1024}")
_ANY_TAG: Final = "*"
#: Of OpenSSL (x509_vfy.h): the host, or the IP address, is not in the certificate.
_NAME_MISMATCH: Final = frozenset({62, 64})
#: Not yet valid, and expired.
_OUT_OF_TIME: Final = frozenset({9, 10})

Json = dict[str, Any]
_OBJECTS: Final = msgspec.json.Decoder(Json)


@dataclass(frozen=True, slots=True)
class BmcAccess:
    """Credentials, and how the BMC's certificate is verified."""

    username: str
    password: str = field(repr=False)
    tls: SSLContext = field(repr=False)
    #: Name in the certificate; None: the host of the address.
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class BmcAnswer:
    """An answer with its JSON; `body` is empty where there is none.

    The names of `headers` may be in any case.
    """

    status: int
    headers: Mapping[str, str]
    body: Json

    @property
    def tag(self) -> str | None:
        """ETag of the resource, from the header or from the body; None without one that can be sent."""
        return _sendable(self.headers.get("ETag") or self.body.get("@odata.etag"))


class RedfishConnection:
    """A connection to one BMC; logs in at the first request."""

    def __init__(
        self, session: aiohttp.ClientSession, address: str, access: BmcAccess, *, request_timeout_s: float
    ) -> None:
        self._session = session
        self._address = address.rstrip("/")
        self._access = access
        self._timeout_s = request_timeout_s
        self._token: str | None = None
        self._location: str | None = None
        #: Where the BMC has no sessions, or none left.
        self._basic: str | None = None

    async def get(self, path: str) -> BmcAnswer:
        """Return a resource.

        Raises:
            BmcError: no answer, or another status than 200.
        """
        answer = await self._request("GET", path)
        return _accepted(answer, path)

    async def post(self, path: str, body: Json) -> None:
        """Request an action, without a tag.

        Raises:
            BmcError: no answer, or a refusal.
        """
        _accepted(await self._request("POST", path, body), path)

    async def patch(self, path: str, body: Json) -> None:
        """Change a resource; a tag that is refused is followed by another form of it.

        Raises:
            BmcError: no answer, a refusal, or every tag was refused.
        """
        answer = await self._patch_with_tags(path, body)
        if answer.status in _TAG_REFUSED:
            raise BmcError(BmcReason.TAG_REFUSED, f"PATCH {path}: {answer.status} with every form of the tag")
        _accepted(answer, path)

    async def close(self) -> None:
        """Delete the session.

        Raises:
            BmcError: no answer; the BMC ends the session at its own timeout.
        """
        location, self._location = self._location, None
        if location is not None:
            await self._send("DELETE", location, None, self._authorization())
        self._token = None

    async def _patch_with_tags(self, path: str, body: Json) -> BmcAnswer:
        tag = (await self.get(path)).tag
        strong = tag.removeprefix(_WEAK) if tag is not None else None
        answer = await self._request("PATCH", path, body, tag=tag)
        if answer.status in _TAG_REFUSED and strong != tag:
            answer = await self._request("PATCH", path, body, tag=strong)
        if answer.status in _TAG_REFUSED and tag is not None:
            # It may have moved with a reading.
            answer = await self._request("PATCH", path, body, tag=(await self.get(path)).tag)
        # It may move with every answer, so that none that was read is the present one.
        for last in (_ANY_TAG, None) if tag is not None else (_ANY_TAG,):
            if answer.status in _TAG_REFUSED:
                answer = await self._request("PATCH", path, body, tag=last)
        return answer

    async def _request(self, method: str, path: str, body: Json | None = None, *, tag: str | None = None) -> BmcAnswer:
        headers = {} if tag is None else {"If-Match": tag}
        if self._token is None and self._basic is None:
            await self._log_in()
        answer = await self._send(method, path, body, headers | self._authorization())
        if answer.status == HTTPStatus.UNAUTHORIZED and self._token is not None:
            # The BMC has ended the session. A request that was refused for it had no effect.
            self._token = self._location = None
            await self._log_in()
            answer = await self._send(method, path, body, headers | self._authorization())
        return answer

    def _authorization(self) -> dict[str, str]:
        if self._token is not None:
            return {"X-Auth-Token": self._token}
        return {} if self._basic is None else {"Authorization": self._basic}

    async def _log_in(self) -> None:
        credentials = {"UserName": self._access.username, "Password": self._access.password}
        answer = await self._send("POST", _SESSIONS, credentials, {})
        token = _sendable(answer.headers.get("X-Auth-Token"))
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES or token is None:
            # No sessions, or none left. A service without sessions may answer 401 to this, as to a wrong password.
            self._basic = aiohttp.encode_basic_auth(self._access.username, self._access.password)
            return
        self._token = token
        named = (_path(answer.headers.get("Location")), _path(answer.body.get("@odata.id")))
        self._location = next((each for each in named if each is not None), None)

    async def _send(self, method: str, path: str, body: Json | None, headers: dict[str, str]) -> BmcAnswer:
        if not path.startswith(ROOT) or _sendable(path) is None:
            raise BmcError(BmcReason.MALFORMED, f"link to {path[:100]}, outside of {ROOT} or not sendable")
        data = None if body is None else msgspec.json.encode(body)
        sent = {"Accept": "application/json", "OData-Version": "4.0", **headers}
        if data is not None:
            sent["Content-Type"] = "application/json"
        try:
            async with self._session.request(
                method,
                f"{self._address}{path}",
                data=data,
                headers=sent,
                ssl=self._access.tls,
                server_hostname=self._access.server_name,
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                allow_redirects=False,
            ) as response:
                raw = await read_answer(response, max_bytes=MOST_BYTES, what=path)
                return BmcAnswer(response.status, response.headers, _decode(raw, response.status, path))
        except DecodeError as error:
            raise BmcError(BmcReason.MALFORMED, str(error)) from error
        except TimeoutError as error:
            message = f"{method} {path}: no answer within {self._timeout_s:g} s (BMC_REQUEST_TIMEOUT)"
            raise BmcError(BmcReason.TIMED_OUT, message) from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise BmcError(BmcReason.CERTIFICATE_REFUSED, _refused_certificate(error.certificate_error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise BmcError(BmcReason.UNREACHABLE, f"{method} {path}: {type(error).__name__}") from error


def _sendable(value: object) -> str | None:
    """Return a text of an answer that may be part of a request; None for anything else."""
    return value if isinstance(value, str) and _SENDABLE.fullmatch(value) else None


def _path(location: object) -> str | None:
    """Return the path of a session, whatever name of the host its URL has; None where it is not one of the service."""
    text = _sendable(location)
    try:
        path = None if text is None else urlsplit(text).path
    except ValueError:
        return None
    return path if path is not None and path.startswith(f"{ROOT}/") else None


def _refused_certificate(error: Exception) -> str:
    """Return why a certificate was refused, and what makes it accepted."""
    code = error.verify_code if isinstance(error, SSLCertVerificationError) else None
    why = error.verify_message if isinstance(error, SSLCertVerificationError) else type(error).__name__
    if code in _NAME_MISMATCH:
        return f"{why}: put a name that the certificate has into the key tls-server-name of the Secret"
    if code in _OUT_OF_TIME:
        return f"{why}: compare the clocks of the BMC and of this service's node, or renew the certificate"
    return f"{why}: put what verifies it into the key ca.crt of the Secret"


def _decode(raw: bytes, status: int, path: str) -> Json:
    """Return the JSON object of an answer. Raises DecodeError."""
    try:
        return decode(_OBJECTS.decode, raw, f"JSON object: {path}") if raw.strip() else {}
    except DecodeError:
        if status >= HTTPStatus.BAD_REQUEST:
            return {}  # the page of a web server in front of the service; its status says enough
        raise


def _accepted(answer: BmcAnswer, path: str) -> BmcAnswer:
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return answer
    code = _code(answer.body)
    raise BmcError(
        _reason(answer.status, code), f"{path}: {answer.status} {code}".rstrip(), retry_after_s=_retry_after_s(answer)
    )


def _reason(status: int, code: str) -> BmcReason:
    if "licens" in code.lower():
        return BmcReason.LICENCE_MISSING
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return BmcReason.UNAUTHORIZED
    if status in _BUSY:
        return BmcReason.BUSY
    # "Not implemented" is an answer to the request; every other error of the server may be gone the next time.
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    return BmcReason.FAILED if failed else BmcReason.REFUSED


def _retry_after_s(answer: BmcAnswer) -> float | None:
    """Return the seconds of `Retry-After`; None where it is absent or a date."""
    value = answer.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _code(body: Json) -> str:
    """Return the message IDs of an error, "" if it has none."""
    error = body.get("error")
    if not isinstance(error, dict):
        return ""
    info = error.get("@Message.ExtendedInfo")
    found = [error.get("code")]
    if isinstance(info, list):
        found += [each.get("MessageId") for each in info if isinstance(each, dict)]
    return " ".join(dict.fromkeys(each[:100] for each in found[:4] if isinstance(each, str) and each))
