"""Machines of simulated nodes whose GPUs an agent limits by class.

Each node has the processes of an agent's pod, a stub of the driver's library and a kubelet. The kubelet lists the GPUs
that the live simulator has given to each pod, and the clocks that the driver holds GPUs to are sent to the simulator,
whose pods run as fast as these allow.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import aiohttp
from services.agent.tests.class_limits.agent_processes import AgentProcesses
from services.agent.tests.class_limits.stub_gpus import HIGHEST_MHZ, RESOURCE, StubGpus
from services.agent.tests.holders.scripted_kubelet import Kubelet, container, pod

from joulie_api.client import KubeClient
from joulie_api.resources import TELEMETRY_PROFILES
from joulie_devcluster.errors import StartError

#: Between two looks at simulator and drivers.
_LOOK_S: Final = 0.25
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0)
_PERCENT: Final = 100.0
_HELD_S: Final = 180.0


class GpuMachine:
    """The machine of one node.

    Args:
        directory: of its files; made here.
        node: name of the node.
        gpus: how many it has.
        kubeconfig: of its agent.
    """

    def __init__(self, directory: Path, node: str, gpus: int, kubeconfig: Path) -> None:
        directory.mkdir()
        self.node = node
        self._kubelet, self._socket = Kubelet(), directory / "kubelet.sock"
        self._gpus = StubGpus(directory, gpus)
        self._processes = AgentProcesses(
            directory,
            self._gpus,
            node=node,
            kubeconfig=kubeconfig,
            kubelet=self._socket,
            shortened=False,
            interval="1s",
        )
        #: As the simulator has them.
        self._clocks_pct = [_PERCENT] * gpus

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run kubelet and processes."""
        async with self._kubelet.running(self._socket):
            try:
                await self._processes.start()
                yield
            finally:
                await self._processes.stop()

    def check(self) -> None:
        """Raise StartError if a process has exited."""
        for name, process in self._processes.running.items():
            if not process.running:
                raise StartError(f"{name} of {self.node} has exited: {process.log_tail()}")

    def admit(self, jobs: list[Mapping[str, Any]]) -> None:
        """Let the kubelet list the GPUs of the jobs of the node, as `/state` has them."""
        listed = []
        for job in jobs:
            namespace, _, name = job["pod"].partition("/")
            devices = [(RESOURCE, [f"GPU-{index}" for index in job["gpus"]])] if job["gpus"] else []
            listed.append(pod(name, container("work", devices=devices), namespace=namespace))
        self._kubelet.answer = b"".join(listed)

    async def send_clocks(self, session: aiohttp.ClientSession, sim_url: str) -> None:
        """Send the simulator the clocks that have changed."""
        for index, lock_mhz in enumerate(self._gpus.locks_mhz):
            pct = _PERCENT * lock_mhz / HIGHEST_MHZ if lock_mhz else _PERCENT
            if pct != self._clocks_pct[index]:
                body = {"action": "gpu.set_clock_limit_pct", "node": self.node, "gpu": index, "clockPct": pct}
                url = f"{sim_url}/control/{self.node}"
                async with session.post(url, json=body, timeout=_TIMEOUT, raise_for_status=True):
                    self._clocks_pct[index] = pct


class GpuMachines:
    """The machines of all nodes."""

    def __init__(self, machines: list[GpuMachine], sim_url: str) -> None:
        self._machines = machines
        self._sim_url = sim_url

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all machines, and keep them and the simulator alike."""
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            for each in self._machines:
                await stack.enter_async_context(each.running())
            following = group.create_task(self._follow())
            try:
                yield
            finally:
                following.cancel()

    async def wait_held(self, client: KubeClient, gpus: int) -> None:
        """Wait until the agents have measured the held clocks of so many GPUs on each node.

        Raises:
            TimeoutError: they have not in time.
        """
        async with asyncio.timeout(_HELD_S):
            while not all([await _held(client, each.node) == gpus for each in self._machines]):
                self.check()
                await asyncio.sleep(_LOOK_S)

    def check(self) -> None:
        """Raise StartError if a process has exited."""
        for each in self._machines:
            each.check()

    async def _follow(self) -> NoReturn:
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"{self._sim_url}/state", timeout=_TIMEOUT, raise_for_status=True) as answer:
                    nodes = (await answer.json())["nodes"]
                for each in self._machines:
                    if each.node in nodes:
                        each.admit(nodes[each.node]["jobs"])
                    await each.send_clocks(session, self._sim_url)
                await asyncio.sleep(_LOOK_S)


async def _held(client: KubeClient, node: str) -> int:
    """Return how many GPUs of a node have a held clock in the report of its agent."""
    profiles = await client.list(TELEMETRY_PROFILES)
    reports = [
        each.get("status", {}).get("devices", []) for each in profiles if each["spec"]["target"].get("nodeName") == node
    ]
    return sum("heldClockMhz" in device.get("classLimit", {}) for devices in reports for device in devices)
