"""Where pods have room: resources, node selectors, required node affinity, taints and tolerations.

Pods that are alike are placed together, and nodes are looked up by what a pod asks for, so that thousands of both take
tenths of a second. The number of looks at a node is bounded; what is beyond it has no room here.

Rules between pods (`neighbours`) are asked for each node, where a pod has any. What else is not simulated is said by
`SleepPod.uncertain`: such a pod may have no room where it has room here.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

from joulie_core.names import NodeName
from joulie_core.pod import NAME_FIELD, SelectorOperator
from joulie_core.sleep.model import NodeTaint, SleepNode, SleepPod

#: Effect of a taint that keeps no pod away.
_PREFER: Final = "PreferNoSchedule"
#: Looks at a node by one `Rooms`: 0.1 to 0.2 s on one core.
MAX_LOOKS: Final = 100_000
#: Stands for the name of a node where it is looked up like a label; no label has such a key.
_NODE_NAME: Final = "\0name"
#: A share of an amount by which sums of requests may differ from what a node has, since they are rounded.
_ROUNDING: Final = 1e-9


class NodeAdmission(Protocol):
    """On which nodes a pod may run."""

    def admits(self, node: SleepNode) -> bool:
        """Return whether the pod may run on a node."""


class PlacementRules(NodeAdmission, Protocol):
    """Where a pod may run beside others; `neighbours.Rules`."""

    def add(self, node: SleepNode) -> None:
        """Note that the pod was placed on a node."""


class PodGroup:
    """Pods that are alike; `count` of them have no room yet."""

    __slots__ = ("count", "pod")

    def __init__(self, pod: SleepPod, count: int) -> None:
        self.pod = pod
        self.count = count


def grouped(pods: Iterable[SleepPod]) -> list[PodGroup]:
    """Return groups of pods that are alike, in the order of their first ones."""
    pods = list(pods)
    first: dict[object, SleepPod] = {}
    counts = Counter[object]()
    for pod in pods:
        key = _likeness(pod)
        first.setdefault(key, pod)
        counts[key] += 1
    return [PodGroup(first[key], count) for key, count in counts.items()]


def _likeness(pod: SleepPod) -> object:
    requests, selector = tuple(sorted(pod.requests.items())), tuple(sorted(pod.node_selector.items()))
    alone = requests, selector, pod.required_terms, pod.tolerations, pod.uncertain, pod.overdue
    if not pod.namespace:
        return alone
    return *alone, pod.namespace, tuple(sorted(pod.labels.items())), pod.affinity, pod.anti_affinity, pod.spreads


class NodeRoom:
    """Room left on a node while pods are placed on it."""

    __slots__ = ("free", "node", "used")

    def __init__(self, node: SleepNode) -> None:
        self.node = node
        self.free = dict(node.free)
        #: Whether a pod was placed.
        self.used = False

    def capacity(self, pod: SleepPod, most: int) -> int:
        """Return how many of `most` pods that are alike there is room for."""
        for resource, amount in pod.requests.items():
            if amount > 0.0:
                most = min(most, int(self.free.get(resource, 0.0) / amount * (1.0 + _ROUNDING)))
                if most <= 0:
                    return 0
        return most if admits(self.node, pod) else 0

    def take(self, pod: SleepPod, most: int = 1) -> int:
        """Place as many of `most` pods that are alike as there is room for; return how many."""
        taken = self.capacity(pod, most)
        if taken:
            self._add(pod, -taken)
            self.used = True
        return taken

    def remove(self, pod: SleepPod, count: int) -> None:
        """Undo the placement of pods."""
        self._add(pod, count)

    def _add(self, pod: SleepPod, count: int) -> None:
        for resource, amount in pod.requests.items():
            self.free[resource] = self.free.get(resource, 0.0) + count * amount


class Rooms:
    """Nodes, found by what a pod asks for; `looks` are left before no pod has room any more."""

    def __init__(self, nodes: Iterable[SleepNode], *, looks: int = MAX_LOOKS) -> None:
        self.all = [NodeRoom(node) for node in nodes]
        self.received: set[NodeName] = set()
        self._looks = looks
        #: By resource, in ascending order: what was free at the beginning, and the positions of the nodes.
        self._by_resource: dict[str, tuple[list[float], list[int]]] = {}
        #: By label key and value: the positions of the nodes.
        self._by_label: dict[str, dict[str, list[int]]] = {}

    def place(
        self, group: PodGroup, *, without: Collection[NodeName] = (), rules: PlacementRules | None = None
    ) -> list[tuple[NodeRoom, int]]:
        """Place pods of a group, and lower its count; return where they are. Nodes of `without` are left out."""
        if rules is not None:
            return self._place_singly(group, rules)
        placed = []
        for at in self.positions(group.pod):
            if not group.count or not self._look():
                break
            room = self.all[at]
            if room.node.name in without:
                continue
            taken = room.take(group.pod, group.count)
            if taken:
                group.count -= taken
                placed.append((room, taken))
        return placed

    def _place_singly(self, group: PodGroup, rules: PlacementRules) -> list[tuple[NodeRoom, int]]:
        """Place pods one by one, since each may change where the next one has room."""
        placed: list[tuple[NodeRoom, int]] = []
        before = -1
        while group.count and len(placed) != before:
            before = len(placed)
            for at in self.positions(group.pod):
                if not group.count or not self._look():
                    break
                room = self.all[at]
                if rules.admits(room.node) and room.take(group.pod):
                    rules.add(room.node)
                    group.count -= 1
                    placed.append((room, 1))
        return placed

    def place_all(self, pods: Iterable[SleepPod], *, without: Collection[NodeName] = ()) -> bool:
        """Place all of the pods, or none; return whether there is room. `received` has the nodes where they are."""
        placed: list[tuple[SleepPod, NodeRoom, int]] = []
        for group in grouped(pods):
            placed += [(group.pod, *each) for each in self.place(group, without=without)]
            if group.count:
                for pod, room, taken in placed:
                    room.remove(pod, taken)
                return False
        self.received |= {room.node.name for _, room, _ in placed}
        return True

    def fitting(self, pod: SleepPod, most: int, rules: NodeAdmission | None = None) -> list[int]:
        """Return the positions of the first nodes that have room for a pod, at most `most`."""
        found: list[int] = []
        for at in sorted(self.positions(pod)):
            if len(found) >= most or not self._look():
                break
            room = self.all[at]
            if room.capacity(pod, 1) and (rules is None or rules.admits(room.node)):
                found.append(at)
        return found

    def positions(self, pod: SleepPod) -> Sequence[int]:
        """Return the positions of nodes among which all are that have room, the fullest first where that is known."""
        best: Sequence[int] = range(len(self.all))
        for resource, amount in pod.requests.items():
            if amount > 0.0:
                amounts, ordered = self._resource(resource)
                begin = bisect_left(amounts, amount * (1.0 - _ROUNDING))
                if len(ordered) - begin < len(best):
                    best = ordered[begin:]
        for key, values in _equalities(pod):
            labelled = self._label(key)
            if sum(len(labelled.get(value, ())) for value in values) < len(best):
                best = [at for value in values for at in labelled.get(value, ())]
        return best

    def _look(self) -> bool:
        self._looks -= 1
        return self._looks >= 0

    def _resource(self, resource: str) -> tuple[list[float], list[int]]:
        found = self._by_resource.get(resource)
        if found is None:
            # Nothing is added to a node later, so that none is missing below; placed pods may leave too many.
            free = [room.node.free.get(resource, 0.0) for room in self.all]
            ordered = sorted(range(len(free)), key=free.__getitem__)
            found = self._by_resource[resource] = [free[at] for at in ordered], ordered
        return found

    def _label(self, key: str) -> dict[str, list[int]]:
        found = self._by_label.get(key)
        if found is None:
            found = self._by_label[key] = {}
            for at, room in enumerate(self.all):
                value = label_of(room.node, key)
                if value is not None:
                    found.setdefault(value, []).append(at)
        return found


def _equalities(pod: SleepPod) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield label keys with the values of which a node must have one."""
    for key, value in pod.node_selector.items():
        yield key, (value,)
    if pod.required_terms is not None and len(pod.required_terms) == 1:
        term = pod.required_terms[0]
        for each in term.expressions:
            if each.operator is SelectorOperator.IN:
                yield each.key, tuple(dict.fromkeys(each.values))
        for each in term.fields:
            if each.key == NAME_FIELD and each.operator is SelectorOperator.IN:
                yield _NODE_NAME, tuple(dict.fromkeys(each.values))


def admits(node: SleepNode, pod: SleepPod) -> bool:
    """Return whether a node's name, labels and taints admit a pod."""
    return selects(node, pod) and tolerates(node, pod)


def selects(node: SleepNode, pod: SleepPod) -> bool:
    """Return whether a pod's node selector and required node affinity select a node."""
    if pod.node_selector and any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.required_terms is None or any(term.holds(node.name, node.labels) for term in pod.required_terms)


def tolerates(node: SleepNode, pod: SleepPod) -> bool:
    """Return whether a pod tolerates the taints of a node."""
    return not node.taints or all(_tolerated(taint, pod) for taint in node.taints)


def label_of(node: SleepNode, key: str) -> str | None:
    """Return what a node has for one of the `label_keys`."""
    return node.name if key == _NODE_NAME else node.labels.get(key)


def label_keys(pods: Iterable[SleepPod]) -> frozenset[str]:
    """Return the keys of what decides whether a node admits one of the pods: of labels, and one for its name."""
    keys: set[str] = set()
    for pod in pods:
        keys.update(pod.node_selector)
        for term in pod.required_terms or ():
            keys.update(each.key for each in term.expressions)
            if term.fields:
                keys.add(_NODE_NAME)
    return frozenset(keys)


def _tolerated(taint: NodeTaint, pod: SleepPod) -> bool:
    return taint.effect == _PREFER or any(toleration.tolerates(taint) for toleration in pod.tolerations)
