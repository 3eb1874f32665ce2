"""Oversubscribed trees under one leader: whether their limits are raised, and what is written to nodes for it.

Guarantees that a node is told the sample by which it was decided only while its tree may be raised, or all limits are
within those of the domains anyway; and that each sample is answered with a renewal, so that the age of the next one is
known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from joulie_core.budget import BudgetNode, BudgetTree, DomainSums, ObservedDomain
from joulie_core.budget.breaker_states import BreakerDamage
from joulie_core.budget.fallback import permitted_mw
from joulie_core.budget.ledger import held_mw
from joulie_core.budget.objects import milliwatts, watts_of
from joulie_core.budget.oversubscription import (
    MeasuredNode,
    TreeOversubscription,
    TreeRaise,
    are_within,
    is_oversubscribed,
)
from joulie_core.kinds.node_power_budget import OversubscribedLimit
from joulie_core.kinds.raise_state import RaiseState
from joulie_core.names import NodeName
from joulie_core.text import first_of
from joulie_operator.power_domains.sent import SeenBudget

#: Subjects that a reason names.
_MOST_NAMED: Final = 3
#: Part of the time between two samples that passes between two writes of which the agent has named no sample.
_LEAST: Final = 0.5

_TEXTS: Final[Mapping[RaiseState, str]] = {
    RaiseState.RAISED: "what the nodes draw is measured",
    RaiseState.TOO_MANY_NODES: "more than 200 nodes of its tree are below oversubscribed domains",
    RaiseState.NOTHING_PERMITTED: "no breaker of its tree carries an overload for twice the time in which one ends",
    RaiseState.EVENT: "a PowerEvent lowers a limit of its tree",
    RaiseState.POWER_UNKNOWN: "what the nodes of {} may draw is not known",
    RaiseState.SHORTFALL: "the lowest limits of the hardware do not fit into {}",
    RaiseState.NEAR_LIMIT: "what the nodes of {} draw is near the limit; without a fresh sample its limit counts",
    RaiseState.BREAKER_WARM: "the breaker of {} has not cooled, or its state is not known",
    RaiseState.NOT_MEASURED: "no fresh sample of {}",
    RaiseState.NOT_SEEN: "agents have not seen yet what they fall back to: {}",
    RaiseState.PAUSE: "limits were withdrawn a short time ago",
}


@dataclass(frozen=True, slots=True)
class OversubscribedDomain:
    """State of an oversubscribed domain, in milliwatts."""

    state: RaiseState
    #: With what no node gets.
    permitted_mw: int
    #: Of the highest limits that may be in force; None: one is not known.
    fallback_mw: int | None
    damage: BreakerDamage
    reason: str

    @property
    def raised(self) -> bool:
        """Whether limits may add up to what is permitted."""
        return self.state is RaiseState.RAISED


@dataclass(frozen=True, slots=True)
class NamedSamples:
    """The samples that nodes of a tree are told, with their fallbacks; `found` is None where it has none."""

    tree: BudgetTree
    found: TreeRaise | None = None
    #: Nodes may hold their limits while they are measured.
    names: bool = False

    def limit(self, name: NodeName, limit_mw: int | None, seen: SeenBudget) -> OversubscribedLimit | None:
        """Return the part of the spec of a node with a limit."""
        fallback = None if self.found is None else self.found.fallback_mw(self.tree, name, limit_mw)
        if self.found is None or fallback is None:
            return None
        return OversubscribedLimit(
            fallback_watts=watts_of(fallback) or 0.0,
            sample_seconds=self.found.times.sample_s,
            hold_seconds=max(self.found.times.hold_s, 1),
            sample=seen.sample.number if self.names and seen.sample is not None else None,
        )

    def is_withdrawn(self, name: NodeName, seen: SeenBudget) -> bool:
        """Return whether a node may hold its limit by its spec, and shall not any more."""
        before = None if seen.spec is None else seen.spec.oversubscription
        after = self._wanted(name, seen)
        return before is not None and before.sample is not None and after is not None and after.sample is None

    def is_due(self, name: NodeName, seen: SeenBudget, now_s: float, last_s: float | None) -> bool:
        """Return whether the spec of a node is written for a sample, or since what it falls back to has changed."""
        before = None if seen.spec is None else seen.spec.oversubscription
        after = self._wanted(name, seen)
        if after is not None and before is not None and after.sample != before.sample:
            return True
        if last_s is not None and self.found is not None and now_s < last_s + _LEAST * self.found.times.sample_s:
            return False
        answered = seen.sample is not None and seen.spec is not None and seen.repeated == seen.spec.renewal
        return after != before or (after is not None and after.sample is None and answered)

    def _wanted(self, name: NodeName, seen: SeenBudget) -> OversubscribedLimit | None:
        return None if seen.spec is None else self.limit(name, milliwatts(seen.spec.limit_watts), seen)


class TreeRaises:
    """The trees of one operator, by the name of the root and the term of the leader."""

    def __init__(self) -> None:
        self._trees: dict[tuple[str, int], TreeOversubscription] = {}

    def retain(self, roots: Iterable[str]) -> None:
        """Forget all other trees."""
        kept = set(roots)
        self._trees = {key: each for key, each in self._trees.items() if key[0] in kept}

    def look(
        self,
        tree: BudgetTree,
        nodes: Mapping[NodeName, BudgetNode],
        seen: Mapping[NodeName, SeenBudget],
        now_s: float,
        *,
        term: int | None,
        lowered: bool,
    ) -> TreeRaise | None:
        """Return the state of a tree; None where it is not oversubscribed, or the term of the leader is not known."""
        if term is None or not is_oversubscribed(tree):
            return None
        key = (tree.domains[0].name, term)
        if key not in self._trees:
            self._trees = {each: found for each, found in self._trees.items() if each[0] != key[0]}
            self._trees[key] = TreeOversubscription()
        measured = {name: _measured(node, seen.get(name, SeenBudget())) for name, node in nodes.items()}
        return self._trees[key].look(tree, measured, now_s, lowered=lowered)


def named_samples(tree: BudgetTree, found: TreeRaise | None, sums: Mapping[str, DomainSums]) -> NamedSamples:
    """Return what is written to nodes.

    Args:
        tree: with the limits that breakers carry for long.
        found: its state.
        sums: of the decision.
    """
    if found is None:
        return NamedSamples(tree)
    in_force = {name: each.in_force_mw for name, each in sums.items()}
    return NamedSamples(tree, found, names=found.raised or are_within(tree, in_force))


def oversubscribed_domains(
    tree: BudgetTree, found: TreeRaise | None, nodes: Mapping[NodeName, BudgetNode]
) -> dict[str, OversubscribedDomain]:
    """Return the state of each oversubscribed domain, by name."""
    if found is None:
        return {}
    held = {name: held_mw(node) for name, node in nodes.items()}
    fallbacks = {name: found.fallback_mw(tree, name, limit) for name, limit in held.items()}
    states = {}
    for domain, below in zip(tree.domains, tree.nodes_below(), strict=True):
        if domain.rating is not None:
            known = [each for each in (fallbacks[name] for name in below) if each is not None]
            states[domain.name] = OversubscribedDomain(
                state=found.state,
                permitted_mw=permitted_mw(domain),
                fallback_mw=sum(known) if len(known) == len(below) else None,
                damage=found.damage[domain.name],
                reason=_TEXTS[found.state].format(first_of(found.subjects, _MOST_NAMED)),
            )
    return states


def with_headroom(observed: Mapping[str, ObservedDomain], tree: BudgetTree) -> dict[str, ObservedDomain]:
    """Return domains whose limits are raised with their headroom below the limits of a tree."""
    usable = {each.name: each.usable_mw for each in tree.domains}
    return {name: replace(each, sums=_below(each.sums, usable[name])) for name, each in observed.items()}


def _below(sums: DomainSums, usable_mw: int) -> DomainSums:
    return replace(sums, headroom_mw=None if sums.in_force_mw is None else usable_mw - sums.in_force_mw)


def _measured(node: BudgetNode, seen: SeenBudget) -> MeasuredNode:
    answered = seen.report is not None and seen.report.identity == node.identity
    limit = None if seen.spec is None else seen.spec.oversubscription
    return MeasuredNode(
        node,
        seen.sample if answered else None,
        None if limit is None else milliwatts(limit.fallback_watts),
        0 if seen.spec is None else seen.spec.renewal,
        seen.repeated,
    )
