"""Chooses sleeping nodes to wake for pods that have no room.

Nodes that are alike are compared once. Guarantees that no more nodes boot than are permitted, in all and in a rack, and
that a node is chosen only if it takes a pod; it does not guarantee the fewest nodes: each choice is the node that takes
most pods now.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_core.names import NodeName
from joulie_core.sleep.bounds import BootRoom
from joulie_core.sleep.fit import NodeRoom, PlacementRules, PodGroup, Rooms, label_keys, label_of
from joulie_core.sleep.model import SleepNode
from joulie_core.sleep.neighbours import Neighbours

#: Groups of pods that one decision is about. More take turns, so that pods that fit nowhere delay no others for long.
MAX_GROUPS: Final = 256
#: Kinds of nodes that are compared for one group of pods.
_MAX_KINDS: Final = 16
#: Looks at a node for pods with rules, about 0.1 s.
_MAX_LOOKS_SINGLY: Final = 30_000
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


@dataclass(frozen=True, slots=True)
class RuledGroup:
    """Pods that are placed one by one: by rules about the pods beside them, or without any."""

    group: PodGroup
    rules: PlacementRules | None


def choose_both(
    ruled: Sequence[RuledGroup],
    groups: Sequence[PodGroup],
    candidates: Sequence[WakeCandidate],
    around: Neighbours,
    *,
    boots: BootRoom,
    turn: int,
) -> list[SleepNode]:
    """Return the nodes to wake for pods with and without rules; as `choose`.

    Args:
        ruled: pods with rules; what they leave of a node is for the others.
        groups: pods without rules.
        candidates: the nodes.
        around: the pods on all nodes; those that are placed are added.
        boots: as of `choose`.
        turn: as of `choose`.
    """
    rooms = _wake_singly(ruled, candidates, around, boots) if ruled else []
    for room in rooms:
        _fill(room, groups)
    names = {room.node.name for room in rooms}
    left = [each for each in candidates if each.node.name not in names]
    return [*(room.node for room in rooms), *choose(groups, left, boots=boots, turn=turn)]


@dataclass(frozen=True, slots=True)
class _Permitted:
    """Rules for pods on nodes that may be woken now."""

    rules: PlacementRules | None
    boots: BootRoom
    #: Nodes that have to boot.
    off: frozenset[NodeName]

    def admits(self, node: SleepNode) -> bool:
        may_wake = node.name not in self.off or self.boots.permits(node)
        return may_wake and (self.rules is None or self.rules.admits(node))


def _wake_singly(
    ruled: Iterable[RuledGroup], candidates: Iterable[WakeCandidate], around: Neighbours, boots: BootRoom
) -> list[NodeRoom]:
    """Return the nodes to wake for pods with rules, filled with them: for each the first in the order of waking."""
    ordered = sorted(candidates, key=lambda each: each.order)
    off = frozenset(each.node.name for each in ordered if each.boots)
    rooms = Rooms((each.node for each in ordered), looks=_MAX_LOOKS_SINGLY)
    chosen: list[NodeRoom] = []
    for each in ruled:
        group, permitted = each.group, _Permitted(each.rules, boots, off)
        while group.count:
            room = next((room for room in chosen if _has_room(room, each)), None)
            if room is None:
                found = rooms.fitting(group.pod, 1, permitted)
                if not found or len(chosen) == MAX_CHOSEN:
                    break
                room = rooms.all[found[0]]
                chosen.append(room)
                around.open(room.node)
                if room.node.name in off:
                    boots.take(room.node)
            room.take(group.pod)
            group.count -= 1
            around.add(group.pod, room.node)
    return chosen


def _has_room(room: NodeRoom, each: RuledGroup) -> bool:
    return room.capacity(each.group.pod, 1) > 0 and (each.rules is None or each.rules.admits(room.node))


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
    for group in in_turn(groups, MAX_GROUPS, turn):
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
        labels = tuple(label_of(node, key) for key in keys)
        kind = labels, node.taints, tuple(sorted(node.free.items())), each.order[:3]
        kinds.setdefault(kind, deque()).append(each)
    return list(kinds.values())


def in_turn(groups: Sequence[PodGroup], most: int, turn: int) -> Sequence[PodGroup]:
    """Return the groups; where they are more than `most`, others come first from turn to turn."""
    if len(groups) <= most:
        return groups
    start = turn * most % len(groups)
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
