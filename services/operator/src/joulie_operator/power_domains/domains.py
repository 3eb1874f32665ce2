"""Domains as the decision takes them, with the nodes that they select."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from joulie_core.budget import BudgetDomain
from joulie_core.budget.breaker import BreakerRating, curve_of
from joulie_core.kinds import PowerDomainSpec
from joulie_core.kinds.power_domain import BudgetBasis, DomainLostControl, OversubscriptionSpec
from joulie_core.names import NodeName
from joulie_core.units import MW_PER_WATT

_Pair = tuple[str, str]


def budget_domains(
    specs: Mapping[str, PowerDomainSpec],
    labels: Mapping[NodeName, Mapping[str, str]],
    *,
    oversubscribes: bool = False,
) -> list[BudgetDomain]:
    """Return the domains.

    Args:
        specs: by the name of the domain.
        labels: of all nodes of the cluster.
        oversubscribes: the setting is On.
    """
    wanted = {pair for spec in specs.values() for pair in (spec.node_selector or {}).items()}
    index = _index(wanted, labels)
    domains = [_domain(name, spec, index) for name, spec in specs.items()]
    if not oversubscribes:
        return domains
    return [replace(each, rating=_rating(specs[each.name].oversubscription)) for each in domains]


def _index(
    wanted: Iterable[_Pair], labels: Mapping[NodeName, Mapping[str, str]]
) -> Mapping[_Pair, frozenset[NodeName]]:
    """Return the nodes by each label that a selector names."""
    found: dict[_Pair, set[NodeName]] = defaultdict(set)
    values: dict[str, set[str]] = defaultdict(set)
    for key, value in wanted:
        values[key].add(value)
    for node, pairs in labels.items():
        # A node has tens of labels, a cluster may have thousands of domains.
        for key in values.keys() & pairs.keys():
            if pairs[key] in values[key]:
                found[key, pairs[key]].add(node)
    return {pair: frozenset(nodes) for pair, nodes in found.items()}


def _domain(name: str, spec: PowerDomainSpec, index: Mapping[_Pair, frozenset[NodeName]]) -> BudgetDomain:
    selected = [index.get(pair, frozenset()) for pair in (spec.node_selector or {}).items()]
    nodes = frozenset.intersection(*selected) if selected else frozenset()
    floor = spec.floor
    return BudgetDomain(
        name=name,
        limit_mw=spec.limit_watts * MW_PER_WATT,
        parent=spec.parent,
        reserve_mw=spec.reserve_watts * MW_PER_WATT,
        priority=spec.priority or 0,
        floor_mw=(floor.watts_per_node or 0) * MW_PER_WATT if floor is not None else 0,
        floor_pct=floor.percent_of_max or 0.0 if floor is not None else 0.0,
        releases=spec.on_lost_control is DomainLostControl.RELEASE,
        nodes=tuple(sorted(nodes)),
        counts_servers=spec.basis is BudgetBasis.SERVER,
    )


def _rating(spec: OversubscriptionSpec | None) -> BreakerRating | None:
    if spec is None:
        return None
    curve = curve_of((each.load_percent, each.seconds) for each in spec.breaker)
    return BreakerRating(curve, float(spec.cooling_seconds), spec.reaction_seconds)
