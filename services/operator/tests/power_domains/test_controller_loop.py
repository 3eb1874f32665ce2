"""What supersedes a decision of the controller, and when the next pass is made."""

import asyncio

import pytest
from services.operator.tests.power_domains.controller_world import NOW_S, World, domain, node

from joulie_operator.power_domains import controller as controller_module
from joulie_operator.power_domains.controller import (
    DEBOUNCE_S,
    WHOLE_S,
)


@pytest.fixture
def world():
    return World().put(domain(), nodes=(node("n1"), node("n2")))


# --- what changes meanwhile -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "urgent", "wakes"),
    [
        (domain(), domain(version="2", limit_watts=900), True, True),
        (None, domain(), False, True),
        (domain(), None, False, True),
        (domain(), domain(version="2", status={"nodes": 3}), False, False),
    ],
    ids=["spec", "created", "deleted", "status"],
)
async def test_a_changed_limit_supersedes_a_decision_and_a_new_domain_wakes(world, old, new, urgent, wakes):
    await world.look()
    assert not world.superseded
    world.controller._changed.clear()
    world.change(old, new)
    assert (world.superseded, world.controller._changed.is_set()) == (urgent, wakes)
    await world.look()
    assert not world.superseded


async def test_an_event_that_changes_supersedes_and_a_report_of_a_node_does_not(world):
    world.controller._changed.clear()
    world.budgets.wake()
    assert (world.superseded, world.controller._changed.is_set()) == (False, True)
    world.events.wake()
    assert world.superseded


async def test_a_limit_that_changes_by_the_clock_supersedes_from_then_on(world):
    world.events.changes_s = NOW_S + 5
    await world.look()
    world.wall_s = NOW_S + 4.9
    assert not world.superseded
    world.wall_s = NOW_S + 5
    assert world.superseded


async def test_changes_without_end_supersede_for_half_a_minute_at_most(world):
    world.change(domain(), domain(version="2", limit_watts=900))
    world.clock_s += WHOLE_S - 0.1
    assert world.superseded
    world.clock_s += 0.1
    assert not world.superseded


async def test_the_status_of_a_superseded_decision_is_not_written(world):
    world.budgets.on_carry = lambda: world.change(domain(), domain(version="2", limit_watts=900))
    assert await world.look() == []
    assert world.budgets.carried[0][4] is True
    world.budgets.on_carry = lambda: None
    assert await world.look() == ["rack"]


# --- the loop ---------------------------------------------------------------------------------------------------------


class Loop:
    """Runs the loop on the clock of the world, which goes on by what it waits for."""

    def __init__(self, world, monkeypatch, passes):
        self.world, self.passes = world, passes
        self.waits, self.afresh, self.between = [], [], {}
        self.done = asyncio.Event()
        self._timeout = asyncio.timeout
        look = world.controller.look

        async def looked(*, afresh=True):
            self.afresh.append(afresh)
            if len(self.afresh) > passes:
                self.done.set()
                await asyncio.Event().wait()
            await look(afresh=afresh)

        monkeypatch.setattr(world.controller, "look", looked)
        monkeypatch.setattr(controller_module.asyncio, "timeout", self.timeout)

    def timeout(self, seconds):
        """Take no time; what a test wants to happen while the loop waits happens now."""
        self.waits.append((len(self.afresh), round(seconds, 3)))
        happens = self.between.pop(len(self.waits), None)
        if happens is None:
            self.world.clock_s += seconds
            return self._timeout(0)
        happens()
        return self._timeout(10)

    async def run(self):
        running = asyncio.create_task(self.world.controller.run())
        async with self._timeout(20):
            await self.done.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return self.waits[: self.passes]


async def test_a_pass_is_made_once_in_the_interval_by_all_nodes(world, monkeypatch):
    loop = Loop(world, monkeypatch, 2)
    assert await loop.run() == [(1, 10.0), (2, 10.0)]
    assert loop.afresh == [True, True, True]


async def test_reports_are_collected_for_a_moment_and_looked_at_without_reading_all_nodes(world, monkeypatch):
    loop = Loop(world, monkeypatch, 3)
    loop.between = {1: world.budgets.wake}
    assert await loop.run() == [(1, 10.0), (1, DEBOUNCE_S), (2, 9.9)]
    assert loop.afresh[:3] == [True, False, True]


async def test_a_changed_limit_is_not_waited_with(world, monkeypatch):
    loop = Loop(world, monkeypatch, 3)
    loop.between = {1: lambda: world.change(domain(), domain(version="2", limit_watts=900)), 2: lambda: None}
    assert await loop.run() == [(1, 10.0), (1, DEBOUNCE_S), (2, 10.0)]


async def test_reports_are_collected_for_as_long_as_a_decision_takes(world, monkeypatch):
    loop = Loop(world, monkeypatch, 3)
    decide = controller_module.decide

    def slow(*given):
        world.clock_s += 2.0
        return decide(*given)

    monkeypatch.setattr(controller_module, "decide", slow)
    loop.between = {1: world.budgets.wake}
    assert await loop.run() == [(1, 8.0), (1, 2.0), (2, 4.0)]


@pytest.mark.parametrize(("after_s", "wait_s"), [(4.0, 4.0), (0.25, 0.25), (-1.0, 0.0)])
async def test_a_pass_is_made_when_the_limit_of_an_event_changes(world, monkeypatch, after_s, wait_s):
    world.events.changes_s = NOW_S + after_s
    loop = Loop(world, monkeypatch, 1)
    assert await loop.run() == [(1, wait_s)]


@pytest.mark.parametrize(("superseded", "until_s"), [(False, 90.0), (True, 80.0)])
async def test_the_half_minute_counts_from_the_last_pass_that_was_not_superseded(
    world, monkeypatch, superseded, until_s
):
    def supersede():
        if superseded and world.clock_s == 60.0:
            world.change(domain(), domain(version="2", limit_watts=900))

    world.budgets.on_carry = supersede
    loop = Loop(world, monkeypatch, 2)
    # The loop itself is not kept from waiting.
    loop.between = {} if not superseded else {3: lambda: None}
    await loop.run()
    world.change(domain(), domain(version="2", limit_watts=900))
    world.clock_s = until_s - 0.1
    assert world.superseded
    world.clock_s = until_s
    assert not world.superseded


async def test_watches_that_cannot_be_believed_are_looked_at_again_after_a_second(world, monkeypatch):
    world.reason = "no contact"
    loop = Loop(world, monkeypatch, 2)
    assert await loop.run() == [(1, 1.0), (2, 1.0)]
    assert loop.afresh[:2] == [True, True]


async def test_a_defect_ends_one_pass_and_not_the_loop(world, monkeypatch):
    world.sight.retain = None
    loop = Loop(world, monkeypatch, 2)
    assert await loop.run() == [(1, 10.0), (2, 10.0)]
    assert world.metrics.get_sample_value("joulie_internal_errors_total", {"work": "power domains"}) == 2.0
