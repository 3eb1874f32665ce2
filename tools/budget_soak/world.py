"""A power budget under faults in any order, and an observer that adds up the limits of the hardware itself.

Promises that each step is one event and some seconds, decided by a seed. The observer's bound of a domain is its limit.
It is higher for a while only where no leader can act before: a node joins or is replaced, uncapped, or the limit is
lowered. Then the sum may only fall, and is within the limit when there was time enough without trouble.

Where nodes are released when their lease ends, one node at a time is silent, refuses or is of unknown power, so that
there is room for it.
"""

from dataclasses import dataclass, field, replace
from random import Random

from tools.budget_soak.machines import Agent, Machine, NodeObject

from joulie_core.budget import BudgetDomain, BudgetNode, BudgetPlanner, BudgetTree, LeaseTimes, LimitAsk, plant

#: A leader looks at the cluster and decides at least so often; what it has decided is written as fast.
LEADER_S = 4.0
TIMES = LeaseTimes(lease_s=120.0, margin_s=45.0)
#: Time in which a decision of before an event may still come into force.
SETTLING_S = 45.0
#: Time without trouble after which every sum is within its limit.
CALM_S = 150.0
_MOST_NODES = 10


class LimitExceededError(AssertionError):
    """The limits of the hardware add up to more than a domain supplies."""


@dataclass
class Seen:
    """The object of a node as a leader has seen it."""

    stored: NodeObject
    demand_mw: int | None = None


@dataclass
class Leader:
    """A process that believes it leads."""

    term: int
    planner: BudgetPlanner
    tree: BudgetTree
    seen: dict[str, Seen] = field(default_factory=dict)
    #: Asks that are decided and not written.
    queue: list[tuple[str, LimitAsk, int]] = field(default_factory=list)
    due_s: float = 0.0


class World:
    """A tree of two rows with two racks each."""

    def __init__(
        self, seed: int, *, releases: bool, writes_are_checked: bool = True, times: LeaseTimes = TIMES
    ) -> None:
        """Build the nodes; all are uncapped at first."""
        self.random = Random(seed)
        self.times = times
        self.now_s = 0.0
        self.checked = writes_are_checked
        self.agent = Agent(self.random, times.lease_s, releases)
        self.machines: dict[str, Machine] = {}
        self.objects: dict[str, NodeObject] = {}
        self.rack_of: dict[str, str] = {}
        self.demands: dict[str, int | None] = {}
        self.terms = self.identities = self.violations = 0
        self.limits = dict.fromkeys(("feed", "a", "b", "a1", "a2", "b1", "b2"), 0)
        self.parents = {"a": "feed", "b": "feed", "a1": "a", "a2": "a", "b1": "b", "b2": "b"}
        self.allowed: dict[str, int] = {}
        self.settles_s: dict[str, float] = {}
        self.calm_since_s = 0.0
        for number in range(6):
            self.add(f"n{number}", ("a1", "a2", "b1", "b2")[number % 4])
        self.set_limits()
        self.allowed = {name: sum(self.machines[node].max_mw for node in self.below(name)) for name in self.limits}
        self.leaders: list[Leader] = []
        self.elect()

    # --- what happens -------------------------------------------------------------------------------------------------

    def add(self, name: str, rack: str) -> None:
        """Add a node, without a limit, or replace the one of its name."""
        self.identities += 1
        least = self.random.randrange(100, 160)
        most = self.random.randrange(400, 800)
        clamp = least + self.random.choice((0, 0, 60))
        machine = Machine(f"{name}-{self.identities}", most, least, clamp, most)
        machine.listed = self.random.random() < 0.7  # noqa: PLR2004
        machine.renewed_s = self.now_s
        self.machines[name], self.rack_of[name] = machine, rack
        self.objects.setdefault(name, NodeObject())
        self.demands[name] = self.random.randrange(100, 800)

    def set_limits(self) -> None:
        """Set limits that can be held: the minima of all nodes fit, with the largest node beside them uncapped."""
        for name in self.limits:
            nodes = [self.machines[node] for node in self.below(name)]
            least = sum(each.clamp_mw for each in nodes) + max((each.max_mw for each in nodes), default=0)
            most = sum(each.max_mw for each in nodes)
            self.excuse(name)
            self.limits[name] = max(least + 50, int(most * self.random.uniform(0.5, 1.0)))

    def below(self, domain: str) -> list[str]:
        """Return the nodes below a domain."""
        return [name for name, rack in self.rack_of.items() if domain in self.path(rack)]

    def path(self, rack: str) -> tuple[str, ...]:
        """Return a rack and the domains above it."""
        return (rack, self.parents[rack], "feed")

    def excuse(self, domain: str, more: int = 0) -> None:
        """Raise the bound of the observer by the power of a node that joins, or leave it as high as it was."""
        self.allowed[domain] = max(self.allowed.get(domain, 0), self.limits[domain]) + more
        self.settles_s[domain] = self.now_s + SETTLING_S
        self.calm_since_s = self.now_s

    def elect(self) -> None:
        """Start a leader; those before it do not notice."""
        self.terms += 1
        tree = self.tree()
        self.leaders = [*self.leaders[-1:], Leader(self.terms, BudgetPlanner(tree, self.terms, self.times), tree)]
        self.look(self.leaders[-1], everything=True)

    def tree(self) -> BudgetTree:
        """Return the tree as it is now."""
        domains = [
            BudgetDomain(
                name, limit, self.parents.get(name), priority=len(name) * ord(name[-1]) % 3, floor_pct=10.0,
                releases=self.agent.releases,
                nodes=tuple(node for node, rack in self.rack_of.items() if rack == name),
            )
            for name, limit in self.limits.items()
        ]  # fmt: skip
        (tree,) = plant(domains).trees
        return tree

    def look(self, leader: Leader, *, everything: bool) -> None:
        """Let a leader see objects of nodes as they are now, all or some."""
        for name, stored in self.objects.items():
            known = leader.seen.get(name)
            if everything or known is None or self.random.random() < 0.7:  # noqa: PLR2004
                leader.seen[name] = Seen(replace(stored), self.demands.get(name))

    def decide(self, leader: Leader) -> None:
        """Let a leader decide by what it has seen; limits and lists of nodes it knows as they are."""
        leader.due_s = self.now_s + self.random.uniform(1.0, LEADER_S)
        tree = self.tree()
        if tree != leader.tree:
            leader.tree, leader.planner = tree, BudgetPlanner(tree, leader.term, self.times)
        for name in set(self.machines) - set(leader.seen):
            leader.seen[name] = Seen(replace(self.objects[name]))
        nodes = {name: self.view(name, leader.seen[name]) for name in self.machines}
        decision = leader.planner.decide(nodes, self.now_s)
        leader.queue = [(name, ask, leader.seen[name].stored.version) for name, ask in decision.asks.items()]
        self.random.shuffle(leader.queue)

    def view(self, name: str, seen: Seen) -> BudgetNode:
        """Return a node as a leader knows it."""
        machine = self.machines[name]
        known = machine.max_mw if machine.listed else None
        stored = seen.stored
        return BudgetNode(
            name, machine.identity, known, machine.min_mw, seen.demand_mw, stored.ask, stored.report, stored.renewed_s
        )

    def write(self, leader: Leader) -> None:
        """Write the next ask of a leader."""
        name, ask, version = leader.queue.pop()
        stored = self.objects.get(name)
        if stored is not None and stored.write(ask, version, checks=self.checked):
            seen = leader.seen[name]
            seen.stored = replace(seen.stored, ask=ask, version=stored.version, earlier=stored.earlier)

    # --- one step -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let one thing happen, let everything that is due happen, and look at the sums."""
        self.now_s += self.random.uniform(0.2, 1.5)
        self.happen()
        for leader in self.leaders:
            if leader is self.leaders[-1] and self.now_s >= leader.due_s:
                while leader.queue:
                    self.write(leader)
                self.look(leader, everything=True)
                self.decide(leader)
            if leader.queue and self.random.random() < 0.8:  # noqa: PLR2004
                self.write(leader)
        for name, machine in self.machines.items():
            if self.now_s >= machine.due_s:
                self.agent.read(machine, self.objects[name], self.now_s)
            self.agent.let_leases_end(machine, self.now_s)
        self.observe()

    def happen(self) -> None:
        """Let one random event happen."""
        draw = self.random.random()
        name = self.random.choice(list(self.machines))
        machine = self.machines[name]
        troubled = [each for each in self.machines.values() if each.troubled]
        settled = self.now_s > max(self.settles_s.values()) and self.quiet()
        if draw < 0.10:  # noqa: PLR2004
            self.demands[name] = self.random.choice((None, self.random.randrange(50, 800)))
        elif draw < 0.13 and len(self.leaders) > 1:  # noqa: PLR2004
            self.look(self.leaders[0], everything=False)
            self.decide(self.leaders[0])
        elif draw < 0.14:  # noqa: PLR2004
            self.elect()
        elif draw < 0.16:  # noqa: PLR2004
            machine.listed = True
        elif draw < 0.18 and settled and (not troubled or not self.agent.releases):  # noqa: PLR2004
            machine.silent, machine.refuses = self.random.choice(((True, False), (False, True)))
        elif draw < 0.20 and (machine.silent or machine.refuses):  # noqa: PLR2004
            machine.silent = machine.refuses = False
        elif draw < 0.24 and settled and not troubled:  # noqa: PLR2004
            self.random.choice((self.join, self.replace, self.replace, self.leave, self.set_limits))()

    def join(self) -> None:
        """Let a node come, or be replaced under its name."""
        name = f"n{self.random.randrange(_MOST_NODES)}"
        self.put(name, self.rack_of.get(name) or self.random.choice(("a1", "a2", "b1", "b2")))

    def replace(self) -> None:
        """Let another machine take the name and the rack of a node."""
        name = self.random.choice(list(self.machines))
        self.put(name, self.rack_of[name])

    def put(self, name: str, rack: str) -> None:
        """Let a machine begin, without a limit."""
        self.add(name, rack)
        for domain in self.path(rack):
            self.excuse(domain, self.machines[name].max_mw)
        least = {each: sum(self.machines[n].clamp_mw for n in self.below(each)) for each in self.path(rack)}
        for domain, needed in least.items():
            most = max(self.machines[node].max_mw for node in self.below(domain))
            self.limits[domain] = max(self.limits[domain], needed + most + 50)

    def leave(self) -> None:
        """Let a node go."""
        name = self.random.choice(list(self.machines))
        if len(self.machines) > 2:  # noqa: PLR2004
            del self.machines[name], self.rack_of[name], self.demands[name]
            self.calm_since_s = self.now_s

    def quiet(self) -> bool:
        """Return whether every sum is within its limit."""
        return all(self.allowed[domain] <= limit for domain, limit in self.limits.items())

    def observe(self) -> None:
        """Compare the limits of the hardware with those of the domains.

        Raises:
            LimitExceededError: a sum is above what is allowed.
        """
        if any(each.troubled for each in self.machines.values()):
            self.calm_since_s = self.now_s
        for domain, limit in self.limits.items():
            total = sum(self.machines[name].limit_mw for name in self.below(domain))
            if self.now_s > self.settles_s[domain]:
                self.allowed[domain] = max(limit, min(self.allowed[domain], total))
            if self.now_s > self.calm_since_s + CALM_S:
                self.allowed[domain] = limit
            self.allowed[domain] = max(self.allowed[domain], limit)
            if total > self.allowed[domain]:
                raise LimitExceededError(f"{domain}: {total} mW, {self.allowed[domain]} allowed, limit {limit}")
