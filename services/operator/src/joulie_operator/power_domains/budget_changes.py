"""The specs of NodePowerBudgets that are written after a decision, and why each is.

Guarantees that nothing is written over a version that may have changed since it was seen; that a limit that was sent
without an answer is sent again; and that a renewal changes nothing but what nodes fall back to.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_core.budget import BudgetNode, BudgetTree, LeaseTimes, LimitAsk
from joulie_core.budget.ledger import current_ask
from joulie_core.budget.objects import watts_of
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_core.names import NodeName
from joulie_operator.power_domains.oversubscription import NamedSamples
from joulie_operator.power_domains.sent import SeenBudget

#: The lease of a limit, and its part in which others can be lowered and read back.
TIMES: Final = LeaseTimes(lease_s=300.0, margin_s=60.0)
#: Between two renewals of a node at most; at least half of it.
RENEWAL_S: Final = 100.0
_SHARES: Final = 1 << 16
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
    #: The limit is below what was asked before, or counts no more.
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


def kept_changes(names: frozenset[NodeName], budgets: SeenBudgets) -> Iterator[BudgetChange]:
    """Yield the renewals of nodes that keep what they have."""
    for name in sorted(names):
        seen = budgets.seen.get(name)
        if seen is None or seen.spec is None or seen.in_flight or name in budgets.unreadable or budgets.term is None:
            continue
        if seen.spec.term <= budgets.term and budgets.renewal_is_due(name):
            spec = seen.spec.model_copy(update={"renewal": _next(seen.spec)})
            yield BudgetChange(name, seen.version, spec, renews=True)


def budget_changes(
    tree: BudgetTree,
    nodes: Mapping[NodeName, BudgetNode],
    budgets: SeenBudgets,
    asks: Mapping[NodeName, LimitAsk],
    samples: NamedSamples,
    *,
    settling: bool,
) -> Iterator[BudgetChange]:
    """Yield what is written to the nodes of an enforced tree.

    Args:
        tree: the domains.
        nodes: of the tree, with their asks and reports as they count.
        budgets: the objects of all nodes.
        asks: that were decided.
        samples: what is written for the oversubscription of the tree.
        settling: agents may still answer this leader for the first time: nothing is raised.
    """
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
                _spec(name, ask, seen, domain.name, samples, releases=tree.releases[index]),
                raises=_is_raise(before, ask),
                lowers=_is_lowering(before, ask),
                priority=domain.priority,
            )
        elif seen.spec is not None and seen.unanswered:
            yield BudgetChange(name, seen.version, seen.spec, priority=domain.priority)
        elif node.ask is not None and seen.spec is not None and _is_renewed(tree, name, seen, budgets, samples):
            spec = _spec(name, node.ask, seen, domain.name, samples, releases=tree.releases[index])
            spec = spec.model_copy(update={"ceiling_watts": seen.spec.ceiling_watts})
            yield BudgetChange(name, seen.version, spec, renews=True, lowers=samples.is_withdrawn(name, seen))


def _is_renewed(
    tree: BudgetTree, name: NodeName, seen: SeenBudget, budgets: SeenBudgets, samples: NamedSamples
) -> bool:
    """Return whether a renewal is due; at once where the node shall be released and does not know it."""
    unknown = tree.releases[tree.leaf_of[name]] and not is_released_without_control(seen)
    if unknown or budgets.renewal_is_due(name):
        return True
    return samples.is_due(name, seen, budgets.now_s, budgets.last_s.get(name))


def _spec(
    name: NodeName, ask: LimitAsk, seen: SeenBudget, domain: str, samples: NamedSamples, *, releases: bool
) -> NodePowerBudgetSpec:
    uid, _, boot_id = ask.identity.partition("/")
    return NodePowerBudgetSpec(
        node_name=name,
        node_uid=uid,
        boot_id=boot_id,
        term=ask.term,
        sequence=min(ask.sequence, _MOST),
        limit_watts=watts_of(ask.limit_mw),
        ceiling_watts=watts_of(ask.ceiling_mw),
        oversubscription=samples.limit(name, ask.limit_mw, seen),
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


def is_released_without_control(seen: SeenBudget) -> bool:
    """Return whether the agent of a node lifts its limit when its lease ends, by what it was asked."""
    return seen.spec is not None and seen.spec.on_lost_control is DomainLostControl.RELEASE
