"""The start hook between a container runtime and a controller that a test plays."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from joulie_api.container_starts import decode_for_controller
from joulie_api.settings import read_settings
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.start_hook.process import run
from joulie_containers.start_hook.settings import StartHookSettings
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime


class Controller:
    """The controller's end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def receive(self):
        """Return the next message; None where the start hook has closed the connection."""
        async with asyncio.timeout(10):
            line = await self._reader.readline()
        return decode_for_controller(line) if line else None

    async def answer(self, number: int, *, lifted: bool = False) -> None:
        self.writer.write(b'{"number":%d,"lifted":%s}\n' % (number, str(lifted).lower().encode()))
        await self.writer.drain()


class Site:
    """A runtime with one pod, and the process of the start hook."""

    def __init__(self, directory: Path) -> None:
        self.runtime = FakeNriRuntime()
        self.nri_socket = directory / "nri.sock"
        self.socket = directory / "shared" / "start-hook.sock"
        self.runtime.pods["p"] = nri.PodSandbox(id="p", name="serve", namespace="ml", uid="u1")
        self._containers = 0
        self.app = None

    async def run_pod(self) -> None:
        """Make the sandbox of the pod."""
        await self.runtime.run_pod(self.runtime.pods["p"])

    def create(self) -> "asyncio.Task[nri.CreateContainerResponse]":
        """Begin to create a container of the pod."""
        self._containers += 1
        container = nri.Container(id=f"c{self._containers}", pod_sandbox_id="p", name="main")
        return asyncio.create_task(self.runtime.create_container(container))

    @asynccontextmanager
    async def controller(self) -> AsyncIterator[Controller]:
        reader, writer = await asyncio.open_unix_connection(self.socket)
        try:
            yield Controller(reader, writer)
        finally:
            writer.close()

    async def series(self) -> dict[str, float]:
        url = f"http://127.0.0.1:{self.app.metrics_port}/metrics"
        async with aiohttp.ClientSession() as http, http.get(url) as reply:
            lines = [each for each in (await reply.text()).splitlines() if each.startswith("joulie_start_hook")]
        return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines)}

    @asynccontextmanager
    async def running(self, **settings: str) -> AsyncIterator[None]:
        env = {
            "METRICS_ADDR": "127.0.0.1:0",
            "NRI_SOCKET": str(self.nri_socket),
            "START_HOOK_SOCKET": str(self.socket),
            "START_HOOK_CONTROLLER_UID": str(os.geteuid()),
            "START_HOOK_CONTROLLER_GID": str(os.getegid()),
            "START_DEADLINE": "500ms",
            **settings,
        }
        started = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(run(read_settings(StartHookSettings, env), on_start=started.set_result))
        try:
            async with asyncio.timeout(10):
                await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
                self.app = await started
            yield
        finally:
            if self.app is not None:
                self.app.stop()
            await task


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
