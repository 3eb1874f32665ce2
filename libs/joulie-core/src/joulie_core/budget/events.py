"""Limits that events ask of power domains for a time, and the one of each domain that binds.

Guarantees that an event never raises a limit; that the lowest limit in force wins, so that no source can undo that of
another; and that a limit which is not known, as that of an event without its baseline, changes nothing. All times are
seconds since the epoch by one clock, power is whole milliwatts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.kinds.base import WorkloadClass
from joulie_core.kinds.power_event import EventState, SourceLoss

#: Between two limits of a ramp, in seconds.
RAMP_STEP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class TimedLimit:
    """Limit that one event asks of a domain, and its times."""

    name: str
    domain: str
    #: Limit at full depth, the reserve of the domain included; None: not known, or not to be in force.
    limit_mw: int | None
    start_s: float
    #: None: it stands.
    end_s: float | None = None
    ramp_down_s: float = 0.0
    ramp_up_s: float = 0.0
    #: A lower number is more important.
    priority: int = 0
    may_affect: frozenset[WorkloadClass] = frozenset(WorkloadClass)
    if_source_lost: SourceLoss = SourceLoss.KEEP_UNTIL_END
    source_timeout_s: float | None = None
    source_lost_limit_mw: int | None = None
    #: Time at which the last renewal was seen; None: the source is not watched.
    renewed_s: float | None = None

    @property
    def lost_s(self) -> float | None:
        """Time from which on the source counts as lost, if nothing is renewed; None: it never does."""
        if self.renewed_s is None or self.source_timeout_s is None:
            return None
        return self.renewed_s + self.source_timeout_s


@dataclass(frozen=True, slots=True)
class EventLimit:
    """The limit of a domain that an event has in force, in milliwatts, the reserve included."""

    event: str
    limit_mw: int


def event_state(event: TimedLimit, now_s: float) -> EventState:
    """Return the stage of an event; one that ends before it starts has ended at its end."""
    if event.end_s is not None and now_s >= event.end_s:
        ramps = event.end_s > event.start_s and now_s < event.end_s + event.ramp_up_s
        return EventState.RAMPING_UP if ramps and not _is_released(event, now_s) else EventState.ENDED
    if now_s < event.start_s:
        return EventState.PENDING
    if is_source_lost(event, now_s):
        return EventState.SOURCE_LOST
    return EventState.RAMPING_DOWN if now_s < event.start_s + event.ramp_down_s else EventState.ACTIVE


def is_source_lost(event: TimedLimit, now_s: float) -> bool:
    """Return whether the source has not renewed the event in time."""
    return event.lost_s is not None and now_s >= event.lost_s


def event_depth(event: TimedLimit, now_s: float) -> float:
    """Return how much of the way from the domain's limit down to the event's is in force, 0 to 1."""
    end_s = event.end_s
    held_s = now_s if end_s is None else min(now_s, end_s)
    if held_s < event.start_s or (end_s is not None and end_s <= event.start_s):
        return 0.0
    down = 1.0 if event.ramp_down_s <= 0 else min(1.0, (held_s - event.start_s) / event.ramp_down_s)
    if end_s is None or now_s < end_s:
        return down
    up = 1.0 if event.ramp_up_s <= 0 else min(1.0, (now_s - end_s) / event.ramp_up_s)
    return down * (1.0 - up)


def full_limit_mw(event: TimedLimit, now_s: float) -> int | None:
    """Return the limit at full depth, by whether the source is lost; None: there is none."""
    if not is_source_lost(event, now_s):
        return event.limit_mw
    if event.if_source_lost is SourceLoss.RELEASE:
        return None
    return event.source_lost_limit_mw if event.if_source_lost is SourceLoss.LIMIT else event.limit_mw


def limit_now_mw(event: TimedLimit, own_mw: int, reach_mw: int, now_s: float) -> int | None:
    """Return the limit of a domain by one event now; None where it is not below the domain's own.

    Args:
        event: the event.
        own_mw: limit of the domain's spec.
        reach_mw: lowest limit that the event can bring the domain down to.
        now_s: the time.
    """
    full_mw = full_limit_mw(event, now_s)
    if full_mw is None:
        return None
    # An event without depth, and one that is not below the domain's own limit, takes nothing.
    taken_mw = int(max(own_mw - max(full_mw, reach_mw), 0) * event_depth(event, now_s))
    return own_mw - taken_mw if taken_mw > 0 else None


def limits_in_force(
    events: Iterable[TimedLimit], own_mw: Mapping[str, int], reach_mw: Mapping[str, int], now_s: float
) -> dict[str, EventLimit]:
    """Return the limit of each domain that an event has below its own.

    Args:
        events: all events.
        own_mw: limit of each domain's spec, by its name; events of other domains change nothing.
        reach_mw: lowest limit that each event can bring its domain down to, by the name of the event.
        now_s: the time.
    """
    found: dict[str, tuple[int, int, str]] = {}
    for event in events:
        own = own_mw.get(event.domain)
        limit = None if own is None else limit_now_mw(event, own, reach_mw.get(event.name, 0), now_s)
        if limit is not None:
            rank = (limit, event.priority, event.name)
            found[event.domain] = min(found.get(event.domain, rank), rank)
    return {domain: EventLimit(name, limit) for domain, (limit, _, name) in found.items()}


def next_change_s(event: TimedLimit, now_s: float) -> float | None:
    """Return the next time at which the event's limit may change; None: it does not."""
    if event_state(event, now_s) is EventState.ENDED:
        return None
    start_s, end_s = event.start_s, event.end_s
    if start_s <= now_s and 0.0 < event_depth(event, now_s + RAMP_STEP_S) < 1.0:
        return now_s + RAMP_STEP_S
    moments = [start_s, start_s + event.ramp_down_s, event.lost_s]
    if end_s is not None:
        moments += [end_s, end_s + event.ramp_up_s]
    return min((each for each in moments if each is not None and each > now_s), default=None)


def _is_released(event: TimedLimit, now_s: float) -> bool:
    return full_limit_mw(event, now_s) is None and is_source_lost(event, now_s)
