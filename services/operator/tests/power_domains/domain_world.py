"""A controller of power domains on the in-process API server, with nodes whose power a test sets."""

import asyncio
from contextlib import asynccontextmanager, nullcontext

from prometheus_client import CollectorRegistry

from joulie_api.apply import FencedWriter
from joulie_api.failures import Failures
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_POWER_BUDGETS, NODES, POWER_DOMAINS, POWER_EVENTS
from joulie_api.wire import decode_kind, decode_node
from joulie_core.budget import BudgetNode, ServerRest
from joulie_core.kinds import NodePowerBudget, PowerDomain, PowerEvent
from joulie_operator.power_domains.available import AvailableWatts
from joulie_operator.power_domains.budget_writer import BudgetWriter
from joulie_operator.power_domains.budgets import NodeBudgets
from joulie_operator.power_domains.controller import PowerDomainController, PowerDomainParts
from joulie_operator.power_domains.events import PowerEventParts, PowerEvents
from joulie_operator.power_domains.inputs import DomainNode, DrawnReading, identity_of, unknown_node
from joulie_operator.power_domains.sent import SentLimits
from joulie_testing.api import make_node, make_power_domain

START_S = 1_800_000_000.0


class DomainWorld:
    """Everything around one controller; `power` has highest, lowest, wanted and drawn watts by node."""

    def __init__(self, api, client, *, enforces=False, oversubscribes=False):
        self.api = api
        self.now_s = START_S
        self.stale = None
        self.leads = True
        #: Seconds between a decision and its writes.
        self.late_s = 0.0
        self.power = {}
        #: What whole servers draw, and their rest.
        self.servers, self.rests, self.retained = {}, {}, set()
        self.broken_nodes = set()
        #: Names of domains that the test has made unreadable.
        self.unread = set()
        self.unread_budgets = set()
        self.unread_nodes = set()
        self.failures = Failures(CollectorRegistry())
        self.domains = Reflector(client, POWER_DOMAINS, decode_kind(PowerDomain))
        self.nodes = Reflector(client, NODES, decode_node)
        self.budgets = Reflector(client, NODE_POWER_BUDGETS, decode_kind(NodePowerBudget))
        self.events = Reflector(client, POWER_EVENTS, decode_kind(PowerEvent))
        #: Names of events that the test has made unreadable.
        self.unread_events = set()
        self.events_unknown = None
        #: Nodes that run performance pods.
        self.performance = set()
        for reflector in (self.domains, self.nodes, self.budgets, self.events):
            reflector.report_to(self.failures)
        writer = FencedWriter(client, "joulie-operator", guard=lambda: self.leads)
        self.term = 0
        sent = SentLimits()
        self.available = AvailableWatts(lambda: self.now_s)
        parts = PowerDomainParts(
            domains=self.domains,
            nodes=self.nodes,
            sight=self,
            budgets=NodeBudgets(
                self.budgets,
                sent,
                BudgetWriter(writer, sent, clock=lambda: self.now_s + self.late_s, concurrency=1, ahead=nullcontext),
                term=self.own_term,
                enforces=enforces,
                clock=lambda: self.now_s,
            ),
            available=self.available,
            events=PowerEvents(PowerEventParts(self.events, lambda: self.events_unknown, writer, self.failures)),
            writer=writer,
            stale_reason=lambda: self.stale,
            failures=self.failures,
            wall=lambda: self.now_s,
            clock=lambda: self.now_s,
            oversubscribes=oversubscribes,
        )
        self.controller = PowerDomainController(parts)

    def own_term(self, above):
        return self.term if self.leads and self.term > above else None

    def node(self, node):
        if node.name in self.broken_nodes:
            raise RuntimeError("a defect")
        if node.name not in self.power:
            return unknown_node(node)
        highest, lowest, wanted, drawn = self.power[node.name]
        budget = BudgetNode(
            node.name,
            identity_of(node),
            int(highest * 1000),
            int(lowest * 1000),
            None if wanted is None else int(wanted * 1000),
        )
        return DomainNode(
            budget,
            DrawnReading(drawn, measured=True),
            self.servers.get(node.name, DrawnReading(None)),
            self.rests.get(node.name, ServerRest(None)),
            node.name in self.performance,
        )

    def retain(self, names):
        self.retained = set(names)

    def put_node(self, name, *, rack, power=(500, 100, None, 200), **labels):
        self.api.put(make_node(name, labels={"rack": rack, **labels}))
        if power is not None:
            self.power[name] = power

    def put(self, name, limit_watts=1_000, **spec):
        return self.api.put(make_power_domain(name, limit_watts=limit_watts, **spec))

    async def look(self, after_s=0.0):
        """Look once, with watches that have seen all there is."""
        await self.seen()
        self.now_s += after_s
        await self.controller.look()

    async def seen(self):
        def current():
            stored = {
                each["metadata"]["name"]: each["metadata"]["resourceVersion"]
                for each in self.api.objects("PowerDomain")
                if each["metadata"]["name"] not in self.unread
            }
            store, invalid = self.domains.store, self.domains.invalid.keys()
            known = {name: each.metadata.resource_version for name, each in store.items() if name not in self.unread}
            known_nodes = {name: each.resource_version for name, each in self.nodes.store.items()}
            all_nodes = _versions(self.api, "Node")
            for name in self.unread_nodes:
                known_nodes[name] = all_nodes[name]
            nodes = all_nodes == known_nodes and self.nodes.invalid.keys() == self.unread_nodes
            budgets = {name: each.metadata.resource_version for name, each in self.budgets.store.items()}
            all_budgets = _versions(self.api, "NodePowerBudget")
            for name in self.budgets.invalid:
                budgets[name] = all_budgets.get(name)
            events = {name: each.metadata.resource_version for name, each in self.events.store.items()}
            all_events = _versions(self.api, "PowerEvent")
            for name in self.events.invalid:
                events[name] = all_events.get(name)
            if events != all_events or self.events.invalid.keys() != self.unread_events:
                return False
            follows = nodes and budgets == all_budgets and self.budgets.invalid.keys() == self.unread_budgets
            return known == stored and invalid == self.unread and follows

        for _ in range(10_000):
            if current():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("the watches do not follow")

    def status(self, name):
        return self.api.get("PowerDomain", name).get("status", {})

    def condition(self, name, kind):
        found = {each["type"]: each for each in self.status(name).get("conditions", ())}
        each = found.get(kind)
        return None if each is None else (each["status"], each["reason"], each.get("message", ""))

    @property
    def writes(self):
        """All writes but those of the test."""
        return [each for each in self.api.requests if each.verb in {"create", "replace", "patch", "apply", "delete"}]


def _versions(api, kind):
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in api.objects(kind)}


@asynccontextmanager
async def domain_world(api, client, **options):
    world = DomainWorld(api, client, **options)
    tasks = [asyncio.create_task(each.run()) for each in (world.domains, world.nodes, world.budgets, world.events)]
    try:
        yield world
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
