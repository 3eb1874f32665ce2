"""Floors of nodes: the share that is never taken, as far as floors fit into the limits.

Guarantees that the floors of a tree fit into what every breaker carries for long, unless the lowest limits of the
hardware do not: floors that do not fit are refused by the name of the domain, and those lowest limits count below it.
Whether limits are raised changes no floor.
"""

import math
from collections.abc import Mapping
from typing import Final

from joulie_core.budget.tree import BudgetDomain, BudgetProblem, BudgetTree, DomainProblem
from joulie_core.names import NodeName
from joulie_core.units import MW_PER_WATT

_PERCENT: Final = 100.0


def floors_of(
    tree: BudgetTree, ranges: Mapping[NodeName, tuple[int, int]]
) -> tuple[dict[NodeName, int], list[DomainProblem]]:
    """Return the floor of each node in milliwatts, and the floors that are refused.

    Args:
        tree: with the floors that are asked for.
        ranges: of each node the lowest and the highest limit, in milliwatts.
    """
    problems: list[DomainProblem] = []
    floors: dict[NodeName, int] = {}
    for domain in tree.domains:
        for node in domain.nodes:
            floors[node] = _floor(domain, node, *ranges[node], problems)
    minima = tree.sums({node: lowest for node, (lowest, _) in ranges.items() if node in tree.leaf_of})
    refused = _refused(tree, floors, minima, problems)
    for index, domain in enumerate(tree.domains):
        if refused[index]:
            floors |= {node: ranges[node][0] for node in domain.nodes}
    return floors, problems


def _floor(domain: BudgetDomain, node: NodeName, lowest: int, highest: int, problems: list[DomainProblem]) -> int:
    if 0 < domain.floor_mw < lowest < highest:  # else the node cannot be limited at all
        message = f"the floor of {domain.floor_mw / MW_PER_WATT:g} W is below the minimum of {node}, "
        message += f"{lowest / MW_PER_WATT:g} W"
        problems.append(DomainProblem(domain.name, BudgetProblem.FLOOR_BELOW_MINIMUM, message))
    floor = max(domain.floor_mw, math.ceil(highest * domain.floor_pct / _PERCENT))
    return min(max(floor, lowest), highest)


def _refused(
    tree: BudgetTree, floors: Mapping[NodeName, int], minima: list[int], problems: list[DomainProblem]
) -> list[bool]:
    """Return whether the floors below each domain are refused, there or above."""
    sums = [sum(floors[node] for node in domain.nodes) for domain in tree.domains]
    refused = [False] * len(sums)
    for index in range(len(sums) - 1, -1, -1):
        domain = tree.domains[index]
        if sums[index] > domain.lasting_mw and sums[index] > minima[index]:
            message = f"floors of {sums[index] / MW_PER_WATT:g} W do not fit into {domain.lasting_mw / MW_PER_WATT:g} W"
            problems.append(DomainProblem(domain.name, BudgetProblem.FLOORS_DO_NOT_FIT, message))
            refused[index] = True
            sums[index] = minima[index]
        if index:
            sums[tree.parents[index]] += sums[index]
    for index in range(1, len(sums)):
        refused[index] = refused[index] or refused[tree.parents[index]]
    return refused
