"""HTTP requests to backends, bounded in time, size and number.

At most `MAX_IN_FLIGHT` requests to one address are in flight, so that a start with thousands of nodes does not overload
a backend. The time limit of a request starts when it is sent, not when it is queued. Addresses do not share slots: a
backend that hangs delays only its own nodes. Nothing is retried here; the next tick repeats its requests.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import hdrs

from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import Unavailable
from joulie_agent.backends.headers import BadSecret
from joulie_api.answers import read_answer, session_options
from joulie_api.checked_texts import redacted
from joulie_api.errors import DecodeError
from joulie_core.text import printable

#: Calls under way at once to one address (scheme, host and port).
MAX_IN_FLIGHT: Final = 64
#: A telemetry answer is a few hundred bytes; one that is larger than this is not one.
MAX_REPLY_BYTES: Final = 1 << 20
_EXCERPT_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Destination of a request."""

    url: str
    timeout_s: float
    #: Name of the Secret whose entries are sent as headers; None for none.
    headers_secret: str | None = None


class HeaderProvider(Protocol):
    """Resolves `headersSecretRef`."""

    async def headers(self, secret: str) -> Mapping[str, str] | BadSecret:
        """Return the headers, or why there are none."""


class HttpTransport:
    """HTTP client of the process; an async context manager that closes its connections."""

    def __init__(self, secrets: HeaderProvider, *, user_agent: str) -> None:
        # The slots below bound the connections; a pool limit on top would count waiting as part of a call's time.
        options = session_options()
        options["headers"] = {**options["headers"], hdrs.USER_AGENT: user_agent}
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), **options)
        self._secrets = secrets
        self._slots: dict[str, asyncio.Semaphore] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, target: HttpTarget, query: Mapping[str, str] | None = None) -> bytes | Unavailable:
        """Return the body of a 2xx answer to a GET."""
        return await self._call("GET", target, query=query)

    async def post(self, target: HttpTarget, body: Mapping[str, Any]) -> bytes | Unavailable:
        """Return the body of a 2xx answer to a POST of JSON."""
        return await self._call("POST", target, body=body)

    async def _call(
        self,
        method: str,
        target: HttpTarget,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> bytes | Unavailable:
        origin = _origin(target.url)
        if origin is None:
            return Unavailable(Reason.BAD_ENDPOINT, f"{redacted(target.url)!r} is no http or https address")
        headers: Mapping[str, str] = {}
        if target.headers_secret is not None:
            found = await self._secrets.headers(target.headers_secret)
            if isinstance(found, BadSecret):
                return Unavailable(Reason.BAD_SECRET, found.message)
            headers = found
        async with self._slots.setdefault(origin, asyncio.Semaphore(MAX_IN_FLIGHT)):
            return await self._send(method, target, headers, query, body)

    async def _send(
        self,
        method: str,
        target: HttpTarget,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> bytes | Unavailable:
        data = None if body is None else msgspec.json.encode(body)
        sent_headers = {**headers, "Accept": "application/json"}
        if data is not None:
            sent_headers["Content-Type"] = "application/json"
        try:
            async with (
                asyncio.timeout(target.timeout_s),
                # A redirect could carry the Secret's headers to another host.
                self._session.request(
                    method, target.url, params=query, data=data, headers=sent_headers, allow_redirects=False
                ) as response,
            ):
                reply = await read_answer(response, max_bytes=MAX_REPLY_BYTES, what="the backend")
        except TimeoutError:
            return Unavailable(Reason.TIMEOUT, f"no answer within {target.timeout_s:g} s")
        except DecodeError as error:
            return Unavailable(Reason.MALFORMED_REPLY, str(error))
        except aiohttp.InvalidURL:
            return Unavailable(Reason.BAD_ENDPOINT, f"{redacted(target.url)!r} is no URL to call")
        except (aiohttp.ClientError, OSError) as error:
            return Unavailable(Reason.UNREACHABLE, printable(f"{type(error).__name__}: {error}", _EXCERPT_CHARACTERS))
        return _judge(response.status, reply)


def _origin(url: str) -> str | None:
    """Return scheme, host and port of a URL; None if it is not an http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _judge(status: int, reply: bytes) -> bytes | Unavailable:
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return reply
    reason = Reason.NOT_FOUND if status == HTTPStatus.NOT_FOUND else Reason.HTTP_STATUS
    excerpt = printable(reply[:_EXCERPT_CHARACTERS].decode(errors="replace").strip(), _EXCERPT_CHARACTERS)
    return Unavailable(reason, f"HTTP {status}: {excerpt}" if excerpt else f"HTTP {status}")
