"""A real node whose GPUs are a driver's library over a file, with a device plugin and the processes of an agent's pod.

Standard pods hold the GPUs. Two observers, which know nothing of the agent, copy the driver's file when a container
starts: runc before it creates the container, and the container's own first process.
"""

import asyncio
import itertools
import json
import os
import signal
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from services.agent.tests.class_limits.agent_processes import AgentProcesses
from services.agent.tests.class_limits.stub_gpus import AMD, StubGpus
from tests.e2e.container_creation import Creation, write_runc
from tests.e2e.container_node import Workload
from tests.e2e.device_plugin import DevicePlugin
from tests.e2e.gpu_pods import (
    DRIVER_VOLUME,
    PERFORMANCE,
    STANDARD,
    STAYS,
    GpuLayout,
    Started,
    pod_on_gpu,
)
from tests.e2e.waiting import eventually

from joulie_agent.class_limits.starts import NOT_LIFTED
from joulie_api.client import KubeClient
from joulie_api.resources import EVENTS, NODES, PODS, TELEMETRY_PROFILES
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL
from joulie_devcluster.real_node.node import RealNode

#: Of the driver's file, and of what the observers have seen.
_DRIVER: Final = "driver"
_POLL_S: Final = 0.02
_SAMPLE_S: Final = 0.005
#: From the creation of a pod to its first process.
_START_S: Final = 60.0
_LIMITED_S: Final = 180.0


@dataclass(slots=True)
class GpuNode:
    """The node, and pods on it."""

    node: RealNode
    client: KubeClient
    namespace: str
    layout: GpuLayout
    gpus: StubGpus
    processes: AgentProcesses
    plugins: Collection[DevicePlugin]
    #: By GPU, the clock to which it was held at the kubelet's last assignment of it or of a part, 0 for none.
    assigned_mhz: dict[int, int]
    #: Times from the kubelet's assignment of a limited GPU to the end of the limit, in seconds.
    lifts_s: list[float]
    #: Standard pods by the GPU that they hold.
    standard: dict[int, Workload] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _ending: set["asyncio.Task[None]"] = field(default_factory=set)
    _registered: AsyncExitStack = field(default_factory=AsyncExitStack)

    @classmethod
    def over(cls, node: RealNode, client: KubeClient, namespace: str, layout: GpuLayout, directory: Path) -> "GpuNode":
        """Return the node with its files in a directory that `prepare` has been given; nothing is started."""
        own = directory / layout.vendor.folder
        driver = own / _DRIVER
        (driver / "seen").mkdir(parents=True)
        (own / "link").symlink_to(driver)
        (own / "link").rename(directory / _DRIVER)
        gpus = StubGpus(driver, layout.count, vendor=layout.vendor)
        kubelet = node.layout.root / "kubelet"
        processes = AgentProcesses(
            own,
            gpus,
            node=node.name,
            kubeconfig=node.cluster.issue_kubeconfig("joulie-agent"),
            kubelet=kubelet / "pod-resources" / "kubelet.sock",
            runtime=node.layout.run / "nri" / "nri.sock",
            shortened=False,
        )
        if layout.vendor == AMD:
            for each in layout.offered.values():
                for index in () if each.is_whole else each.gpus:
                    gpus.partition(index, processes.sys)
        assigned_mhz: dict[int, int] = {}
        lifts_s: list[float] = []
        plugins = [
            DevicePlugin(
                kubelet / "device-plugins",
                resource,
                {name.format(index): index for index in each.gpus for name in each.parts},
                lambda index: gpus.locks_mhz[index],
                assigned_mhz,
                lifts_s,
            )
            for resource, each in layout.offered.items()
        ]
        return cls(node, client, namespace, layout, gpus, processes, plugins, assigned_mhz, lifts_s)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Register the plugins, and let a standard pod hold each GPU."""
        try:
            await self.register()
            for resource, each in self.layout.offered.items():
                await asyncio.gather(*(self.hold(resource) for _ in each.gpus))
            yield
        finally:
            await asyncio.gather(*self._ending, return_exceptions=True)
            await self.unregister()

    async def register(self) -> None:
        """Start and register the device plugins."""
        for plugin in self.plugins:
            await self._registered.enter_async_context(plugin.running())

    async def unregister(self) -> None:
        """Stop the device plugins."""
        await self._registered.aclose()

    async def hold(self, resource: str) -> None:
        """Run a standard pod on a GPU of a resource."""
        started = await self.start(resource, STANDARD, then=STAYS, kind="standard")
        self.standard[started.gpu] = self.pod(started.pod)

    async def hand_over(self, number: int, resources: Collection[str]) -> list[Started]:
        """Give limited GPUs of each resource to performance pods, until at least so many were limited at that moment.

        A performance pod gets a part that nothing holds of a GPU of which a standard pod holds another, or the whole
        GPU of a standard pod that ends. Returned are those that were limited when the kubelet assigned them.
        """
        lanes = [lane for resource in resources for lane in self.layout.offered[resource].lanes]
        found: list[Started] = []

        def enough() -> bool:
            of_resources = {self.layout.resource_of(each.gpu) for each in found}
            return len(found) >= number and len(of_resources) == len(resources)

        async def hand_over(gpus: range) -> None:
            while not enough():
                limited = [gpu for gpu in gpus if self.gpus.locks_mhz[gpu]]
                if not limited:
                    await asyncio.sleep(_POLL_S)
                    continue
                started = await self._hand_over(limited[0])
                if started.assigned_mhz:
                    found.append(started)

        await asyncio.gather(*map(hand_over, lanes))
        return found

    async def _hand_over(self, gpu: int) -> Started:
        resource = self.layout.resource_of(gpu)
        if not self.layout.offered[resource].is_whole:
            return await self.start(resource, PERFORMANCE)
        waiting = asyncio.create_task(self.start(resource, PERFORMANCE))
        pod = self.standard.pop(gpu)
        os.kill(min(await pod.pids()), signal.SIGKILL)
        started = await waiting
        self._delete(pod)
        await self.hold(resource)
        return started

    async def start(
        self, resource: str, annotations: Mapping[str, str], *, then: str = "true", kind: str = "performance"
    ) -> Started:
        """Run a pod on a GPU, and return what its first process has seen; it is deleted unless it goes on."""
        name = f"{kind}-{next(self._numbers)}"
        await self.create(name, annotations, pod_on_gpu(name, resource, then))
        started = await self.started(name)
        if then == "true":
            self._delete(self.pod(name))
        return started

    async def until_limited(
        self, start: Callable[[], Awaitable[Sequence[Started]]], but: int | None = None
    ) -> Sequence[Started]:
        """Start performance pods until one was assigned a GPU that was limited, and return the last that were started.

        An agent that hears of a pod before the kubelet has assigned a GPU lifts the limits ahead of it: that shows
        nothing, so that it is done again. Before each start all GPUs but one are limited.

        Raises:
            AssertionError: a container started under a limit.
            TimeoutError: no GPU was limited for a while.
        """
        async with asyncio.timeout(_LIMITED_S):
            found: Sequence[Started] = ()
            while not any(each.assigned_mhz for each in found):
                await eventually(lambda: self.all_limited(but), within_s=60)
                found = await start()
                assert [each for each in found if each.lock_mhz] == []
        return found

    async def create(self, name: str, annotations: Mapping[str, str], spec: Mapping[str, Any]) -> None:
        """Create a pod that is not started again."""
        driver = {"name": DRIVER_VOLUME, "hostPath": {"path": str(self.gpus.path.parent)}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": dict(annotations)},
            "spec": {
                "hostNetwork": True,
                "restartPolicy": "Never",
                "nodeSelector": {HOSTNAME_LABEL: self.node.name},
                "terminationGracePeriodSeconds": 0,
                "volumes": [driver],
                **spec,
            },
        }
        await self.client.create(PODS, body, self.namespace)

    async def started(self, pod: str) -> Started:
        """Wait for the record of a pod's container and return it."""
        seen = self.gpus.path.parent / "seen"
        async with asyncio.timeout(_START_S):
            while not (found := list(seen.glob(f"{pod}@*"))):  # noqa: ASYNC110 - a container writes it
                await asyncio.sleep(_POLL_S)
        gpu = int(found[0].name.partition("@")[2])
        creation = Creation.of(self.node, pod)
        records = (found[0], seen / creation.container)
        locks_mhz = [struct.unpack_from("I", each.read_bytes(), StubGpus.lock_at(gpu))[0] for each in records]
        for each in (*records, seen / creation.sandbox):
            each.unlink()
        return Started(pod, gpu, self.assigned_mhz[gpu], max(locks_mhz), creation.took_ms)

    def pod(self, name: str) -> Workload:
        """Return a pod by its name."""
        return Workload(self.node, self.client, self.namespace, name)

    async def warned(self) -> set[str]:
        """Return the pods with an Event of a container that was started under a limit."""
        events = await self.client.list(EVENTS, self.namespace)
        return {each["involvedObject"]["name"] for each in events if each["reason"] == NOT_LIFTED}

    async def holders(self, gpu: int) -> list[str]:
        """Return the names of the pods that hold a GPU by the status that the agent reports."""
        profile = json.loads(await self.client.get(TELEMETRY_PROFILES, self.node.name))
        (device,) = (each for each in profile["status"]["devices"] if each["index"] == gpu)
        return [each["pod"] for each in device["holders"]]

    def _delete(self, pod: Workload) -> None:
        task = asyncio.create_task(pod.delete())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def restart_kubelet(self) -> None:
        """Stop the kubelet and the plugins until no GPU is limited, start it again, and wait until it offers no device.

        Raises:
            AssertionError: a GPU is limited after a while without a kubelet.
        """
        kubelet = self.node.processes[Binary.KUBELET]
        await self.unregister()
        await kubelet.stop()
        await eventually(self._none_limited, within_s=20)
        await kubelet.start()

        async def offers_none() -> None:
            status = json.loads(await self.client.get(NODES, self.node.name))["status"]
            assert {status["allocatable"].get(each, "0") for each in self.layout.offered} == {"0"}

        await eventually(offers_none, within_s=60)

    @asynccontextmanager
    async def sampled(self, gpu: int) -> AsyncIterator[Counter[int]]:
        """Count the clocks to which a GPU is held while the context lasts, at each look at the driver."""
        found = Counter[int]()

        async def sample() -> None:
            while True:
                found[self.gpus.locks_mhz[gpu]] += 1
                await asyncio.sleep(_SAMPLE_S)

        task = asyncio.create_task(sample())
        try:
            yield found
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _none_limited(self) -> None:
        assert not any(self.gpus.locks_mhz), self.gpus.locks_mhz

    async def all_limited(self, but: int | None = None) -> None:
        """AssertionError unless each GPU of the device plugins but one is held to a clock."""
        locks_mhz = self.gpus.locks_mhz[: self.layout.claimed.start]
        assert all(mhz for index, mhz in enumerate(locks_mhz) if index != but), locks_mhz


def prepare(directory: Path) -> None:
    """Write the runc of a node to a directory, which has to be the first of PATH when the node starts."""
    write_runc(directory, file=directory / _DRIVER / "gpus", copies=directory / _DRIVER / "seen")
