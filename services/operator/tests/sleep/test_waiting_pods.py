"""A pod that waits is decided about soon, and away from the event loop."""

import asyncio
import threading

import pytest

from joulie_operator.sleep.planner import SleepPlanner

NODES = ("n1", "n2", "n3", "n4")
#: From the pod until a node is asked to wake, with the default interval of ten seconds.
WITHIN_S = 3.0


async def half_asleep(world):
    for name in NODES:
        world.add(name)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    for name in world.in_state("awake"):
        world.pod(f"fills-{name}", name, cpu=60)
    await world.step(2)


def is_waking(seen):
    return any(bmc.model.spec.desired_power == "On" for bmc in seen.bmcs.values())


async def test_a_node_is_asked_to_wake_within_seconds_of_a_burst_though_the_interval_is_longer(world, monkeypatch):
    await half_asleep(world)
    asleep = set(world.in_state("asleep"))
    before = len(world.api.requests.writes(manager="joulie-operator"))
    step, passed = world.controller.step, asyncio.Event()

    async def noted():
        await step()
        passed.set()

    monkeypatch.setattr(world.controller, "step", noted)
    running = asyncio.create_task(world.controller.run())
    try:
        await passed.wait()
        for number in range(200):
            world.pod(f"waits-{number}", cpu=30, unschedulable=True)
        async with asyncio.timeout(WITHIN_S):
            await world.until_seen(is_waking)
    finally:
        running.cancel()
    made = world.api.requests.writes(manager="joulie-operator")[before:]
    (wake, *_) = (each for each in made if each.kind == "NodeBMC")
    assert wake.method == "PATCH"
    assert wake.path.removeprefix("/apis/joulie.io/v1alpha1/nodebmcs/") in asleep
    assert wake.json()["spec"] == {"desiredPower": "On"}
    assert wake.json()["metadata"]["annotations"]["joulie.io/requested-power"] == "On"


async def test_the_event_loop_goes_on_while_it_is_decided(world, monkeypatch):
    await half_asleep(world)
    plan, decided_in = SleepPlanner.plan, []
    reached, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(self, *args):
        decided_in.append(threading.current_thread())
        loop.call_soon_threadsafe(reached.set)
        assert goes_on.wait(10), "the event loop waits for the decision"
        return plan(self, *args)

    monkeypatch.setattr(SleepPlanner, "plan", slow)
    step = asyncio.create_task(world.controller.step())
    await reached.wait()
    goes_on.set()
    await step
    assert decided_in != [threading.main_thread()]


@pytest.mark.parametrize(("change", "notified"), [({}, 1), ({"unschedulable": False}, 0), ({"node": "n1"}, 0)])
async def test_a_pod_is_told_of_once_when_it_begins_to_wait(world, change, notified):
    world.add("n1")
    told = []
    world.watches.on_waiting_pod(lambda: told.append(True))
    world.pod("p", **{"unschedulable": True} | change)
    await world.seen()
    world.api.patch("Pod", "p", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    world.add("n2")
    await world.seen()
    assert len(told) == notified
