"""The shadow placement: the pods of the cluster, as kube-scheduler's default scores would have placed them.

Guarantees that a pod is in it exactly from its start to its end, on a node that had room for it by CPU, memory, GPUs
and number of pods; that a pod which is bound to its place, or finds no room, is where it really is; and that placing
one pod looks at a bounded number of nodes. What a pod's load counts as in the shadow is the work that it really does:
on a model with less work per second it is that much more. Does not know preemption, taints that are tolerated, or soft
preferences.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isclose
from typing import Final

from joulie_core.names import NodeName
from joulie_core.savings.kube_scores import nodes_to_find, zone_order
from joulie_core.savings.node_loads import HeldLoad, NodeLoadModel
from joulie_core.savings.shadow_nodes import ShadowNode, ShadowPod, ShadowRoom

#: Most nodes that are scored for one pod, and most that are looked at.
MOST_CANDIDATES: Final = 256
MOST_LOOKS: Final = 2_048


@dataclass(frozen=True, slots=True)
class MovedWatts:
    """Watts above idle of one node in the shadow, less those of the real placement."""

    model: NodeLoadModel
    watts: float
    #: The part of it that is due to different work per second of models.
    by_work: float


@dataclass(frozen=True, slots=True)
class _Placed:
    pod: ShadowPod
    node: NodeName
    factor: float


class ShadowCluster:
    """The placement. `seed` is that of the choice among equal nodes."""

    def __init__(self, seed: int = 0) -> None:
        self._rooms: dict[NodeName, ShadowRoom] = {}
        self._placed: dict[str, _Placed] = {}
        #: Names in kube-scheduler's order; None where nodes have changed.
        self._order: list[NodeName] | None = None
        self._start = 0
        # Must be reproducible, not cryptographically secure.
        self._random = random.Random(seed)  # noqa: S311
        self._moved: dict[NodeName, MovedWatts | None] = {}
        self._changed: set[NodeName] = set()

    def __len__(self) -> int:
        """Return the number of pods in it."""
        return len(self._placed)

    def node_of(self, key: str) -> NodeName | None:
        """Return where a pod is in the shadow; None for one that is not in it."""
        placed = self._placed.get(key)
        return placed.node if placed is not None else None

    def pod(self, key: str) -> ShadowPod | None:
        """Return a pod as it was placed; None for one that is not in the shadow."""
        placed = self._placed.get(key)
        return placed.pod if placed is not None else None

    def set_node(self, node: ShadowNode) -> None:
        """Add a node, or take what has changed of it; its pods stay."""
        room = self._rooms.get(node.name)
        if room is None:
            self._rooms[node.name] = ShadowRoom(node)
            self._order = None
        elif room.node != node:
            self._order = None if room.node.zone != node.zone else self._order
            room.node = node
        else:
            return
        self._changed.add(node.name)

    def remove_node(self, name: NodeName) -> list[tuple[str, ShadowPod]]:
        """Remove a node; return the pods that were there, really or in the shadow, which are in it no longer."""
        if self._rooms.pop(name, None) is None:
            return []
        self._order = None
        self._moved.pop(name, None)
        self._changed.discard(name)
        gone = [(key, placed.pod) for key, placed in self._placed.items() if name in (placed.node, placed.pod.node)]
        for key, _ in gone:
            self.remove(key)
        return gone

    def place(self, key: str, pod: ShadowPod) -> None:
        """Place a pod that has started; one that is in the shadow already is placed anew."""
        self.remove(key)
        real = self._rooms.get(pod.node)
        if real is None:
            # It is on a node that is not managed: nothing is compared.
            return
        room = real
        if not pod.fixed and real.node.open:
            room = self._best(pod, real) or real
        placed = self._placed[key] = _Placed(pod, room.node.name, _work_factor(pod, real.node, room.node))
        room.hold(pod, placed.factor, 1)
        self._really(pod, 1)
        self._changed.add(room.node.name)

    def remove(self, key: str) -> None:
        """Remove a pod that has ended."""
        placed = self._placed.pop(key, None)
        if placed is None:
            return
        room = self._rooms.get(placed.node)
        if room is not None:
            room.hold(placed.pod, placed.factor, -1)
            self._changed.add(placed.node)
        self._really(placed.pod, -1)

    def moved(self) -> Iterator[MovedWatts]:
        """Yield the difference of each node with a model; only nodes that have changed are computed again."""
        for name in self._changed:
            self._moved[name] = _moved_watts(self._rooms[name])
        self._changed.clear()
        return (each for each in self._moved.values() if each is not None)

    def unknown_share(self) -> float:
        """Return the share of the threads in use that are on nodes without a model."""
        cores = unknown = 0.0
        for room in self._rooms.values():
            cores += room.real_cores
            unknown += room.real_cores if room.node.model is None else 0.0
        return unknown / cores if unknown else 0.0

    def check(self) -> None:
        """Assert that sums are those of the pods."""
        for name, room in self._rooms.items():
            here = [placed.pod for placed in self._placed.values() if placed.node == name]
            assert room.pods == len(here)
            assert isclose(room.cpu, sum(pod.cpu_milli for pod in here), abs_tol=1e-3)
            really = [placed.pod for placed in self._placed.values() if placed.pod.node == name]
            assert room.real_pods == len(really)
            assert isclose(room.real_cores, sum(pod.cpu_milli for pod in really) / 1000.0, abs_tol=1e-6)

    def _really(self, pod: ShadowPod, sign: int) -> None:
        room = self._rooms.get(pod.node)
        if room is not None:
            room.hold_really(pod, sign)
            self._changed.add(pod.node)

    def _best(self, pod: ShadowPod, real: ShadowRoom) -> ShadowRoom | None:
        """Return a node with the highest score of those that kube-scheduler would find; None without room."""
        best: list[ShadowRoom] = []
        most = -1.0
        for room in self._found(pod, real.node.gpu_kind):
            score = room.score(pod)
            if score > most:
                best, most = [room], score
            elif score == most:
                best.append(room)
        return self._random.choice(best) if best else None

    def _found(self, pod: ShadowPod, gpu_kind: str) -> list[ShadowRoom]:
        order = self._ordered()
        enough = min(MOST_CANDIDATES, nodes_to_find(len(order), 0))
        found: list[ShadowRoom] = []
        looks = min(len(order), MOST_LOOKS)
        for step in range(looks):
            room = self._rooms[order[(self._start + step) % len(order)]]
            if room.has_room(pod) and (not pod.gpus or room.node.gpu_kind == gpu_kind):
                found.append(room)
                if len(found) >= enough:
                    self._start = (self._start + step + 1) % len(order)
                    return found
        self._start = (self._start + looks) % len(order)
        return found

    def _ordered(self) -> list[NodeName]:
        if self._order is None:
            names = list(self._rooms)
            zones = [self._rooms[name].node.zone for name in names]
            self._order = [names[index] for index in zone_order(zones)]
        return self._order


def _work_factor(pod: ShadowPod, real: ShadowNode, shadow: ShadowNode) -> float:
    """Return what a pod's load counts as in the shadow: 2 on a model with half of the work per second."""
    if real.model is None or shadow.model is None:
        return 1.0
    pairs = (real.model.work_per_thread, shadow.model.work_per_thread)
    if pod.gpus:
        pairs = (real.model.work_per_gpu, shadow.model.work_per_gpu)
    return pairs[0] / pairs[1] if pairs[0] and pairs[1] else 1.0


def _moved_watts(room: ShadowRoom) -> MovedWatts | None:
    model = room.node.model
    if model is None:
        return None
    watts = model.watts(HeldLoad(room.cores, room.gpus))
    plain = model.watts(HeldLoad(room.plain_cores, room.plain_gpus))
    real = model.watts(HeldLoad(room.real_cores, room.real_gpus))
    return MovedWatts(model, watts - real, watts - plain)


def total_by_family(moved: Iterable[MovedWatts]) -> dict[tuple[str, float], float]:
    """Return the sums of watts by family and error of the model."""
    sums: dict[tuple[str, float], float] = {}
    for each in moved:
        key = (each.model.family, each.model.error)
        sums[key] = sums.get(key, 0.0) + each.watts
    return sums
