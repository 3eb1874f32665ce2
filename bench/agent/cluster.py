"""The API server's process: one node, and a target that changes periodically."""

import asyncio
import signal
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from machine import CPU_MODEL, GPU_MODEL, GPUS

from joulie_testing.api import FakeApiServer, make_node, make_node_power_profile

NODE = "node-1"
#: Percent of the maximum, CPUs and GPUs, in turn.
TARGETS = (("eco", 60, 50), ("performance", 100, 100))


def serve(toggle_s: float, directory: Path, parent: Connection) -> None:
    """Run the process: answer each message of the parent with the writes since the last one, until "stop"."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    asyncio.run(_serve(toggle_s, directory, parent))


async def _serve(toggle_s: float, directory: Path, parent: Connection) -> None:
    async with FakeApiServer(bookmark_interval_s=30) as server:
        server.put(make_node(NODE, gpus=GPUS, cpu_model=CPU_MODEL, gpu_model=GPU_MODEL, cpu_sockets=2))
        server.put(_target(0))
        parent.send(str(server.kubeconfig(directory)))
        turns = asyncio.create_task(_toggle(server, toggle_s))
        while await asyncio.to_thread(parent.recv) != "stop":
            parent.send(Counter(_name(each.kind, each.subresource) for each in server.requests if each.verb == "apply"))
            server.requests.clear()
        turns.cancel()


async def _toggle(server: FakeApiServer, every_s: float) -> None:
    number = 0
    while True:
        await asyncio.sleep(every_s)
        number += 1
        server.put(_target(number))


def _target(number: int) -> dict[str, Any]:
    profile, cpu_pct, gpu_pct = TARGETS[number % len(TARGETS)]
    return make_node_power_profile(
        NODE, profile, cpu={"packagePowerCapPctOfMax": cpu_pct}, gpu={"capPctOfMax": gpu_pct}
    )


def _name(kind: str, subresource: str) -> str:
    return f"{kind}/{subresource}" if subresource else kind
