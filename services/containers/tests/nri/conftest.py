"""A handler that records its requests, and a runtime to serve it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from joulie_containers.nri.connection import NriConnection, NriEndpoint
from joulie_containers.nri.handler import RuntimeInfo
from joulie_containers.nri.proto import nri_pb2 as nri


class RecordingHandler:
    def __init__(self):
        self.calls: list[tuple] = []
        self.runtime: RuntimeInfo | None = None
        #: What a method does, instead of nothing, by its name.
        self.on = {}
        self._called = asyncio.Event()

    async def _record(self, method: str, *arguments):
        self.calls.append((method, *(each.id for each in arguments if hasattr(each, "id"))))
        self._called.set()
        if action := self.on.get(method):
            return await action(*arguments)
        return None

    async def configure(self, runtime):
        self.runtime = runtime
        await self._record("configure")

    async def synchronize(self, pods: Sequence, containers: Sequence):
        self.calls.append(("synchronize", [each.id for each in pods], [each.id for each in containers]))
        action = self.on.get("synchronize")
        return await action(pods, containers) if action else nri.SynchronizeResponse()

    async def run_pod(self, pod):
        await self._record("run_pod", pod)

    async def stop_pod(self, pod):
        await self._record("stop_pod", pod)

    async def remove_pod(self, pod):
        await self._record("remove_pod", pod)

    async def create_container(self, pod, container):
        reply = await self._record("create_container", pod, container)
        return reply or nri.CreateContainerResponse(adjust=nri.ContainerAdjustment())

    async def start_container(self, pod, container):
        await self._record("start_container", pod, container)

    async def container_running(self, pod, container):
        await self._record("container_running", pod, container)

    async def update_container(self, pod, container, resources):
        return await self._record("update_container", pod, container, resources) or nri.UpdateContainerResponse()

    async def stop_container(self, pod, container):
        return await self._record("stop_container", pod, container) or nri.StopContainerResponse()

    async def remove_container(self, pod, container):
        await self._record("remove_container", pod, container)

    async def disconnected(self):
        await self._record("disconnected")

    async def until(self, count: int, method: str):
        """Wait until a method was called that often."""
        async with asyncio.timeout(10):
            while sum(call[0] == method for call in self.calls) < count:
                self._called.clear()
                await self._called.wait()


@pytest.fixture
def handler():
    return RecordingHandler()


class RawRuntime:
    """The runtime's end of a connection, in bytes."""

    def __init__(self, stream: socket.socket):
        self._stream = stream
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes):
        await self._loop.sock_sendall(self._stream, data)

    async def receive(self, count: int) -> bytes:
        data = b""
        async with asyncio.timeout(10):
            while len(data) < count:
                part = await self._loop.sock_recv(self._stream, count - len(data))
                assert part, f"closed after {data.hex()}"
                data += part
        return data

    async def until_closed(self):
        """Wait until the plugin has closed the connection; what it sent before is lost."""
        async with asyncio.timeout(10):
            while True:
                try:
                    if not await self._loop.sock_recv(self._stream, 1 << 16):
                        return
                except ConnectionResetError:
                    return

    def close(self):
        self._stream.close()


@asynccontextmanager
async def _inherited(handler) -> AsyncIterator[tuple[RawRuntime, NriConnection]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    endpoint = NriEndpoint(name="joulie", index="90", descriptor=theirs.detach())
    connection = NriConnection(handler, endpoint)
    raw = RawRuntime(ours)
    running = asyncio.create_task(connection.run())
    try:
        yield raw, connection
    finally:
        raw.close()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def inherited():
    """A plugin that the runtime has started, and the runtime's end of its connection."""
    return _inherited
