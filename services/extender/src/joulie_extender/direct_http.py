"""Requests that a client repeats hundreds of times a second, answered without the objects of a general HTTP server.

A connection starts here. As long as each of its requests is a POST to one of the given paths, with the headers that
Go's HTTP client sends and a body of announced length, the body is received in one piece and answered by one call and
one write. Anything else (another method, path, version or header, a chunked or large body, a head that arrives in
parts, a request that the endpoint declines) goes to aiohttp's protocol, which gets the bytes as they came and keeps the
connection. So nothing of HTTP is interpreted here beyond one fixed form, and what is not of this form has one
implementation.
Source: docs/results/cost-per-pod.md.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import perf_counter
from typing import Final

from joulie_api.http_server import HttpServer
from joulie_extender.byte_budget import ByteBudget

#: 10,000 names of 60 characters are 630 KB.
MAX_DIRECT_BYTES: Final = 1024 * 1024

#: Headers that do not change what a request means to an endpoint that reads JSON whatever it is called.
_IGNORED: Final = rb"(?:(?:User-Agent|Accept|Accept-Encoding|Content-Type): [ -~]{0,256}\r\n){0,8}"
_TEXT: Final = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class DirectReply:
    """A complete answer."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: bytes = b"application/json"

    @classmethod
    def text(cls, status: HTTPStatus, text: str) -> "DirectReply":
        """Return an answer for people."""
        return cls(f"{text}\n".encode(errors="backslashreplace"), status, _TEXT)


#: Gets a body and a reading of `perf_counter` at the request's first byte; None: the request needs the general server.
DirectEndpoint = Callable[[bytes, float], DirectReply | None]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of a connection, in seconds."""

    #: From the connection to the first request.
    first_request_s: float
    #: Receiving, and sending, of one request.
    request_s: float
    #: Between two parts of a request.
    stall_s: float
    #: Between requests.
    idle_s: float


class DirectEndpoints:
    """The endpoints by path."""

    def __init__(self, by_path: Mapping[str, DirectEndpoint]) -> None:
        self.by_path = {path.encode(): endpoint for path, endpoint in by_path.items()}
        paths = b"|".join(re.escape(path) for path in self.by_path)
        #: Path and length of a request whose head is complete.
        self.match: Final = re.compile(
            rb"POST (%b) HTTP/1\.1\r\nHost: [!-~]{1,256}\r\n%bContent-Length: (\d{1,7})\r\n%b\r\n"
            % (paths, _IGNORED, _IGNORED)
        ).match


class DirectConnection(asyncio.Protocol):
    """One connection, until it is closed or handed over.

    Args:
        endpoints: what is answered here.
        timeouts: its limits.
        budget: memory that bodies may take together while they are received.
        server: logs, counts errors, and continues with connections that are handed over.
        on_end: called when the connection has ended or is handed over.
    """

    def __init__(
        self,
        endpoints: DirectEndpoints,
        timeouts: Timeouts,
        budget: ByteBudget,
        server: HttpServer,
        on_end: "Callable[[DirectConnection], None]",
    ) -> None:
        self._endpoints = endpoints
        self._timeouts = timeouts
        self._budget = budget
        self._server = server
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._deadline: float
        self._timer: asyncio.TimerHandle
        # Of the last request.
        self._endpoint: DirectEndpoint
        self._path: bytes
        self._started: float
        #: When it must be complete.
        self._due_at: float
        #: Its head and what there is of its body.
        self._parts: list[bytes]
        self._length: int
        self._missing = 0
        #: What was received behind a request, until that is answered.
        self._rest = b""
        self._before_first = True
        self._stalled = self._closing = self._left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = self._loop.time() + self._timeouts.first_request_s
        self._arm()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Drop everything."""
        self._leave()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request, or several requests."""
        if self._missing:
            self._receive_body(data)
            return
        head = self._endpoints.match(data)
        if head is None or (length := int(head[2])) > MAX_DIRECT_BYTES:
            self._hand_over(data)
            return
        self._before_first = False
        self._started = perf_counter()
        self._path = head[1]
        self._endpoint = self._endpoints.by_path[self._path]
        self._length = self._missing = length
        self._parts = [head[0]]
        self._due_at = self._loop.time() + self._timeouts.request_s
        self._receive_body(data[head.end() :])

    def pause_writing(self) -> None:
        """Accept nothing while the client does not read its answers."""
        self._stalled = True
        self._deadline = self._loop.time() + self._timeouts.request_s
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on with what the client has sent."""
        self._stalled = False
        self._deadline = self._loop.time() + self._timeouts.idle_s
        self._continue()

    def finish(self) -> None:
        """Close the connection once the request that is being received or answered is done."""
        self._closing = True
        if not (self._missing or self._stalled):
            self._transport.close()

    def abort(self) -> None:
        """Close the connection."""
        self._transport.abort()

    def _receive_body(self, part: bytes) -> None:
        missing = self._missing - len(part)
        if missing > 0:
            if not self._budget.take(len(part)):
                self._refuse_for_memory()
                return
            self._missing = missing
            self._parts.append(part)
            self._deadline = min(self._due_at, self._loop.time() + self._timeouts.stall_s)
            return
        head, *parts = self._parts
        self._budget.release(self._length - self._missing)
        if missing:
            self._rest = part[missing:]
            part = part[:missing]
        self._missing, self._parts = 0, []
        body = b"".join((*parts, part))
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        try:
            reply = self._endpoint(body, self._started)
        except Exception as error:  # noqa: BLE001 - the server logs it
            self._server.log.failed(error)
            reply = DirectReply.text(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log")
        if reply is None:
            self._hand_over(head + body + self._rest)
            return
        self._deadline = self._loop.time() + self._timeouts.idle_s
        self._write(reply)
        if reply.status >= HTTPStatus.BAD_REQUEST:
            self._note_error(reply.status)
        if self._closing:
            self._transport.close()
        elif self._rest:
            # Not at once: many small requests must not keep others waiting.
            self._transport.pause_reading()
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        if self._left or self._transport.is_closing() or self._stalled:
            return
        data, self._rest = self._rest, b""
        self._transport.resume_reading()
        if data:
            self.data_received(data)
        elif self._closing:
            self._transport.close()

    def _write(self, reply: DirectReply, more: bytes = b"") -> None:
        status = reply.status
        head = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nDate: %b\r\n%b\r\n" % (
            status,
            status.phrase.encode(),
            reply.content_type,
            len(reply.body),
            _date(int(time.time())),
            more,
        )
        self._transport.write(head + reply.body)

    def _refuse_for_memory(self) -> None:
        self._server.log.refused("bodies of concurrent requests too large")
        reply = DirectReply.text(HTTPStatus.TOO_MANY_REQUESTS, "other requests are too large, try again")
        self._write(reply, b"Retry-After: 1\r\nConnection: close\r\n")
        self._note_error(reply.status)
        self._transport.close()

    def _note_error(self, status: HTTPStatus) -> None:
        self._server.on_error(self._path.decode(), status)

    def _hand_over(self, data: bytes) -> None:
        if self._closing:
            self._transport.close()
            return
        # Of a request that has begun the head must be complete as soon as of the first.
        due_at = self._deadline if self._before_first else self._loop.time() + self._timeouts.first_request_s
        self._leave()
        self._server.hand_over(self._transport, data, due_at)

    def _leave(self) -> None:
        self._budget.release(self._length - self._missing if self._missing else 0)
        self._left = True
        self._timer.cancel()
        self._on_end(self)

    def _arm(self) -> None:
        # Never longer than the shortest limit: a deadline that is set meanwhile is not missed, and no request costs a
        # timer of its own.
        self._timer = self._loop.call_at(
            min(self._deadline, self._loop.time() + self._timeouts.stall_s), self._check_deadline
        )

    def _check_deadline(self) -> None:
        if self._loop.time() < self._deadline:
            self._arm()
        elif self._before_first:
            self._server.log.refused("no request in time")
            self.abort()
        elif self._missing or self._stalled:
            self._server.log.refused("request not received and answered in time")
            self._note_error(HTTPStatus.REQUEST_TIMEOUT)
            self.abort()
        else:
            # Nothing is lost: the kernel sends what it has. Closing would wait for a client that does not read.
            self.abort()


@lru_cache(maxsize=1)
def _date(now_s: int) -> bytes:
    return formatdate(now_s, usegmt=True).encode()
