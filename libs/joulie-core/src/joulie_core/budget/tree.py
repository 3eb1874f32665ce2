"""The trees of power domains, and those that cannot be used.

Guarantees that a tree has one root, no cycle, and each node in one domain. A tree with a domain that breaks this is set
aside as a whole, by name: its nodes keep what they have, and other trees go on.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from joulie_core.budget.breaker import BreakerRating
from joulie_core.names import NodeName
from joulie_core.text import first_of


@dataclass(frozen=True, slots=True)
class BudgetDomain:
    """A domain with its limit in milliwatts, and the nodes that it selects."""

    name: str
    limit_mw: int
    parent: str | None = None
    #: Part of the limit that no node gets.
    reserve_mw: int = 0
    #: Of its nodes; a higher number is more important.
    priority: int = 0
    #: Power that is never taken from a node: at least so many milliwatts, and so many percent of the node's maximum.
    floor_mw: int = 0
    floor_pct: float = 0.0
    #: True if nodes without control are without limit when their lease ends.
    releases: bool = False
    nodes: tuple[NodeName, ...] = ()
    #: The limit is one of whole servers, and not of their CPU packages and GPUs alone.
    counts_servers: bool = False
    #: Power that the servers below it may draw beyond these; 0 where they do not count.
    rest_mw: int = 0
    #: False: that of a server is not known, so that nothing below may be raised.
    rest_known: bool = True
    #: Of its breaker, which may carry more than the limit for a time; None: the domain is not oversubscribed.
    rating: BreakerRating | None = None
    #: Part of the limit that the breaker carries for a time alone.
    raised_mw: int = 0

    @property
    def withheld_mw(self) -> int:
        """Part of the limit that no node may get for its CPU packages and GPUs."""
        return self.reserve_mw + self.rest_mw

    @property
    def usable_mw(self) -> int:
        """Power that nodes may get for their CPU packages and GPUs; below 0 where other power exceeds the limit."""
        return self.limit_mw - self.withheld_mw

    @property
    def lasting_mw(self) -> int:
        """Part of `usable_mw` that the breaker carries for long."""
        return self.usable_mw - self.raised_mw


class BudgetProblem(StrEnum):
    """Reason why a domain, a floor or a node of a domain cannot be used."""

    CYCLE = "Cycle"
    PARENT_MISSING = "ParentMissing"
    NODE_IN_TWO_DOMAINS = "NodeInTwoDomains"
    SELECTOR_ABOVE_DOMAINS = "SelectorAboveDomains"
    UNREADABLE = "Unreadable"
    TOO_DEEP = "TooDeep"
    NAMED_TWICE = "NamedTwice"
    FLOORS_DO_NOT_FIT = "FloorsDoNotFit"
    FLOOR_BELOW_MINIMUM = "FloorBelowMinimum"


@dataclass(frozen=True, slots=True)
class DomainProblem:
    """A problem of a domain; the message names domains, nodes and numbers."""

    domain: str
    problem: BudgetProblem
    message: str


@dataclass(frozen=True, slots=True)
class BudgetTree:
    """Domains with one root, every domain after its parent."""

    domains: tuple[BudgetDomain, ...]
    #: Index of the parent of each domain; -1 for the root.
    parents: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    #: Index of the domain that selects a node.
    leaf_of: Mapping[NodeName, int]
    #: True for domains whose nodes are without limit when their lease ends: the domain and all above it release.
    releases: tuple[bool, ...]

    def sums(self, values: Mapping[NodeName, int]) -> list[int]:
        """Return the sum of values of the nodes below each domain."""
        sums = [sum(map(values.__getitem__, domain.nodes)) for domain in self.domains]
        for index in range(len(sums) - 1, 0, -1):
            sums[self.parents[index]] += sums[index]
        return sums

    def nodes_below(self) -> list[frozenset[NodeName]]:
        """Return the nodes below each domain."""
        below = [set(domain.nodes) for domain in self.domains]
        for index in range(len(below) - 1, 0, -1):
            below[self.parents[index]] |= below[index]
        return [frozenset(nodes) for nodes in below]


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees that can be used, and the problems of the others."""

    trees: tuple[BudgetTree, ...]
    problems: tuple[DomainProblem, ...]
    #: Of each domain of a tree that is set aside, one of the domains that it is set aside for.
    lost: Mapping[str, str] = field(default_factory=dict)


#: Nodes that one message names, domains that it names for each of them, and domains of a cycle.
_MOST_NAMED: Final = 3
_MOST_OWNERS: Final = 5
_MOST_OF_CYCLE: Final = 10
#: Levels of a tree: more than any power supply has, and few enough for decisions that go down level by level.
MOST_LEVELS: Final = 32


def plant(domains: Iterable[BudgetDomain], unread: Iterable[str] = ()) -> Forest:
    """Return the trees of domains, in the order of the names of their roots.

    Args:
        domains: all domains that could be read.
        unread: names of domains whose newest version could not be read; `domains` may have an earlier one of them.
    """
    listed = sorted(domains, key=lambda each: each.name)
    by_name = {each.name: each for each in listed}
    broken = sorted(unread)
    by_name |= {name: BudgetDomain(name, 0) for name in broken if name not in by_name}
    tops, problems = _tops(by_name)
    problems += [DomainProblem(name, BudgetProblem.UNREADABLE, "its object cannot be read") for name in broken]
    problems += _claims(listed, by_name)
    problems += _depths(by_name, tops, {each.domain for each in problems})
    lost = {tops[each.domain]: each.domain for each in reversed(problems)}
    members: dict[str, list[BudgetDomain]] = defaultdict(list)
    for domain in by_name.values():
        members[tops[domain.name]].append(domain)
    trees = tuple(_tree(top, members[top]) for top in sorted(members) if top not in lost)
    return Forest(
        trees,
        tuple(sorted(problems, key=lambda each: (each.domain, each.problem))),
        {name: lost[top] for name, top in tops.items() if top in lost},
    )


def _tops(by_name: Mapping[str, BudgetDomain]) -> tuple[dict[str, str], list[DomainProblem]]:
    """Return the name that stands for the tree of each domain, and the problems with parents."""
    tops: dict[str, str] = {}
    problems: list[DomainProblem] = []
    for start in by_name:
        trail: dict[str, None] = {}
        name = start
        while name not in tops and name not in trail:
            trail[name] = None
            parent = by_name[name].parent
            if parent is None or parent not in by_name:
                if parent is not None:
                    message = f"its parent {parent} does not exist"
                    problems.append(DomainProblem(name, BudgetProblem.PARENT_MISSING, message))
                tops[name] = name
                break
            name = parent
        if name not in tops:
            cycle = list(trail)[list(trail).index(name) :]
            message = f"its parents lead back to it: {first_of(sorted(cycle), _MOST_OF_CYCLE)}"
            problems += [DomainProblem(each, BudgetProblem.CYCLE, message) for each in cycle]
            tops[name] = min(cycle)
        tops |= dict.fromkeys(trail, tops[name])
    return tops, problems


def _depths(
    by_name: Mapping[str, BudgetDomain], tops: Mapping[str, str], broken: AbstractSet[str]
) -> list[DomainProblem]:
    """Return the problems of trees with too many levels; of those with other problems none."""
    skipped = {tops[name] for name in broken}
    depths = {name: 1 for name in by_name if tops[name] == name}
    problems = []
    for start in by_name:
        trail = []
        name = start
        while name not in depths and tops[name] not in skipped:
            trail.append(name)
            name = by_name[name].parent or name
        for each in reversed(trail):
            depths[each] = depths[by_name[each].parent or each] + 1
            if depths[each] == MOST_LEVELS + 1:
                message = f"is at level {depths[each]} of its tree; {MOST_LEVELS} levels are the most"
                problems.append(DomainProblem(each, BudgetProblem.TOO_DEEP, message))
    return problems


def _claims(listed: Sequence[BudgetDomain], by_name: Mapping[str, BudgetDomain]) -> list[DomainProblem]:
    """Return the problems of domains with nodes, and of names."""
    above = {each.parent for each in listed}
    claims: dict[NodeName, list[str]] = defaultdict(list)
    problems = []
    for domain in listed:
        if domain is not by_name[domain.name]:
            problems.append(DomainProblem(domain.name, BudgetProblem.NAMED_TWICE, "two domains have this name"))
        if domain.nodes and domain.name in above:
            message = f"selects {len(domain.nodes)} nodes, and is the parent of other domains"
            problems.append(DomainProblem(domain.name, BudgetProblem.SELECTOR_ABOVE_DOMAINS, message))
        for node in domain.nodes:
            claims[node].append(domain.name)
    return problems + _shared_nodes(claims)


def _shared_nodes(claims: Mapping[NodeName, Sequence[str]]) -> list[DomainProblem]:
    """Return the problems of domains that select the same nodes.

    Selectors that all match every node are one mistake in a template, so that no text is made that is not shown.
    """
    counts: Counter[str] = Counter()
    named: dict[str, list[str]] = defaultdict(list)
    for node in sorted(node for node, owners in claims.items() if len(owners) > 1):
        owners = claims[node]
        counts.update(owners)
        if lacking := [each for each in owners if len(named[each]) < _MOST_NAMED]:
            text = f"{node} is selected by {first_of(sorted(owners), _MOST_OWNERS)}"
            for owner in lacking:
                named[owner].append(text)
    problems = []
    for owner, count in counts.items():
        more = f", and {count - _MOST_NAMED} more nodes" if count > _MOST_NAMED else ""
        problems.append(DomainProblem(owner, BudgetProblem.NODE_IN_TWO_DOMAINS, "; ".join(named[owner]) + more))
    return problems


def _tree(top: str, members: Sequence[BudgetDomain]) -> BudgetTree:
    below: dict[str | None, list[BudgetDomain]] = defaultdict(list)
    for domain in members:
        below[domain.parent].append(domain)
    ordered = [next(each for each in members if each.name == top)]
    parents, children = [-1], []
    for index, domain in enumerate(ordered):  # grows while it is read
        mine = below[domain.name]
        children.append(tuple(range(len(ordered), len(ordered) + len(mine))))
        parents += [index] * len(mine)
        ordered += mine
    releases: list[bool] = []
    for domain, parent in zip(ordered, parents, strict=True):
        releases.append(domain.releases and (parent < 0 or releases[parent]))
    leaf_of = {node: index for index, domain in enumerate(ordered) for node in domain.nodes}
    return BudgetTree(tuple(ordered), tuple(parents), tuple(children), leaf_of, tuple(releases))
