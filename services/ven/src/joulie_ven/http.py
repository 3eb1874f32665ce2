"""Requests to a VTN and its token server, each with a deadline, a bounded answer and no redirect.

Every failure is a VtnError. Neither credentials nor tokens are in a message.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ssl import SSLError
from typing import Any, Final

import aiohttp

from joulie_api.answers import read_answer
from joulie_api.errors import DecodeError
from joulie_core.text import printable
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.wire import MOST_BYTES

#: Longest wait that a VTN may request.
MOST_RETRY_S: Final = 300.0
_MOST_SHOWN: Final = 200
_BUSY: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_BY_STATUS: Final[Mapping[int, VtnReason]] = {
    HTTPStatus.UNAUTHORIZED: VtnReason.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: VtnReason.FORBIDDEN,
}


@dataclass(frozen=True, slots=True)
class VtnAnswer:
    """A 2xx answer."""

    body: bytes
    date: str
    """The header `Date`, empty without one."""


class VtnHttp:
    """Sends requests; `timeout_s` is the deadline of each."""

    def __init__(self, session: aiohttp.ClientSession, *, timeout_s: float) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def send(
        self,
        method: str,
        url: str,
        *,
        token: str = "",
        query: Iterable[tuple[str, str]] = (),
        form: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> VtnAnswer:
        """Send one request, with a bearer token unless that is empty.

        Raises:
            VtnError: no complete answer, or another one than 2xx.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        what = f"{method} {printable(url, _MOST_SHOWN)}"
        try:
            async with self._session.request(
                method,
                url,
                params=list(query),
                data=form,
                json=body,
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
            ) as response:
                raw = await read_answer(response, max_bytes=MOST_BYTES, what=what)
                if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                    return VtnAnswer(raw, response.headers.get("Date", ""))
                raise _refusal(what, response.status, response.headers.get("Retry-After", ""))
        except DecodeError as error:
            raise VtnError(VtnReason.INVALID_ANSWER, error.message) from error
        except TimeoutError as error:
            raise VtnError(VtnReason.TIMED_OUT, f"{what}: no complete answer in time") from error
        except (aiohttp.ClientSSLError, SSLError) as error:
            raise VtnError(VtnReason.NOT_TRUSTED, f"{what}: {printable(str(error), _MOST_SHOWN)}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # ValueError: a status line or header that aiohttp cannot represent, or a host that is no host name.
            raise VtnError(VtnReason.UNREACHABLE, f"{what}: {type(error).__name__}") from error


def _refusal(what: str, status: int, retry_after: str) -> VtnError:
    reason = VtnReason.BUSY if status in _BUSY else _BY_STATUS.get(status, VtnReason.REFUSED)
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else 0.0
    return VtnError(reason, f"{what}: status {status}", status=status, retry_after_s=min(seconds, MOST_RETRY_S))
