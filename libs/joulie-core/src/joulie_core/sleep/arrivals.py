"""Spare nodes that were used at a time of day: how many nodes came into use within the time that one takes to boot.

Guarantees bounded memory, and that a time of day which was not seen is unknown.
See docs/decisions/0055-spares-by-arrivals.md.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_core.kinds.node_sleep_policy import SleepSettings
from joulie_core.names import NodeName
from joulie_core.sleep.model import OTHERS, SleepNode, SleepReason, SleepRecord, spare_key
from joulie_core.sleep_state import SleepState

#: Parts of a day (UTC) that are counted apart.
_SLOT_S: Final = 900.0
_DAY_S: Final = 86_400.0
_SLOTS: Final = int(_DAY_S / _SLOT_S)
#: More nodes than that within a boot are counted as unknown.
MOST_USED: Final = 16
#: Kinds of nodes that are counted.
MOST_KINDS: Final = 64
#: Two looks that are further apart say nothing about the time between them; of nearer ones the larger number counts.
_LONGEST_GAP_S: Final = 180.0
_SHORTEST_GAP_S: Final = 30.0
#: Longest boot that is looked ahead.
_LONGEST_BOOT_S: Final = 3_600.0
#: What came up to so much earlier or later is expected, too.
_AROUND_S: Final = 900.0
#: Share of the time in which so many spare nodes have sufficed.
_SUFFICED: Final = 0.95
#: Weight of what was seen a day ago, so that about ten days are remembered.
_KEPT_OF_A_DAY: Final = 0.9
#: Part of a slot that has to be seen.
_SEEN: Final = 0.5


@dataclass(slots=True)
class _Slot:
    """Seconds in which each number of nodes came into use within a boot, at one time of day."""

    seconds: list[float] = field(default_factory=lambda: [0.0] * (MOST_USED + 1))
    day: int = 0

    def counted(self, day: int) -> list[float]:
        """Return these seconds as they count on a day."""
        kept = _KEPT_OF_A_DAY ** max(0, day - self.day)
        return [kept * seconds for seconds in self.seconds]

    def add(self, day: int, number: int, seconds: float) -> None:
        """Count a time of a day."""
        self.seconds, self.day = self.counted(day), max(day, self.day)
        self.seconds[min(number, MOST_USED)] += seconds


@dataclass(slots=True)
class _Uses:
    """Nodes of one kind that come into use."""

    slots: list[_Slot] = field(default_factory=lambda: [_Slot() for _ in range(_SLOTS)])
    #: Times, and nodes in use, of the last boot's length.
    looks: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, now_s: float, in_use: int, boot_s: float) -> None:
        """Take the number of nodes in use."""
        looks = self.looks
        if looks and not 0.0 <= now_s - looks[-1][0] <= _LONGEST_GAP_S:
            looks.clear()
        if len(looks) > 1 and now_s - looks[-2][0] < _SHORTEST_GAP_S:
            looks[-1] = looks[-1][0], max(looks[-1][1], in_use)
        else:
            looks.append((now_s, in_use))
        while len(looks) > 1 and now_s - looks[0][0] >= boot_s:
            most = max(number for _, number in looks)
            at_s, number = looks.popleft()
            day, slot = divmod(int(at_s / _SLOT_S), _SLOTS)
            self.slots[slot].add(day, most - number, looks[0][0] - at_s)

    def expected(self, now_s: float, boot_s: float) -> int | None:
        """Return how many spare nodes suffice; None: unknown."""
        first, now, last = (int(at_s / _SLOT_S) for at_s in (now_s - _AROUND_S, now_s, now_s + boot_s + _AROUND_S))
        around = [self._counted(number) for number in range(first, last + 1)]
        # The last of them was not seen today: a day that has just begun to be seen tells nothing.
        if any(sum(counted) < _SEEN * _SLOT_S * _KEPT_OF_A_DAY for counted in around[now - first :]):
            return None
        seconds = [sum(column) for column in zip(*around, strict=True)]
        left_s = (1.0 - _SUFFICED) * sum(seconds)
        for number in range(MOST_USED, 0, -1):
            left_s -= seconds[number]
            if left_s < 0.0:
                return number if number < MOST_USED else None
        return 0

    def _counted(self, number: int) -> list[float]:
        """Return what counts of a slot, by its number since the epoch."""
        day, slot = divmod(number, _SLOTS)
        return self.slots[slot].counted(day)


@dataclass(slots=True)
class _Seen:
    """Nodes of one kind at one moment."""

    in_use: int = 0
    boot_s: float = 0.0
    unknown: bool = False


class ArrivalHistory:
    """History of the nodes of a policy that came into use, in memory. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._uses: dict[Hashable, _Uses] = {}
        self._boot_s: dict[Hashable, float] = {}

    def look(
        self,
        nodes: Iterable[SleepNode],
        records: Mapping[NodeName, SleepRecord],
        now_s: float,
        settings: SleepSettings,
    ) -> None:
        """Take the nodes as they are now; kinds of which there is no node any more are forgotten."""
        kinds: dict[Hashable, _Seen] = {}
        for node in nodes:
            if node.group == OTHERS:
                continue
            seen = kinds.setdefault(spare_key(node, settings), _Seen())
            record = records.get(node.name)
            seen.in_use += node.has_pods or (record is not None and _boots_for_pods(record))
            seen.boot_s = max(seen.boot_s, min(node.boot_s(settings.boot_timeout_seconds), _LONGEST_BOOT_S))
            seen.unknown |= node.protected_pods is None
        self._uses = {kind: uses for kind, uses in self._uses.items() if kind in kinds}
        self._boot_s = {kind: seen.boot_s for kind, seen in kinds.items()}
        for kind, seen in kinds.items():
            if not seen.unknown and (kind in self._uses or len(self._uses) < MOST_KINDS):
                self._uses.setdefault(kind, _Uses()).look(now_s, seen.in_use, seen.boot_s)

    def expected(self, now_s: float) -> dict[Hashable, int]:
        """Return how many spare nodes of each kind suffice now; a kind of which that is unknown is left out."""
        found = {kind: uses.expected(now_s, self._boot_s[kind]) for kind, uses in self._uses.items()}
        return {kind: number for kind, number in found.items() if number is not None}


def _boots_for_pods(record: SleepRecord) -> bool:
    return record.state is SleepState.WAKING and record.reason is SleepReason.PENDING_PODS
