"""Facts of each PowerEvent beside its spec: when it was first seen, its baseline, its record.

Guarantees that an event starts no earlier than it was first seen; that a baseline is stated once, at the start; that
only a change of `sourceRenewed` counts as a renewal, at the time at which it is seen; and that all of it but the last
goes on from the status after a change of leader, where a source has one more timeout. An event whose newest version
cannot be read counts as it last could. A clock that is set back starts no event anew, and none that is set loses a
source.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_api.wire import Versioned
from joulie_core.budget import TimedLimit
from joulie_core.budget.drawn_history import DrawnHistory
from joulie_core.kinds import PowerDomainSpec, PowerEvent, PowerEventSpec
from joulie_core.kinds.power_event import AffectedNodes, EventBaseline
from joulie_core.timestamps import epoch_seconds
from joulie_core.units import MW_PER_WATT
from joulie_operator.power_domains.event_record import EventRecord

_PERCENT: Final = 100


@dataclass(slots=True)
class KnownEvent:
    """One event, by the UID of its object."""

    uid: str
    first_seen_s: float
    record: EventRecord
    #: Stated at the start, with the generation of the spec that it is of; None: not yet, or not known.
    baseline_watts: float | None = None
    is_stated: bool = False
    affected: AffectedNodes | None = None
    renewed: str | None = None
    #: Of the clock of leases.
    renewed_s: float | None = None


@dataclass(frozen=True, slots=True)
class FollowedEvent:
    """An event at one moment."""

    object: Versioned[PowerEvent]
    known: KnownEvent
    limit: TimedLimit
    #: Power without the event, in watts; None: not known, or not asked for.
    baseline_watts: float | None

    @property
    def spec(self) -> PowerEventSpec:
        """The spec."""
        return self.object.model.spec


@dataclass(slots=True)
class EventTracker:
    """The events of one operator."""

    known: dict[str, KnownEvent] = field(default_factory=dict)
    #: Time of the last look.
    looked_s: float = -math.inf

    def follow(
        self,
        objects: Mapping[str, Versioned[PowerEvent]],
        specs: Mapping[str, PowerDomainSpec],
        histories: Mapping[str, DrawnHistory],
        now_s: float,
        clock_s: float,
    ) -> list[FollowedEvent]:
        """Return the events as they are now.

        Args:
            objects: the last readable version of each.
            specs: of the domains.
            histories: of the domains.
            now_s: seconds since the epoch.
            clock_s: the same moment by a monotonic clock.
        """
        self.known = {name: each for name, each in self.known.items() if name in objects}
        self._set_back(self.looked_s - now_s)
        self.looked_s = now_s
        return [self._follow(each, specs, histories, now_s, clock_s) for _, each in sorted(objects.items())]

    def _follow(
        self,
        event: Versioned[PowerEvent],
        specs: Mapping[str, PowerDomainSpec],
        histories: Mapping[str, DrawnHistory],
        now_s: float,
        clock_s: float,
    ) -> FollowedEvent:
        known = self._known(event, now_s)
        spec = event.model.spec
        _renew(known, spec, clock_s)
        start_s, end_s = _start_s(event, known), epoch_seconds(spec.end)
        if now_s < start_s:
            known.is_stated = False
        if not known.is_stated:
            history = histories.get(spec.domain)
            known.baseline_watts = None if history is None else baseline(spec, history, min(start_s, now_s), end_s)
            known.is_stated = now_s >= start_s
        domain = specs.get(spec.domain)
        reserve_watts = 0 if domain is None else domain.reserve_watts
        limit = TimedLimit(
            name=event.name,
            domain=spec.domain,
            limit_mw=_limit_mw(spec, known.baseline_watts, reserve_watts),
            start_s=start_s,
            end_s=end_s,
            ramp_down_s=float(spec.ramp_down_seconds),
            ramp_up_s=float(spec.ramp_up_seconds),
            priority=spec.priority,
            may_affect=frozenset(spec.may_affect),
            if_source_lost=spec.if_source_lost,
            source_timeout_s=spec.source_timeout_seconds,
            source_lost_limit_mw=_milliwatts(spec.source_lost_limit_watts),
            renewed_s=None if known.renewed_s is None else now_s - (clock_s - known.renewed_s),
        )
        return FollowedEvent(event, known, limit, known.baseline_watts)

    def _set_back(self, by_s: float) -> None:
        """Move what was seen with a clock that was set back: an event in force would have to start once more."""
        if by_s > 0.0:
            for each in self.known.values():
                each.first_seen_s -= by_s

    def _known(self, event: Versioned[PowerEvent], now_s: float) -> KnownEvent:
        found = self.known.get(event.name)
        if found is None or found.uid != event.metadata.uid:
            status = event.model.status
            seen_s = epoch_seconds(status.first_seen)
            found = self.known[event.name] = KnownEvent(
                event.metadata.uid,
                now_s if seen_s is None else min(seen_s, now_s),
                EventRecord(status),
                status.baseline_watts,
                is_stated=seen_s is not None and status.baseline_watts is not None,
                affected=status.affected,
            )
        return found


def baseline(spec: PowerEventSpec, history: DrawnHistory, start_s: float, end_s: float | None) -> float | None:
    """Return the power without an event, in watts, by its method; None: not known, or not asked for."""
    if spec.baseline is EventBaseline.NONE:
        return None
    if spec.baseline is EventBaseline.LAST_HOUR:
        return history.last_hour(start_s)
    return history.same_hours(start_s, end_s)


def domains_in_event(parents: Mapping[str, str | None], bound: Iterable[str]) -> frozenset[str]:
    """Return the domains whose draw an event changes: those of events, and all above and below them.

    Args:
        parents: of each domain its parent.
        bound: domains whose limit is that of an event.
    """
    direct = [name for name in bound if name in parents]
    above: defaultdict[str, list[str]] = defaultdict(list)
    below: defaultdict[str, list[str]] = defaultdict(list)
    for name, parent in parents.items():
        if parent is not None and parent in parents:
            above[name].append(parent)
            below[parent].append(name)
    return _reached(direct, above) | _reached(direct, below)


def _reached(names: Iterable[str], beside: defaultdict[str, list[str]]) -> frozenset[str]:
    """Return names and all that follow from them; each is looked at once, as trees that are set aside may be cycles."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += beside[name]
    return frozenset(found)


def _renew(known: KnownEvent, spec: PowerEventSpec, clock_s: float) -> None:
    if spec.source_renewed is None:
        known.renewed = known.renewed_s = None
    elif spec.source_renewed != known.renewed:
        known.renewed, known.renewed_s = spec.source_renewed, clock_s


def _start_s(event: Versioned[PowerEvent], known: KnownEvent) -> float:
    asked_s = epoch_seconds(event.model.spec.start or event.metadata.created_at)
    return known.first_seen_s if asked_s is None else max(asked_s, known.first_seen_s)


def _limit_mw(spec: PowerEventSpec, baseline_watts: float | None, reserve_watts: int) -> int | None:
    if spec.reduce_by_percent is None:
        return _milliwatts(spec.limit_watts)
    if baseline_watts is None:
        return None
    # What is reserved is in no reading.
    left = int(baseline_watts * MW_PER_WATT) * (_PERCENT - spec.reduce_by_percent) // _PERCENT
    return left + reserve_watts * MW_PER_WATT


def _milliwatts(watts: int | None) -> int | None:
    return None if watts is None else watts * MW_PER_WATT
