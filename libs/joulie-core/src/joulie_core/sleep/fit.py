"""Where pods have room: resources, node selectors, required node affinity, taints and tolerations.

Pods that are alike are placed together, and nodes are looked up by what a pod asks for, so that thousands of both take
tenths of a second. The number of looks at a node is bounded; what is beyond it has no room here.

Pod affinity, spreading and volumes are not simulated: a pod that waits for one of them has room here.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from joulie_core.names import NodeName
from joulie_core.pod import SelectorOperator, Term
from joulie_core.sleep.model import NodeTaint, SleepNode, SleepPod

#: Effect of a taint that keeps no pod away.
_PREFER: Final = "PreferNoSchedule"
#: Looks at a node by one `Rooms`: 0.1 to 0.2 s on one core.
MAX_LOOKS: Final = 100_000
#: A share of an amount by which sums of requests may differ from what a node has, since they are rounded.
_ROUNDING: Final = 1e-9


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
    return requests, selector, pod.required_terms, pod.tolerations


class NodeRoom:
    """What is left of a node while pods are placed on it."""

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
        self._looks = looks
        #: By resource, in ascending order: what was free at the beginning, and the positions of the nodes.
        self._by_resource: dict[str, tuple[list[float], list[int]]] = {}
        #: By label key and value: the positions of the nodes.
        self._by_label: dict[str, dict[str, list[int]]] = {}

    def place(self, group: PodGroup, *, without: Collection[NodeName] = ()) -> list[tuple[NodeRoom, int]]:
        """Place pods of a group, and lower its count; return where they are. Nodes of `without` are left out."""
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

    def place_all(self, pods: Iterable[SleepPod], *, without: Collection[NodeName] = ()) -> bool:
        """Place all of the pods, or none; return whether there is room."""
        placed: list[tuple[SleepPod, NodeRoom, int]] = []
        for group in grouped(pods):
            placed += [(group.pod, *each) for each in self.place(group, without=without)]
            if group.count:
                for pod, room, taken in placed:
                    room.remove(pod, taken)
                return False
        return True

    def fitting(self, pod: SleepPod, most: int) -> list[int]:
        """Return the positions of the first nodes that have room for a pod, at most `most`."""
        found: list[int] = []
        for at in sorted(self.positions(pod)):
            if len(found) >= most or not self._look():
                break
            if self.all[at].capacity(pod, 1):
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
                value = room.node.labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(at)
        return found


def _equalities(pod: SleepPod) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield label keys with the values of which a node must have one."""
    for key, value in pod.node_selector.items():
        yield key, (value,)
    if pod.required_terms is not None and len(pod.required_terms) == 1:
        for each in pod.required_terms[0].expressions:
            if each.operator is SelectorOperator.IN:
                yield each.key, tuple(dict.fromkeys(each.values))


def admits(node: SleepNode, pod: SleepPod) -> bool:
    """Return whether a node's labels and taints admit a pod."""
    if pod.node_selector and any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    if pod.required_terms is not None and not any(_term_holds(term, node.labels) for term in pod.required_terms):
        return False
    return not node.taints or all(_tolerated(taint, pod) for taint in node.taints)


def label_keys(pods: Iterable[SleepPod]) -> frozenset[str]:
    """Return the keys of the labels that decide whether a node admits one of the pods."""
    keys: set[str] = set()
    for pod in pods:
        keys.update(pod.node_selector)
        for term in pod.required_terms or ():
            keys.update(each.key for each in term.expressions)
    return frozenset(keys)


def _tolerated(taint: NodeTaint, pod: SleepPod) -> bool:
    return taint.effect == _PREFER or any(toleration.tolerates(taint) for toleration in pod.tolerations)


def _term_holds(term: Term, labels: Mapping[str, str]) -> bool:
    # Kubernetes: a term without any expression or field matches no node. Fields name nodes; which is not known here.
    if not term.expressions and not term.has_fields:
        return False
    return all(each.holds(labels.get(each.key)) for each in term.expressions)
