"""Leaders, agents and servers of an oversubscribed tree, in virtual time, and what their breakers carry in truth.

The leaders are those of the operator but for the API server, whose objects and watches are simulated with lag; agents
keep the contract of docs/decisions/0066-oversubscription.md. Servers draw whatever their limits allow. The observer
knows what neither of them does.
"""

import itertools
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace

from joulie_core.budget import BudgetDomain, BudgetNode, plant
from joulie_core.budget.breaker import TRIPS, BreakerRating, curve_of
from joulie_core.budget.breaker_states import BreakerDamage
from joulie_core.budget.fallback import raised_tree
from joulie_core.kinds.node_power_budget import DrawnSample, NodePowerBudgetStatus
from joulie_operator.power_domains.budget_changes import SeenBudgets
from joulie_operator.power_domains.enforcement import TreeEnforcer
from joulie_operator.power_domains.sent import SentLimits

STEP_S = 0.5
LEAST_W, MOST_W = 100, 500
CURVE = curve_of([(110, 400), (130, 60), (160, 20)])
RACKS = {"a": ("n0", "n1", "n2"), "b": ("n3", "n4", "n5")}


class BreakerError(AssertionError):
    """A breaker has carried what it must not."""


@dataclass
class Stored:
    """The object of a node, with the times from which on watches show each version."""

    versions: list = field(default_factory=list)

    def put(self, world, spec, status):
        version = str(next(world.count))
        self.versions.append((world.now_s, version, spec, status))
        del self.versions[:-40]

    @property
    def last(self):
        return self.versions[-1] if self.versions else None

    def shown(self, until_s):
        """Return the newest version that a watch with lag shows."""
        found = [each for each in self.versions if each[0] <= until_s]
        return found[-1] if found else None


class Watch:
    """A watch with lag, which stands still while the API server is away, and never goes back."""

    def __init__(self, world):
        self.world = world
        self.until_s = world.now_s

    def look(self):
        if not self.world.away:
            self.until_s = max(self.until_s, self.world.now_s - self.world.random.uniform(0.0, 1.0))
        return self.until_s


class Server:
    """A server and the agent on it; watts that it may draw are those of its hardware."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.holds_w = MOST_W
        self.draws_w = 0.0
        self.share = 0.5
        self.blind = self.dead = False
        self.watch = Watch(world)
        self.sequence = self.renewal = None
        self.spec = None
        self.number = world.random.randrange(1_000)
        self.taken = {}
        self.sampled_s = world.now_s
        self.energy = 0.0
        self.unsent = None

    def act(self):
        now_s = self.world.now_s
        if self.dead:
            return
        found = self.world.objects[self.name].shown(self.watch.look())
        if found is not None and found[2] is not None:
            self.spec = found[2]
        if self.spec is None:
            return
        if self.sequence is None or self.spec.sequence >= self.sequence:
            news = (self.sequence, self.renewal) != (self.spec.sequence, self.spec.renewal)
            applied = self.sequence != self.spec.sequence
            self.sequence, self.renewal = self.spec.sequence, self.spec.renewal
            self.holds_w = self.limit_w(now_s)
            over = self.spec.oversubscription
            if over is not None and now_s >= self.sampled_s + over.sample_seconds and not self.blind:
                self.sample(now_s)
            elif applied or (news and over is None):
                self.report(self.unsent)
        if self.unsent is not None:
            self.report(self.unsent)

    def limit_w(self, now_s):
        over = self.spec.oversubscription
        if over is None:
            return self.spec.limit_watts
        taken_s = self.taken.get(over.sample)
        holds = taken_s is not None and now_s < taken_s + self.world.hold(over.hold_seconds)
        return self.spec.limit_watts if holds else over.fallback_watts

    def sample(self, now_s):
        self.number += 1
        mean_w = self.energy / max(now_s - self.sampled_s, STEP_S)
        self.taken = {**{number: at for number, at in self.taken.items() if now_s - at < 300}, self.number: now_s}
        self.sampled_s, self.energy = now_s, 0.0
        self.report(DrawnSample(sample=self.number, drawn_watts=mean_w))

    def report(self, sample):
        """Report; what could not be sent is sent again until there is a newer sample."""
        self.unsent = sample
        if self.world.away:
            return
        stored = self.world.objects[self.name]
        last = stored.last
        status = NodePowerBudgetStatus(
            node_uid=self.name,
            boot_id="boot",
            sequence=self.sequence,
            renewal=self.renewal,
            in_force_watts=self.spec.limit_watts,
            oversubscription=sample or (last[3].oversubscription if last[3] is not None else None),
        )
        stored.put(self.world, last[2], status)
        self.unsent = None

    def draw(self, seconds):
        self.draws_w = max(LEAST_W / 2, self.share * self.holds_w)
        self.energy += self.draws_w * seconds


class Leader:
    """The operator, with one term."""

    def __init__(self, world, term):
        self.world, self.term = world, term
        self.enforcer, self.sent = TreeEnforcer(), SentLimits()
        self.watch = Watch(world)
        self.due_s = world.now_s
        self.away = False
        self.copies = {}
        self.queue = []

    def act(self):
        if self.away:
            return
        while self.queue and not self.world.away and self.world.random.random() < 0.9:
            self.write(self.queue.pop(0))
        if not self.queue and self.world.now_s >= self.due_s:
            self.due_s = self.world.now_s + self.world.random.uniform(0.2, 1.5)
            self.decide()

    def decide(self):
        now_s = self.world.now_s
        until_s = self.watch.look()
        seen = {}
        foreign = False
        for name, stored in self.world.objects.items():
            shown = stored.shown(until_s)
            copy = None
            if shown is not None and shown[2] is not None:
                copy = SimpleNamespace(
                    metadata=SimpleNamespace(resource_version=shown[1]),
                    model=SimpleNamespace(spec=shown[2], status=shown[3] or NodePowerBudgetStatus()),
                )
                foreign = foreign or self.sent.foreign_term(name, shown[2], self.term) is not None
            if copy is not None and self.copies.get(name) != shown[1]:
                self.copies[name] = shown[1]
                self.sent.on_change(name, copy)
            seen[name] = self.sent.seen(name, copy, now_s)
        budgets = SeenBudgets(
            now_s=now_s,
            term=None if foreign else self.term,
            seen=seen,
            last_s={name: at for name in seen if (at := self.sent.last_s(name)) is not None},
        )
        self.found = self.enforcer.decide(self.world.tree, self.world.facts, budgets)
        self.queue = sorted(self.found.changes, key=lambda each: each.order)

    def write(self, change):
        if change.raises and self.world.now_s > self.due_s + 5.0:
            return
        sent = self.sent.sending(change.node, change.version, change.spec, self.world.now_s)
        stored = self.world.objects[change.node]
        last = stored.last
        if (None if last is None else last[1]) != change.version:
            self.sent.refused(change.node, sent)
            return
        stored.put(self.world, change.spec, None if last is None else last[3])
        if self.world.random.random() < 0.97:
            self.sent.stored(change.node, sent)

    @property
    def raised(self):
        return self.found.domains["feed"].oversubscription.raised


class OversubscribedWorld:
    """A feed with two racks, all of them oversubscribed; `hold` is what an agent makes of `holdSeconds`."""

    def __init__(self, seed=0, feed_w=1_300, rack_w=800, hold=lambda seconds: seconds, cooling_s=120.0, *, floor_w=0):
        self.random = Random(seed)
        self.rating = BreakerRating(CURVE, cooling_s, reaction_s=20)
        self.hold = hold
        self.now_s = 1_000.0
        self.count = itertools.count(1)
        self.away = False
        self.objects = {name: Stored() for rack in RACKS.values() for name in rack}
        (self.tree,) = plant(
            [
                BudgetDomain("feed", feed_w * 1000, rating=self.rating),
                *(
                    BudgetDomain(
                        rack, rack_w * 1000, "feed", rating=self.rating, nodes=names,
                        floor_mw=floor_w * 1000 if rack == "a" else 0,
                    )
                    for rack, names in RACKS.items()
                ),
            ]
        ).trees  # fmt: skip
        self.below = dict(zip((each.name for each in self.tree.domains), self.tree.nodes_below(), strict=True))
        self.facts = {
            name: BudgetNode(name, f"{name}/boot", MOST_W * 1000, LEAST_W * 1000, MOST_W * 1000)
            for name in self.objects
        }
        self.servers = {name: Server(self, name) for name in self.objects}
        self.terms = 0
        self.leaders = []
        self.elect()
        self.damage = dict.fromkeys(self.below, 0.0)
        self.over_s = dict.fromkeys(self.below)
        #: Longest overloads, and times with limits above those of domains.
        self.longest_s = self.raised_s = 0.0
        #: Lowest limit of a server of the rack with floors.
        self.least_w = float("inf")
        self.observes = False

    @property
    def leader(self):
        return self.leaders[-1]

    def elect(self):
        """Start a leader; the one before it stays as it is, until it sees the term of the new one."""
        self.terms += 1
        self.leaders = [*self.leaders[-1:], Leader(self, self.terms)]

    def begin(self):
        """Wait until all limits are in force."""
        self.run(60.0)
        self.damage = dict.fromkeys(self.below, 0.0)
        self.observes = True
        return self

    def cool(self):
        """Let the leader know that the breakers are cold."""
        states = self.leader.enforcer._raises._trees["feed", self.leader.term]._breakers
        states.states = {name: replace(each, damage=BreakerDamage(0.0, 0.0)) for name, each in states.states.items()}
        return self

    def run(self, seconds, happen=lambda: None):
        for _ in range(int(seconds / STEP_S)):
            happen()
            self.step()

    def step(self):
        self.now_s += STEP_S
        for leader in self.leaders:
            leader.act()
        for server in self.servers.values():
            server.act()
            server.draw(STEP_S)
        if self.observes:
            self.observe()

    def observe(self):
        raised = raised_tree(self.tree)
        self.least_w = min(self.least_w, *(self.servers[name].holds_w for name in RACKS["a"]))
        for domain, above in zip(self.tree.domains, raised.domains, strict=True):
            names = self.below[domain.name]
            held_mw = 1000 * sum(self.servers[name].holds_w for name in names)
            drawn_mw = 1000 * sum(self.servers[name].draws_w for name in names)
            if held_mw > above.limit_mw + 1:
                raise BreakerError(f"{domain.name}: limits of {held_mw} mW, at {self.now_s}")
            if held_mw > domain.limit_mw + 1:
                self.raised_s += STEP_S
            load = drawn_mw / domain.limit_mw
            self.damage[domain.name] = self.rating.damage_after(self.damage[domain.name], load, STEP_S)
            if self.damage[domain.name] >= TRIPS:
                raise BreakerError(f"{domain.name}: its breaker trips at {self.now_s}")
            if load <= 1.0:
                self.over_s[domain.name] = None
                continue
            since_s = self.over_s[domain.name] = self.over_s[domain.name] or self.now_s
            self.longest_s = max(self.longest_s, self.now_s - since_s)
            if self.now_s - since_s > self.rating.ends_s:
                raise BreakerError(f"{domain.name}: an overload since {since_s}")

    def wait_for_raise(self, most_s=1_200.0):
        """Run at a low load until limits are raised."""
        for server in self.servers.values():
            server.share = 0.5
        end_s = self.now_s + most_s
        while self.now_s < end_s:
            self.step()
            if self.leader.raised and any(server.holds_w > 260 for server in self.servers.values()):
                self.run(10.0)
                if self.leader.raised:
                    return self
        raise AssertionError(f"not raised: {self.leader.found.domains['feed'].oversubscription}")

    def share(self, share, names=None):
        for name in names or self.servers:
            self.servers[name].share = share
