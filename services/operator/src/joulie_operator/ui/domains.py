"""Power domains of the page, in the order of their trees. Pure functions; only the leader knows what is in them."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import msgspec

from joulie_core.kinds import ConditionStatus, PowerDomainSpec, PowerDomainStatus
from joulie_core.kinds.power_domain import DrawnPower, OversubscriptionStatus
from joulie_core.tree_order import tree_order

#: Domains that are shown; the others are counted.
MOST_DOMAINS: Final = 200
_NO_POWER: Final = DrawnPower()


class SeenDomain(Protocol):
    """A domain as the controller has seen it last; see `joulie_operator.power_domains.metrics.DomainState`."""

    @property
    def spec(self) -> PowerDomainSpec | None:
        """None where the object cannot be read."""

    @property
    def status(self) -> PowerDomainStatus:
        """Status by the controller."""


class RaisedBar(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """State of an oversubscribed domain."""

    raised: bool
    #: What limits may add up to while draws are measured, with the reserve.
    permitted_watts: int
    #: None where it is not known.
    fallback_watts: int | None
    #: Damage of the breaker by what was counted, in percent of what trips it.
    counted_percent: int
    reason: str


class DomainBar(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One domain; watts are None where they are not known."""

    name: str
    #: Number of domains above it.
    depth: int
    enforced: bool
    #: None where the object cannot be read.
    limit_watts: int | None
    #: The limit less the reserve.
    usable_watts: int | None
    #: Measured or modelled, of the nodes of which it is known.
    drawn_watts: int | None
    #: Nodes whose draw is not known.
    undrawn_nodes: int
    in_force_watts: int | None
    allocated_watts: int | None
    #: Why it cannot be used, or is not held; empty where neither is so.
    problem: str
    #: None where the domain is not oversubscribed.
    oversubscribed: RaisedBar | None = None


class DomainBars(msgspec.Struct, frozen=True, gc=False):
    """The first domains, and the number of the others."""

    bars: tuple[DomainBar, ...] = ()
    more: int = 0


def bars_of(states: Mapping[str, SeenDomain]) -> DomainBars:
    """Return the domains, each below the one that supplies it."""
    ordered = tree_order({name: each.spec.parent if each.spec is not None else None for name, each in states.items()})
    bars = tuple(_bar(name, depth, states[name]) for name, depth in ordered[:MOST_DOMAINS])
    return DomainBars(bars, len(states) - len(bars))


def _bar(name: str, depth: int, state: SeenDomain) -> DomainBar:
    spec, status = state.spec, state.status
    drawn = status.drawn or _NO_POWER
    known = [each for each in (drawn.measured_watts, drawn.modelled_watts) if each is not None]
    return DomainBar(
        name=name,
        depth=depth,
        enforced=any(each.type == "Enforced" and each.status is ConditionStatus.TRUE for each in status.conditions),
        limit_watts=None if spec is None else spec.limit_watts,
        usable_watts=None if spec is None else spec.usable_watts,
        drawn_watts=round(sum(known)) if known else None,
        undrawn_nodes=drawn.unknown_nodes or 0,
        in_force_watts=_whole(status.in_force_watts),
        allocated_watts=_whole(status.allocated_watts),
        problem=next(_problems(status), ""),
        oversubscribed=None if status.oversubscription is None else _raised(status.oversubscription),
    )


def _raised(found: OversubscriptionStatus) -> RaisedBar:
    return RaisedBar(
        raised=found.raised,
        permitted_watts=round(found.permitted_watts),
        fallback_watts=_whole(found.fallback_watts),
        counted_percent=round(found.counted_damage_percent),
        reason=found.reason,
    )


def _problems(status: PowerDomainStatus) -> Iterator[str]:
    for kind in ("Accepted", "Held"):
        for each in status.conditions:
            if each.type == kind and each.status is not ConditionStatus.TRUE:
                yield f"{each.reason}: {each.message}"


def _whole(watts: float | None) -> int | None:
    return None if watts is None else round(watts)
