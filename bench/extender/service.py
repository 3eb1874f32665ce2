"""The service under test: an API server with the cluster in one process, the extender in another."""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from cluster import hardware, node_names, twin

from joulie_devcluster.host.usage import cpu_s, resident_mib
from joulie_testing.api import FakeApiServer, make_node


@dataclass(frozen=True)
class Extender:
    """A running extender."""

    url: str
    metrics_url: str
    pid: int

    @property
    def cpu_s(self) -> float:
        """CPU time that the process has used."""
        return cpu_s(self.pid)

    @property
    def rss_mib(self) -> float:
        """Resident memory."""
        return resident_mib(self.pid)

    def scrape(self) -> str:
        """One scrape of /metrics."""
        with urllib.request.urlopen(f"{self.metrics_url}/metrics") as answer:
            return str(answer.read().decode())


@contextmanager
def run_extender(nodes: int, twins_per_s: float) -> Iterator[Extender]:
    """Start both processes for a cluster of `nodes`; twins are rewritten at the given rate all the while."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        channel, child_channel = context.Pipe()
        api = context.Process(target=_serve_api, args=(nodes, twins_per_s, Path(directory), child_channel), daemon=True)
        api.start()
        kubeconfig = channel.recv()
        with start_extender(kubeconfig) as extender:
            yield extender
        channel.send("stop")
        api.join(10)


@contextmanager
def start_extender(kubeconfig: str, launcher: Sequence[str] = ("-m", "joulie_extender")) -> Iterator[Extender]:
    """Start the extender against an API server, by other arguments of the interpreter than its module if given."""
    env = os.environ | {"KUBECONFIG": kubeconfig, "EXTENDER_ADDR": "127.0.0.1:0", "METRICS_ADDR": "127.0.0.1:0"}
    with subprocess.Popen([sys.executable, *launcher], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _wait(process)
        finally:
            process.terminate()


def _wait(process: "subprocess.Popen[str]") -> Extender:
    urls: dict[str, str] = {}
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "listening":
            urls[event["name"]] = f"http://127.0.0.1:{event['port']}"
        if event["event"] == "synced" and "nodes" in event:
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return Extender(urls["extender"], urls["metrics"], process.pid)
    raise RuntimeError(f"the extender ended with {process.wait()}")


def _serve_api(nodes: int, twins_per_s: float, directory: Path, parent: Connection) -> None:
    asyncio.run(_serve(nodes, twins_per_s, directory, parent))


async def _serve(nodes: int, twins_per_s: float, directory: Path, parent: Connection) -> None:
    names = node_names(nodes)
    async with FakeApiServer() as server:
        for seed, name in enumerate(names):
            server.put_all([make_node(name), twin(name, seed), hardware(name, seed)])
        parent.send(str(server.kubeconfig(directory)))
        number = 0
        while not parent.poll():
            await asyncio.sleep(0.05)
            for _ in range(round(twins_per_s * 0.05)):
                number += 1
                server.put(twin(names[number % nodes], number))
