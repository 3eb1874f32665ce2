"""The system under test: a real control plane with KWOK nodes, Joulie, and a scheduler that is reconfigured per wave.

Pods are created while no scheduler runs, so that what scheduling costs is told apart from what creating them costs.
Bindings are counted by a watch in this process.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import msgspec
import yaml
from cost import CpuMeter

from joulie_api.client import KubeClient
from joulie_api.reflector import Reflector
from joulie_api.resources import PODS
from joulie_core.kinds.base import Profile
from joulie_core.labels import POWER_PROFILE
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings, scheduler_configuration
from joulie_devcluster.fixtures import create_namespace
from joulie_devcluster.host.ports import LOOPBACK
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.host.readiness import tls_context
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig
from joulie_testing.api.builders import make_pod

T = TypeVar("T")

_ENV = {
    # One operator on a machine that is meant to be saturated: no lease may end in the middle of a wave.
    Service.OPERATOR: {
        "POLICY_TYPE": "static_partition",
        "STATIC_HP_FRAC": "0.5",
        "LEASE_DURATION": "180s",
        "LEASE_RENEW_DEADLINE": "120s",
    },
    Service.AGENT: {"RECONCILE_INTERVAL": "10s"},
    Service.EXTENDER: {"TELEMETRY_INTERVAL": "10s"},
}
AUDITED = (Service.OPERATOR, Service.AGENT, Service.EXTENDER, "system:kube-scheduler")
_WRITES_IN_FLIGHT = 32
_READY_S = 60.0
_SETTLED_S = 300.0
_STEADY_W_PER_MIN = 20.0
_PLACED_S = 180.0
_PROFILE_TIMEOUT_S = 30.0
_TERM = {"matchExpressions": [{"key": POWER_PROFILE, "operator": "NotIn", "values": [Profile.ECO.value]}]}
_NOT_ECO = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}}


class System:
    """A cluster with Joulie, on which pods are scheduled in waves."""

    def __init__(self, cluster: DevCluster, stack: JoulieStack, client: KubeClient, namespace: str) -> None:
        self.cluster = cluster
        self.stack = stack
        self._client = client
        self._namespace = namespace
        #: When the binding of each pod was observed, by key.
        self._bound_at: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._bindings = Reflector(client, PODS, _node_of, namespace=namespace, field_selector="spec.nodeName!=")
        self._bindings.subscribe(self._on_pod)
        self.audit = cluster.audit_log()
        self.meter = CpuMeter(
            {
                "kube-scheduler": (self.scheduler,),
                "extender": (stack.extender,),
                "operator": (stack.operator,),
                "agents": stack.agents,
                "kube-apiserver": (cluster.processes[Binary.APISERVER],),
            }
        )

    @property
    def scheduler(self) -> ServiceProcess:
        """kube-scheduler."""
        return self.cluster.processes[Binary.SCHEDULER]

    async def use_score(self, name: str) -> None:
        """Have the extender score nodes by this policy."""
        if self.stack.extender.env.get("SCORE_POLICY") != name:
            await self.stack.extender.restart({"SCORE_POLICY": name})
            await self.stack.extender.wait_ready(_READY_S)

    async def wait_settled(self, nodes: int) -> None:
        """Wait until the extender has a measurement of every node that was taken without pods of the bench.

        Nodes that a wave has left attract the next one while their power trend falls, for the five minutes of its
        window. A new operator has no samples of that time, and so its trends are those of a cluster at rest.
        """
        await self._wait_until(lambda node: not _is_measured(node), nodes)
        await self.stack.operator.stop()
        await self.stack.operator.start()
        await self._wait_until(lambda node: not _is_measured(node) or _has_trend(node), nodes)

    async def create(self, pods: list[dict[str, Any]]) -> None:
        """Create the pods of a wave; no scheduler runs afterwards until `schedule`."""
        await self.scheduler.stop()
        self._bound_at.clear()

        async def create(pod: dict[str, Any]) -> None:
            placed = {**pod, "metadata": {**pod["metadata"], "namespace": self._namespace}}
            await self._client.create(PODS, placed, self._namespace)

        await self._each(pods, create)

    async def schedule(self, pods: int, settings: SchedulerSettings, *, extender: bool, gogc: int) -> list[float]:
        """Schedule the pods with a scheduler configured so; when each pod was seen to be bound, in order."""
        self._configure(settings, extender=extender)
        self.scheduler.env["GOGC"] = str(gogc)
        await self.scheduler.start()
        await self._wait_bindings(lambda: len(self._bound_at) == pods)
        return sorted(self._bound_at.values())

    async def profile(self, seconds: int, after_pods: int) -> tuple[bytes, int]:
        """Return a CPU profile of kube-scheduler in the middle of a wave, and how many pods were bound meanwhile."""
        await self._wait_bindings(lambda: len(self._bound_at) >= after_pods)
        pki = self.cluster.layout.pki
        ssl = tls_context(pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
        url = f"https://{LOOPBACK}:{self.cluster.port_of(Binary.SCHEDULER)}/debug/pprof/profile?seconds={seconds}"
        timeout = aiohttp.ClientTimeout(total=seconds + _PROFILE_TIMEOUT_S)
        bound = len(self._bound_at)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, ssl=ssl) as answer:
            answer.raise_for_status()
            profile = await answer.read()
        if len(self._bound_at) == bound:
            raise RuntimeError("no pod was bound during the profile: the wave needs more pods")
        return profile, len(self._bound_at) - bound

    def placements(self) -> dict[str, str]:
        """Node of every pod by the pod's name."""
        return {key.rpartition("/")[2]: node for key, node in self._bindings.store.items()}

    async def clear(self) -> None:
        """Delete all pods of the wave, without a grace period: KWOK takes minutes to end thousands of them."""

        async def delete(name: str) -> None:
            path = PODS.object_path(name, self._namespace)
            # One at a time: the API server ends a deletion of the whole collection after half a minute.
            await self._client.request("DELETE", path, query=(("gracePeriodSeconds", "0"),))

        await self._each(list(self.placements()), delete)
        await self._wait_bindings(lambda: not self._bindings.store)

    async def cpu_watts(self, *, pods: int) -> float:
        """Return the simulated power of all CPUs, once the simulator has seen that many pods."""
        deadline = asyncio.get_running_loop().time() + _PLACED_S
        while True:
            nodes = (await _fetch(f"{self.stack.sim_url}/state"))["nodes"].values()
            seen = sum(len(node["jobs"]) for node in nodes)
            if seen == pods:
                return float(sum(node["cpuWatts"] for node in nodes))
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"{seen} pods run on the simulator's nodes, not {pods}")
            await asyncio.sleep(0.2)

    async def scoring(self) -> list[dict[str, Any]]:
        """Return the extender's view of the nodes."""
        return list((await _fetch(f"{self.stack.extender_url}/debug/scoring"))["nodes"])

    async def follow(self) -> None:
        """Watch the bindings; runs until it is cancelled."""
        await self._bindings.run()

    def _on_pod(self, key: str, _old: str | None, new: str | None) -> None:
        if new is not None:
            self._bound_at.setdefault(key, asyncio.get_running_loop().time())
        self._changed.set()

    async def _wait_bindings(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PLACED_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def _wait_until(self, unsettled: Callable[[dict[str, Any]], bool], nodes: int) -> None:
        """Wait until no node is unsettled and the power of each is the simulated one."""
        deadline = asyncio.get_running_loop().time() + _SETTLED_S
        while True:
            known = await self.scoring()
            true = (await _fetch(f"{self.stack.sim_url}/state"))["nodes"]
            problems: list[Any] = [
                node
                for node in known
                if unsettled(node) or abs((node["measuredPowerW"] or 0) - true[node["nodeName"]]["watts"]) > 1
            ]
            problems += ["unknown"] * (nodes - len(known))
            if not problems:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"{len(problems)} nodes are not at rest, such as {problems[0]}")
            await asyncio.sleep(0.5)

    async def _each(self, items: Sequence[T], act: Callable[[T], Awaitable[object]]) -> None:
        limit = asyncio.Semaphore(_WRITES_IN_FLIGHT)

        async def take(item: T) -> None:
            async with limit:
                await act(item)

        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(take(item))

    def _configure(self, settings: SchedulerSettings, *, extender: bool) -> None:
        layout = self.cluster.layout
        written = scheduler_configuration(
            settings,
            kubeconfig=str(layout.kubeconfig(Binary.SCHEDULER)),
            extender_url=self.stack.extender_url if extender else None,
        )
        layout.config(Binary.SCHEDULER).write_text(yaml.safe_dump(written, sort_keys=False))


@asynccontextmanager
async def run_system(nodes: int) -> AsyncIterator[System]:
    """Bring up a cluster of so many mixed nodes with Joulie on it."""
    cluster = DevCluster(ClusterConfig(name="bench", nodes=scale(default_node_classes(), nodes), audited_users=AUDITED))
    async with cluster, JoulieStack(cluster, StackConfig(env=_ENV)) as stack, await cluster.client() as client:
        system = System(cluster, stack, client, await create_namespace(client))
        watch = asyncio.create_task(system.follow())
        try:
            yield system
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


def _is_measured(node: Mapping[str, Any]) -> bool:
    """Return whether a node's twin is in force and no pod is counted beside its measurement."""
    return not node["stale"] and not node["assumedPowerW"] and node["schedulableClass"] in {"performance", "eco"}


def _has_trend(node: Mapping[str, Any]) -> bool:
    return abs(node["powerTrendWPerMin"]) > _STEADY_W_PER_MIN


def make_wave(count: int, number: int, *, native: bool = False) -> list[dict[str, Any]]:
    """Return the pods of a wave, always in the same mix: seven of ten are services, two are fast, one has a GPU.

    Args:
        count: number of pods.
        number: number of the wave, a part of the pods' names.
        native: whether fast pods have a required node affinity that keeps them off eco nodes.
    """
    dice = random.Random(1)
    kinds = dice.choices(("service", "fast", "gpu"), (7, 2, 1), k=count)
    return [_pod(kind, f"{kind}-{number}-{index}", dice, native=native) for index, kind in enumerate(kinds)]


def _pod(kind: str, name: str, dice: random.Random, *, native: bool) -> dict[str, Any]:
    match kind:
        case "service":
            return make_pod(name, cpu=dice.choice((2, 4, 8)), memory="8Gi")
        case "fast":
            affinity = _NOT_ECO if native else None
            return make_pod(
                name, cpu=dice.choice((8, 16)), memory="32Gi", workload_class="performance", affinity=affinity
            )
        case _:
            return make_pod(name, cpu=8, memory="64Gi", gpu=1)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str


class _Pod(msgspec.Struct):
    spec: _Spec


_POD = msgspec.json.Decoder(_Pod)


def _node_of(raw: bytes) -> str:
    return _POD.decode(raw).spec.node_name


async def _fetch(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        answer.raise_for_status()
        return json.loads(await answer.read())
