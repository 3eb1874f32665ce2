"""The extender under test: the real process against an in-process API server, with what it uses and logs."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from joulie_devcluster.host.usage import resident_mib
from joulie_testing.api import FakeApiServer, make_node, make_node_twin

_START_S = 60.0


class Target:
    """A running extender; `lines` are what it has logged since it was ready."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.ports: dict[str, int] = {}
        self.lines: list[str] = []

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def rss_mib(self) -> float:
        """Resident memory."""
        return resident_mib(self._process.pid)

    @property
    def open_files(self) -> int:
        """Open file descriptors, connections among them."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    async def wait_ready(self) -> None:
        """Read the log until the cluster is known."""
        stdout = self._stdout
        async with asyncio.timeout(_START_S):
            while line := await stdout.readline():
                event = json.loads(line)
                if event["event"] == "listening":
                    self.ports[event["name"]] = event["port"]
                if event["event"] == "synced" and "nodes" in event:
                    return
        raise RuntimeError("the extender ended before it was ready")

    async def follow(self) -> None:
        """Collect what is logged until the process ends."""
        while line := await self._stdout.readline():
            self.lines.append(line.decode())

    @property
    def _stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout


@asynccontextmanager
async def run_target() -> AsyncIterator[Target]:
    """Start an extender for 30 nodes, one third of each class."""
    async with FakeApiServer() as api:
        for number in range(30):
            name = f"node-{number}"
            api.put_all([make_node(name), make_node_twin(name, ("performance", "eco", "draining")[number % 3])])
        with tempfile.TemporaryDirectory() as directory:
            env = os.environ | {
                "KUBECONFIG": str(api.kubeconfig(Path(directory))),
                "EXTENDER_ADDR": "127.0.0.1:0",
                "METRICS_ADDR": "127.0.0.1:0",
            }
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "joulie_extender", env=env, stdout=asyncio.subprocess.PIPE, limit=1 << 20
            )
            target = Target(process)
            try:
                await target.wait_ready()
                async with asyncio.TaskGroup() as group:
                    log = group.create_task(target.follow())
                    try:
                        yield target
                    finally:
                        if target.running:
                            process.terminate()
                            await process.wait()
                        await log
            finally:
                if target.running:
                    process.kill()
                    await process.wait()
