"""Observation of a tree: its shares and sums as they would be decided, with nothing asked of any node.

Guarantees that every node counts as one that follows and was asked nothing: its highest power may be in force, and
where that is not known, neither the sum nor the headroom of any domain above it is. Such a node has no share, and is in
no list of nodes that would be lowered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from joulie_core.budget.event_tree import EventedTree, EventInputs, with_events
from joulie_core.budget.ledger import BudgetNode, LeaseTimes
from joulie_core.budget.transitions import BudgetDecision, BudgetPlanner, DomainSums
from joulie_core.budget.tree import BudgetTree, DomainProblem
from joulie_core.names import NodeName

_TIMES: Final = LeaseTimes()


@dataclass(frozen=True, slots=True)
class LoweredShare:
    """A node whose share is below what it wants, in milliwatts, and the reason."""

    node: NodeName
    wanted_mw: int
    share_mw: int
    #: The lowest domain above the node that has nothing left, and the power that its nodes may get.
    binding: str
    usable_mw: int
    #: The lowest priority above the node's own that is served before it in that domain; None: there is none.
    after_priority: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedDomain:
    """A domain and all nodes below it."""

    sums: DomainSums
    nodes: frozenset[NodeName]
    #: Nodes whose highest power is not known, and the sum of that of the others.
    unknown: frozenset[NodeName]
    known_mw: int
    #: Nodes that would be limited below their highest power.
    limited: int
    #: The largest difference first.
    lowered: tuple[LoweredShare, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """State of the domains of one tree, by name, and the floors that are refused."""

    domains: Mapping[str, ObservedDomain]
    problems: tuple[DomainProblem, ...]


def observe(tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode]) -> Observation:
    """Return what would be decided; asks and reports of nodes do not count."""
    seen, decision = _decided(tree, nodes)
    return Observation(domains_of(tree, seen, decision), decision.problems)


def observe_events(tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode], events: EventInputs) -> EventedTree:
    """Return the tree as events would have it; asks and reports of nodes do not count."""
    if not events.of(tree):
        return EventedTree(tree)
    _, decision = _decided(tree, nodes)
    return with_events(tree, events, decision.targets_mw, decision.floors_mw)


def _decided(
    tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode]
) -> tuple[dict[NodeName, BudgetNode], BudgetDecision]:
    seen = {name: replace(nodes[name], ask=None, report=None, renewed_s=0.0) for name in tree.leaf_of}
    return seen, BudgetPlanner(tree, term=0, times=_TIMES).decide(seen, now_s=0.0)


def domains_of(
    tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode], decision: BudgetDecision
) -> dict[str, ObservedDomain]:
    """Return the state of each domain of a tree by a decision about it, by name."""
    below = tree.nodes_below()
    lowered = {each.node: each for each in _lowered(tree, nodes, decision, [len(each) for each in below])}
    unknown = {name for name, node in nodes.items() if node.max_mw is None}
    limited = {
        name for name, node in nodes.items() if node.max_mw is not None and decision.targets_mw[name] < node.max_mw
    }
    return {
        domain.name: ObservedDomain(
            sums=decision.domains[domain.name],
            nodes=names,
            unknown=names & unknown,
            known_mw=sum(nodes[name].max_mw or 0 for name in names),
            limited=len(names & limited),
            lowered=tuple(
                sorted((lowered[name] for name in names & lowered.keys()), key=lambda each: (-_lack(each), each.node))
            ),
        )
        for domain, names in zip(tree.domains, below, strict=True)
    }


def _lack(share: LoweredShare) -> int:
    return share.wanted_mw - share.share_mw


def _lowered(
    tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode], decision: BudgetDecision, counts: list[int]
) -> Iterable[LoweredShare]:
    full = _full(tree, decision, counts)
    served = _served(tree, nodes)
    for name, leaf in tree.leaf_of.items():
        node, share = nodes[name], decision.targets_mw[name]
        if node.max_mw is None:
            continue
        wanted = node.max_mw if node.demand_mw is None else min(node.demand_mw, node.max_mw)
        # A division of a sum loses less than a milliwatt at each level.
        if wanted - share <= len(tree.domains):
            continue
        index = leaf
        while index and not full[index]:
            index = tree.parents[index]
        binding, own = tree.domains[index], tree.domains[leaf].priority
        before = min((each for each in served[index] if each > own), default=None)
        yield LoweredShare(name, wanted, share, binding.name, binding.usable_mw, before)


def _full(tree: BudgetTree, decision: BudgetDecision, counts: list[int]) -> list[bool]:
    """Return whether each domain has nothing left, but for what divisions lose."""
    return [
        domain.usable_mw - decision.domains[domain.name].allocated_mw <= count + len(tree.domains)
        for domain, count in zip(tree.domains, counts, strict=True)
    ]


def _served(tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode]) -> list[set[int]]:
    """Return the priorities of the nodes below each domain that can be given more than their lowest limit."""
    served: list[set[int]] = [set() for _ in tree.domains]
    for index in range(len(tree.domains) - 1, -1, -1):
        domain = tree.domains[index]
        if any(_can_take(nodes[name]) for name in domain.nodes):
            served[index].add(domain.priority)
        if index:
            served[tree.parents[index]] |= served[index]
    return served


def _can_take(node: BudgetNode) -> bool:
    return node.max_mw is not None and node.min_mw is not None and node.min_mw < node.max_mw
