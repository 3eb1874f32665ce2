"""The limits that follow from the events of a program.

No I/O. An event whose meaning is not certain is refused as a whole, by name; what was written for it before stays.
Source: OpenADR 3.1.0, User Guide 8.10.1, and `enumerations/event-interval-payloads.schema.yaml`.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from joulie_core.kinds.power_domain import MOST_DOMAIN_WATTS
from joulie_core.kinds.power_event import LOWEST_PRIORITY
from joulie_core.text import printable
from joulie_ven.reasons import EventRefused
from joulie_ven.times import FOREVER, Window, windows
from joulie_ven.wire import EVENT_DESCRIPTOR, Payload, PayloadDescriptor, VtnEvent, VtnInterval

#: PowerEvents that exist at one time: a week of half-hours, and what the subscribed capacity is cut into.
MOST_LIMITS: Final = 500
#: Scheduled limits that subscribed capacities are cut by, over all of them.
MOST_PARTS: Final = 10_000
_WATTS_PER_UNIT: Final[Mapping[str, int]] = {"KW": 1000, "W": 1}
_MOST_SHOWN: Final = 32
#: From the first to before the second, in seconds since the epoch.
_Span = tuple[float, float]


class LimitKind(StrEnum):
    """Payload type that limits a site."""

    CAPACITY_LIMIT = "IMPORT_CAPACITY_LIMIT"
    SUBSCRIPTION = "IMPORT_CAPACITY_SUBSCRIPTION"
    SIMPLE = "SIMPLE"


LIMIT_KINDS: Final = frozenset(kind.value for kind in LimitKind)


@dataclass(frozen=True, slots=True)
class LimitRules:
    """The part of the settings that gives payloads their meaning."""

    ven: str
    targets: frozenset[str]
    site_other_watts: int
    simple_limits: tuple[int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class DomainLimit:
    """A limit of the PowerDomain from `start_s` to before `end_s`, in seconds since the epoch."""

    event_id: str
    interval_id: int
    index: int
    """Position of the interval in its event."""
    kind: LimitKind
    start_s: float
    end_s: float
    watts: int
    priority: int
    seen_s: float
    """When this VEN first read the event."""


@dataclass(frozen=True, slots=True)
class LimitPlan:
    """Limits that follow from the events that were read."""

    limits: tuple[DomainLimit, ...]
    """Limits to write, those without end first; without those that have ended."""
    refused: Mapping[str, str]
    """Reason of a refusal, by the id of the event."""
    ignored: int
    """Events for other targets."""
    deferred: int
    """Limits beyond `MOST_LIMITS`: they are written when others have ended."""


def plan(
    events: Iterable[VtnEvent],
    rules: LimitRules,
    *,
    now_s: float,
    seen_s: Mapping[str, float],
    defaults: Iterable[PayloadDescriptor] = (),
    past: Iterable[DomainLimit] = (),
) -> LimitPlan:
    """Return the limits of all events.

    Args:
        events: as read.
        rules: the meaning of payloads.
        now_s: seconds since the epoch.
        seen_s: when each event was first read; now where it is not in it.
        defaults: the program's descriptors, for payload types that an event has none for.
        past: limits that have ended and that the VTN may not list any more.
    """
    found: list[DomainLimit] = []
    refused: dict[str, str] = {}
    # As it is written, so that the next poll finds the same times.
    first_s = math.floor(now_s)
    ignored = 0
    for event in events:
        if not _is_for(event, rules.targets):
            ignored += 1
            continue
        try:
            found += _limits(event, rules, seen_s.get(event.id, first_s), tuple(defaults))
        except EventRefused as error:
            refused[event.id] = str(error)
    limits = [each for each in _outside_of_schedules(found, past) if each.end_s > now_s]
    # What has no end is what remains when the VTN cannot be reached.
    limits.sort(key=lambda each: (each.end_s != FOREVER, each.start_s, each.event_id, each.index))
    return LimitPlan(tuple(limits[:MOST_LIMITS]), refused, ignored, max(0, len(limits) - MOST_LIMITS))


def _is_for(event: VtnEvent, targets: frozenset[str]) -> bool:
    return not targets or not event.targets or not targets.isdisjoint(event.targets)


def _limits(
    event: VtnEvent, rules: LimitRules, seen_s: float, defaults: tuple[PayloadDescriptor, ...]
) -> list[DomainLimit]:
    """Return the limits of one event, several for an interval with several payloads."""
    meant = {
        index: values
        for index, interval in enumerate(event.intervals or ())
        if (values := _meaning(event, interval, f"intervals[{index}]", rules, defaults))
    }
    if not meant:
        return []
    priority = LOWEST_PRIORITY if event.priority is None else min(event.priority, LOWEST_PRIORITY)
    spans = windows(event, seen_s=seen_s, ven=rules.ven)
    return [
        DomainLimit(event.id, _id(event, span), span.index, kind, span.start_s, span.end_s, watts, priority, seen_s)
        for span in spans
        for kind, watts in meant.get(span.index, {}).items()
    ]


def _id(event: VtnEvent, span: Window) -> int:
    assert event.intervals is not None, "a window is of an interval"
    return event.intervals[span.index].id


def _meaning(
    event: VtnEvent,
    interval: VtnInterval,
    field: str,
    rules: LimitRules,
    defaults: tuple[PayloadDescriptor, ...],
) -> dict[LimitKind, int]:
    """Return the watts of the domain; of a schedule's limit and a level in one interval the lower one."""
    found: dict[LimitKind, int] = {}
    for payload in interval.payloads:
        if payload.type not in LIMIT_KINDS:
            continue
        kind = LimitKind(payload.type)
        watts = _simple(payload, field, rules) if kind is LimitKind.SIMPLE else _site(payload, field, event, defaults)
        if watts is not None:
            own = watts if kind is LimitKind.SIMPLE else max(0, watts - rules.site_other_watts)
            found[kind] = min(own, found.get(kind, own))
    if LimitKind.CAPACITY_LIMIT in found and LimitKind.SIMPLE in found:
        found[LimitKind.CAPACITY_LIMIT] = min(found[LimitKind.CAPACITY_LIMIT], found.pop(LimitKind.SIMPLE))
    return found


def _simple(payload: Payload, field: str, rules: LimitRules) -> int | None:
    """Return the limit of the level, None for level 0."""
    level = _value(payload, field)
    if isinstance(level, float) and level.is_integer():
        level = int(level)  # 1 and 1.0 are the same number of JSON
    if type(level) is not int or not 0 <= level <= len(rules.simple_limits):
        raise EventRefused(f"{field}: {_shown(level)} is no level of SIMPLE: 0, 1, 2 or 3")
    if level == 0:
        return None
    watts = rules.simple_limits[level - 1]
    if watts is None:
        raise EventRefused(f"{field}: level {level} of SIMPLE has no limit: set SIMPLE_LEVEL_{level}_WATTS")
    return watts


def _site(payload: Payload, field: str, event: VtnEvent, defaults: tuple[PayloadDescriptor, ...]) -> int:
    """Return the watts of the site, rounded down."""
    units = _units(payload.type, event.payload_descriptors or ()) or _units(payload.type, defaults)
    if units is None:
        raise EventRefused(f"payloadDescriptors: no units for {payload.type}, and OpenADR has no default")
    if units not in _WATTS_PER_UNIT:
        raise EventRefused(f"payloadDescriptors: units {_shown(units)} of {payload.type}, must be KW or W")
    value = _value(payload, field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise EventRefused(f"{field}: {_shown(value)} is no power of at least 0")
    watts = value * _WATTS_PER_UNIT[units]
    if watts > MOST_DOMAIN_WATTS:
        raise EventRefused(f"{field}: {_shown(value)} {units} is more than any site has")
    return math.floor(watts)


def _units(payload_type: str, descriptors: Iterable[PayloadDescriptor]) -> str | None:
    of_type = (each for each in descriptors if each.payload_type == payload_type)
    return next((each.units for each in of_type if each.object_type == EVENT_DESCRIPTOR and each.units), None)


def _value(payload: Payload, field: str) -> Any:
    if len(payload.values) != 1:
        raise EventRefused(f"{field}: {payload.type} has {len(payload.values)} values, must have one")
    return payload.values[0]


def _shown(value: object) -> str:
    return printable(repr(value), _MOST_SHOWN)


def _outside_of_schedules(limits: Iterable[DomainLimit], past: Iterable[DomainLimit]) -> Iterator[DomainLimit]:
    """Yield the limits, and of subscribed capacities the parts outside of scheduled limits.

    So that the subscribed capacity is in force where a schedule ends, also while the VTN cannot be reached; and so that
    a schedule may be above it. Beyond `MOST_PARTS` a subscribed capacity is not cut: the lower limit is in force then.
    """
    every = tuple(limits)
    busy = _merged((each.start_s, each.end_s) for each in (*every, *past) if each.kind is LimitKind.CAPACITY_LIMIT)
    parts = 0
    for limit in every:
        within = _within(limit, busy) if limit.kind is LimitKind.SUBSCRIPTION else ()
        parts += len(within)
        yield from _parts(limit, within) if parts <= MOST_PARTS else (limit,)


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    """Return spans of time without those that meet, in their order."""
    found: list[_Span] = []
    for start_s, end_s in sorted(spans):
        if found and start_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_s))
        else:
            found.append((start_s, end_s))
    return found


def _within(limit: DomainLimit, busy: Sequence[_Span]) -> Sequence[_Span]:
    """Return the spans that overlap a limit."""
    first = bisect_right(busy, limit.start_s, key=lambda span: span[1])
    return busy[first : bisect_left(busy, limit.end_s, key=lambda span: span[0])]


def _parts(limit: DomainLimit, busy: Iterable[_Span]) -> Iterator[DomainLimit]:
    at_s = limit.start_s
    for start_s, end_s in busy:
        if at_s < start_s:
            yield replace(limit, start_s=at_s, end_s=start_s)
        at_s = end_s
    if at_s < limit.end_s:
        yield replace(limit, start_s=at_s)
