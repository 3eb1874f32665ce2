"""A real node whose cores are limited by class: resource manager, node agent and actuator over files of cpufreq.

Pods of one namespace share one core of their own: a standard pod has it alone until a performance pod joins it, or
follows it. Two observers, which know nothing of the limits, read the core's file when a container starts: runc before
it creates the container, and the container's own first process.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

import aiohttp
from tests.e2e.container_creation import Creation, write_runc
from tests.e2e.container_node import CONTAINER, ResourceManager, Workload, started_limited
from tests.e2e.waiting import eventually

from joulie_api.client import KubeClient
from joulie_api.resources import NAMESPACES, PODS
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_devcluster.containers.oci import BUSYBOX_IMAGE
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL
from joulie_devcluster.host.ports import LOOPBACK
from joulie_devcluster.host.process import ServiceProcess, base_environment
from joulie_devcluster.real_node.node import RealNode
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack
from joulie_testing.agent.fake_sysfs import FakeMachine, build
from joulie_testing.agent.machine_spec import MachineSpec

#: As the resource manager, but for the time that keeps limits off, and that between two looks in Shadow.
_MANAGER: Final = """
from joulie_containers.resources import core_limit_enforcement, core_limits
core_limit_enforcement.SETTLED_S, core_limits.INTERVAL_S = 1.0, 1.0
from joulie_containers.__main__ import main
main()
"""
_PERFORMANCE: Final = {WORKLOAD_CLASS: "performance"}
_CPUS: Final = "devices/system/cpu"


class Follows(Enum):
    """How a performance pod gets the core of a standard pod."""

    #: The standard pod goes on: from then on both have the core.
    BESIDE = auto()
    #: The process of the standard pod has ended as the pod was created.
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class Started:
    """Highest frequencies of the core, in kHz, while the container of a performance pod was started.

    Attributes:
        follows: how the pod got the core.
        sandbox_khz: when runc created the sandbox of the pod.
        created_khz: when runc created the container.
        first_khz: as the first process of the container read it.
        creation_ms: time from containerd's request to create the container to the answer.
    """

    follows: Follows
    sandbox_khz: int
    created_khz: int
    first_khz: int
    creation_ms: float


@dataclass(frozen=True, slots=True)
class ObservedCore:
    """A core of an invented machine, whose highest frequency runc copies when it creates a container.

    Attributes:
        machine: has the CPUs of the node.
        cpu: the core, which has one thread.
        copies: directory of the copies, which have the ids of containers.
    """

    machine: FakeMachine
    cpu: int
    copies: Path

    @classmethod
    def prepare(cls, directory: Path, spec: MachineSpec, cpu: int) -> "ObservedCore":
        """Put the machine and its runc into a directory, to be the first of PATH when the node starts."""
        found = cls(build(directory / "machine", spec), cpu, directory / "copies")
        found.copies.mkdir()
        write_runc(directory, file=found.machine.sys / found.path, copies=found.copies)
        return found

    @property
    def path(self) -> str:
        """The file with its highest frequency, below /sys."""
        return f"{_CPUS}/cpufreq/policy{self.cpu}/scaling_max_freq"


class LimitedCores:
    """The node, and pods on it.

    Args:
        node: the node; its runc is that of the core.
        client: client of the API server.
        namespace: that of the pods.
        core: what these pods have.
    """

    def __init__(self, node: RealNode, client: KubeClient, namespace: str, core: ObservedCore) -> None:
        self._node, self._client, self._namespace = node, client, namespace
        self._core, self._machine = core, core.machine
        self._directory = core.machine.sys.parent
        self._sockets = {name: self._directory / f"{name}.sock" for name in ("actuator", "manager", "node-agent")}
        self._stack = JoulieStack(node.cluster)
        env = {
            "HOST_SYS_ROOT": str(self._machine.sys),
            "HOST_PROC_ROOT": str(self._machine.proc),
            "STATE_DIR": str(self._directory / "journals"),
            "ACTUATOR_SOCKET": str(self._sockets["actuator"]),
        }
        self.actuator = ServiceProcess(
            "actuator",
            [sys.executable, "-m", "joulie_actuator", "actuator"],
            log_path=self._directory / "actuator.log",
            env=base_environment() | env,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run actuator and node agent."""
        env = {
            "NODE_NAME": self._node.name,
            "POD_CONSENTS": "true",
            "RESOURCE_MANAGER_SOCKET": str(self._sockets["manager"]),
            "NODE_AGENT_SOCKET": str(self._sockets["node-agent"]),
        }
        await self.actuator.start()
        try:
            await self._stack.start(Service.CONTAINERS, env=env)
            yield
        finally:
            await self._stack.down()
            await self.actuator.stop()

    @asynccontextmanager
    async def managed(self, mode: str, reserved: str) -> AsyncIterator[ResourceManager]:
        """Run the resource manager in a mode of CLASS_LIMITS; other containers of the node have the reserved CPUs."""
        own = {"minCPUs": 1, "maxCPUs": 1, "maxBalloons": 1, "namespaces": [self._namespace]}
        spec = {"reservedResources": {"cpu": f"cpuset:{reserved}"}, "balloonTypes": [{"name": "own", **own}]}
        options = {
            "class-limits": mode,
            "host-root": str(self._directory),
            "actuator-socket": str(self._sockets["actuator"]),
            "api-socket": str(self._sockets["manager"]),
            "node-agent-socket": str(self._sockets["node-agent"]),
        }
        manager = await ResourceManager.start(
            self._node, self._directory, "balloons", spec, program=("-c", _MANAGER), options=options
        )
        try:
            await eventually(manager.ready, within_s=20)
            yield manager
        finally:
            await manager.process.stop()

    async def allow(self, slowdown: str | None) -> None:
        """Let the Namespace allow a slowdown, or none."""
        patch = {"metadata": {"annotations": {MAX_SLOWDOWN: slowdown}}}
        await self._client.merge_patch(NAMESPACES, self._namespace, patch)

    @property
    def highest_khz(self) -> int:
        """Highest frequency of the core, as the machine has it."""
        return self._machine.read(self._core.path)

    @property
    def limit_khz(self) -> int:
        """The limit of pods that may run 25 % longer."""
        return self._machine.spec.highest_khz * 100 // 125

    async def limited(self) -> None:
        """AssertionError unless the core has that limit, and no other core has one."""
        assert self.highest_khz == self.limit_khz, self.highest_khz
        highest_khz = [self._machine.read(each) for each in self._machine.policy_limits()]
        assert sum(each < self._machine.spec.highest_khz for each in highest_khz) == 1, highest_khz

    async def unlimited(self) -> None:
        """AssertionError where the frequency of the core is limited."""
        assert self.highest_khz == self._machine.spec.highest_khz, self.highest_khz

    async def is_shown(self, manager: ResourceManager) -> None:
        """AssertionError unless /debug/placements shows that the core would be limited, with consent, and is not."""
        url = f"http://{LOOPBACK}:{manager.port}/debug/placements"
        async with aiohttp.ClientSession() as http, http.get(url) as reply:
            found = (await reply.json())["coreLimits"]
        limits = [each for each in found if each["reason"] == "FrequencyLimited"]
        assert [(each["cpus"], each["consents"], each["setKhz"]) for each in limits] == [
            (str(self._core.cpu), True, None)
        ]

    async def hold(self, name: str) -> Workload:
        """Run a standard pod that says nothing of its own; return it when it runs."""
        pod = await self._create(name, "sleep 1000000")
        await eventually(pod.pids, within_s=60)
        return pod

    async def hand_over(self, standard: Workload, name: str, follows: Follows) -> Started:
        """Start a performance pod on the limited core of a standard pod, and return what was seen when it has ended."""
        pod = await self._create(name, f"cat {self._inside}", _PERFORMANCE)
        if follows is Follows.AFTER:
            os.kill(min(await standard.pids()), signal.SIGKILL)

        async def ended() -> None:
            assert (await pod.status())["phase"] == "Succeeded"

        await eventually(ended, within_s=60)
        creation = Creation.of(self._node, name)
        sandbox_khz, created_khz = (
            int((self._core.copies / each).read_text()) for each in (creation.sandbox, creation.container)
        )
        # Each line begins with time and stream.
        log = await asyncio.to_thread(self._node.logs, self._namespace, name, CONTAINER)
        first_khz = int(log.split()[-1])
        await pod.delete()
        return Started(follows, sandbox_khz, created_khz, first_khz, creation.took_ms)

    async def inside_khz(self, pod: Workload) -> int:
        """Return the highest frequency of the core as the container of a pod reads it."""
        return int(await pod.file(self._inside))

    async def warned(self) -> set[str]:
        """Return the pods with an Event of a limit that was not lifted in time."""
        return await started_limited(self._client, self._namespace)

    @property
    def _inside(self) -> str:
        return f"/sys/{_CPUS}/cpu{self._core.cpu}/cpufreq/scaling_max_freq"

    async def _create(self, name: str, command: str, annotations: Mapping[str, str] | None = None) -> Workload:
        # Two of them have room on the core.
        amounts = {"cpu": "500m", "memory": "32Mi"}
        container = {
            "name": CONTAINER,
            "image": BUSYBOX_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", command],
            "resources": {"requests": amounts, "limits": amounts},
            "volumeMounts": [{"name": "cpus", "mountPath": f"/sys/{_CPUS}", "readOnly": True}],
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {
                "hostNetwork": True,
                "restartPolicy": "Never",
                "nodeSelector": {HOSTNAME_LABEL: self._node.name},
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "cpus", "hostPath": {"path": str(self._machine.sys / _CPUS)}}],
                "containers": [container],
            },
        }
        await self._client.create(PODS, body, self._namespace)
        return Workload(self._node, self._client, self._namespace, name)
