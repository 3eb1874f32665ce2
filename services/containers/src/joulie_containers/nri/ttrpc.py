"""Unary calls of ttrpc: a server and a client on a stream of bytes that the caller moves."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Final, TypeVar

import structlog
from google.protobuf.message import DecodeError, Message

from joulie_containers.nri.proto.ttrpc_pb2 import Request, Response, Status
from joulie_containers.nri.ttrpc_frames import MAX_PAYLOAD_BYTES, FrameType, TtrpcDecoder, TtrpcFrame, ttrpc_frame

_Reply = TypeVar("_Reply", bound=Message)
#: Takes and returns serialized messages.
Method = Callable[[bytes], Awaitable[bytes]]
#: Sends one frame.
Send = Callable[[bytes], Awaitable[None]]

_NS_PER_S: Final = 1_000_000_000

_log = structlog.get_logger()


class TtrpcCode(IntEnum):
    """Codes of `google.rpc.Status` that are sent here."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12


class TtrpcError(Exception):
    """A call was answered with a status other than OK."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _TooLateError(Exception):
    """The caller's deadline is over."""


class TtrpcServer:
    """Answers calls. Calls run concurrently; they start in the order of arrival.

    A call whose deadline is over is not answered: its caller has ended it, or does so now. A runtime goes on without a
    plugin that is late; to an answer that says so, and arrives just before its own deadline, it fails the container.
    """

    def __init__(self, services: Mapping[str, Mapping[str, Method]], send: Send) -> None:
        """Serve the methods in `services`, by names of service and method."""
        self._services = services
        self._send = send
        self._decoder = TtrpcDecoder()
        self._last_stream_id = 0
        #: Calls in progress, with the time on the event loop's clock at which they arrived.
        self._calls: dict[asyncio.Task[None], float] = {}

    @property
    def oldest_call(self) -> float | None:
        """When the longest call in progress arrived, on the event loop's clock; None without any."""
        return min(self._calls.values(), default=None)

    @property
    def in_call(self) -> bool:
        """Whether the current task is that of a call."""
        return asyncio.current_task() in self._calls

    def feed(self, data: bytes) -> None:
        """Take bytes that have arrived."""
        for frame in self._decoder.feed(data):
            if frame.type == FrameType.REQUEST:
                task = asyncio.create_task(self._serve(frame, self._stream_problem(frame.stream_id)))
                self._calls[task] = asyncio.get_running_loop().time()
                task.add_done_callback(self._calls.pop)

    async def close(self) -> None:
        """Cancel the calls in progress, and wait for their end."""
        calls = list(self._calls)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _stream_problem(self, stream_id: int) -> str:
        if stream_id % 2 == 0:
            return f"stream id {stream_id} of a client is even"
        if stream_id <= self._last_stream_id:
            return f"stream id {stream_id} after {self._last_stream_id}"
        self._last_stream_id = stream_id
        return ""

    async def _serve(self, frame: TtrpcFrame, stream_problem: str) -> None:
        try:
            if stream_problem:
                raise TtrpcError(TtrpcCode.INVALID_ARGUMENT, stream_problem)  # noqa: TRY301 - one place makes replies
            response = Response(payload=await self._call(frame.payload))
        except _TooLateError:
            return
        except TtrpcError as error:
            response = _refusal(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - the caller gets the text, the log the trace
            _log.exception("request failed")
            response = _refusal(TtrpcCode.UNKNOWN, str(error) or type(error).__name__)
        reply = response.SerializeToString()
        if len(reply) > MAX_PAYLOAD_BYTES:
            reply = _refusal(TtrpcCode.RESOURCE_EXHAUSTED, f"reply of {len(reply)} bytes").SerializeToString()
        try:
            await self._send(ttrpc_frame(frame.stream_id, FrameType.RESPONSE, reply))
        except ConnectionError:
            _log.debug("reply not sent, the connection is closed")

    async def _call(self, payload: bytes | None) -> bytes:
        if payload is None:
            raise TtrpcError(TtrpcCode.RESOURCE_EXHAUSTED, f"request of more than {MAX_PAYLOAD_BYTES} bytes")
        request = _parsed(Request, payload)
        methods = self._services.get(request.service)
        if methods is None:
            raise TtrpcError(TtrpcCode.UNIMPLEMENTED, f"service {request.service}")
        method = methods.get(request.method)
        if method is None:
            raise TtrpcError(TtrpcCode.UNIMPLEMENTED, f"method {request.method}")
        deadline_s = request.timeout_nano / _NS_PER_S if request.timeout_nano > 0 else None
        deadline = asyncio.timeout(deadline_s)
        try:
            async with deadline:
                return await method(request.payload)
        except TimeoutError:
            if not deadline.expired():
                raise
            _log.warning("request not answered in time", method=request.method, deadline_s=deadline_s)
            raise _TooLateError from None


def unary(request_type: type[_Reply], serve: Callable[[_Reply], Awaitable[Message]]) -> Method:
    """Return a method for a TtrpcServer from a function of messages."""

    async def call(payload: bytes) -> bytes:
        return (await serve(_parsed(request_type, payload))).SerializeToString()

    return call


def _refusal(code: int, text: str) -> Response:
    # A text with a file's name may hold what is not Unicode.
    return Response(status=Status(code=code, message=text.encode(errors="replace").decode()))


def _parsed(kind: type[_Reply], payload: bytes) -> _Reply:
    try:
        return kind.FromString(payload)
    except DecodeError as error:
        raise TtrpcError(TtrpcCode.INVALID_ARGUMENT, f"{kind.__name__}: {error}") from None


class TtrpcClient:
    """Calls a server."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._decoder = TtrpcDecoder()
        self._next_stream_id = 1
        #: Calls that wait for a reply, by stream id; the reply is None where the connection has been closed.
        self._waiting: dict[int, asyncio.Future[TtrpcFrame | None]] = {}
        self._closed = False

    async def call(
        self, service: str, method: str, request: Message, reply_type: type[_Reply], *, timeout_s: float
    ) -> _Reply:
        """Call a method and return its reply.

        Raises:
            TtrpcError: the server refused.
            TimeoutError: there was no reply in time.
            ConnectionError: the connection is closed.
        """
        envelope = Request(
            service=service,
            method=method,
            payload=request.SerializeToString(),
            timeout_nano=round(timeout_s * _NS_PER_S),
        ).SerializeToString()
        if len(envelope) > MAX_PAYLOAD_BYTES:
            raise TtrpcError(TtrpcCode.RESOURCE_EXHAUSTED, f"request of {len(envelope)} bytes")
        if self._closed:
            raise ConnectionResetError("closed")
        stream_id = self._next_stream_id
        self._next_stream_id += 2
        reply: asyncio.Future[TtrpcFrame | None] = asyncio.get_running_loop().create_future()
        self._waiting[stream_id] = reply
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(ttrpc_frame(stream_id, FrameType.REQUEST, envelope))
                frame = await reply
        finally:
            del self._waiting[stream_id]
        if frame is None:
            raise ConnectionResetError("closed")
        if frame.payload is None:
            raise TtrpcError(TtrpcCode.RESOURCE_EXHAUSTED, f"reply of more than {MAX_PAYLOAD_BYTES} bytes")
        response = _parsed(Response, frame.payload)
        if response.status.code != TtrpcCode.OK:
            raise TtrpcError(response.status.code, response.status.message)
        return _parsed(reply_type, response.payload)

    def feed(self, data: bytes) -> None:
        """Take bytes that have arrived."""
        for frame in self._decoder.feed(data):
            reply = self._waiting.get(frame.stream_id)
            if frame.type == FrameType.RESPONSE and reply is not None and not reply.done():
                reply.set_result(frame)

    def close(self) -> None:
        """Fail all calls: the connection is closed."""
        self._closed = True
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_result(None)
