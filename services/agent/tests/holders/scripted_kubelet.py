"""A kubelet: a real gRPC server on a UNIX socket, whose answers are bytes that a test makes."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
from grpc import aio

#: Wire type of texts, bytes and messages.
_DELIMITED = 2


def field(number: int, value: bytes | str) -> bytes:
    """Return one field as protocol buffers encode it, independently of generated code."""
    payload = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _DELIMITED) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def claim_resource(driver: str, pool: str, device: str, share_id: str | None = None, cdi: Iterable[str] = ()) -> bytes:
    names = b"".join(field(1, field(1, name)) for name in cdi)
    share = b"" if share_id is None else field(5, share_id)
    return names + field(2, driver) + field(3, pool) + field(4, device) + share


def container(name: str, *, devices: Iterable[tuple[str, list[str]]] = (), claims: Iterable[tuple[str, bytes]] = ()):
    """Return ContainerResources with the fields that a kubelet 1.37 fills, those that are not read included."""
    cpu_ids = varint(3 << 3 | _DELIMITED) + varint(2) + b"\x01\x02"
    topology = field(3, field(1, b"\x08\x01"))
    of_plugins = b"".join(
        field(2, field(1, resource) + b"".join(field(2, each) for each in ids) + topology) for resource, ids in devices
    )
    of_claims = b"".join(field(5, field(2, claim) + field(3, "team") + resources) for claim, resources in claims)
    return field(1, name) + of_plugins + cpu_ids + of_claims


def pod(name: str, *containers: bytes, namespace: str = "team") -> bytes:
    return field(1, field(1, name) + field(2, namespace) + b"".join(field(3, each) for each in containers))


class Kubelet:
    """Answers `List` with `answer`, after `delay_s`; counts the requests."""

    def __init__(self) -> None:
        self.answer = b""
        self.delay_s = 0.0
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.closes = False
        self.requests = 0
        self.server: aio.Server | None = None

    async def list(self, _request: bytes, context: "aio.ServicerContext[bytes, bytes]") -> bytes:
        self.requests += 1
        if self.closes:
            assert self.server is not None
            asyncio.get_running_loop().create_task(self.server.stop(grace=None))
            await asyncio.sleep(30)
        if self.refusal is not None:
            await context.abort(*self.refusal)
        await asyncio.sleep(self.delay_s)
        return self.answer

    @asynccontextmanager
    async def running(self, socket: Path) -> AsyncIterator[None]:
        self.server = aio.server(options=[("grpc.max_send_message_length", -1)])
        method = grpc.unary_unary_rpc_method_handler(self.list)
        handlers = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": method})
        self.server.add_generic_rpc_handlers((handlers,))
        self.server.add_insecure_port(f"unix:{socket}")
        await self.server.start()
        try:
            yield
        finally:
            await self.server.stop(grace=None)
