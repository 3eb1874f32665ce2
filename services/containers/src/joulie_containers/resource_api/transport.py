"""gRPC on UNIX sockets for the two interfaces: servers, calls and their errors."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import grpc
import structlog
from google.protobuf.message import Message
from grpc import aio

Ask = TypeVar("Ask", bound=Message)
Answer = TypeVar("Answer", bound=Message)

#: For one call.
CALL_TIMEOUT_S: Final = 5.0
#: Owner and group may connect.
_SOCKET_UMASK: Final = 0o117
#: A manifest may have a megabyte, the limit of the API server's storage; adjustments are several objects.
_MOST_BYTES: Final = 16 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", _MOST_BYTES),
    # A call waits for a server that is not there yet, or is restarted, and is repeated in this interval.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
)

_log = structlog.get_logger()


class ResourceApiError(Exception):
    """The other side refused or failed a call; the text is its reason."""


class ResourceApiUnavailableError(ResourceApiError):
    """The other side is not there or did not answer in time; the call may be repeated."""


class InvalidCallError(Exception):
    """Raised by a service for a call that cannot be carried out, with the reason for the caller."""


@dataclass(frozen=True, slots=True)
class CallShape(Generic[Ask, Answer]):
    """The name of a method and the types of its messages."""

    service: str
    name: str
    ask: type[Ask]
    answer: type[Answer]

    @property
    def path(self) -> str:
        """The path of the method in gRPC."""
        return f"/{self.service}/{self.name}"


Handlers = Mapping[CallShape[Any, Any], Callable[[Any], Awaitable[Message]]]


@asynccontextmanager
async def serving(path: Path, handlers: Handlers, *, gid: int | None) -> AsyncIterator[None]:
    """Serve methods on a socket, in place of a file that an earlier process left.

    Args:
        path: the socket; its directory is created if it is missing.
        handlers: what serves each method. InvalidCallError is answered with its text.
        gid: group of the socket, whose members may connect beside its owner; None leaves it.

    Raises:
        OSError: the socket cannot be bound.
    """
    _make_room(path)
    server = aio.server(options=_OPTIONS)
    for shape, handler in handlers.items():
        server.add_generic_rpc_handlers((_generic_handler(shape, handler),))
    umask = os.umask(_SOCKET_UMASK)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise OSError(f"{path} cannot be bound: {error}") from error
    finally:
        os.umask(umask)
    if gid is not None:
        os.chown(path, -1, gid)
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace=0.5)
        _make_room(path)


def _make_room(path: Path) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def _generic_handler(
    shape: CallShape[Any, Any], handler: Callable[[Any], Awaitable[Message]]
) -> grpc.GenericRpcHandler:
    async def serve(request: Message, context: "aio.ServicerContext[Any, Any]") -> Message:
        try:
            return await handler(request)
        except InvalidCallError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Exception as error:  # noqa: BLE001 - logged with its trace, and answered
            _log.exception("call failed", method=shape.path)
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        raise AssertionError("abort raises")

    method = grpc.unary_unary_rpc_method_handler(
        serve, request_deserializer=shape.ask.FromString, response_serializer=shape.answer.SerializeToString
    )
    return grpc.method_handlers_generic_handler(shape.service, {shape.name: method})


class ApiChannel:
    """Calls the services on one socket; it connects when needed, and again after a failure."""

    def __init__(self, path: Path, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._path = path
        self._channel: aio.Channel | None = None

    async def call(self, shape: CallShape[Ask, Answer], request: Ask) -> Answer:
        """Call a method; it waits for a server that is not there yet.

        Raises:
            ResourceApiUnavailableError: there was no answer in time.
            ResourceApiError: the server refused or failed the call.
        """
        if self._channel is None:
            self._channel = aio.insecure_channel(f"unix:{self._path}", options=_OPTIONS)
        method = self._channel.unary_unary(
            shape.path, request_serializer=shape.ask.SerializeToString, response_deserializer=shape.answer.FromString
        )
        try:
            answer: Answer = await method(request, timeout=self._timeout_s, wait_for_ready=True)
        except aio.AioRpcError as error:
            text = f"{shape.path} at {self._path}: {error.details()}"
            if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
                raise ResourceApiUnavailableError(text) from error
            raise ResourceApiError(text) from error
        return answer

    async def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
