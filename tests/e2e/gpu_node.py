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
from tests.e2e.container_node import Workload, started_limited
from tests.e2e.device_plugin import DevicePlugin
from tests.e2e.gpu_pods import (
    DRIVER_VOLUME,
    PERFORMANCE,
    STANDARD,
    STAYS,
    GpuLayout,
    Started,
    pod_on_gpus,
)
from tests.e2e.waiting import eventually

from joulie_api.client import KubeClient
from joulie_api.resources import NODES, PODS, TELEMETRY_PROFILES
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
    #: Standard pods by the resource of their GPUs.
    standard: dict[str, list[Workload]] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
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
            interval="1s",
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
        """Register the plugins, and let standard pods hold all GPUs."""
        try:
            await self.register()
            for resource in self.layout.offered:
                await self._hold(resource)
            yield
        finally:
            await self.unregister()

    async def register(self) -> None:
        """Start and register the device plugins."""
        for plugin in self.plugins:
            await self._registered.enter_async_context(plugin.running())

    async def unregister(self) -> None:
        """Stop the device plugins."""
        await self._registered.aclose()

    async def hand_over(self, number: int, resources: Collection[str]) -> list[Started]:
        """Give GPUs of each resource to performance pods, until at least so many were limited at that moment.

        A performance pod gets parts that nothing holds of GPUs of which standard pods hold others, or the whole GPUs of
        standard pods that end. All GPUs are handed over in a round, which begins when all are limited: limits come back
        12 s after a start. Returned are the containers of all rounds.
        """
        found: list[Started] = []
        of_resources = Counter[str]()
        while of_resources.total() < number or any(of_resources[each] == 0 for each in resources):
            await eventually(self.all_limited, within_s=_LIMITED_S)
            # Parts first: a pod with a GPU that the kubelet does not list yet may have any part of one, so that limits
            # of all of these are lifted, but no whole one of another.
            for is_whole in (False, True):
                names = [each for each in resources if self.layout.offered[each].is_whole is is_whole]
                for started in await asyncio.gather(*map(self._hand_all_over, names)):
                    found += started
            of_resources = Counter(self.layout.resource_of(gpu) for each in found for gpu in each.handed_over)
        return found

    async def _hand_all_over(self, resource: str) -> list[Started]:
        """Hand all GPUs of a resource over at once."""
        offered = self.layout.offered[resource]
        starts = [asyncio.create_task(self.start(resource, PERFORMANCE, gpus=gpus)) for gpus in offered.pods]
        ended = self.standard.pop(resource) if offered.is_whole else []
        for pids in await asyncio.gather(*(pod.pids() for pod in ended)):
            os.kill(min(pids), signal.SIGKILL)
        started = await asyncio.gather(*starts)
        if offered.is_whole:
            await asyncio.gather(*map(self._delete, ended))
            await self._hold(resource)
        return started

    async def _hold(self, resource: str) -> None:
        """Run standard pods on all GPUs of a resource."""
        pods = self.layout.offered[resource].pods
        starts = (self.start(resource, STANDARD, then=STAYS, kind="standard", gpus=gpus) for gpus in pods)
        self.standard[resource] = [self.pod(each.pod) for each in await asyncio.gather(*starts)]

    async def start(
        self,
        resource: str,
        annotations: Mapping[str, str],
        *,
        then: str = "true",
        kind: str = "performance",
        gpus: int = 1,
    ) -> Started:
        """Run a pod on GPUs, and return what its first process has seen; it is deleted unless it goes on."""
        name = f"{kind}-{next(self._numbers)}"
        await self.create(name, annotations, pod_on_gpus(name, resource, then, gpus=gpus))
        started = await self.started(name)
        if then == "true":
            await self._delete(self.pod(name))
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
            while not any(each.handed_over for each in found):
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
                # A token is a volume, a request and a watch for each pod.
                "automountServiceAccountToken": False,
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
        gpus = tuple(map(int, found[0].name.partition("@")[2].split("-")))
        creation = Creation.of(self.node, pod)
        records = (found[0], seen / creation.container)
        drivers = [each.read_bytes() for each in records]
        locks_mhz = [struct.unpack_from("I", each, StubGpus.lock_at(gpu))[0] for each in drivers for gpu in gpus]
        for each in (*records, seen / creation.sandbox):
            each.unlink()
        handed_over = tuple(gpu for gpu in gpus if self.assigned_mhz[gpu])
        return Started(pod, gpus, handed_over, max(locks_mhz), creation.took_ms)

    def pod(self, name: str) -> Workload:
        """Return a pod by its name."""
        return Workload(self.node, self.client, self.namespace, name)

    async def warned(self) -> set[str]:
        """Return the pods with an Event of a container that was started under a limit."""
        return await started_limited(self.client, self.namespace)

    async def holders(self, gpu: int) -> list[str]:
        """Return the names of the pods that hold a GPU by the status that the agent reports."""
        profile = json.loads(await self.client.get(TELEMETRY_PROFILES, self.node.name))
        (device,) = (each for each in profile["status"]["devices"] if each["index"] == gpu)
        return [each["pod"] for each in device["holders"]]

    async def _delete(self, pod: Workload) -> None:
        """Delete a pod that has ended: no test waits until it is gone."""
        await self.client.delete(PODS, pod.name, self.namespace)

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
