"""Changes of a status that are worth a write.

A condition, the generation, the number of nodes, of those whose highest power is not known, and of those that refuse a
limit or are silent, and a sum that appears or goes are written at the next pass; watts that have moved by more than a
share of the limit, and other counts of nodes, at most once a minute; all else with the heartbeat, so that a reader can
tell an old status from a current one.
"""

from enum import Enum, auto
from typing import Final

from joulie_core.kinds import PowerDomainStatus
from joulie_core.kinds.power_domain import DrawnPower, RestOfServers
from joulie_core.timestamps import age_seconds

#: Between two writes of a status whose watts have moved.
NUMBERS_INTERVAL_S: Final = 60.0
#: Between two writes of a status that has not changed.
HEARTBEAT_S: Final = 300.0
#: Move of watts that is worth a write, of the limit.
_BAND: Final = 0.01
#: Move of the damage of a breaker that is worth a write, in percent of what trips it.
_DAMAGE_PCT: Final = 10.0
_NO_POWER: Final = DrawnPower()
_NO_REST: Final = RestOfServers(watts=0)


class StatusChange(Enum):
    """Kind of a change."""

    NONE = auto()
    NUMBERS = auto()
    STATE = auto()


def change_of(before: PowerDomainStatus, after: PowerDomainStatus, limit_watts: int) -> StatusChange:
    """Return what has changed between two statuses; times do not count."""
    if _state(before) != _state(after):
        return StatusChange.STATE
    band = _BAND * limit_watts
    pairs = zip(_numbers(before), _numbers(after), strict=True)
    if any(old is not None and new is not None and abs(old - new) > band for old, new in pairs):
        return StatusChange.NUMBERS
    if _counts(before) != _counts(after):
        return StatusChange.NUMBERS
    if {each.node for each in before.lowered} != {each.node for each in after.lowered}:
        return StatusChange.NUMBERS
    return StatusChange.NONE


def is_due(before: PowerDomainStatus, after: PowerDomainStatus, limit_watts: int, now_s: float) -> bool:
    """Return whether a status is written; `before` is the one that is published."""
    age_s = age_seconds(before.last_updated, now_s)
    if not 0.0 <= age_s < HEARTBEAT_S:
        # An age below zero comes from another clock, and is unknown.
        return True
    change = change_of(before, after, limit_watts)
    return change is StatusChange.STATE or (change is StatusChange.NUMBERS and age_s >= NUMBERS_INTERVAL_S)


def _state(status: PowerDomainStatus) -> tuple[object, ...]:
    conditions = tuple((each.type, each.status, each.reason, each.message) for each in status.conditions)
    return (
        status.observed_generation,
        status.mode,
        status.nodes,
        status.unknown_nodes,
        status.refused_nodes,
        status.silent_nodes,
        status.binding_event,
        None if status.oversubscription is None else status.oversubscription.raised,
        tuple(each is None for each in _numbers(status)),
        conditions,
    )


def _counts(status: PowerDomainStatus) -> tuple[int | str | None, ...]:
    drawn, rest, over = status.drawn or _NO_POWER, status.rest or _NO_REST, status.oversubscription
    return (
        status.unconfirmed_nodes,
        drawn.measured_nodes,
        drawn.modelled_nodes,
        drawn.unknown_nodes,
        rest.measured_nodes,
        rest.modelled_nodes,
        rest.unknown_nodes,
        status.limited_nodes,
        status.lowered_nodes,
        None if over is None else over.reason,
        None if over is None else round(over.breaker_damage_percent / _DAMAGE_PCT),
    )


def _numbers(status: PowerDomainStatus) -> tuple[float | None, ...]:
    drawn, over = status.drawn or _NO_POWER, status.oversubscription
    return (
        status.allocated_watts,
        status.in_force_watts,
        status.largest_in_force_watts,
        status.guaranteed_watts,
        status.headroom_watts,
        status.shortfall_watts,
        drawn.measured_watts,
        drawn.modelled_watts,
        None if status.rest is None else status.rest.watts,
        None if over is None else over.permitted_watts,
        None if over is None else over.fallback_watts,
    )
