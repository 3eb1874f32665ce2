"""The decision about a tree that is enforced: what is written to the objects of its nodes now.

Guarantees that only limits of the present term are asked; that a leader raises nothing before the agents of all nodes
have repeated a renewal of its own, or had `SETTLING_S` to do so; and that a node counts with its highest power from
the moment on at which its agent may have given up its limit.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from joulie_core.budget import (
    BudgetDecision,
    BudgetNode,
    BudgetPlanner,
    BudgetTree,
    DomainChain,
    EventedTree,
    EventInputs,
    LeaseTimes,
    LimitAsk,
    ObservedDomain,
    available_of,
    domains_of,
    unknown_chain,
    with_events,
)
from joulie_core.budget.ledger import current_ask, current_report, is_silent, next_ask
from joulie_core.budget.objects import watts_of
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_core.names import NodeName
from joulie_operator.power_domains.sent import NO_TERM, SeenBudget

#: The lease of a limit, and its part in which others can be lowered and read back.
TIMES: Final = LeaseTimes(lease_s=300.0, margin_s=60.0)
#: Time for which an agent without control keeps a limit that it shall keep: the longest lease of its actuator.
KEPT: Final = LeaseTimes(lease_s=3600.0, margin_s=60.0)
#: Time that agents have to answer a new leader.
SETTLING_S: Final = 60.0
#: Between two renewals of a node at most; at least half of it.
RENEWAL_S: Final = 100.0
_SHARES: Final = 1 << 16
_NO_EVENTS: Final = EventInputs()
#: Largest whole number that an object can have.
_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """A spec that is to be written over one version of an object; None: there is no object."""

    node: NodeName
    version: str | None
    spec: NodePowerBudgetSpec
    #: The limit is higher than what was asked before.
    raises: bool = False
    #: Of the domain of the node.
    priority: int = 0
    #: The limit is below what was asked before.
    lowers: bool = False
    renews: bool = False

    @property
    def order(self) -> tuple[int, int, str]:
        """Sorts lowerings first, the least important domain before others, then raises, the most important first."""
        if self.lowers:
            return (0, self.priority, self.node)
        if self.renews:
            return (3, 0, self.node)
        return (2 if self.raises else 1, -self.priority, self.node)


@dataclass(frozen=True, slots=True)
class SeenBudgets:
    """All that is known of the objects of nodes, at one moment of the operator's clock."""

    now_s: float
    #: Of this leader; None: it is not known, or not above what is stored.
    term: int | None
    seen: Mapping[NodeName, SeenBudget] = field(default_factory=dict)
    #: Nodes without a boot ID: they cannot be lowered.
    bootless: frozenset[NodeName] = frozenset()
    #: Nodes whose object cannot be read: they cannot be asked.
    unreadable: frozenset[NodeName] = frozenset()
    #: Times of the last writes that were sent by this leader.
    last_s: Mapping[NodeName, float] = field(default_factory=dict)

    def renewal_is_due(self, name: NodeName) -> bool:
        """Return whether a node is renewed now: after a share of the interval that its name gives."""
        last_s = self.last_s.get(name)
        share = (zlib.crc32(name.encode()) % _SHARES) / _SHARES
        return last_s is None or self.now_s >= last_s + RENEWAL_S * (1.0 + share) / 2.0


@dataclass(frozen=True, slots=True)
class EnforcedDomain:
    """State of a domain whose nodes are limited."""

    unconfirmed: int
    refused: int
    silent: int
    #: Largest sum that may have been in force since it was first within the present limit, the rest of its servers
    #: included; None: it has not been.
    largest_mw: int | None
    #: The term of the leader is known.
    has_term: bool = True


@dataclass(frozen=True, slots=True)
class EnforcedTree:
    """Decision about a tree, and the state of its domains by name."""

    decision: BudgetDecision
    observed: Mapping[str, ObservedDomain]
    domains: Mapping[str, EnforcedDomain]
    changes: tuple[BudgetChange, ...]
    evented: EventedTree
    #: What the domains above the nodes of a domain can still supply.
    available: Mapping[str, DomainChain]


@dataclass(slots=True)
class _Largest:
    given_mw: int
    sum_mw: int | None = None


#: By the name of the root.
_Planners = dict[str, tuple[BudgetTree, int, BudgetPlanner]]


class TreeEnforcer:
    """The decisions of one leader about all trees that are enforced."""

    def __init__(self) -> None:
        self._planners: _Planners = {}
        #: Of trees with events, without these.
        self._plain: _Planners = {}
        #: End of the time in which agents may answer, by the root and the term.
        self._settled_s: dict[tuple[str, int], float] = {}
        self._largest: dict[str, _Largest] = {}

    def retain(self, roots: set[str], domains: set[str]) -> None:
        """Forget all other trees and domains."""
        self._planners = {root: each for root, each in self._planners.items() if root in roots}
        self._plain = {root: each for root, each in self._plain.items() if root in roots}
        self._settled_s = {key: each for key, each in self._settled_s.items() if key[0] in roots}
        self._largest = {name: each for name, each in self._largest.items() if name in domains}

    def decide(
        self,
        tree: BudgetTree,
        facts: Mapping[NodeName, BudgetNode],
        budgets: SeenBudgets,
        events: EventInputs = _NO_EVENTS,
    ) -> EnforcedTree:
        """Return what is written now; without a term nothing is.

        Args:
            tree: one tree whose domains all say Enforce.
            facts: of its nodes, without asks and reports.
            budgets: the objects of all nodes.
            events: those of any domains.
        """
        term = NO_TERM if budgets.term is None else budgets.term
        settling = self._is_settling(tree, budgets, term)
        nodes = {name: _node(tree, facts[name], budgets, settling=settling) for name in tree.leaf_of}
        evented = EventedTree(tree)
        if events.of(tree):
            plain = self._planner(self._plain, tree, term).shares(nodes, budgets.now_s)
            evented = with_events(tree, events, plain.targets_mw, plain.floors_mw)
            tree = evented.tree
            nodes = {name: replace(each, kept_mw=evented.kept_mw.get(name, 0)) for name, each in nodes.items()}
        else:
            self._plain.pop(tree.domains[0].name, None)
        planner = self._planner(self._planners, tree, term)
        decision = planner.decide(nodes, budgets.now_s)
        asks = dict(decision.asks)
        if budgets.term is not None and not decision.deposed:
            asks = _kept_again(tree, nodes, budgets, term) | asks
        changes = tuple(_changes(tree, nodes, budgets, asks, settling=settling)) if budgets.term is not None else ()
        observed = domains_of(tree, nodes, decision)
        chains = {} if planner.allocator is None else available_of(tree, planner.allocator, decision.domains)
        if budgets.term is None or decision.deposed:
            # Another leader decides what is given to whom.
            chains = {name: unknown_chain(chain) for name, chain in chains.items()}
        states = self._states(tree, nodes, observed, budgets)
        return EnforcedTree(decision, observed, states, changes, evented, chains)

    @staticmethod
    def _planner(planners: _Planners, tree: BudgetTree, term: int) -> BudgetPlanner:
        root = tree.domains[0].name
        known = planners.get(root)
        if known is None or known[:2] != (tree, term):
            known = planners[root] = (tree, term, BudgetPlanner(tree, term, TIMES))
        return known[2]

    def _is_settling(self, tree: BudgetTree, budgets: SeenBudgets, term: int) -> bool:
        """Return whether agents may still answer this leader for the first time."""
        until_s = self._settled_s.setdefault((tree.domains[0].name, term), budgets.now_s + SETTLING_S)
        if budgets.now_s >= until_s:
            return False
        if all(budgets.seen.get(name, SeenBudget()).renewed_s is not None for name in tree.leaf_of):
            self._settled_s[tree.domains[0].name, term] = budgets.now_s
            return False
        return True

    def _states(
        self,
        tree: BudgetTree,
        nodes: Mapping[NodeName, BudgetNode],
        observed: Mapping[str, ObservedDomain],
        budgets: SeenBudgets,
    ) -> dict[str, EnforcedDomain]:
        found = {}
        marks = {name: _marks(each, budgets.now_s) for name, each in nodes.items()}
        for domain in tree.domains:
            counts = Counter(mark for name in observed[domain.name].nodes for mark in marks[name])
            in_force_mw, given_mw = observed[domain.name].sums.in_force_mw, domain.limit_mw - domain.reserve_mw
            largest = self._largest.get(domain.name)
            if largest is None or largest.given_mw != given_mw:
                largest = self._largest[domain.name] = _Largest(given_mw)
            if in_force_mw is not None and (largest.sum_mw is not None or in_force_mw <= domain.usable_mw):
                largest.sum_mw = max(largest.sum_mw or 0, in_force_mw + domain.rest_mw)
            found[domain.name] = EnforcedDomain(
                unconfirmed=counts["unconfirmed"],
                refused=counts["refused"],
                silent=counts["silent"],
                largest_mw=largest.sum_mw,
                has_term=budgets.term is not None,
            )
        return found


def kept_changes(names: frozenset[NodeName], budgets: SeenBudgets) -> Iterator[BudgetChange]:
    """Yield the renewals of nodes that keep what they have."""
    for name in sorted(names):
        seen = budgets.seen.get(name)
        if seen is None or seen.spec is None or seen.in_flight or name in budgets.unreadable or budgets.term is None:
            continue
        if seen.spec.term <= budgets.term and budgets.renewal_is_due(name):
            spec = seen.spec.model_copy(update={"renewal": _next(seen.spec)})
            yield BudgetChange(name, seen.version, spec, renews=True)


def _node(tree: BudgetTree, facts: BudgetNode, budgets: SeenBudgets, *, settling: bool) -> BudgetNode:
    """Return a node with its ask and report as they count."""
    name = facts.name
    seen = budgets.seen.get(name, SeenBudget())
    # The agent of another boot has not answered.
    answered = seen.report is not None and seen.report.identity == facts.identity
    node = replace(facts, ask=seen.ask, report=seen.report, renewed_s=seen.renewed_s if answered else None)
    if name in budgets.bootless or name in budgets.unreadable:
        node = replace(node, min_mw=None)
    if settling and node.renewed_s is None:
        node = replace(node, renewed_s=budgets.now_s)
    if node.ask is None or tree.releases[tree.leaf_of[name]]:
        return node
    if _releases(seen) or is_silent(node, budgets.now_s, KEPT):
        # It may be without limit, or will be when its lease ends.
        return replace(node, ask=replace(node.ask, ceiling_mw=None), report=None)
    return node


def _releases(seen: SeenBudget) -> bool:
    return seen.spec is not None and seen.spec.on_lost_control is DomainLostControl.RELEASE


def _kept_again(
    tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode], budgets: SeenBudgets, term: int
) -> dict[NodeName, LimitAsk]:
    """Return an ask for each node that was released without control, and keeps its limit from now on.

    It counts with its highest power until its agent has confirmed the ask, and so the change.
    """
    return {
        name: next_ask(node, node.ask.limit_mw, term)
        for name, node in nodes.items()
        if node.ask is not None
        and current_ask(node) is not None
        and not tree.releases[tree.leaf_of[name]]
        and _releases(budgets.seen[name])
    }


def _changes(
    tree: BudgetTree,
    nodes: Mapping[NodeName, BudgetNode],
    budgets: SeenBudgets,
    asks: Mapping[NodeName, LimitAsk],
    *,
    settling: bool,
) -> Iterator[BudgetChange]:
    for name, node in nodes.items():
        seen, index = budgets.seen.get(name, SeenBudget()), tree.leaf_of[name]
        if seen.in_flight or name in budgets.unreadable:
            continue
        domain, ask = tree.domains[index], asks.get(name)
        before = current_ask(node)
        if ask is not None and not (settling and _is_raise(before, ask)):
            yield BudgetChange(
                name,
                seen.version,
                _spec(name, ask, seen, domain.name, releases=tree.releases[index]),
                raises=_is_raise(before, ask),
                lowers=_is_lowering(before, ask),
                priority=domain.priority,
            )
        elif seen.spec is not None and seen.unanswered:
            yield BudgetChange(name, seen.version, seen.spec, priority=domain.priority)
        elif node.ask is not None and seen.spec is not None and _is_renewed(tree, name, seen, budgets):
            spec = _spec(name, node.ask, seen, domain.name, releases=tree.releases[index])
            spec = spec.model_copy(update={"ceiling_watts": seen.spec.ceiling_watts})
            yield BudgetChange(name, seen.version, spec, renews=True)


def _is_renewed(tree: BudgetTree, name: NodeName, seen: SeenBudget, budgets: SeenBudgets) -> bool:
    """Return whether a renewal is due; at once where the node shall be released and does not know it."""
    unknown = tree.releases[tree.leaf_of[name]] and not _releases(seen)
    return unknown or budgets.renewal_is_due(name)


def _spec(name: NodeName, ask: LimitAsk, seen: SeenBudget, domain: str, *, releases: bool) -> NodePowerBudgetSpec:
    uid, _, boot_id = ask.identity.partition("/")
    return NodePowerBudgetSpec(
        node_name=name,
        node_uid=uid,
        boot_id=boot_id,
        term=ask.term,
        sequence=min(ask.sequence, _MOST),
        limit_watts=watts_of(ask.limit_mw),
        ceiling_watts=watts_of(ask.ceiling_mw),
        on_lost_control=DomainLostControl.RELEASE if releases else DomainLostControl.KEEP_GUARANTEED,
        lease_seconds=int(TIMES.lease_s),
        renewal=_next(seen.spec),
        power_domain=domain,
    )


def _next(spec: NodePowerBudgetSpec | None) -> int:
    """Return the number of the next renewal."""
    return 1 if spec is None else min(spec.renewal + 1, _MOST)


def _is_raise(before: LimitAsk | None, ask: LimitAsk) -> bool:
    if before is None or before.limit_mw is None:
        return False
    return ask.limit_mw is None or ask.limit_mw > before.limit_mw


def _is_lowering(before: LimitAsk | None, ask: LimitAsk) -> bool:
    if ask.limit_mw is None:
        return False
    return before is None or before.limit_mw is None or ask.limit_mw < before.limit_mw


def _marks(node: BudgetNode, now_s: float) -> Iterator[str]:
    ask, report = current_ask(node), current_report(node)
    if ask is None or report is None or report.sequence != ask.sequence:
        yield "unconfirmed"
    elif report.refused:
        yield "refused"
    if is_silent(node, now_s, TIMES):
        yield "silent"
