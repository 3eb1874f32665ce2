"""One decision about the limits of a tree: what is asked of which node now, and the sums of each domain.

Guarantees, for the domains of one tree, that the sum of the limits that may be in force does not grow above the usable
power: a node is raised only by what every domain above it has left, where nodes that are being lowered count with their
old limit (`joulie_core.budget.ledger`). Where that sum is above, or not known, nothing is raised. A leader whose term
has passed asks nothing. Where all asks are confirmed, no more follow after three rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_core.budget.allocate import Allocator, NodeWants, wants_of
from joulie_core.budget.floors import floors_of
from joulie_core.budget.ledger import (
    BudgetNode,
    LeaseTimes,
    LimitAsk,
    current_ask,
    current_report,
    is_silent,
    later_report,
    may_be_in_force_mw,
    next_ask,
)
from joulie_core.budget.tree import BudgetTree, DomainProblem
from joulie_core.names import NodeName

#: Change of a limit that is not worth an ask, of the node's highest power.
_BAND: Final = 0.02


@dataclass(frozen=True, slots=True)
class DomainSums:
    """Sums of the nodes below a domain, in milliwatts."""

    allocated_mw: int
    guaranteed_mw: int
    #: Of the limits that may be in force; None where one is not known.
    in_force_mw: int | None
    #: Usable power above that sum; None where it is not known.
    headroom_mw: int | None
    #: Part of the sum above the usable power that no ask can lower.
    shortfall_mw: int


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """Asks to be written, and the state of the domains by name."""

    asks: Mapping[NodeName, LimitAsk]
    targets_mw: Mapping[NodeName, int]
    domains: Mapping[str, DomainSums]
    problems: tuple[DomainProblem, ...] = ()
    #: Another leader has a later term.
    deposed: bool = False
    floors_mw: Mapping[NodeName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BudgetShares:
    """The share and the floor of each node, in milliwatts."""

    targets_mw: Mapping[NodeName, int]
    floors_mw: Mapping[NodeName, int]


@dataclass(slots=True)
class _Standing:
    """A node in this decision."""

    node: BudgetNode
    leaf: int
    #: What may be in force; None where that is not known.
    charge_mw: int | None
    #: What was asked last; without an ask the node's highest power.
    asked_mw: int
    #: It can be asked, and would follow.
    can_follow: bool
    #: Its ask is of this leader's term, and no later one was applied.
    fenced: bool
    #: Its ask was reported.
    confirmed: bool


class BudgetPlanner:
    """The decisions of one leader about one tree; keeps the shares between them, and nothing that a restart needs."""

    def __init__(self, tree: BudgetTree, term: int, times: LeaseTimes) -> None:
        """Take the tree, the leader's term, and the times of leases."""
        self._tree = tree
        self._term = term
        self._times = times
        self._allocator: Allocator | None = None
        self._ranges: dict[NodeName, tuple[int, int]] = {}
        self._floors: dict[NodeName, int] = {}
        self._problems: tuple[DomainProblem, ...] = ()

    def decide(self, nodes: Mapping[NodeName, BudgetNode], now_s: float) -> BudgetDecision:
        """Return what is asked now.

        Args:
            nodes: all nodes of the tree.
            now_s: the operator's clock, that of `BudgetNode.renewed_s`.
        """
        tree = self._tree
        standings = self._standings(nodes, now_s)
        targets = self._allocate(standings)
        deposed = any(is_later(each.node.ask, self._term) for each in standings.values() if each.node.ask)
        asks: dict[NodeName, LimitAsk] = {}
        if not deposed:
            asks = self._fences(standings, targets) | self._withdrawals(standings) | self._lowers(standings, targets)
        left = left_mw(tree, standings)
        if not deposed:
            asks |= self._raises(standings, targets, list(left), asks)
        return BudgetDecision(
            asks, dict(targets), self._sums(standings, targets), self._problems, deposed, dict(self._floors)
        )

    def shares(self, nodes: Mapping[NodeName, BudgetNode], now_s: float) -> BudgetShares:
        """Return the shares of a decision alone, without what is asked for them; arguments as for `decide`."""
        targets = self._allocate(self._standings(nodes, now_s))
        return BudgetShares(dict(targets), dict(self._floors))

    @property
    def allocator(self) -> Allocator | None:
        """The shares of the last decision; None before the first."""
        return self._allocator

    def _standings(self, nodes: Mapping[NodeName, BudgetNode], now_s: float) -> dict[NodeName, _Standing]:
        return {name: self._standing(nodes[name], leaf, now_s) for name, leaf in self._tree.leaf_of.items()}

    def _standing(self, node: BudgetNode, leaf: int, now_s: float) -> _Standing:
        charge = may_be_in_force_mw(node, now_s, self._times, releases=self._tree.releases[leaf])
        ask, report = current_ask(node), current_report(node)
        asked = ask.limit_mw if ask is not None and ask.limit_mw is not None else node.max_mw
        confirmed = report is not None and ask is not None and report.sequence == ask.sequence
        refuses = confirmed and report is not None and report.refused
        follows = node.min_mw is not None and node.max_mw is not None and not refuses
        return _Standing(
            node=node,
            leaf=leaf,
            charge_mw=charge,
            asked_mw=asked or 0,
            can_follow=follows and not is_silent(node, now_s, self._times),
            fenced=ask is not None and is_own(ask, self._term) and later_report(node) is None,
            confirmed=confirmed,
        )

    def _allocate(self, standings: Mapping[NodeName, _Standing]) -> Mapping[NodeName, int]:
        """Return the share of each node; only what has changed since the last call is computed again."""
        ranges = {name: _range(each) for name, each in standings.items()}
        if ranges != self._ranges or self._allocator is None:
            self._floors, problems = floors_of(self._tree, ranges)
            self._problems, self._ranges = tuple(problems), ranges
        wants = {name: self._wants(each) for name, each in standings.items()}
        if self._allocator is None:
            self._allocator = Allocator(self._tree, wants)
        else:
            for name, each in wants.items():
                self._allocator.change(name, each)
        return self._allocator.targets()

    def _wants(self, standing: _Standing) -> NodeWants:
        name, highest = standing.node.name, self._ranges[standing.node.name][1]
        lowest = min(max(self._floors[name], standing.node.kept_mw), highest)
        return wants_of(lowest, standing.node.demand_mw, highest)

    def _fences(
        self, standings: Mapping[NodeName, _Standing], targets: Mapping[NodeName, int]
    ) -> dict[NodeName, LimitAsk]:
        """Return an ask for each node that does not bear this term: it raises nothing, and no earlier leader can.

        As well for one whose agent has applied a later ask than the stored one: it follows that until it is asked anew.
        """
        asks = {}
        for name, each in standings.items():
            if not each.fenced:
                limit = None
                if each.can_follow and each.charge_mw is not None:
                    limit = min(targets[name], each.charge_mw, each.asked_mw, *_applied_mw(each.node))
                elif (ask := current_ask(each.node)) is not None:
                    limit = ask.limit_mw
                asks[name] = next_ask(each.node, limit, self._term)
        return asks

    def _withdrawals(self, standings: Mapping[NodeName, _Standing]) -> dict[NodeName, LimitAsk]:
        """Return an ask for each raise that a node cannot follow now: it would be in force at a time of its own."""
        asks = {}
        for name, each in standings.items():
            report = current_report(each.node)
            in_force = report.in_force_mw if report is not None else None
            if each.fenced and not each.can_follow and in_force is not None and each.asked_mw > in_force:
                asks[name] = next_ask(each.node, in_force, self._term)
        return asks

    def _lowers(
        self, standings: Mapping[NodeName, _Standing], targets: Mapping[NodeName, int]
    ) -> dict[NodeName, LimitAsk]:
        """Return an ask for each node that has more than its share, without those within the band where they fit."""
        keeping = {name: self._kept(each, targets[name]) for name, each in standings.items()}
        crowded = self._crowded(keeping)
        asks = {}
        for name, each in standings.items():
            target = targets[name]
            above = each.fenced and each.can_follow and each.asked_mw > target
            if above and (keeping[name] == target or crowded[each.leaf]):
                asks[name] = next_ask(each.node, target, self._term)
        return asks

    def _kept(self, standing: _Standing, target: int) -> int:
        """Return what a node has in the end: its last limit where that is within the band around its share."""
        close = abs(standing.asked_mw - target) <= _band(standing.node)
        return standing.asked_mw if standing.fenced and close else target

    def _crowded(self, keeping: Mapping[NodeName, int]) -> list[bool]:
        """Return whether what is kept below each domain, or below one above it, is more than it can supply."""
        crowded: list[bool] = []
        for domain, parent, total in zip(self._tree.domains, self._tree.parents, self._tree.sums(keeping), strict=True):
            crowded.append(total > domain.usable_mw or (parent >= 0 and crowded[parent]))
        return crowded

    def _raises(
        self,
        standings: Mapping[NodeName, _Standing],
        targets: Mapping[NodeName, int],
        left: list[int | None],
        others: Mapping[NodeName, LimitAsk],
    ) -> dict[NodeName, LimitAsk]:
        """Return an ask for each node that gets more, in the order of priorities, as far as there is power left."""
        domains, asks = self._tree.domains, {}
        waiting = [
            (-domains[each.leaf].priority, name, each)
            for name, each in standings.items()
            if each.fenced and each.can_follow and each.asked_mw < targets[name] and name not in others
        ]
        for _, name, each in sorted(waiting, key=lambda entry: entry[:2]):
            target, charge = targets[name], each.charge_mw
            if charge is None or (each.confirmed and target <= charge):
                continue  # the latter holds more than was asked: firmware takes no lower limit
            room = self._room(each.leaf, left)
            if room is None or room < 0:
                continue  # not even a lowering that is under way is undone
            limit = min(target, charge + room)
            worth = limit - each.asked_mw > _band(each.node) or limit == target == each.node.max_mw
            below_floor = each.asked_mw < self._floors[name] and limit > each.asked_mw
            if limit > each.asked_mw and (worth or below_floor):
                asks[name] = next_ask(each.node, limit, self._term)
                self._take(each.leaf, left, max(limit - charge, 0))
        return asks

    def _room(self, index: int, left: list[int | None]) -> int | None:
        """Return what all domains from this one up to the root have left; None where that is not known."""
        room = left[index]
        while index >= 0 and room is not None:
            above = left[index]
            room = None if above is None else min(room, above)
            index = self._tree.parents[index]
        return room

    def _take(self, index: int, left: list[int | None], amount: int) -> None:
        while index >= 0:
            if (above := left[index]) is not None:
                left[index] = above - amount
            index = self._tree.parents[index]

    def _sums(self, standings: Mapping[NodeName, _Standing], targets: Mapping[NodeName, int]) -> dict[str, DomainSums]:
        tree = self._tree
        charged = _charges(tree, standings)
        allocated, guaranteed = tree.sums(targets), tree.sums(self._floors)
        lowest = tree.sums({name: span[0] for name, span in self._ranges.items()})
        return {
            domain.name: DomainSums(
                allocated_mw=allocated[index],
                guaranteed_mw=guaranteed[index],
                in_force_mw=charged[index],
                headroom_mw=None if charged[index] is None else domain.usable_mw - (charged[index] or 0),
                shortfall_mw=max(lowest[index] - domain.usable_mw, 0),
            )
            for index, domain in enumerate(tree.domains)
        }


def is_own(ask: LimitAsk, term: int) -> bool:
    """Return whether an ask was written in this term, so that no earlier leader can replace it."""
    return ask.term == term


def is_later(ask: LimitAsk, term: int) -> bool:
    """Return whether an ask was written by a later leader."""
    return ask.term > term


def left_mw(tree: BudgetTree, standings: Mapping[NodeName, _Standing]) -> list[int | None]:
    """Return what each domain has left; None where a limit is not known, or a node may still be asked by another."""
    charged = _charges(tree, standings)
    open_nodes = tree.sums({name: not each.fenced for name, each in standings.items()})
    return [
        None if charged[index] is None or open_nodes[index] else domain.usable_mw - (charged[index] or 0)
        for index, domain in enumerate(tree.domains)
    ]


def _charges(tree: BudgetTree, standings: Mapping[NodeName, _Standing]) -> list[int | None]:
    """Return the sum of what may be in force below each domain; None where one is not known.

    None as well where other power of a server below it is not known: what is left for limits is not known either.
    """
    unknown = tree.sums({name: each.charge_mw is None for name, each in standings.items()})
    sums = tree.sums({name: each.charge_mw or 0 for name, each in standings.items()})
    return [
        None if unknown[index] or not domain.rest_known else total
        for index, (domain, total) in enumerate(zip(tree.domains, sums, strict=True))
    ]


def _range(standing: _Standing) -> tuple[int, int]:
    """Return the lowest and the highest limit of a node; where it cannot follow, both are what may be in force."""
    node, charge = standing.node, standing.charge_mw
    if not standing.can_follow:
        known = charge if charge is not None else node.min_mw or 0
        return known, known
    highest, lowest = node.max_mw or 0, node.min_mw or 0
    if standing.confirmed and charge is not None and charge > standing.asked_mw:
        lowest = max(lowest, charge)  # firmware takes no lower limit
    return min(lowest, highest), highest


def _applied_mw(node: BudgetNode) -> tuple[int, ...]:
    """Return what was read back of an ask that is later than the stored one; none where there is no such limit."""
    report = later_report(node)
    return () if report is None or report.in_force_mw is None else (report.in_force_mw,)


def _band(node: BudgetNode) -> int:
    return int((node.max_mw or 0) * _BAND)
