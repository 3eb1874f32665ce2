"""The series of power domains, exported by the leader: by domain, of a limited number of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.metrics_core import Metric

from joulie_api.metrics import gauge
from joulie_core.kinds import ConditionStatus, PowerDomainSpec, PowerDomainStatus
from joulie_core.kinds.power_domain import DomainMode
from joulie_core.kinds.raise_state import RaiseState

#: Domains that have series, the first by name; all of them are counted.
MOST_SERIES: Final = 1_000

_PERCENT: Final = 100.0

_Figure = Callable[[PowerDomainStatus], float | None]


@dataclass(frozen=True, slots=True)
class DomainState:
    """A domain as seen last; `spec` is None where its object cannot be read."""

    spec: PowerDomainSpec | None
    status: PowerDomainStatus

    @property
    def accepted(self) -> bool:
        """True where the domain can be used."""
        return any(each.type == "Accepted" and each.status is ConditionStatus.TRUE for each in self.status.conditions)


_WATTS: Final[tuple[tuple[str, str, _Figure], ...]] = (
    (
        "allocated",
        "Sum of the shares of the nodes of a PowerDomain, in watts; nothing is lowered to them in mode Observe.",
        lambda status: status.allocated_watts,
    ),
    (
        "in_force",
        "Power that the nodes of a PowerDomain may draw now, in watts; no sample where that of one is not known.",
        lambda status: status.in_force_watts,
    ),
    (
        "largest_in_force",
        "Largest power that the nodes of an enforced PowerDomain may have drawn since it was first within its limit.",
        lambda status: status.largest_in_force_watts,
    ),
    (
        "guaranteed",
        "Sum of the floors of the nodes of a PowerDomain, in watts.",
        lambda status: status.guaranteed_watts,
    ),
    (
        "headroom",
        "Usable power of a PowerDomain above what its nodes may draw, in watts; 0 where that is more.",
        lambda status: status.headroom_watts,
    ),
    (
        "rest",
        "Power that servers of a PowerDomain of basis Server may draw beyond CPU packages and GPUs, in watts.",
        lambda status: None if status.rest is None else status.rest.watts,
    ),
    (
        "shortfall",
        "Power by which the lowest limits of the hardware exceed what nodes may get, in watts.",
        lambda status: status.shortfall_watts,
    ),
    (
        "permitted",
        "Power that limits below an oversubscribed PowerDomain may add up to while draws are measured, in watts.",
        lambda status: None if status.oversubscription is None else status.oversubscription.permitted_watts,
    ),
    (
        "fallback",
        "Sum of what the nodes of an oversubscribed PowerDomain fall back to without a fresh sample, in watts.",
        lambda status: None if status.oversubscription is None else status.oversubscription.fallback_watts,
    ),
)


def families(states: Mapping[str, DomainState]) -> Iterable[Metric]:
    """Return the series of the domains."""
    counts = Counter(each.accepted for each in states.values())
    yield gauge(
        "joulie_operator_power_domains",
        "PowerDomains by whether they can be used.",
        ("accepted",),
        ((("true",), counts[True]), (("false",), counts[False])),
    )
    shown = [(name, states[name]) for name in sorted(states)[:MOST_SERIES]]
    yield gauge(
        "joulie_operator_power_domain_limit_watts",
        "Limit of a PowerDomain, in watts.",
        ("domain",),
        (((name,), each.spec.limit_watts) for name, each in shown if each.spec is not None),
    )
    yield gauge(
        "joulie_operator_power_domain_reserve_watts",
        "Part of the limit of a PowerDomain that no node gets, in watts.",
        ("domain",),
        (((name,), each.spec.reserve_watts) for name, each in shown if each.spec is not None),
    )
    for figure, text, value in _WATTS:
        yield gauge(
            f"joulie_operator_power_domain_{figure}_watts",
            text,
            ("domain",),
            (((name,), value(each.status)) for name, each in shown),
        )
    yield gauge(
        "joulie_operator_power_domain_enforced",
        "1 for a PowerDomain whose nodes are limited, 0 for one that is observed.",
        ("domain",),
        (((name,), each.status.mode is DomainMode.ENFORCE) for name, each in shown),
    )
    yield gauge(
        "joulie_operator_power_domain_raised",
        "1 for an oversubscribed PowerDomain whose limits may add up to the permitted power now, else 0.",
        ("domain",),
        (
            ((name,), each.status.oversubscription.raised)
            for name, each in shown
            if each.status.oversubscription is not None
        ),
    )
    yield gauge(
        "joulie_operator_power_domain_raise_state",
        "1 for the state of the limits below an oversubscribed PowerDomain, raised or why not, 0 for the others.",
        ("domain", "state"),
        _raise_states(shown),
    )
    yield gauge(
        "joulie_operator_power_domain_breaker_damage_ratio",
        "State of the breaker of an oversubscribed PowerDomain as it is counted, of 1, at which it would trip: the "
        "part of what was counted, and what is assumed of the time that this leader has not seen.",
        ("domain", "part"),
        _damage(shown),
    )
    yield gauge(
        "joulie_operator_power_domain_drawn_watts",
        "Power that the nodes of a PowerDomain draw, in watts, by how it is known; unknown draws are in no sample.",
        ("domain", "quality"),
        _drawn(shown),
    )
    yield gauge(
        "joulie_operator_power_domain_nodes",
        "Nodes of a PowerDomain: all, those whose highest power is unknown, those whose draw is unknown, those whose "
        "share is below what they want, and of those that are limited the unconfirmed, the refused and the silent.",
        ("domain", "state"),
        _nodes(shown),
    )


def _drawn(shown: Iterable[tuple[str, DomainState]]) -> Iterator[tuple[tuple[str, str], float | None]]:
    for name, each in shown:
        drawn = each.status.drawn
        if drawn is not None:
            yield (name, "measured"), drawn.measured_watts
            yield (name, "modelled"), drawn.modelled_watts


def _raise_states(shown: Iterable[tuple[str, DomainState]]) -> Iterator[tuple[tuple[str, str], bool]]:
    for name, each in shown:
        found = each.status.oversubscription
        if found is not None and found.state is not None:
            yield from (((name, state), found.state is state) for state in RaiseState)


def _damage(shown: Iterable[tuple[str, DomainState]]) -> Iterator[tuple[tuple[str, str], float]]:
    for name, each in shown:
        found = each.status.oversubscription
        if found is not None:
            yield (name, "counted"), found.counted_damage_percent / _PERCENT
            yield (name, "assumed"), found.assumed_damage_percent / _PERCENT


def _nodes(shown: Iterable[tuple[str, DomainState]]) -> Iterator[tuple[tuple[str, str], float | None]]:
    for name, each in shown:
        status = each.status
        yield (name, "all"), status.nodes
        yield (name, "power_unknown"), status.unknown_nodes
        yield (name, "draw_unknown"), status.drawn.unknown_nodes if status.drawn is not None else None
        yield (name, "lowered"), status.lowered_nodes
        yield (name, "unconfirmed"), status.unconfirmed_nodes
        yield (name, "refused"), status.refused_nodes
        yield (name, "silent"), status.silent_nodes
