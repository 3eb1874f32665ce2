"""A controller of power domains over parts that a test sets."""

import json
import math

from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_kind, decode_node
from joulie_core.budget import BudgetNode, EventInputs
from joulie_core.kinds import PowerDomain
from joulie_operator.power_domains.controller import (
    PowerDomainController,
    PowerDomainParts,
)
from joulie_operator.power_domains.inputs import DomainNode, DrawnReading
from joulie_testing.api import make_node, make_power_domain

NOW_S = 1_800_000_000.0


def domain(name="rack", version="1", *, limit_watts=1_000, status=None, **spec):
    made = make_power_domain(name, limit_watts=limit_watts, status=status, nodeSelector={"rack": name}, **spec)
    made["metadata"] |= {"resourceVersion": version, "generation": 3}
    return decode_kind(PowerDomain)(json.dumps(made).encode())


def node(name, rack="rack"):
    made = make_node(name, labels={"rack": rack})
    made["metadata"] |= {"resourceVersion": "1", "uid": name}
    return decode_node(json.dumps(made).encode())


class Watched:
    """Takes the place of a watch."""

    def __init__(self):
        self.store, self.invalid = {}, {}

    def subscribe(self, handler):
        self.change = handler


class Sight:
    def __init__(self):
        self.asked, self.retained, self.broken = [], None, set()

    def node(self, node):
        self.asked.append(node.name)
        if node.name in self.broken:
            raise RuntimeError("a defect")
        return DomainNode(BudgetNode(node.name, "boot", 500_000, 100_000, 300_000), DrawnReading(200.0, measured=True))

    def retain(self, names):
        self.retained = set(names)


class Budgets:
    def __init__(self):
        self.reason, self.carried, self.on_carry = None, [], lambda: None

    def stale_reason(self):
        return self.reason

    def seen(self, nodes):
        self.nodes = set(nodes)

    async def carry_out(self, decision, nodes, unread, decided_s, is_superseded):
        self.on_carry()
        self.carried.append((decision, set(nodes), unread, decided_s, is_superseded()))


class Events:
    def __init__(self):
        self.reason, self.changes_s, self.log, self.published = None, math.inf, [], []

    def unknown_reason(self):
        return self.reason

    def forget(self):
        self.log.append("forgotten")

    def inputs(self, domains, facts, now_s, clock_s):
        self.given = (set(domains), set(facts), now_s, clock_s)
        return EventInputs(now_s=now_s)

    def pause_s(self, now_s):
        return self.changes_s - now_s

    def take(self, inputs, decision, *, is_sample):
        self.log.append(is_sample)

    async def publish(self, now_s, *_):
        self.published.append(now_s)

    def history(self, domain, now_s):
        return None


class Available:
    def __init__(self):
        self.updates, self.lost = [], 0

    def update(self, *given):
        self.updates.append(given)

    def lose(self):
        self.lost += 1


class Writer:
    def __init__(self):
        self.applied, self.errors = [], {}

    async def apply(self, resource, name, body, *, status):
        self.applied.append((resource, name, body, status))
        if (error := self.errors.get(name)) is not None:
            raise error


class World:
    def __init__(self):
        self.domains, self.nodes, self.sight, self.budgets = Watched(), Watched(), Sight(), Budgets()
        self.available, self.events, self.writer, self.metrics = Available(), Events(), Writer(), CollectorRegistry()
        self.reason, self.wall_s, self.clock_s = None, NOW_S, 50.0
        self.controller = PowerDomainController(
            PowerDomainParts(
                domains=self.domains,
                nodes=self.nodes,
                sight=self.sight,
                budgets=self.budgets,
                available=self.available,
                events=self.events,
                writer=self.writer,
                stale_reason=lambda: self.reason,
                failures=Failures(self.metrics),
                wall=lambda: self.wall_s,
                clock=lambda: self.clock_s,
            )
        )

    def put(self, *domains, nodes=()):
        self.domains.store |= {each.name: each for each in domains}
        self.nodes.store |= {each.name: each for each in nodes}
        return self

    async def look(self, **options):
        """Look once; return the names whose status was written."""
        before = len(self.writer.applied)
        await self.controller.look(**options)
        return [name for _, name, _, _ in self.writer.applied[before:]]

    def change(self, old, new):
        self.domains.change("rack", old, new)

    @property
    def superseded(self):
        return self.controller._is_superseded()
