"""Operators, agents and servers in any order: no sum of what the hardware holds is above a limit.

The observer adds up the limits of simulated servers after everything that changes one. Its bound is the limit; it is
higher only after what no one can act before (a server that starts again, or a lowered limit), until the agents have had
time to answer.
"""

from random import Random

import pytest
from services.operator.tests.power_domains.enforced_world import enforced_world

from joulie_operator.power_domains import enforcement
from joulie_testing.api import Disconnect, Respond

RACKS = ("a", "b")
FEED_WATTS, RACK_WATTS = 1_500, 1_000


class AboveLimitError(AssertionError):
    """A sum of limits of servers is above what is allowed."""


class Walk:
    """One cluster with a feed, two racks and five servers."""

    def __init__(self, world, seed, *, releases=False):
        self.world = world
        self.random = Random(seed)
        self.lost_control = "Release" if releases else "KeepGuaranteed"
        self.limits = {"feed": FEED_WATTS, "a": RACK_WATTS, "b": RACK_WATTS}
        self.excused_s = 0.0
        #: Objects as agents saw them last.
        self.copies = {}
        self.worst = {}

    async def begin(self):
        for name, limit in self.limits.items():
            self.put(name, limit)
        for index in range(5):
            self.world.add(f"n{index}", rack=RACKS[index % 2], clamp_watts=self.random.choice((0.0, 0.0, 150.0)))
        await self.world.settle()
        self.observe()

    def put(self, name, limit):
        parent = {} if name == "feed" else {"parent": "feed", "nodeSelector": {"rack": name}}
        self.world.put(name, limit, onLostControl=self.lost_control, **parent)

    def observe(self):
        """Compare the limits of the hardware with those of the domains."""
        if self.world.now_s < self.excused_s:
            return
        for name, limit in self.limits.items():
            total = self.world.sum_watts(*(() if name == "feed" else (name,)))
            self.worst[name] = max(self.worst.get(name, 0.0), total - limit)
            if total > limit + 1e-6:
                raise AboveLimitError(f"{name}: {total} W, limit {limit} W, at {self.world.now_s}")

    async def step(self):
        world, chance = self.world, self.random
        draw = chance.random()
        name = chance.choice(sorted(world.machines))
        machine = world.machines[name]
        troubled = any(each.silent or each.refuses for each in world.machines.values())
        if draw < 0.40:
            await self.want_or_elect(name)
        elif draw < 0.50 and not troubled:
            machine.silent, machine.refuses = chance.choice(((True, False), (False, True)))
        elif draw < 0.62:
            for each in world.machines.values():
                each.silent = each.refuses = False
        elif draw < 0.66 and not troubled and world.now_s >= self.excused_s:
            await self.surprise(name)
        elif draw < 0.76:
            fault = chance.choice((Disconnect(after_effect=True), Disconnect(), Respond(409), Respond(503)))
            world.api.faults.add(fault, verb="patch", path="nodepowerbudgets", times=2)
        elif draw < 0.80:
            world.now_s += chance.choice((30.0, 120.0))
        await world.look(chance.uniform(0.1, 20.0))
        if chance.random() < 0.5:
            # Before the watches show what was written.
            world.demand(**{name: chance.choice((50, 500))})
            await world.leader.controller.look()
        for each in chance.sample(sorted(world.machines), k=3):
            old = self.copies.get(each) if chance.random() < 0.2 else None
            world.answer(each, stale={each: old})
            self.copies[each] = world.budget(each)
            self.observe()
        world.let_leases_end()
        self.observe()

    async def want_or_elect(self, name):
        if self.random.random() < 0.9:
            self.world.demand(**{name: self.random.choice((None, 50, 150, 300, 500))})
        else:
            await self.world.elect()

    async def surprise(self, name):
        """Let something happen that no operator can act before, and give everybody the time to answer it."""
        if self.random.random() < 0.5:
            self.world.reboot(name)
        else:
            domain = self.random.choice(sorted(self.limits))
            self.limits[domain] = self.random.choice((900, 1_200, 1_500) if domain == "feed" else (600, 800, 1_000))
            self.put(domain, self.limits[domain])
        for each in self.world.machines.values():
            each.silent = each.refuses = False
        self.world.api.faults.clear()
        self.world.now_s += enforcement.SETTLING_S
        for _ in range(4):
            await self.world.look(1)
            self.world.answer()
        self.observe()


async def walk(api, client, seed, steps, *, releases=False):
    async with enforced_world(api, client) as world:
        found = Walk(world, seed, releases=releases)
        await found.begin()
        for _ in range(steps):
            await found.step()
        return found


@pytest.mark.parametrize("releases", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_no_sum_of_what_the_hardware_holds_is_above_a_limit(fake_api, fake_client, seed, releases):
    found = await walk(fake_api, fake_client, seed, 60, releases=releases)
    assert found.world.terms > 1
