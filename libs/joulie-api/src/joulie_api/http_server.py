"""The HTTP server of every service: aiohttp's, with limits for what clients may send and how long they may take.

Guarantees for any input: no answer of 5xx but those of the handlers; a request is received, handled and answered within
`REQUEST_TIMEOUT_S`, and no part of its body comes later than `STALL_TIMEOUT_S` after the one before, or its connection
is closed; a connection without a complete first request and an idle one are closed; all servers of a process together
log one line a second at most.

Of `MAX_CONNECTIONS` no client address can take the place of others: where all are in use, a new one ends the oldest
connection of the address that has the most, and is refused where that is its own.

A handler that streams for as long as its client reads calls `lift_time_limit`, and bounds what waits for that client.

Encoded bodies are refused with 415: no client of Joulie encodes what it sends, and a decoder is where a small body
becomes a large one. Size limits of request line and headers are aiohttp's: 8 KiB for a line, 128 headers.

A `Front` may serve requests that a client repeats hundreds of times a second without aiohttp's objects, under the same
limits.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, Protocol

import structlog
from aiohttp import hdrs, http_exceptions, web

from joulie_api.addresses import Address
from joulie_api.log_limit import LogLimit

#: Receiving, handling and answering one request, however large: 47 MB of full nodes take two seconds.
REQUEST_TIMEOUT_S: Final = 30.0
#: Between two parts of a request's body. Clients send what they have announced at once.
STALL_TIMEOUT_S: Final = 5.0
_LOOKS_FOR_STALL: Final = 4
#: From the connection to the end of the first request's headers.
FIRST_REQUEST_TIMEOUT_S: Final = 5.0
#: Between requests. Go's clients close idle connections after 90 s: a server that does so earlier closes some just as
#: the next request is sent.
IDLE_TIMEOUT_S: Final = 120.0
#: kube-scheduler, kubelets and Prometheus use a handful.
MAX_CONNECTIONS: Final = 256
#: For requests that are being answered when the server closes.
SHUTDOWN_TIMEOUT_S: Final = 1.0
_NO_ENCODINGS: Final = frozenset({"", "identity"})
#: Of a request: its `asyncio.Timeout`.
_TIME_LIMIT: Final = web.RequestKey("time_limit", asyncio.Timeout)

_log = structlog.get_logger()

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
#: Gets the path of a request and the status, 400 or more, that it was answered with; 408 where it was not received and
#: answered in time.
OnError = Callable[[str, int], None]


class HttpLog(logging.Handler):
    """Log of errors of clients or handlers, a line a second at most; also the handler of aiohttp's own log records."""

    def __init__(self, limit: LogLimit | None = None) -> None:
        super().__init__()
        self._limit = limit or LogLimit()

    def refused(self, problem: str) -> None:
        """Log a request that its sender is to blame for."""
        self._write(logging.WARNING, "http request refused", problem)

    def failed(self, error: BaseException) -> None:
        """Log a failure of the service itself, with its traceback."""
        self._write(logging.ERROR, "http request failed", f"{type(error).__name__}: {error}", error)

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record of aiohttp: a request that is not HTTP, or an error outside the handlers."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, http_exceptions.HttpProcessingError):
            self.refused(record.getMessage() if error is None else f"{type(error).__name__}: {error}")
        else:
            self.failed(error)

    def _write(self, level: int, event: str, problem: str, error: BaseException | None = None) -> None:
        suppressed = self._limit.admit()
        if suppressed is None:
            return
        trace = {} if error is None else {"exc_info": error}
        _log.log(level, event, problem=" ".join(problem.split()), suppressed=suppressed, **trace)


class Front(Protocol):
    """Gets the connections of a server first, and gives those back that it does not serve."""

    def serve(self, transport: asyncio.Transport, server: "HttpServer") -> None:
        """Serve a new connection until it ends, or until `server.hand_over`."""

    def finish(self) -> None:
        """Close each connection once the request is done that is being received or answered."""

    async def end(self) -> None:
        """Return when all connections have ended; after SHUTDOWN_TIMEOUT_S end what is left."""


class HttpServer:
    """One listening port. `start` and `close` once each.

    Args:
        endpoints: everything that is served.
        log: where to write what clients did wrong.
        front: gets the connections first; None: aiohttp serves all.
        on_error: called for each request that is answered with an error, whatever its path.
    """

    def __init__(
        self,
        endpoints: web.Application,
        log: HttpLog,
        *,
        front: Front | None = None,
        on_error: OnError = lambda _path, _status: None,
    ) -> None:
        self.log = log
        self.on_error = on_error
        self._front = front
        # Not registered, so that only this server writes to it.
        records = logging.Logger("http", logging.INFO)  # noqa: LOG001
        records.addHandler(log)
        self._runner = web.AppRunner(
            endpoints,
            access_log=None,
            logger=records,
            shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            keepalive_timeout=IDLE_TIMEOUT_S,
            auto_decompress=False,
        )
        self._listener: asyncio.Server | None = None
        #: Connections without a complete first request.
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}
        #: Client addresses of the connections, oldest first. Those that have ended are left out at the next one.
        self._open: dict[asyncio.Transport, str] = {}

    async def start(self, address: Address) -> int:
        """Listen, and return the bound port.

        Raises:
            OSError: the address cannot be bound.
        """
        await self._runner.setup()
        server = self._server
        server.request_handler = self._guarded(server.request_handler)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Accepted(self._accept), address.host or None, address.port)
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, give requests that are being answered a second, and close all connections."""
        if self._listener is not None:
            self._listener.close()
        if self._front is not None:
            self._front.finish()
        await self._runner.cleanup()
        if self._front is not None:
            await self._front.end()
        for timer in self._silent.values():
            timer.cancel()

    @property
    def _server(self) -> web.Server:
        server = self._runner.server
        assert server is not None
        return server

    def hand_over(self, transport: asyncio.Transport, data: bytes, due_at: float) -> None:
        """Let aiohttp continue with a connection."""
        connection = self._server()
        self._limit_first_request(connection, due_at)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        connection.data_received(data)

    def _accept(self, transport: asyncio.Transport) -> None:
        """Serve a new connection, or close it."""
        self._open = {each: address for each, address in self._open.items() if not each.is_closing()}
        address = _address_of(transport)
        if len(self._open) >= MAX_CONNECTIONS and not self._make_room(address):
            self.log.refused("too many connections")
            transport.abort()
            return
        self._open[transport] = address
        if self._front is not None:
            self._front.serve(transport, self)
            return
        connection = self._server()
        self._limit_first_request(connection, asyncio.get_running_loop().time() + FIRST_REQUEST_TIMEOUT_S)
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def _make_room(self, address: str) -> bool:
        """End a connection of the address with the most, unless `address` would then have as many."""
        counts = Counter(self._open.values())
        greediest, most = counts.most_common(1)[0]
        if counts[address] + 1 >= most:
            return False
        oldest = next(each for each, its_address in self._open.items() if its_address == greediest)
        self.log.refused(f"too many connections from {greediest}, the oldest is ended")
        del self._open[oldest]
        oldest.abort()
        return True

    def _limit_first_request(self, connection: web.RequestHandler, due_at: float) -> None:
        timer = asyncio.get_running_loop().call_at(due_at, self._give_up, connection)
        self._silent[connection] = timer

    def _give_up(self, connection: web.RequestHandler) -> None:
        del self._silent[connection]
        if connection.transport is not None:
            self.log.refused("no request in time")
            connection.transport.abort()

    def _guarded(self, handler: Handler) -> Handler:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            if self._silent:
                timer = self._silent.pop(request.protocol, None)
                if timer is not None:
                    timer.cancel()
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S) as limit, _progress(request):
                    request[_TIME_LIMIT] = limit
                    response = await self._respond(handler, request)
                    # Here and not by aiohttp afterwards, so that a client that does not read is timed as well.
                    if response.status >= HTTPStatus.BAD_REQUEST:
                        self.on_error(request.path, response.status)
                    await response.prepare(request)
                    await response.write_eof()
            except TimeoutError:
                self.log.refused("request not received and answered in time")
                self.on_error(request.path, HTTPStatus.REQUEST_TIMEOUT)
                _abort(request)
            except web.HTTPException as error:
                self.on_error(request.path, error.status)
                raise
            except ConnectionError:
                pass  # The client has gone.
            else:
                return response
            # aiohttp requires a response; writing it to a closed connection has no effect.
            return web.Response(status=HTTPStatus.REQUEST_TIMEOUT)

        return handle

    async def _respond(self, handler: Handler, request: web.BaseRequest) -> web.StreamResponse:
        encoding = request.headers.get(hdrs.CONTENT_ENCODING)
        if encoding is not None and encoding.strip().lower() not in _NO_ENCODINGS:
            return _unsupported_encoding()
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except (web.RequestPayloadError, http_exceptions.PayloadEncodingError) as error:
            self.log.refused(f"{type(error).__name__}: {error}")
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="the body is not transferred as HTTP requires\n")
        except Exception as error:
            self.log.failed(error)
            if request.writer.output_size:
                self.on_error(request.path, HTTPStatus.INTERNAL_SERVER_ERROR)
                _abort(request)  # The client must not take the part that was sent for the whole answer.
                raise ConnectionAbortedError from error
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text="internal error, see the log\n")


def lift_time_limit(request: web.BaseRequest) -> None:
    """Let a request take as long as it wants; called by its handler.

    Raises:
        KeyError: the request was not received by an `HttpServer`.
    """
    request[_TIME_LIMIT].reschedule(None)


class _Accepted(asyncio.Protocol):
    """A connection until its client's address is known, which is when it is made."""

    def __init__(self, accept: Callable[[asyncio.Transport], None]) -> None:
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._accept(transport)


def _address_of(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


@asynccontextmanager
async def _progress(request: web.BaseRequest) -> AsyncGenerator[None]:
    """Raise TimeoutError where a body is not complete and nothing of it has come for STALL_TIMEOUT_S."""
    content = request.content
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    async with asyncio.timeout(None) as limit:

        def check(received: int, looks_without_more: int) -> None:
            nonlocal timer
            if content.is_eof():
                return
            # Looks are counted, and not time: while the loop is blocked, nothing is received, and what has come by then
            # is received before the next look.
            looks_without_more = looks_without_more + 1 if content.total_bytes == received else 0
            if looks_without_more == _LOOKS_FOR_STALL:
                limit.reschedule(loop.time())
                return
            timer = loop.call_later(STALL_TIMEOUT_S / _LOOKS_FOR_STALL, check, content.total_bytes, looks_without_more)

        if not content.is_eof():
            timer = loop.call_later(STALL_TIMEOUT_S / _LOOKS_FOR_STALL, check, content.total_bytes, 0)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


def _unsupported_encoding() -> web.Response:
    response = web.Response(
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        text="encoded bodies are not accepted: send the body without Content-Encoding\n",
        headers={hdrs.ACCEPT_ENCODING: "identity"},
    )
    response.force_close()  # The body has not been read.
    return response


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
