"""Power that each domain of a tree can still supply to new pods on the nodes below it.

Not what is left above the limits in force: where nodes may draw more than a domain has, all of it is always given out,
and taken back where others want it. So it is usable power less what nodes want and less the floors of the others,
which is what an allocation could give the node within some rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from joulie_core.budget.allocate import Allocator
from joulie_core.budget.transitions import DomainSums
from joulie_core.budget.tree import BudgetTree


@dataclass(frozen=True, slots=True)
class AvailablePower:
    """Power in milliwatts that a domain can supply above what is wanted; None where it is not known."""

    domain: str
    available_mw: int | None


#: Of the domains above a node: the one that selects it first, the root last.
DomainChain = tuple[AvailablePower, ...]


def available_of(tree: BudgetTree, allocator: Allocator, sums: Mapping[str, DomainSums]) -> dict[str, DomainChain]:
    """Return the chain of each domain that selects nodes, by the priority of those nodes.

    Not known is the power of a domain of which the limits that may be in force are not.

    Args:
        tree: the domains.
        allocator: the shares of the decision.
        sums: of the decision.
    """
    chains = {}
    for start, leaf in enumerate(tree.domains):
        chain: list[AvailablePower] = []
        index = start
        while leaf.nodes and index >= 0:
            name = tree.domains[index].name
            known = sums[name].in_force_mw is not None
            chain.append(AvailablePower(name, allocator.left_mw(index, leaf.priority) if known else None))
            index = tree.parents[index]
        if chain:
            chains[leaf.name] = tuple(chain)
    return chains


def unknown_chain(chain: DomainChain) -> DomainChain:
    """Return the same domains with nothing known of them."""
    return tuple(AvailablePower(each.domain, None) for each in chain)
