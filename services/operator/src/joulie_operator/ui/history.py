"""The latest transitions of nodes and refusals by their hardware, from changes of their targets.

A standby sees the same changes as the leader, which writes them.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_operator.conditions import refusal
from joulie_operator.published import PublishedTarget
from joulie_operator.reasons import EventReason
from joulie_operator.ui.tiles import policy_reason

#: Entries that are kept.
CAPACITY: Final = 200

_PERFORMANCE, _DRAINING, _ECO = SchedulableClass.PERFORMANCE, SchedulableClass.DRAINING, SchedulableClass.ECO
_REASONS: Final[Mapping[tuple[SchedulableClass, SchedulableClass], EventReason]] = {
    (_PERFORMANCE, _DRAINING): EventReason.ECO_DEFERRED,
    (_PERFORMANCE, _ECO): EventReason.ECO_ALLOWED,
    (_DRAINING, _ECO): EventReason.ECO_UNBLOCKED,
    (_DRAINING, _PERFORMANCE): EventReason.PERFORMANCE_REPLANNED,
    (_ECO, _PERFORMANCE): EventReason.PERFORMANCE_PLANNED,
}


class HistoryEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One transition or refusal; sent as an array, in the order of the fields."""

    #: Counts up from 1 in each process.
    number: int
    #: When it was seen, seconds since the epoch.
    at: int
    node: str
    #: Schedulable classes before and after; both empty for a refusal.
    before: str
    after: str
    #: A reason of the operator's Events; empty for a transition that it never makes.
    reason: str
    message: str


class History:
    """The latest entries; `wall` is the time, seconds since the epoch."""

    def __init__(self, *, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._entries: deque[HistoryEntry] = deque(maxlen=CAPACITY)
        #: Number of the latest entry.
        self.latest = 0

    def on_target(self, key: str, old: PublishedTarget | None, new: PublishedTarget | None) -> None:
        """Take a change of a target."""
        if old is None or new is None:
            return
        before, after = _class_of(old.spec), _class_of(new.spec)
        if before is not None and after is not None and before is not after:
            self._add(key, before, after, _REASONS.get((before, after), ""), policy_reason(new))
        refused = refusal(old.conditions, new.conditions)
        if refused is not None:
            self._add(key, "", "", EventReason.CAPS_NOT_ENFORCED, f"{refused.reason}: {refused.message}")

    def since(self, number: int) -> list[HistoryEntry]:
        """Return the entries after that number, oldest first."""
        return [entry for entry in self._entries if entry.number > number]

    def _add(self, node: str, before: str, after: str, reason: str, message: str) -> None:
        self.latest += 1
        self._entries.append(HistoryEntry(self.latest, int(self._wall()), node, before, after, reason, message))


def _class_of(spec: NodePowerProfileSpec | None) -> SchedulableClass | None:
    if spec is None:
        return None
    if spec.draining:
        return _DRAINING
    return _PERFORMANCE if spec.profile is Profile.PERFORMANCE else _ECO
