"""Domains whose limit is one of whole servers: what their servers draw beside the devices is taken from the limit.

Guarantees that a server whose rest is not known leaves that of every such domain above it unknown, and that no rest is
counted below what is known of it. Source: docs/decisions/0065-server-budgets.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from joulie_core.budget.tree import BudgetTree
from joulie_core.names import NodeName


@dataclass(frozen=True, slots=True)
class ServerRest:
    """Power of one server beyond its CPU packages and GPUs at their full load, in milliwatts."""

    #: What counts; None: not known.
    mw: int | None
    #: Lower end of what it may be.
    least_mw: int = 0
    #: It comes from readings of its BMC.
    measured: bool = False
    #: Readings of its BMC are too few yet.
    settling: bool = False


#: Of a server of which nothing is known.
UNKNOWN_REST = ServerRest(None)


@dataclass(frozen=True, slots=True)
class DomainRest:
    """Sum over the servers below one domain."""

    #: What counts.
    mw: int
    measured_nodes: int
    modelled_nodes: int
    #: Part of the sum that is modelled, at the upper and the lower end of the models' bands.
    modelled_mw: int
    modelled_least_mw: int
    unknown: frozenset[NodeName]


@dataclass(frozen=True, slots=True)
class PublishedRest:
    """Sum that the leader before has published for a number of nodes."""

    mw: int
    nodes: int


def with_rest(
    tree: BudgetTree, rests: Mapping[NodeName, ServerRest], published: Mapping[str, PublishedRest]
) -> tuple[BudgetTree, dict[str, DomainRest]]:
    """Return the tree with the rest of its servers, and the sums of the domains that count servers, by name.

    Args:
        tree: without any rest.
        rests: of all nodes of the tree.
        published: by the domain; counts in place of a higher sum while readings of one of its BMCs are too few, where
            the number of nodes is the same.
    """
    if not any(each.counts_servers for each in tree.domains):
        return tree, {}
    sums: dict[str, DomainRest] = {}
    domains = []
    for domain, below in zip(tree.domains, tree.nodes_below(), strict=True):
        if domain.counts_servers:
            found = sums[domain.name] = _sum({name: rests[name] for name in below}, published.get(domain.name))
            domain = replace(domain, rest_mw=found.mw, rest_known=not found.unknown)  # noqa: PLW2901
        domains.append(domain)
    return replace(tree, domains=tuple(domains)), sums


def _sum(rests: Mapping[NodeName, ServerRest], published: PublishedRest | None) -> DomainRest:
    known = [each for each in rests.values() if each.mw is not None]
    modelled = [each for each in known if not each.measured]
    total = sum(each.mw or 0 for each in known)
    if published is not None and published.nodes == len(rests) and any(each.settling for each in known):
        total = min(total, max(published.mw, sum(each.least_mw for each in known)))
    return DomainRest(
        mw=total,
        measured_nodes=len(known) - len(modelled),
        modelled_nodes=len(modelled),
        modelled_mw=sum(each.mw or 0 for each in modelled),
        modelled_least_mw=sum(each.least_mw for each in modelled),
        unknown=frozenset(name for name, each in rests.items() if each.mw is None),
    )
