"""The estimate over all nodes and pods, a bounded part of the changes at a time.

Changes of pods are noted as they are watched, and taken at the next look; while more of them are left than one look may
take, what the score saves is unknown.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from joulie_api.failures import Failures
from joulie_core.kinds.node_twin import ServerMeasurement
from joulie_core.kinds.telemetry_profile import TelemetryProfileStatus
from joulie_core.names import NodeName
from joulie_core.savings import Lever, LeverRate
from joulie_core.savings.asleep import SleepingServer
from joulie_core.savings.estimator import CappedNode, caps_rate, score_rate, sleep_rate
from joulie_core.savings.shadow import ShadowCluster
from joulie_operator.cluster import Cluster
from joulie_operator.pods import PodSummary
from joulie_operator.savings.inputs import CapReport, capped_node, shadow_node, shadow_pod, sleeping_server

T = TypeVar("T")

#: Most pods that one look places: 1 to 2 ms each at 5,000 nodes.
MOST_PLACED: Final = 1_000
#: Pods, and nodes, between two turns of the event loop: some milliseconds.
PODS_SLICE: Final = 5
SLICE: Final = 25


@dataclass(frozen=True, slots=True)
class SavingsSight:
    """Everything that is read: the model of the cluster, and the stores of its watches."""

    cluster: Cluster
    pods: Mapping[str, PodSummary]
    #: Power of a whole server, by its BMC, as far as it still counts.
    server_power: Callable[[NodeName], ServerMeasurement | None]
    #: The report of the node's agent; None without one.
    report: Callable[[NodeName], TelemetryProfileStatus | None]
    #: Age up to which a reading of an agent counts.
    max_age_s: float


class SavingsEstimate:
    """The estimate of one leading operator."""

    def __init__(self, sight: SavingsSight, failures: Failures) -> None:
        self._sight = sight
        self._failures = failures
        self._shadow = ShadowCluster()
        self._nodes: set[NodeName] = set()
        #: Keys of pods that may have changed, in order.
        self._changed: dict[str, None] = {}
        #: None until the first look, which takes all pods.
        self._started = False

    def on_pod(self, key: str, _old: PodSummary | None, _new: PodSummary | None) -> None:
        """Note a change of a pod."""
        if self._started:
            self._changed[key] = None

    async def rates(self, now_s: float) -> dict[Lever, LeverRate]:
        """Return what is saved now, by lever."""
        await self._take_nodes()
        await self._take_pods()
        servers: list[SleepingServer] = []
        capped: list[CappedNode] = []
        for names in _slices(list(self._nodes)):
            for name in names:
                with self._failures.contained("estimate savings", node=name):
                    servers += self._server(name)
                    capped += self._capped(name, now_s)
            await asyncio.sleep(0)
        return {
            Lever.SLEEP: sleep_rate(servers),
            Lever.CAPS: caps_rate(capped),
            Lever.SCORE: score_rate(self._shadow, backlog=bool(self._changed)),
        }

    async def _take_nodes(self) -> None:
        cluster = self._sight.cluster
        added: set[NodeName] = set()
        present: set[NodeName] = set()
        for names in _slices(list(cluster.nodes)):
            for name in names:
                with self._failures.contained("node of savings", node=name):
                    found = self._shadow_node(name)
                    if found:
                        present.add(name)
                        added |= {name} - self._nodes
            await asyncio.sleep(0)
        for name in self._nodes - present:
            self._changed.update(dict.fromkeys(key for key, _ in self._shadow.remove_node(name)))
        if not self._started:
            self._changed.update(dict.fromkeys(self._sight.pods))
            self._started = True
        elif added:
            self._changed.update(dict.fromkeys(key for key, pod in self._sight.pods.items() if pod.node in added))
        self._nodes = present

    def _shadow_node(self, name: NodeName) -> bool:
        """Put a node into the shadow; return whether it belongs there."""
        cluster = self._sight.cluster
        node = cluster.nodes.get(name)
        found = shadow_node(node, cluster.hardware(name), cluster.eligibility(name)) if node is not None else None
        if found is not None:
            self._shadow.set_node(found)
        return found is not None

    async def _take_pods(self) -> None:
        taken = 0
        while self._changed and taken < MOST_PLACED:
            key = next(iter(self._changed))
            del self._changed[key]
            with self._failures.contained("pod of savings"):
                self._take_pod(key)
            taken += 1
            if taken % PODS_SLICE == 0:
                await asyncio.sleep(0)

    def _take_pod(self, key: str) -> None:
        pod = self._sight.pods.get(key)
        found = shadow_pod(pod) if pod is not None else None
        if found is None:
            self._shadow.remove(key)
        elif self._shadow.pod(key) != found:
            self._shadow.place(key, found)

    def _server(self, name: NodeName) -> Iterator[SleepingServer]:
        node = self._sight.cluster.nodes.get(name)
        server = sleeping_server(node, self._sight.server_power(name)) if node is not None else None
        if server is not None:
            yield server

    def _capped(self, name: NodeName, now_s: float) -> Iterator[CappedNode]:
        status, hardware = self._sight.report(name), self._sight.cluster.hardware(name)
        if status is None or hardware is None:
            return
        report = CapReport(status, hardware, self._sight.cluster.load(name))
        found = capped_node(report, now_s, self._sight.max_age_s)
        if found is not None:
            yield found


def _slices(items: list[T]) -> Iterable[list[T]]:
    return (items[start : start + SLICE] for start in range(0, len(items), SLICE))
