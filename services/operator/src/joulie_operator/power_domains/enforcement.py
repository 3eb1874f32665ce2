"""The decision about a tree that is enforced: what is written to the objects of its nodes now.

Guarantees that only limits of the present term are asked; that a leader raises nothing before the agents of all nodes
have repeated a renewal of its own, or had `SETTLING_S` to do so; and that a node counts with its highest power from
the moment on at which its agent may have given up its limit.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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
from joulie_core.budget.fallback import raised_tree
from joulie_core.budget.ledger import current_ask, current_report, is_silent, next_ask
from joulie_core.names import NodeName
from joulie_operator.power_domains.budget_changes import (
    TIMES,
    BudgetChange,
    SeenBudgets,
    budget_changes,
    is_released_without_control,
)
from joulie_operator.power_domains.oversubscription import (
    OversubscribedDomain,
    TreeRaises,
    named_samples,
    oversubscribed_domains,
    with_headroom,
)
from joulie_operator.power_domains.sent import NO_TERM, SeenBudget

#: Time for which an agent without control keeps a limit that it shall keep: the longest lease of its actuator.
KEPT: Final = LeaseTimes(lease_s=3600.0, margin_s=60.0)
#: Time that agents have to answer a new leader.
SETTLING_S: Final = 60.0
_NO_EVENTS: Final = EventInputs()


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
    #: None: it is not oversubscribed.
    oversubscription: OversubscribedDomain | None = None


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
        self._raises = TreeRaises()
        #: End of the time in which agents may answer, by the root and the term.
        self._settled_s: dict[tuple[str, int], float] = {}
        self._largest: dict[str, _Largest] = {}

    def retain(self, roots: set[str], domains: set[str]) -> None:
        """Forget all other trees and domains."""
        self._planners = {root: each for root, each in self._planners.items() if root in roots}
        self._raises.retain(roots)
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
            nodes = {name: replace(each, kept_mw=evented.kept_mw.get(name, 0)) for name, each in nodes.items()}
        else:
            self._plain.pop(tree.domains[0].name, None)
        raises = self._raises.look(
            tree, nodes, budgets.seen, budgets.now_s, term=budgets.term, lowered=bool(evented.limits)
        )
        given, tree = tree, evented.tree if raises is None or not raises.raised else raised_tree(tree)
        planner = self._planner(self._planners, tree, term)
        decision = planner.decide(nodes, budgets.now_s)
        asks = dict(decision.asks)
        if budgets.term is not None and not decision.deposed:
            asks = _kept_again(tree, nodes, budgets, term) | asks
        changes: tuple[BudgetChange, ...] = ()
        if budgets.term is not None:
            samples = named_samples(given, raises, decision.domains)
            changes = tuple(budget_changes(tree, nodes, budgets, asks, samples, settling=settling))
        observed = with_headroom(domains_of(tree, nodes, decision), evented.tree)
        chains = {} if planner.allocator is None else available_of(tree, planner.allocator, decision.domains)
        if budgets.term is None or decision.deposed:
            # Another leader decides what is given to whom.
            chains = {name: unknown_chain(chain) for name, chain in chains.items()}
        states = self._states(evented.tree, nodes, observed, budgets)
        for name, each in oversubscribed_domains(given, raises, nodes).items():
            states[name] = replace(states[name], oversubscription=each)
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
    if is_released_without_control(seen) or is_silent(node, budgets.now_s, KEPT):
        # It may be without limit, or will be when its lease ends.
        return replace(node, ask=replace(node.ask, ceiling_mw=None), report=None)
    return node


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
        and is_released_without_control(budgets.seen[name])
    }


def _marks(node: BudgetNode, now_s: float) -> Iterator[str]:
    ask, report = current_ask(node), current_report(node)
    if ask is None or report is None or report.sequence != ask.sequence:
        yield "unconfirmed"
    elif report.refused:
        yield "refused"
    if is_silent(node, now_s, TIMES):
        yield "silent"
