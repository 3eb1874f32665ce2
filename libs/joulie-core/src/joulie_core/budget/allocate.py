"""Shares of a tree's limits: floors first, then demand by priority, then what is left.

Guarantees that the shares below a domain never add up to more than its usable power, unless the lowest shares do; that
no share is below its lowest or above its highest; and that a higher limit of the root lowers no share. Within a
priority, shares are in proportion to what is wanted. One pass upwards finds what each domain can use, one downwards
divides it; all in whole milliwatts, rounded down, so that a division leaves less than one for each of its parts.

`Allocator` keeps both passes, and repeats only what a changed node reaches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.budget.tree import BudgetTree
from joulie_core.kinds.power_domain import MOST_PRIORITY
from joulie_core.names import NodeName

#: Ranks below all priorities: power beyond demand.
_SURPLUS: Final = -MOST_PRIORITY - 1

#: Milliwatts by priority.
Wants = dict[int, int]


@dataclass(frozen=True, slots=True)
class NodeWants:
    """Bounds of the share of a node, in milliwatts: lowest <= demand <= highest."""

    lowest_mw: int
    demand_mw: int
    highest_mw: int

    def __post_init__(self) -> None:
        if not 0 <= self.lowest_mw <= self.demand_mw <= self.highest_mw:
            raise ValueError(f"not in order: {self.lowest_mw}, {self.demand_mw}, {self.highest_mw} mW")


def wants_of(lowest_mw: int, demand_mw: int | None, highest_mw: int) -> NodeWants:
    """Return the bounds of a node; a demand that is not known counts as the highest, any other is brought within."""
    demand = highest_mw if demand_mw is None else min(max(demand_mw, lowest_mw), highest_mw)
    return NodeWants(lowest_mw, demand, highest_mw)


class Allocator:
    """The shares of the nodes of one tree."""

    def __init__(self, tree: BudgetTree, wants: Mapping[NodeName, NodeWants]) -> None:
        """Take the bounds of every node of the tree."""
        self._tree = tree
        self._wants = {node: wants[node] for node in tree.leaf_of}
        count = len(tree.domains)
        self._lowest = [0] * count
        #: What all below want, and the part of it that the domain can use.
        self._wanted: list[Wants] = [{} for _ in range(count)]
        self._useful: list[Wants] = [{} for _ in range(count)]
        self._granted: list[Wants | None] = [None] * count
        self._changed = set(range(count))
        self._targets: dict[NodeName, int] = {}

    def change(self, node: NodeName, wants: NodeWants) -> None:
        """Replace the bounds of one node."""
        if self._wants[node] == wants:
            return
        self._wants[node] = wants
        index = self._tree.leaf_of[node]
        while index >= 0 and index not in self._changed:
            self._changed.add(index)
            index = self._tree.parents[index]

    def targets(self) -> Mapping[NodeName, int]:
        """Return the share of each node, in milliwatts; the mapping is changed by later calls."""
        if not self._changed:
            return self._targets
        for index in sorted(self._changed, reverse=True):
            self._sum_up(index)
        self._divide(0, self._useful[0])
        self._changed.clear()
        return self._targets

    def left_mw(self, index: int, priority: int) -> int:
        """Return what a domain could still give to nodes of a priority, by the shares returned last.

        Its usable power less all lowest shares below it and what nodes of this priority and of higher ones want; below
        zero where that is more. Demand of lower priorities does not count: it is served after this one.
        """
        wanted = self._wanted[index]
        before = sum(amount for rank, amount in wanted.items() if rank >= priority)
        return self._tree.domains[index].usable_mw - self._lowest[index] - before

    def _sum_up(self, index: int) -> None:
        """Find what a domain wants and can use, of what its nodes or domains want."""
        domain = self._tree.domains[index]
        wanted: Wants = {}
        lowest = 0
        for child in self._tree.children[index]:
            lowest += self._lowest[child]
            for priority, amount in self._useful[child].items():
                wanted[priority] = wanted.get(priority, 0) + amount
        if domain.nodes:
            bounds = [self._wants[node] for node in domain.nodes]
            lowest += sum(each.lowest_mw for each in bounds)
            demand = sum(each.demand_mw for each in bounds)
            wanted[domain.priority] = demand - lowest
            wanted[_SURPLUS] = sum(each.highest_mw for each in bounds) - demand
        self._lowest[index] = lowest
        self._wanted[index] = wanted
        room = max(domain.usable_mw - lowest, 0)
        useful: Wants = {}
        for priority in sorted(wanted, reverse=True):
            useful[priority] = min(wanted[priority], room)
            room -= useful[priority]
        self._useful[index] = useful

    def _divide(self, index: int, granted: Wants) -> None:
        """Divide what a domain gets above the lowest shares, where that or something below has changed."""
        if index not in self._changed and self._granted[index] == granted:
            return
        self._granted[index] = granted
        wanted = self._wanted[index]
        for child in self._tree.children[index]:
            part = {
                priority: granted.get(priority, 0) * amount // wanted[priority] if amount else 0
                for priority, amount in self._useful[child].items()
            }
            self._divide(child, part)
        domain = self._tree.domains[index]
        if not domain.nodes:
            return
        demand, surplus = granted.get(domain.priority, 0), granted.get(_SURPLUS, 0)
        all_demand, all_surplus = max(wanted[domain.priority], 1), max(wanted[_SURPLUS], 1)
        for node in domain.nodes:
            bounds = self._wants[node]
            self._targets[node] = (
                bounds.lowest_mw
                + demand * (bounds.demand_mw - bounds.lowest_mw) // all_demand
                + surplus * (bounds.highest_mw - bounds.demand_mw) // all_surplus
            )
