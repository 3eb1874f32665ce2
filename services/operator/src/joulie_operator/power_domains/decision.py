"""The decision about all domains: each tree is enforced or observed, and those that cannot be used are named.

Guarantees that a tree is enforced only where the setting and all its domains say so; that the nodes of one that cannot
be used keep what they have; and that the object of a node is deleted only where it is certain that no tree that is to
be enforced selects it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from joulie_api.failures import Failures
from joulie_core.budget import (
    BudgetDomain,
    BudgetTree,
    DomainChain,
    DomainProblem,
    DomainRest,
    EventedTree,
    EventInputs,
    EventLimit,
    Forest,
    ObservedDomain,
    PublishedRest,
    observe,
    observe_events,
    plant,
    unknown_chain,
    with_rest,
)
from joulie_core.kinds import PowerDomainSpec
from joulie_core.kinds.power_domain import DomainMode
from joulie_core.names import NodeName
from joulie_operator.power_domains.budget_changes import BudgetChange, SeenBudgets, kept_changes
from joulie_operator.power_domains.domains import budget_domains
from joulie_operator.power_domains.enforcement import EnforcedDomain, TreeEnforcer
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
    #: None: its tree is not enforced.
    enforced: EnforcedDomain | None = None
    #: Domains of its tree that say Observe.
    observing: tuple[str, ...] = ()
    #: Of its servers; None: it does not count them.
    rest: DomainRest | None = None

    @property
    def counts_servers(self) -> bool:
        """Whether its limit is one of whole servers."""
        return self.rest is not None

    #: The event whose limit is in force; where the tree is not enforced, whose limit would be.
    event: EventLimit | None = None


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
    #: None: the setting is not Enforce.
    budgets: SeenBudgets | None = None
    #: Rest of the servers of domains, as the statuses have it that still count.
    rests: Mapping[str, PublishedRest] = field(default_factory=dict)
    #: Events that lower limits of domains.
    events: EventInputs = field(default_factory=EventInputs)
    #: Limits may be raised above those of domains while what is drawn is measured.
    oversubscribes: bool = False


@dataclass(frozen=True, slots=True)
class DomainDecision:
    """Outcomes by the name of the domain, and what is written about nodes."""

    outcomes: Mapping[str, DomainOutcome]
    changes: tuple[BudgetChange, ...] = ()
    #: Nodes whose objects stay; those of all others are deleted. None: this is not known, and all stay.
    kept: AbstractSet[NodeName] | None = None
    #: What the domains above each node of an enforced tree can still supply.
    available: Mapping[NodeName, DomainChain] = field(default_factory=dict)
    #: Lowest limit that each event can bring its domain down to, in milliwatts, by the name of the event.
    reach_mw: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _TreeDecision:
    """The part of the decision that is about one tree."""

    outcomes: Mapping[str, DomainOutcome]
    evented: EventedTree
    changes: tuple[BudgetChange, ...] = ()
    #: By the domain that selects nodes; empty where nothing is enforced.
    available: Mapping[str, DomainChain] = field(default_factory=dict)


def decide(inputs: DomainInputs, enforcer: TreeEnforcer, failures: Failures) -> DomainDecision:
    """Return the decision; it has no outcome for the domains of a tree that a defect ended the work on."""
    domains = budget_domains(inputs.specs, inputs.labels, oversubscribes=inputs.oversubscribes)
    forest = plant(domains, inputs.unread)
    own = _by_domain(forest.problems)
    outcomes: dict[str, DomainOutcome] = {}
    for name, culprit in forest.lost.items():
        outcomes[name] = DomainOutcome(faults=tuple(own.get(name) or own[culprit][:1]))
    # Where an earlier version is known, so is the tree that is set aside.
    unknown = sorted(inputs.unread - inputs.specs.keys())
    homeless = (*(f"PowerDomain {name}" for name in unknown), *(f"Node {name}" for name in sorted(inputs.unread_nodes)))
    aside = _set_aside(forest, domains, inputs)
    reach: dict[str, int] = {}
    changes = [] if inputs.budgets is None else list(kept_changes(aside, inputs.budgets))
    enforced = [tree for tree in forest.trees if inputs.budgets is not None and not observing(tree, inputs.specs)]
    roots = {tree.domains[0].name for tree in enforced}
    enforcer.retain(roots, {each.name for tree in enforced for each in tree.domains})
    kept = aside.union(*(tree.leaf_of for tree in enforced))
    available: dict[NodeName, DomainChain] = {}
    for tree in forest.trees:
        with failures.contained("observe power domains", root=tree.domains[0].name):
            found = _decide_tree(tree, inputs, enforcer, enforces=tree.domains[0].name in roots)
            outcomes |= {
                name: replace(each, unread=homeless, event=found.evented.limits.get(name))
                for name, each in found.outcomes.items()
            }
            changes += found.changes
            reach |= found.evented.reach_mw
            # Nodes whose domain is not known may draw from any.
            chains = {leaf: unknown_chain(chain) if homeless else chain for leaf, chain in found.available.items()}
            available |= {
                node: chains[each.name] for each in tree.domains if each.name in chains for node in each.nodes
            }
    certain = inputs.budgets is None or not unknown
    ordered = tuple(sorted(changes, key=lambda each: each.order))
    return DomainDecision(outcomes, ordered, kept if certain else None, available, reach)


def observing(tree: BudgetTree, specs: Mapping[str, PowerDomainSpec]) -> tuple[str, ...]:
    """Return the names of the domains of a tree that do not say Enforce."""
    names = (each.name for each in tree.domains)
    return tuple(sorted(name for name in names if specs[name].mode is not DomainMode.ENFORCE))


def _decide_tree(tree: BudgetTree, inputs: DomainInputs, enforcer: TreeEnforcer, *, enforces: bool) -> _TreeDecision:
    facts = {name: inputs.nodes[name].budget for name in tree.leaf_of}
    tree, rests = with_rest(tree, {name: inputs.nodes[name].rest for name in tree.leaf_of}, inputs.rests)
    if not enforces or inputs.budgets is None:
        seen = observe(tree, facts)
        evented = observe_events(tree, facts, inputs.events)
        floors, others = _by_domain(seen.problems), observing(tree, inputs.specs)
        return _TreeDecision(
            {
                name: DomainOutcome(each, floors=tuple(floors.get(name, ())), observing=others, rest=rests.get(name))
                for name, each in seen.domains.items()
            },
            evented,
        )
    found = enforcer.decide(tree, facts, inputs.budgets, inputs.events)
    floors = _by_domain(found.decision.problems)
    return _TreeDecision(
        {
            name: DomainOutcome(
                each, floors=tuple(floors.get(name, ())), enforced=found.domains[name], rest=rests.get(name)
            )
            for name, each in found.observed.items()
        },
        found.evented,
        found.changes,
        found.available,
    )


def _set_aside(forest: Forest, domains: Iterable[BudgetDomain], inputs: DomainInputs) -> frozenset[NodeName]:
    """Return the nodes of trees that cannot be used, and may be to be enforced."""
    if inputs.budgets is None:
        return frozenset()
    freed = {
        culprit
        for name, culprit in forest.lost.items()
        if name in inputs.specs and name not in inputs.unread and inputs.specs[name].mode is not DomainMode.ENFORCE
    }
    lost = (each for each in domains if forest.lost.get(each.name, "") not in freed | {""})
    return frozenset(node for each in lost for node in each.nodes)


def _by_domain(problems: Iterable[DomainProblem]) -> Mapping[str, list[DomainProblem]]:
    found: dict[str, list[DomainProblem]] = defaultdict(list)
    for each in problems:
        found[each.domain].append(each)
    return found
