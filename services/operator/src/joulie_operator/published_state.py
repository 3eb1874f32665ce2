"""Published state of each node: as the watches last reported it, and as this process wrote it since.

This is the only memory of writes. A value is published when it was seen; it is awaited for `ECHO_GRACE_S` after its
write, as a watch lags behind; otherwise it differs and has to be written. A value whose write is under way or has
failed differs too: the value on the API server is unknown.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, Final

from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES, Resource
from joulie_core.kinds.node_twin import NodeTwinStatus
from joulie_core.names import NodeName
from joulie_core.timestamps import age_seconds
from joulie_operator.published import PublishedCondition, PublishedTarget, PublishedTwin

#: How long a written value is awaited before what is seen counts as a change by others.
ECHO_GRACE_S: Final = 5.0


class PublishedPart(StrEnum):
    """Part of what is written of a node, each by its own request."""

    LABELS = "labels"
    TARGET = "target"
    CONDITIONS = "conditions"
    TWIN = "twin"
    TWIN_STATUS = "twin-status"

    # Of the string: an enumeration's own is written in Python, and every comparison needs it.
    __hash__ = str.__hash__


_RESOURCES: Final[Mapping[PublishedPart, Resource]] = {
    PublishedPart.LABELS: NODES,
    PublishedPart.TARGET: NODE_POWER_PROFILES,
    PublishedPart.CONDITIONS: NODE_POWER_PROFILES,
    PublishedPart.TWIN: NODE_TWINS,
    PublishedPart.TWIN_STATUS: NODE_TWINS,
}


class Comparison(Enum):
    """Result of comparing the published value of a part with the desired one."""

    PUBLISHED = auto()
    #: Written, and not seen yet.
    AWAITED = auto()
    DIFFERENT = auto()


@dataclass(frozen=True, slots=True)
class LastTwin:
    """The last status of a node's twin."""

    age_s: float
    schedulable_class: str
    #: None for one that another process wrote: its numbers are not kept.
    status: NodeTwinStatus | None = None


#: No value, where None is one.
_NONE: Final = object()
#: A value that nothing equals.
_UNKNOWN: Final = object()


@dataclass(slots=True)
class _Entry:
    """The last write of one part."""

    value: Any = _NONE
    written_at: float = 0.0
    #: The value of a write that is under way, or that failed and may have been made.
    attempt: Any = _NONE


class PublishedState:
    """The published objects of all nodes.

    `targets` and `twins` are live views of what the watches report; `clock` is monotonic and `wall` wall-clock time.
    """

    def __init__(
        self,
        targets: Mapping[str, PublishedTarget],
        twins: Mapping[str, PublishedTwin],
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._targets = targets
        self._twins = twins
        self._clock = clock
        self._wall = wall
        self._entries: dict[tuple[PublishedPart, NodeName], _Entry] = {}

    def target(self, name: NodeName) -> PublishedTarget | None:
        """Return the target as last seen."""
        return self._targets.get(name)

    def twin(self, name: NodeName) -> PublishedTwin | None:
        """Return the twin as last seen."""
        return self._twins.get(name)

    def names(self) -> set[NodeName]:
        """Return the names of all targets and twins that were seen."""
        return {NodeName(name) for name in self._targets.keys() | self._twins.keys()}

    def conditions(self, name: NodeName) -> tuple[PublishedCondition, ...]:
        """Return the conditions of the target, as last written or, before the first write, as last seen."""
        entry = self._entries.get((PublishedPart.CONDITIONS, name))
        if entry is not None and entry.value is not _NONE:
            written: tuple[PublishedCondition, ...] = entry.value
            return written
        target = self._targets.get(name)
        return target.conditions if target is not None else ()

    def last_twin(self, name: NodeName) -> LastTwin | None:
        """Return the last status of the twin; None where there is none, or where its last write failed."""
        entry = self._entries.get((PublishedPart.TWIN_STATUS, name))
        if entry is not None:
            if entry.attempt is not _NONE:
                return None
            status: NodeTwinStatus = entry.value
            return LastTwin(self._clock() - entry.written_at, status.schedulable_class, status)
        seen = self._twins.get(name)
        if seen is None:
            return None
        return LastTwin(age_seconds(seen.last_updated, self._wall()), seen.schedulable_class)

    def compare(self, part: PublishedPart, name: NodeName, desired: object, seen: object) -> Comparison:
        """Compare the desired value of a part with what was seen of it and with what was written."""
        entry = self._entries.get((part, name))
        if entry is None:
            return Comparison.PUBLISHED if seen == desired else Comparison.DIFFERENT
        if entry.attempt is not _NONE or entry.value != desired:
            return Comparison.DIFFERENT
        if seen == desired:
            return Comparison.PUBLISHED
        return Comparison.AWAITED if self._clock() - entry.written_at < ECHO_GRACE_S else Comparison.DIFFERENT

    def is_expected(self, part: PublishedPart, name: NodeName, seen: object) -> bool:
        """Return whether what was seen is what this process wrote last, or is writing."""
        entry = self._entries.get((part, name))
        if entry is None:
            return False
        return bool(seen == (entry.value if entry.attempt is _NONE else entry.attempt))

    def is_own(self, res: Resource, name: NodeName) -> bool:
        """Return whether this operator or one before it wrote an object: those name their Node as the owner."""
        if any((part, name) in self._entries for part, of in _RESOURCES.items() if of is res):
            return True
        seen = self._targets.get(name) if res is NODE_POWER_PROFILES else self._twins.get(name)
        return res is not NODES and seen is not None and seen.owner_uid != ""

    @contextmanager
    def writing(self, part: PublishedPart, name: NodeName, value: object, *, before: object = _NONE) -> Iterator[None]:
        """Remember a value as written if the body of the `with` statement, which writes it, succeeds.

        Until then `before` counts as the last value, where this process has written none.
        """
        entry = self._entries.setdefault((part, name), _Entry(before))
        entry.attempt = value
        yield
        # Again, since a deletion that was reported meanwhile may be older than this write.
        self._entries[part, name] = _Entry(value, self._clock())

    def mark_unknown(self, res: Resource, name: NodeName) -> None:
        """Have every part of an object written again: the API server has contradicted what is known of it."""
        for part, of in _RESOURCES.items():
            if of is res:
                self._entries.setdefault((part, name), _Entry()).attempt = _UNKNOWN

    def forget(self, res: Resource, name: NodeName) -> None:
        """Drop what was written of an object that was deleted."""
        for part, of in _RESOURCES.items():
            if of is res:
                self._entries.pop((part, name), None)
