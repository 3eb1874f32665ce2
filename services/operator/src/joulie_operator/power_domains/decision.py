"""The decision about all domains: trees that can be used are observed, each by itself, and the others are named."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from joulie_api.failures import Failures
from joulie_core.budget import DomainProblem, ObservedDomain, observe, plant
from joulie_core.kinds import PowerDomainSpec
from joulie_core.names import NodeName
from joulie_operator.power_domains.domains import budget_domains
from joulie_operator.power_domains.inputs import DomainNode


@dataclass(frozen=True, slots=True)
class DomainOutcome:
    """Result for one domain; exactly one of `observed` and `faults` is given, unless a defect left both out."""

    observed: ObservedDomain | None = None
    #: Why its tree is set aside: its own faults, or one of another domain of the tree.
    faults: tuple[DomainProblem, ...] = ()
    #: Floors of the domain that are refused.
    floors: tuple[DomainProblem, ...] = ()
    #: Objects that cannot be read, and may belong to this tree.
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DomainInputs:
    """Inputs of the decision, at one moment."""

    specs: Mapping[str, PowerDomainSpec]
    #: Domains whose newest version cannot be read.
    unread: frozenset[str]
    nodes: Mapping[NodeName, DomainNode]
    #: Labels of all nodes.
    labels: Mapping[NodeName, Mapping[str, str]] = field(default_factory=dict)
    #: Nodes of which no version can be read.
    unread_nodes: frozenset[str] = frozenset()


def decide(inputs: DomainInputs, failures: Failures) -> dict[str, DomainOutcome]:
    """Return the outcome of each domain by its name; none of a tree that a defect ended the work on."""
    forest = plant(budget_domains(inputs.specs, inputs.labels), inputs.unread)
    own = _by_domain(forest.problems)
    outcomes: dict[str, DomainOutcome] = {}
    for name, culprit in forest.lost.items():
        outcomes[name] = DomainOutcome(faults=tuple(own.get(name) or own[culprit][:1]))
    # Where an earlier version is known, so is the tree that is set aside.
    domains = sorted(inputs.unread - inputs.specs.keys())
    homeless = (*(f"PowerDomain {name}" for name in domains), *(f"Node {name}" for name in sorted(inputs.unread_nodes)))
    for tree in forest.trees:
        with failures.contained("observe power domains", root=tree.domains[0].name):
            found = observe(tree, {name: inputs.nodes[name].budget for name in tree.leaf_of})
            floors = _by_domain(found.problems)
            outcomes |= {
                name: DomainOutcome(each, floors=tuple(floors.get(name, ())), unread=homeless)
                for name, each in found.domains.items()
            }
    return outcomes


def _by_domain(problems: Iterable[DomainProblem]) -> Mapping[str, list[DomainProblem]]:
    found: dict[str, list[DomainProblem]] = defaultdict(list)
    for each in problems:
        found[each.domain].append(each)
    return found
