"""Operators that enforce power budgets on the in-process API server, with simulated servers and their agents."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from services.operator.tests.power_domains.domain_world import domain_world

from joulie_core.budget import supersedes
from joulie_core.budget.objects import stored_ask, stored_report, watts_of
from joulie_core.kinds import NodePowerBudget
from joulie_testing.api import make_node

#: Time for which the actuator of a dead agent keeps a limit.
KEPT_S = 3_600.0


@dataclass
class Machine:
    """A server, whose own limit is what counts."""

    name: str
    rack: str
    boot: int = 1
    max_watts: float = 500.0
    min_watts: float = 100.0
    #: Firmware takes no lower limit.
    clamp_watts: float = 0.0
    demand_watts: float | None = None
    #: In force; None: no limit.
    limit_watts: float | None = None
    silent: bool = False
    refuses: bool = False
    applied_uid: str = ""
    renewal: int | None = None
    renewed_s: float = 0.0

    @property
    def may_draw(self):
        return self.max_watts if self.limit_watts is None else min(self.limit_watts, self.max_watts)


class EnforcedWorld:
    """One cluster; `operators` are its leaders, of which the last one holds the Lease."""

    def __init__(self, api, client, stack):
        self.api = api
        self.client = client
        self.stack = stack
        self.machines = {}
        self.operators = []
        self.now_s = 1_800_000_000.0
        self.terms = 0
        #: Watts that each server draws.
        self.drawn = 0

    @property
    def leader(self):
        return self.operators[-1]

    async def elect(self, **options):
        """Start an operator, which leads from now on; the one before it stays as it is."""
        for each in self.operators:
            each.leads = False
        self.terms += 1
        found = await self.stack.enter_async_context(
            domain_world(self.api, self.client, **{"enforces": True} | options)
        )
        found.term, found.now_s = self.terms, self.now_s
        self.operators.append(found)
        self.describe()
        return found

    def describe(self):
        """Let operators know the power of machines."""
        for each in self.operators:
            each.power = {
                name: (machine.max_watts, machine.min_watts, machine.demand_watts, self.drawn)
                for name, machine in self.machines.items()
            }

    def add(self, name, rack="a", **fields):
        """Add a server, or replace the one of its name."""
        machine = self.machines[name] = Machine(name, rack, **fields)
        if self.api.get("Node", name) is not None:
            self.api.remove("Node", name)
        self.api.put(make_node(name, labels={"rack": rack}, boot_id=f"boot-{machine.boot}"))
        self.describe()
        return machine

    def remove(self, name):
        self.api.remove("Node", name)
        del self.machines[name]

    def reboot(self, name):
        """Let a server start again, without a limit."""
        machine = self.machines[name]
        machine.boot += 1
        machine.limit_watts = machine.renewal = None
        self.api.patch("Node", name, {"status": {"nodeInfo": {"bootID": f"boot-{machine.boot}"}}})

    def put(self, name, limit_watts=1_000, **spec):
        """Store a domain of mode Enforce."""
        self.leader.put(name, limit_watts, **{"mode": "Enforce"} | spec)

    def demand(self, **watts):
        for name, wanted in watts.items():
            self.machines[name].demand_watts = wanted
        self.describe()

    def budget(self, name):
        return self.api.get("NodePowerBudget", name)

    def spec(self, name):
        found = self.budget(name)
        return None if found is None else found["spec"]

    def limits(self):
        """Limits that are asked, by node."""
        return {
            each["metadata"]["name"]: each["spec"].get("limitWatts") for each in self.api.objects("NodePowerBudget")
        }

    def sum_watts(self, *racks):
        """What the hardware may draw."""
        return sum(each.may_draw for each in self.machines.values() if not racks or each.rack in racks)

    async def look(self, after_s=0.0):
        """Let the leader decide once, by all there is."""
        self.now_s += after_s
        await self.follow(self.leader)
        await self.leader.controller.look()

    async def follow(self, operator):
        operator.now_s = self.now_s
        await operator.seen()

    def answer(self, *names, stale=None):
        """Let agents act on their objects, or on earlier copies of them."""
        for name in names or list(self.machines):
            self.act(self.machines[name], (stale or {}).get(name) or self.budget(name))

    def act(self, machine, stored):
        if machine.silent:
            return
        if stored is None:
            machine.limit_watts, machine.applied_uid, machine.renewal = None, "", None
            return
        current = self.budget(machine.name)
        budget = NodePowerBudget.model_validate(stored)
        ask = stored_ask(budget.spec)
        applied = None
        if current is not None and machine.applied_uid == current["metadata"]["uid"]:
            applied = stored_report(NodePowerBudget.model_validate(current).status)
        if current is None or current["metadata"]["uid"] != stored["metadata"]["uid"]:
            return
        older = applied is not None and ask.sequence < applied.sequence and ask.identity == applied.identity
        if older:
            return
        if supersedes(ask, applied) or machine.limit_watts is None or applied is None or applied.refused:
            machine.applied_uid = stored["metadata"]["uid"]
            if not machine.refuses:
                wanted = watts_of(ask.limit_mw)
                machine.limit_watts = None if wanted is None else max(wanted, machine.clamp_watts)
        machine.renewal, machine.renewed_s = budget.spec.renewal, self.now_s
        status = {
            "nodeUID": budget.spec.node_uid,
            "bootID": budget.spec.boot_id,
            "sequence": ask.sequence,
            "renewal": budget.spec.renewal,
            "inForceWatts": machine.limit_watts,
            "refused": machine.refuses,
        }
        if status != {name: value for name, value in current.get("status", {}).items() if name in status}:
            self.api.patch("NodePowerBudget", machine.name, {"status": status})

    def let_leases_end(self):
        """Take the limits of machines without control."""
        for machine in self.machines.values():
            spec = self.spec(machine.name)
            if spec is not None and machine.limit_watts is not None:
                releases = spec["onLostControl"] == "Release"
                if self.now_s > machine.renewed_s + (spec["leaseSeconds"] if releases else KEPT_S):
                    machine.limit_watts = None

    async def settle(self, rounds=8):
        """Decide and answer until nothing changes."""
        for _ in range(rounds):
            before = self.api.resource_version
            await self.look()
            self.answer()
            if self.api.resource_version == before:
                return
        raise AssertionError("no end of writes")


@asynccontextmanager
async def enforced_world(api, client, **options):
    async with AsyncExitStack() as stack:
        world = EnforcedWorld(api, client, stack)
        await world.elect(**options)
        yield world
