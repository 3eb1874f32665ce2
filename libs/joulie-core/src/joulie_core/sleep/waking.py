"""Which sleeping nodes to wake for pods that have no room.

Nodes that are alike are compared once. Guarantees that no more nodes boot than are permitted, in all and in a rack, and
that a node is chosen only if it takes a pod; it does not guarantee the fewest nodes: each choice is the node that takes
most pods now.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from joulie_core.sleep.bounds import BootRoom
from joulie_core.sleep.fit import NodeRoom, PodGroup, Rooms, label_keys
from joulie_core.sleep.model import SleepNode

#: Groups of pods that one decision is about. More take turns, so that pods that fit nowhere delay no others for long.
MAX_GROUPS: Final = 256
#: Kinds of nodes that are compared for one group of pods.
_MAX_KINDS: Final = 16
#: Nodes that one decision chooses; the next one chooses more. It bounds the time that a decision takes.
MAX_CHOSEN: Final = 32

#: Order of waking: whether its BMC is silent, whether it has to boot, watts, sleeps, name.
WakeOrder = tuple[bool, bool, float, int, str]


class WakeCandidate:
    """A node that can be woken; `order` says which of two is woken first."""

    __slots__ = ("node", "order")

    def __init__(self, node: SleepNode, order: WakeOrder) -> None:
        self.node = node
        self.order = order

    @property
    def silent(self) -> bool:
        """Its BMC does not answer."""
        return self.order[0]

    @property
    def boots(self) -> bool:
        """It is off."""
        return self.order[1]


def choose(
    groups: Sequence[PodGroup], candidates: Iterable[WakeCandidate], *, boots: BootRoom, turn: int
) -> list[SleepNode]:
    """Return the nodes to wake, in the order in which they were chosen.

    Args:
        groups: the pods that wait, in their order; their counts are lowered by those that the nodes take.
        candidates: the nodes.
        boots: nodes that may be switched on now; counts those that are chosen.
        turn: rises from call to call; where there are too many groups, it says which come first.
    """
    kinds = _kinds(groups, candidates)
    if not kinds:
        return []
    rooms = Rooms(kind[0].node for kind in kinds)
    window: list[PodGroup] = []
    takers: defaultdict[int, list[PodGroup]] = defaultdict(list)
    for group in _from_turn(groups, turn):
        fitting = rooms.fitting(group.pod, _MAX_KINDS)
        if fitting:
            window.append(group)
            for at in fitting:
                takers[at].append(group)
        if len(window) == MAX_GROUPS:
            break
    chosen: list[SleepNode] = []
    while len(chosen) < MAX_CHOSEN:
        permitted = [at for at in takers if _has_permitted(kinds[at], boots)]
        best = _best(permitted, kinds, takers)
        if best is None:
            break
        candidate = kinds[best].popleft()
        if candidate.boots:
            boots.take(candidate.node)
        _fill(NodeRoom(candidate.node), window)
        chosen.append(candidate.node)
    return chosen


def _has_permitted(kind: deque[WakeCandidate], boots: BootRoom) -> bool:
    """Return whether a node of a kind may be woken; drop those in front of it that may not boot now."""
    while kind and kind[0].boots and not boots.permits(kind[0].node):
        kind.popleft()
    return bool(kind)


def _kinds(groups: Sequence[PodGroup], candidates: Iterable[WakeCandidate]) -> list[deque[WakeCandidate]]:
    """Return nodes that no pod of the groups tells apart, those that are woken first in front."""
    keys = sorted(label_keys(group.pod for group in groups))
    kinds: dict[object, deque[WakeCandidate]] = {}
    for each in sorted(candidates, key=lambda each: each.order):
        node = each.node
        labels = tuple(node.labels.get(key) for key in keys)
        kind = labels, node.taints, tuple(sorted(node.free.items())), each.order[:3]
        kinds.setdefault(kind, deque()).append(each)
    return list(kinds.values())


def _from_turn(groups: Sequence[PodGroup], turn: int) -> Sequence[PodGroup]:
    if len(groups) <= MAX_GROUPS:
        return groups
    start = turn * MAX_GROUPS % len(groups)
    return [*groups[start:], *groups[:start]]


def _best(
    permitted: Iterable[int], kinds: Sequence[deque[WakeCandidate]], takers: Mapping[int, Sequence[PodGroup]]
) -> int | None:
    """Return the kind of node that takes most pods; one whose BMC is silent only where no other takes any."""
    best, best_key = None, None
    for at in permitted:
        first = kinds[at][0]
        room = NodeRoom(first.node)
        taken = sum(room.take(group.pod, group.count) for group in takers[at] if group.count)
        if taken:
            key = (first.silent, -taken, first.order)
            if best_key is None or key < best_key:
                best, best_key = at, key
    return best


def _fill(room: NodeRoom, groups: Iterable[PodGroup]) -> None:
    for group in groups:
        if group.count:
            group.count -= room.take(group.pod, group.count)
