"""The state of an oversubscribed tree: its limits may add up to more than its domains supply for long, or not.

Guarantees that they may only while the breakers are counted as cold, and what nodes draw is within the limits, where a
node without a fresh sample counts with the limit that may be in force; and only after the agents of all nodes have
sampled, and have seen what they fall back to. What is not known is never free. Reasons:
docs/decisions/0066-oversubscription.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from joulie_core.budget.breaker_states import BreakerDamage, BreakerStates
from joulie_core.budget.fallback import fallback_floors, fallback_mw, fallback_shares, is_limitable, permitted_mw
from joulie_core.budget.ledger import BudgetNode, current_ask
from joulie_core.budget.samples import NodeSamples, ReportedSample, SampleTimes
from joulie_core.budget.tree import BudgetDomain, BudgetTree
from joulie_core.kinds.raise_state import RaiseState
from joulie_core.names import NodeName

#: Nodes of a tree that fall back: each costs a write of its spec and of its status with each sample.
MOST_NODES: Final = 200
#: Damage from which on a breaker counts as warm.
WARM: Final = 0.25
#: Load from which on limits are withdrawn, and below which they are raised.
_HIGHEST_LOAD: Final = 0.98
_RAISING_LOAD: Final = 0.90
#: Between a withdrawal and the next raise, in times in which an overload ends.
_PAUSE: Final = 2.0


@dataclass(frozen=True, slots=True)
class MeasuredNode:
    """A node, what its agent has measured, and what it was asked to fall back to."""

    node: BudgetNode
    #: None: the agent of this boot has reported none.
    sample: ReportedSample | None
    #: As stored, or as sent last.
    fallback_mw: int | None
    #: Of the spec with that fallback, and the one that the agent has seen last.
    renewal: int
    repeated: int | None


@dataclass(frozen=True, slots=True)
class TreeRaise:
    """State of a tree, and the fallbacks of its nodes."""

    state: RaiseState
    times: SampleTimes
    #: Domains or nodes that are the reason.
    subjects: tuple[str, ...]
    #: By the index of the domain that selects nodes; empty where there are too many nodes.
    shares: Mapping[int, Fraction]
    #: What each node keeps of its limit when it falls back.
    floors_mw: Mapping[NodeName, int]
    #: By the name of the domain.
    damage: Mapping[str, BreakerDamage]

    @property
    def raised(self) -> bool:
        """Whether limits may add up to what is permitted."""
        return self.state is RaiseState.RAISED

    def fallback_mw(self, tree: BudgetTree, name: NodeName, limit_mw: int | None) -> int | None:
        """Return what a node with a limit falls back to; None where it does not."""
        share = self.shares.get(tree.leaf_of[name])
        return None if share is None or limit_mw is None else fallback_mw(limit_mw, self.floors_mw[name], share)


@dataclass(frozen=True, slots=True)
class _Look:
    """All that the state of limits is decided by."""

    tree: BudgetTree
    nodes: Mapping[NodeName, MeasuredNode]
    now_s: float
    #: Nodes below oversubscribed domains.
    falling: frozenset[NodeName]
    floors_mw: Mapping[NodeName, int]
    #: An event lowers a limit of the tree.
    lowered: bool
    #: Nodes would fall back to more than they may.
    drops: bool


class TreeOversubscription:
    """The state of one tree under one leader."""

    def __init__(self) -> None:
        self._raised = False
        self._withdrawn_s: float | None = None
        self._breakers = BreakerStates()
        self._samples = NodeSamples()
        self._shares: dict[int, Fraction] = {}
        self._floors: dict[NodeName, int] = {}
        #: The share by which the agent of a node falls back, with the renewal from which on it does.
        self._seen: dict[NodeName, tuple[Fraction, int]] = {}

    def look(
        self, tree: BudgetTree, nodes: Mapping[NodeName, MeasuredNode], now_s: float, *, lowered: bool
    ) -> TreeRaise:
        """Return whether limits are raised now.

        Args:
            tree: with the limits that breakers carry for long; at least one domain is oversubscribed.
            nodes: all nodes of the tree.
            now_s: the clock of `ReportedSample.renewed_s`.
            lowered: an event lowers a limit of the tree.
        """
        times = SampleTimes(min(each.rating.reaction_s for each in tree.domains if each.rating is not None))
        names = {each.name: found for each, found in zip(tree.domains, tree.nodes_below(), strict=True)}
        below = {each.name: names[each.name] for each in _rated(tree)}
        falling = frozenset[NodeName]().union(*below.values())
        self._samples.take({name: nodes[name].sample for name in falling}, now_s, times)
        drawn = {name: self._samples.counted_mw(nodes[name].node) for name in falling}
        self._breakers.count(tree, {name: [drawn[each] for each in found] for name, found in below.items()}, now_s)
        damage = {name: each.damage for name, each in self._breakers.states.items()}
        if len(falling) > MOST_NODES:
            self._withdraw(now_s)
            return TreeRaise(RaiseState.TOO_MANY_NODES, times, (), {}, {}, damage)
        floors = fallback_floors(tree, {name: each.node for name, each in nodes.items()})
        shares = fallback_shares(tree, floors)
        # A floor that grows while another shrinks leaves the share as it was.
        grows = any(floor > self._floors.get(name, floor) for name, floor in floors.items())
        drops = self._raised and (grows or not _are_within(self._shares, shares))
        self._floors = floors
        if drops or not self._raised:
            self._shares = shares
        look = _Look(tree, nodes, now_s, falling, floors, lowered, drops)
        self._take_seen(look)
        state, subjects = next(self._hindrances(look), (RaiseState.RAISED, ()))
        if state is RaiseState.RAISED:
            self._raised = True
        else:
            self._withdraw(now_s)
            self._shares = shares
        return TreeRaise(state, times, subjects, dict(self._shares), floors, damage)

    def _withdraw(self, now_s: float) -> None:
        if self._raised:
            self._raised, self._withdrawn_s = False, now_s

    def _take_seen(self, look: _Look) -> None:
        """Keep by which share the objects of nodes let them fall back, and since which renewal."""
        kept = {}
        for name in look.falling:
            node, share = look.nodes[name], self._shares[look.tree.leaf_of[name]]
            ask = current_ask(node.node)
            if ask is None or ask.limit_mw is None or node.fallback_mw is None:
                continue
            if node.fallback_mw <= fallback_mw(ask.limit_mw, look.floors_mw[name], share):
                before = self._seen.get(name)
                kept[name] = before if before is not None and before[0] == share else (share, node.renewal)
        self._seen = kept

    def _has_seen(self, node: MeasuredNode) -> bool:
        seen = self._seen.get(node.node.name)
        return seen is not None and node.repeated is not None and node.repeated >= seen[1]

    def _hindrances(self, look: _Look) -> Iterator[tuple[RaiseState, tuple[str, ...]]]:
        """Yield why limits are not raised, those first that last."""
        tree, breakers = look.tree, self._breakers.states
        if all(permitted_mw(each) <= each.limit_mw for each in tree.domains):
            yield RaiseState.NOTHING_PERMITTED, ()
        if look.lowered:
            yield RaiseState.EVENT, ()
        yield from _named(RaiseState.POWER_UNKNOWN, (name for name, each in breakers.items() if each.load is None))
        sums = tree.sums(look.floors_mw)
        short = (each.name for each, total in zip(tree.domains, sums, strict=True) if total > each.usable_mw)
        yield from _named(RaiseState.SHORTFALL, short)
        ends_s = max(each.rating.ends_s for each in breakers.values())
        limitable = [name for name in look.falling if is_limitable(look.nodes[name].node)]
        # Limits that are raised stay so for a time, in which a node without a sample counts with its limit.
        yield from _named(RaiseState.NOT_MEASURED, self._samples.stale(limitable, ends_s if self._raised else 0.0))
        highest = _HIGHEST_LOAD if self._raised else _RAISING_LOAD
        near = (name for name, each in breakers.items() if (each.load or 0.0) >= highest)
        yield from _named(RaiseState.NEAR_LIMIT, near)
        warm = (name for name, each in breakers.items() if each.damage.total >= WARM)
        yield from _named(RaiseState.BREAKER_WARM, warm)
        unseen = (name for name in limitable if look.drops or not (self._raised or self._has_seen(look.nodes[name])))
        yield from _named(RaiseState.NOT_SEEN, unseen)
        if not self._raised and self._withdrawn_s is not None and look.now_s < self._withdrawn_s + _PAUSE * ends_s:
            yield RaiseState.PAUSE, ()


def is_oversubscribed(tree: BudgetTree) -> bool:
    """Return whether a domain of the tree is."""
    return bool(_rated(tree))


def are_within(tree: BudgetTree, in_force_mw: Mapping[str, int | None]) -> bool:
    """Return whether limits that may be in force are within what every oversubscribed domain supplies for long."""
    sums = ((each, in_force_mw[each.name]) for each in _rated(tree))
    return all(total is not None and total <= each.usable_mw for each, total in sums)


def _rated(tree: BudgetTree) -> tuple[BudgetDomain, ...]:
    return tuple(each for each in tree.domains if each.rating is not None)


def _are_within(before: Mapping[int, Fraction], now: Mapping[int, Fraction]) -> bool:
    """Return whether no share is above the one of now."""
    return before.keys() == now.keys() and all(share <= now[index] for index, share in before.items())


def _named(state: RaiseState, subjects: Iterable[str]) -> Iterator[tuple[RaiseState, tuple[str, ...]]]:
    if found := tuple(sorted(subjects)):
        yield state, found
