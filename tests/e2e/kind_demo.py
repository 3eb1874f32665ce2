"""`joulie-demo --kind` as a process on a cluster of kind."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from tests.e2e.kind_site import KindSite

DEMO_NODES = 8
DEMO_PODS = 16

_WHOLE_S = 240
_END_S = 60


@dataclass(slots=True)
class RunningDemo:
    """The process, and what it has printed so far."""

    process: asyncio.subprocess.Process
    out: Path
    output: str = ""

    async def until(self, text: str) -> str:
        """Wait until the demo has printed a text, and return everything that it has printed."""
        assert self.process.stdout is not None
        async with asyncio.timeout(_WHOLE_S):
            while text not in self.output:
                line = await self.process.stdout.readline()
                assert line, f"the demo ended by itself:\n{self.output}"
                self.output += line.decode()
        return self.output

    def summary(self) -> dict[str, Any]:
        """The figures that the demo has written."""
        (directory,) = self.out.iterdir()
        found: dict[str, Any] = json.loads((directory / "summary.json").read_text())
        return found

    async def page(self) -> str:
        """The live page, from the address that the demo has printed."""
        match = re.search(r"live page: (http://127\.0\.0\.1:\d+/ui/)", self.output)
        assert match is not None, self.output
        async with aiohttp.ClientSession() as session, session.get(match[1], raise_for_status=True) as answer:
            return await answer.text()

    async def interrupt(self) -> int:
        """Send what Ctrl-C does, and return the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(_END_S):
            output, _ = await self.process.communicate()
        self.output += output.decode()
        assert self.process.returncode is not None
        return self.process.returncode

    @staticmethod
    def placed(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a pod is on one of these nodes."""
        return pod["spec"].get("nodeName") in {node["metadata"]["name"] for node in nodes}


async def start_demo(site: KindSite, directory: Path) -> RunningDemo:
    """Start a small demo that keeps everything at its end."""
    program = str(Path(sys.executable).with_name("joulie-demo"))
    sizes = ("--nodes", str(DEMO_NODES), "--pods", str(DEMO_PODS), "--duration", "20", "--policy", "queue_aware_v1")
    process = await asyncio.create_subprocess_exec(
        program,
        "--kind",
        "--keep",
        *sizes,
        "--out",
        str(directory / "out"),
        env={**os.environ, "XDG_STATE_HOME": str(site.state_home), "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return RunningDemo(process, directory / "out")
