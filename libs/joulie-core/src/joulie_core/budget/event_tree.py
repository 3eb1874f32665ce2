"""The limits of a tree while events are in force, and what nodes keep that these may not affect.

Guarantees that no limit is above that of the domain's spec; that a limit is never below the floors of the nodes and
what those keep that its event may not affect; and that what nodes keep fits into every limit of the tree.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from joulie_core.budget.events import EventLimit, TimedLimit, limits_in_force
from joulie_core.budget.tree import BudgetTree
from joulie_core.kinds.base import WorkloadClass
from joulie_core.names import NodeName


@dataclass(frozen=True, slots=True)
class EventInputs:
    """Events, and the nodes that run performance pods, at one moment."""

    events: tuple[TimedLimit, ...] = ()
    performance: frozenset[NodeName] = frozenset()
    #: Seconds since the epoch.
    now_s: float = 0.0

    def of(self, tree: BudgetTree) -> tuple[TimedLimit, ...]:
        """Return the events of domains of a tree."""
        names = {each.name for each in tree.domains}
        return tuple(each for each in self.events if each.domain in names)


@dataclass(frozen=True, slots=True)
class EventedTree:
    """A tree with the limits in force."""

    tree: BudgetTree
    #: By the name of the domain.
    limits: Mapping[str, EventLimit] = field(default_factory=dict)
    #: Lowest limit that each event can bring its domain down to, with what nodes do not get, by the name of the event.
    reach_mw: Mapping[str, int] = field(default_factory=dict)
    #: Power that is not taken from nodes.
    kept_mw: Mapping[NodeName, int] = field(default_factory=dict)


def with_events(
    tree: BudgetTree, inputs: EventInputs, shares: Mapping[NodeName, int], floors: Mapping[NodeName, int]
) -> EventedTree:
    """Return the tree as it is now.

    Args:
        tree: with the limits of the specs.
        inputs: events of any domains, and what they depend on.
        shares: of each node, without events.
        floors: of each node.
    """
    events = inputs.of(tree)
    index = {each.name: number for number, each in enumerate(tree.domains)}
    unaffected = {name: max(shares[name], floors[name]) for name in tree.leaf_of}
    spares = {each.may_affect: _Spares(each.may_affect, inputs.performance) for each in events}
    sums = {
        affected: tree.sums({**floors, **{node: unaffected[node] for node in each.of(tree.leaf_of)}})
        for affected, each in spares.items()
    }
    reach = {
        each.name: sums[each.may_affect][index[each.domain]] + tree.domains[index[each.domain]].withheld_mw
        for each in events
    }
    limits = limits_in_force(events, {each.name: each.limit_mw for each in tree.domains}, reach, inputs.now_s)
    affects = {each.name: each.may_affect for each in events}
    kept = _fitting(
        tree,
        {name: each.limit_mw for name, each in limits.items()},
        {name: spares[affects[each.event]] for name, each in limits.items()},
        unaffected,
        floors,
    )
    domains = tuple(
        replace(each, limit_mw=limits[each.name].limit_mw) if each.name in limits else each for each in tree.domains
    )
    return EventedTree(replace(tree, domains=domains), limits, reach, kept)


def may_affect(affected: AbstractSet[WorkloadClass], *, performance: bool) -> bool:
    """Return whether a node may be lowered, by whether it runs performance pods."""
    return (WorkloadClass.PERFORMANCE if performance else WorkloadClass.STANDARD) in affected


@dataclass(frozen=True, slots=True)
class _Spares:
    """Nodes that an event may not affect."""

    affected: AbstractSet[WorkloadClass]
    performance: AbstractSet[NodeName]

    def of(self, nodes: Iterable[NodeName]) -> set[NodeName]:
        return {each for each in nodes if not may_affect(self.affected, performance=each in self.performance)}


def _fitting(
    tree: BudgetTree,
    limits: Mapping[str, int],
    spares: Mapping[str, _Spares],
    unaffected: Mapping[NodeName, int],
    floors: Mapping[NodeName, int],
) -> dict[NodeName, int]:
    """Return what nodes keep; nothing of those that another event has to lower, and may."""
    names = (each.name for each in tree.domains)
    below = dict(zip(names, tree.nodes_below(), strict=True))
    kept = {node: unaffected[node] for name, each in spares.items() for node in each.of(below[name])}
    for number, domain in enumerate(tree.domains):
        if domain.name not in limits:
            continue
        least = tree.sums({node: kept.get(node, floors[node]) for node in tree.leaf_of})[number]
        if least > limits[domain.name] - domain.withheld_mw:
            own = spares[domain.name].of(below[domain.name])
            kept = {node: each for node, each in kept.items() if node not in below[domain.name] or node in own}
    return kept
