"""A real node whose GPUs are a driver's library over a file, with a device plugin and the processes of an agent's pod.

Standard pods hold the GPUs. A performance pod is an observer of its own: its first process copies the driver's file, so
that the copy has the clock to which its GPU was held when the container started.
"""

import asyncio
import itertools
import os
import re
import signal
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from services.agent.tests.class_limits.agent_processes import AgentProcesses
from services.agent.tests.class_limits.stub_gpus import StubGpus
from tests.e2e.container_node import CONTAINER, Workload
from tests.e2e.device_plugin import GPU_INDEX, DevicePlugin
from tests.e2e.waiting import eventually

from joulie_agent.class_limits.starts import NOT_LIFTED
from joulie_api.client import KubeClient
from joulie_api.resources import EVENTS, PODS
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.oci import BUSYBOX_IMAGE
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL
from joulie_devcluster.real_node.node import RealNode

WHOLE: Final = "nvidia.com/gpu"
SHARED: Final = "nvidia.com/gpu.shared"
PARTITION: Final = "nvidia.com/mig-3g.40gb"
#: GPUs by the resource that offers them, and how a plugin names the parts of one.
LAYOUT: Final[Mapping[str, tuple[range, tuple[str, ...]]]] = {
    WHOLE: (range(12), ("GPU-{}",)),
    SHARED: (range(12, 15), ("GPU-{}::0", "GPU-{}::1")),
    # As drivers before R470 name them; a later one has to be asked which GPU a partition is of.
    PARTITION: (range(15, 18), ("MIG-GPU-{}/1/0", "MIG-GPU-{}/2/0")),
}
GPUS: Final = sum(len(indices) for indices, _ in LAYOUT.values())

STANDARD: Final = {MAX_SLOWDOWN: "10%"}
PERFORMANCE: Final = {WORKLOAD_CLASS: "performance"}
_MOUNT: Final = "/driver"
_POLL_S: Final = 0.02
#: From the creation of a pod to its first process.
_START_S: Final = 60.0
#: Writes down the state of the driver; `$1` is the name of the record.
_RECORD: Final = f"cp {_MOUNT}/gpus {_MOUNT}/seen/.$1 && mv {_MOUNT}/seen/.$1 {_MOUNT}/seen/$1@${GPU_INDEX}"  # at once


@dataclass(frozen=True, slots=True)
class Started:
    """A container that has started, as its first process has seen it.

    Attributes:
        pod: name of its pod.
        gpu: index of its GPU.
        assigned_mhz: clock to which its GPU was held when the kubelet assigned it; 0 for none.
        lock_mhz: clock to which its GPU was held when it started; 0 for none.
    """

    pod: str
    gpu: int
    assigned_mhz: int
    lock_mhz: int


@dataclass(slots=True)
class GpuNode:
    """The node, and pods on it."""

    node: RealNode
    client: KubeClient
    namespace: str
    gpus: StubGpus
    processes: AgentProcesses
    plugins: Mapping[str, DevicePlugin]
    #: Standard pods by the GPU that they hold.
    standard: dict[int, Workload] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _ending: set["asyncio.Task[None]"] = field(default_factory=set)
    _registered: AsyncExitStack = field(default_factory=AsyncExitStack)

    @classmethod
    def over(cls, node: RealNode, client: KubeClient, namespace: str, directory: Path) -> "GpuNode":
        """Return the node with its files in a directory; nothing is started."""
        driver = directory / "driver"
        (driver / "seen").mkdir(parents=True)
        gpus = StubGpus(driver, GPUS)
        kubelet = node.layout.root / "kubelet"
        processes = AgentProcesses(
            directory,
            gpus,
            node=node.name,
            kubeconfig=node.cluster.issue_kubeconfig("joulie-agent"),
            kubelet=kubelet / "pod-resources" / "kubelet.sock",
            runtime=node.layout.run / "nri" / "nri.sock",
            shortened=False,
        )
        plugins = {
            resource: DevicePlugin(
                kubelet / "device-plugins",
                resource,
                {name.format(index): index for index in indices for name in names},
                lambda index: gpus.locks_mhz[index],
            )
            for resource, (indices, names) in LAYOUT.items()
        }
        return cls(node, client, namespace, gpus, processes, plugins)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Register the plugins, and let a standard pod hold each GPU."""
        try:
            await self.register()
            for resource, (indices, _) in LAYOUT.items():
                await asyncio.gather(*(self.hold(resource) for _ in indices))
            yield
        finally:
            await asyncio.gather(*self._ending, return_exceptions=True)
            await self.unregister()

    async def register(self) -> None:
        """Start the device plugins, and wait until the node offers their devices."""
        for plugin in self.plugins.values():
            await self._registered.enter_async_context(plugin.running())

    async def unregister(self) -> None:
        """Stop the device plugins."""
        await self._registered.aclose()

    async def hold(self, resource: str) -> None:
        """Run a standard pod on a GPU of a resource."""
        started = await self.start(resource, STANDARD, then="exec sleep 100000", kind="standard")
        self.standard[started.gpu] = self.pod(started.pod)

    async def hand_over_all(self) -> list[Started]:
        """Give a performance pod each GPU, all at once; return those that were limited when the kubelet did that.

        Each gets a part that nothing holds of a GPU of which a standard pod holds another, or the whole GPU of a
        standard pod that ends.
        """
        await eventually(self.all_limited, within_s=60)
        found = await asyncio.gather(*(self._hand_over(index) for index in range(GPUS)))
        return [each for each in found if each.assigned_mhz]

    async def _hand_over(self, index: int) -> Started:
        resource = resource_of(index)
        if resource != WHOLE:
            return await self.start(resource, PERFORMANCE)
        waiting = asyncio.create_task(self.start(resource, PERFORMANCE))
        pod = self.standard.pop(index)
        os.kill(min(await pod.pids()), signal.SIGKILL)
        started = await waiting
        self._delete(pod)
        await self.hold(WHOLE)
        return started

    async def start(
        self, resource: str, annotations: Mapping[str, str], *, then: str = "true", kind: str = "performance"
    ) -> Started:
        """Run a pod on a GPU, and return what its first process has seen; it is deleted unless it goes on."""
        name = f"{kind}-{next(self._numbers)}"
        await self.create(name, annotations, containers=[container(name, resource, then)])
        started = await self.started(name)
        if then == "true":
            self._delete(self.pod(name))
        return started

    async def create(self, name: str, annotations: Mapping[str, str], **spec: Any) -> None:
        """Create a pod that is not started again."""
        driver = {"name": "driver", "hostPath": {"path": str(self.gpus.path.parent)}}
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
        index = int(found[0].name.partition("@")[2])
        (lock_mhz,) = struct.unpack_from("I", found[0].read_bytes(), StubGpus.lock_at(index))
        found[0].unlink()
        return Started(pod, index, self.plugins[resource_of(index)].assigned_mhz[index], lock_mhz)

    def pod(self, name: str) -> Workload:
        """Return a pod by its name."""
        return Workload(self.node, self.client, self.namespace, name)

    async def warned(self) -> set[str]:
        """Return the pods with an Event of a container that was started under a limit."""
        events = await self.client.list(EVENTS, self.namespace)
        return {each["involvedObject"]["name"] for each in events if each["reason"] == NOT_LIFTED}

    def creation_ms(self, pod: str) -> float:
        """Return how long containerd took for CreateContainer of a pod's only container, by its log."""
        log = self.node.processes[Binary.CONTAINERD].log()
        sandbox = re.search(rf'RunPodSandbox for name:\\"{pod}\\".* returns sandbox id \\"(\w+)', log)
        assert sandbox is not None, f"no sandbox of {pod}"
        lines = [line for line in log.splitlines() if f'CreateContainer within sandbox \\"{sandbox[1]}' in line]
        begun, ended = (_seconds(line.split('"')[1]) for line in lines)
        return (ended - begun) * 1_000

    def _delete(self, pod: Workload) -> None:
        task = asyncio.create_task(pod.delete())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def all_limited(self) -> None:
        """AssertionError unless each GPU is held to a clock."""
        assert all(self.gpus.locks_mhz), self.gpus.locks_mhz

    async def free(self) -> None:
        """AssertionError unless no GPU is."""
        assert not any(self.gpus.locks_mhz), self.gpus.locks_mhz


def resource_of(gpu: int) -> str:
    """Return the resource that offers a GPU."""
    return next(name for name, (indices, _) in LAYOUT.items() if gpu in indices)


def _seconds(time: str) -> float:
    """Return the time of day of a log line, in seconds."""
    hours, minutes, seconds = time.partition("T")[2].removesuffix("Z").split(":")
    return 3_600 * int(hours) + 60 * int(minutes) + float(seconds)


def container(record: str, resource: str, then: str = "true") -> dict[str, Any]:
    """Return a container whose first process writes down the state of the driver."""
    return {
        "name": CONTAINER,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{_RECORD} && {then}", "sh", record],
        "volumeMounts": [{"name": "driver", "mountPath": _MOUNT}],
        "resources": {"limits": {resource: "1"}},
    }
