"""Limits that may add up to more than that of a domain, and what nodes fall back to.

Guarantees that the fallbacks of nodes add up to no more than the usable power of every domain, whatever their limits
are, as long as these add up to no more than the raised one; unless the lowest limits of the hardware are above it. No
fallback is above the limit of its node, or below its floor where the limit is not, as far as floors fit.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from joulie_core.budget.floors import floors_of
from joulie_core.budget.ledger import BudgetNode, current_ask, current_report, held_mw
from joulie_core.budget.tree import BudgetDomain, BudgetTree
from joulie_core.names import NodeName


def permitted_mw(domain: BudgetDomain) -> int:
    """Return what limits may add up to while what is drawn is measured, with what no node gets."""
    return domain.limit_mw if domain.rating is None else math.floor(domain.limit_mw * domain.rating.permitted)


def raised_tree(tree: BudgetTree) -> BudgetTree:
    """Return the tree with the limits that are permitted while what is drawn is measured."""
    return replace(tree, domains=tuple(_raised(each) for each in tree.domains))


def is_limitable(node: BudgetNode) -> bool:
    """Return whether a node can be limited, and so falls back."""
    return node.min_mw is not None and node.max_mw is not None


def lowest_mw(node: BudgetNode) -> int | None:
    """Return the lowest limit that a node holds for sure when it is asked to; None: not known."""
    held = held_mw(node)
    if node.min_mw is None or node.max_mw is None or held is None:
        return held
    ask, report = current_ask(node), current_report(node)
    if ask is not None and report is not None and report.sequence == ask.sequence:
        asked = node.max_mw if ask.limit_mw is None else ask.limit_mw
        if report.refused or held > asked:
            return held
    return min(node.min_mw, node.max_mw)


def fallback_floors(tree: BudgetTree, nodes: Mapping[NodeName, BudgetNode]) -> dict[NodeName, int]:
    """Return what each node of a tree keeps of its limit when it falls back, in milliwatts.

    Its floor, or where floors do not fit, the lowest limit that it holds for sure; 0 where that is not known.
    """
    ranges = {}
    for name in tree.leaf_of:
        node = nodes[name]
        lowest = lowest_mw(node) or 0
        ranges[name] = lowest, max(node.max_mw or 0, lowest) if is_limitable(node) else lowest
    return floors_of(tree, ranges)[0]


def fallback_shares(tree: BudgetTree, floors: Mapping[NodeName, int]) -> dict[int, Fraction]:
    """Return the part of a limit above its floor that a node falls back to, by the index of its domain.

    Domains that are not oversubscribed, and below no such domain, have none: their nodes do not fall back.

    Args:
        tree: with the limits that breakers carry for long.
        floors: of each node what it keeps of its limit, in milliwatts.
    """
    shares: dict[int, Fraction] = {}
    for index, (domain, total) in enumerate(zip(tree.domains, tree.sums(floors), strict=True)):
        found = [shares[above] for above in (tree.parents[index],) if above in shares]
        if domain.rating is not None:
            found.append(_share(domain, total))
        if found:
            shares[index] = min(found)
    return shares


def fallback_mw(limit_mw: int, floor_mw: int, share: Fraction) -> int:
    """Return what a node with a limit falls back to, rounded down."""
    if limit_mw <= floor_mw:
        return limit_mw
    return floor_mw + (limit_mw - floor_mw) * share.numerator // share.denominator


def _raised(domain: BudgetDomain) -> BudgetDomain:
    permitted = permitted_mw(domain)
    return replace(domain, limit_mw=permitted, raised_mw=permitted - domain.limit_mw)


def _share(domain: BudgetDomain, floors_mw: int) -> Fraction:
    raised = permitted_mw(domain) - domain.withheld_mw
    if raised <= floors_mw:
        return Fraction(0)
    return min(max(Fraction(domain.usable_mw - floors_mw, raised - floors_mw), Fraction(0)), Fraction(1))
