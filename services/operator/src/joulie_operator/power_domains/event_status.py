"""The status of a PowerEvent, from what was decided about its domain.

Guarantees that an event counts as accepted only where its whole limit is in force, or will be: its domain exists and is
enforced, its baseline is known, and the domain can go as far down as is asked for.
"""

import math
from dataclasses import dataclass
from typing import Final

from joulie_core.budget import EventLimit, TimedLimit
from joulie_core.budget.events import event_state, full_limit_mw
from joulie_core.kinds import Condition, ConditionStatus, PowerDomainSpec, PowerEventStatus
from joulie_core.kinds.power_event import MOST_AFFECTED, AffectedNodes, EventState
from joulie_core.names import NodeName
from joulie_core.text import printable
from joulie_core.timestamps import rfc3339
from joulie_core.units import MW_PER_WATT
from joulie_operator.power_domains.decision import DomainOutcome
from joulie_operator.power_domains.event_record import EventReading, mean_error_percent, rebound_percent
from joulie_operator.power_domains.event_tracker import FollowedEvent

_MOST_CHARACTERS: Final = 4_096
_NOT_IN_FORCE: Final = (EventState.PENDING, EventState.ENDED)


@dataclass(frozen=True, slots=True)
class EventDomain:
    """The domain of an event as it was decided about; `spec` None: there is none."""

    spec: PowerDomainSpec | None = None
    outcome: DomainOutcome | None = None
    #: Lowest limit that the event can bring it down to, the reserve included; None: not known.
    reach_mw: int | None = None
    #: Nodes that run performance pods.
    performance: frozenset[NodeName] = frozenset()

    @property
    def is_enforced(self) -> bool:
        """Whether its nodes are limited."""
        return self.outcome is not None and self.outcome.enforced is not None

    @property
    def binding(self) -> EventLimit | None:
        """The event whose limit is in force."""
        return self.outcome.event if self.outcome is not None and self.is_enforced else None

    @property
    def reserve_mw(self) -> int:
        """Part of the limit that no node gets."""
        return 0 if self.spec is None else self.spec.reserve_watts * MW_PER_WATT

    @property
    def target_watts(self) -> float | None:
        """Power that its nodes may draw by an event; None: none is in force."""
        return None if self.binding is None else (self.binding.limit_mw - self.reserve_mw) / MW_PER_WATT

    @property
    def has_unknown_nodes(self) -> bool:
        """Whether the highest power of a node, or what counts of its server, is not known."""
        if self.outcome is None or self.outcome.observed is None:
            return True
        return bool(self.outcome.observed.unknown or (self.outcome.rest is not None and self.outcome.rest.unknown))

    def affected(self) -> AffectedNodes:
        """Return the nodes whose share is below what they want."""
        observed = None if self.outcome is None else self.outcome.observed
        names = sorted(each.node for each in observed.lowered) if observed is not None else []
        performance = sum(name in self.performance for name in names)
        return AffectedNodes(
            performance_nodes=performance,
            standard_nodes=len(names) - performance,
            nodes=tuple(names[:MOST_AFFECTED]),
        )


def event_status(followed: FollowedEvent, domain: EventDomain, reading: EventReading, now_s: float) -> PowerEventStatus:
    """Return the status, undated: see `joulie_operator.power_domains.event_writer`."""
    limit, known = followed.limit, followed.known
    state = event_state(limit, now_s)
    accepted = _accepted(followed, domain, state)
    active = _active(limit, domain, state, accepted, now_s)
    in_force = active.status is ConditionStatus.TRUE
    if in_force:
        known.affected = domain.affected()
    minutes = tuple(known.record.minutes)
    reach_mw = None if domain.has_unknown_nodes else domain.reach_mw
    return PowerEventStatus(
        first_seen=rfc3339(known.first_seen_s),
        state=state,
        deliverable_watts=None if reach_mw is None else max(0, math.ceil((reach_mw - domain.reserve_mw) / MW_PER_WATT)),
        baseline_watts=None if followed.baseline_watts is None else round(followed.baseline_watts, 1),
        target_watts=reading.target if in_force else None,
        drawn_watts=None if reading.drawn is None else round(reading.drawn, 1),
        binding_event=domain.binding.event if domain.binding is not None else None,
        seconds_to_90_percent=known.record.seconds_to_90_percent,
        mean_error_while_held=mean_error_percent(minutes, limit),
        rebound_percent=rebound_percent(minutes, limit, followed.baseline_watts),
        affected=known.affected,
        minutes=minutes,
        dropped_minutes=known.record.dropped,
        conditions=(accepted, active),
    )


def _accepted(followed: FollowedEvent, domain: EventDomain, state: EventState) -> Condition:
    name, spec = followed.spec.domain, domain.spec
    if spec is None:
        return _false("Accepted", "DomainUnknown", f"there is no PowerDomain {name} that can be read")
    outcome = domain.outcome
    if outcome is None or outcome.observed is None:
        return _false("Accepted", "TreeSetAside", f"the tree of {name} cannot be used: kubectl joulie power {name}")
    asked = followed.limit.limit_mw
    if asked is None:
        message = f"too little is known of what {name} drew: docs/power-events.md, Baselines"
        before = state is EventState.PENDING
        status = ConditionStatus.UNKNOWN if before else ConditionStatus.FALSE
        return _condition("Accepted", status, "NoBaseline", message)
    return _deliverable(name, spec, domain, asked)


def _deliverable(name: str, spec: PowerDomainSpec, domain: EventDomain, asked: int) -> Condition:
    reach = domain.reach_mw or 0
    depth = _depth(asked, reach, spec.limit_watts * MW_PER_WATT)
    if not domain.is_enforced:
        message = f"{name} is not enforced, and nothing is lowered; else: {depth}"
        return _false("Accepted", "DomainNotEnforced", message)
    if domain.has_unknown_nodes:
        message = f"the highest power of a node of {name} is not known, nor what can be delivered"
        return _condition("Accepted", ConditionStatus.UNKNOWN, "PowerUnknown", message)
    if asked < reach:
        return _false("Accepted", "DepthNotReachable", depth)
    if asked >= spec.limit_watts * MW_PER_WATT:
        return _condition("Accepted", ConditionStatus.TRUE, "NothingToDeliver", depth)
    return _condition("Accepted", ConditionStatus.TRUE, "Accepted", depth)


def _depth(asked_mw: int, reach_mw: int, own_mw: int) -> str:
    if asked_mw >= own_mw:
        return f"the limit of the domain is {_watts(own_mw)}, and {_watts(asked_mw)} are not below it"
    if asked_mw < reach_mw:
        return f"{_watts(asked_mw)} are asked for, and {_watts(reach_mw)} can be delivered, which is the limit instead"
    return f"the limit goes from {_watts(own_mw)} to {_watts(asked_mw)}; {_watts(reach_mw)} could be delivered"


def _active(limit: TimedLimit, domain: EventDomain, state: EventState, accepted: Condition, now_s: float) -> Condition:
    if state in _NOT_IN_FORCE:
        return _false("Active", state.value, "")
    if full_limit_mw(limit, now_s) is None and limit.limit_mw is not None:
        return _false("Active", "SourceLost", "the source has not renewed the event in time: its limit has ended")
    if domain.binding is None:
        waits = accepted.status is ConditionStatus.TRUE and accepted.reason == "Accepted"
        return _false("Active", "NoDepthYet" if waits else accepted.reason, "no limit is in force by it")
    if domain.binding.event == limit.name:
        return _condition("Active", ConditionStatus.TRUE, "InForce", "")
    if accepted.reason in ("NoBaseline", "NothingToDeliver"):
        return _false("Active", accepted.reason, "no limit is in force by it")
    message = f"the limit of {domain.binding.event} is in force, which is as low or lower"
    return _condition("Active", ConditionStatus.TRUE, "OtherEventBinds", message)


def _watts(milliwatts: int) -> str:
    return f"{math.ceil(milliwatts / MW_PER_WATT)} W"


def _false(kind: str, reason: str, message: str) -> Condition:
    return _condition(kind, ConditionStatus.FALSE, reason, message)


def _condition(kind: str, status: ConditionStatus, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=printable(message, _MOST_CHARACTERS))
