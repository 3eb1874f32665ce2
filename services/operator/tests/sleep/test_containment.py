"""What cannot be used or fails for one node, pod, NodeBMC or policy ends the work on that one alone."""

import asyncio

import pytest
from services.operator.tests.sleep.sleep_objects import owned_pod

from joulie_core import labels
from joulie_operator.sleep import facts, planner
from joulie_operator.sleep.writer import SleepWriter

NODES = ("n1", "n2", "n3", "n4")


def some_nodes(world):
    for name in NODES:
        world.add(name)


def internal_errors(world, work):
    return world.registry.get_sample_value("joulie_internal_errors_total", {"work": work})


async def test_a_pass_that_fails_for_an_unexpected_reason_is_counted_and_followed_by_the_next(world, monkeypatch):
    controller, passes, done = world.controller, [], asyncio.Event()

    async def step():
        passes.append(True)
        if len(passes) == 1:
            raise OverflowError("a defect")
        done.set()

    monkeypatch.setattr(controller, "step", step)
    monkeypatch.setattr(controller._pacing, "_interval_s", 0.0)
    await world.seen()
    running = asyncio.create_task(controller.run())
    async with asyncio.timeout(10):
        await done.wait()
    running.cancel()
    assert internal_errors(world, "decide about sleep") == 1


async def test_a_node_that_cannot_be_judged_stays_awake_and_the_others_sleep(world):
    some_nodes(world)
    world.api.patch("Node", "n2", {"status": {"allocatable": {"cpu": "lots"}}})
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    await world.step(10)
    assert world.state("n2") == "awake"
    assert world.status()["refusals"] == [{"reason": "pods_unknown", "nodes": 1}]
    assert world.registry.get_sample_value("joulie_invalid_input_total", {"source": "nodes"}) > 0
    assert internal_errors(world, "judge node for sleep") is None


async def test_a_node_whose_judgement_fails_stays_awake_and_the_defect_is_counted(world, monkeypatch):
    some_nodes(world)
    requested = facts._is_requested

    def fail(awake_until, now_s):
        return 1 / 0 if awake_until == "fails" else requested(awake_until, now_s)

    monkeypatch.setattr(facts, "_is_requested", fail)
    world.api.patch("Node", "n2", {"metadata": {"annotations": {labels.AWAKE_UNTIL: "fails"}}})
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    await world.step(10)
    assert world.state("n2") == "awake"
    assert internal_errors(world, "judge node for sleep") > 0


async def test_a_node_whose_bmc_cannot_be_judged_stays_awake_and_the_others_sleep(world, monkeypatch):
    some_nodes(world)
    read = facts.power_facts

    def fail(bmc):
        return 1 / 0 if bmc.name == "n2" else read(bmc)

    monkeypatch.setattr(facts, "power_facts", fail)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    await world.step(10)
    assert world.state("n2") == "awake"
    assert world.status()["refusals"] == [{"reason": "bmc_unknown", "nodes": 1}]
    assert internal_errors(world, "read power of node") > 0


async def test_a_node_that_cannot_be_judged_any_more_is_woken(world):
    """It may be one of the last of its hardware family."""
    some_nodes(world)
    world.policy()
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    (name, other) = world.in_state("asleep")
    world.api.patch("Node", name, {"status": {"allocatable": {"cpu": "lots"}}})
    await world.until(lambda: world.state(name) == "awake")
    assert world.state(other) == "asleep"


async def test_a_pod_of_which_no_version_can_be_read_may_be_on_any_node_so_that_none_goes_to_sleep(world):
    some_nodes(world)
    odd = owned_pod("odd", "n3")
    odd["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "lots"}}
    world.api.put(odd)
    world.unread = {"odd"}
    world.policy()
    await world.step(15)
    assert world.in_state("awake") == list(NODES)
    assert world.status()["refusals"] == [{"reason": "pods_unknown", "nodes": 4}]
    world.api.remove("Pod", "odd", namespace="default")
    await world.until(lambda: len(world.in_state("asleep")) == 2)


@pytest.mark.parametrize("zone", ["Europe", "a" * 60])
async def test_a_policy_with_a_time_zone_that_is_no_zone_stops_no_other_policy(world, zone):
    some_nodes(world)
    window = {"days": ["Mon"], "start": "07:00", "end": "19:00", "timeZone": zone, "minAwake": 1}
    world.policy("bad", nodeSelector={"pool": "none"}, schedules=[window])
    world.policy("good")
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    accepted = next(each for each in world.status("bad")["conditions"] if each["type"] == "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
    assert f"schedules[0].timeZone: {zone!r} is not in the time zone database" in accepted["message"]


async def test_a_policy_that_fails_leaves_its_nodes_in_their_states_and_stops_no_other_policy(world, monkeypatch):
    some_nodes(world)
    for name in ("m1", "m2", "m3", "m4"):
        world.add(name, zone="b", labels={"pool": "other"})
    world.policy("good", nodeSelector={"pool": "other"})
    world.policy("bad")
    await world.until(lambda: len(world.in_state("asleep")) == 4)
    of_bad = [name for name in world.in_state("asleep") if name in NODES]
    decide = planner.decide

    def failing(cluster, records, *args):
        if any(name in records for name in NODES):
            raise OverflowError("a defect")
        return decide(cluster, records, *args)

    monkeypatch.setattr(planner, "decide", failing)
    of_good = next(name for name in world.in_state("asleep") if name not in NODES)
    until = {"metadata": {"annotations": {"joulie.io/awake-until": "2100-01-01T00:00:00Z"}}}
    world.api.patch("Node", of_good, until)
    await world.until(lambda: world.state(of_good) == "awake")
    assert [name for name in world.in_state("asleep") if name in NODES] == of_bad
    assert internal_errors(world, "decide about sleep of a policy") > 0


@pytest.mark.parametrize(
    ("method", "work"),
    [("store", "store sleep record"), ("show", "sleep condition"), ("request_power", "sleep power")],
)
async def test_a_write_about_one_node_that_fails_unexpectedly_stops_no_other_node(world, monkeypatch, method, work):
    some_nodes(world)
    real = getattr(SleepWriter, method)

    async def failing(self, subject, *args, **options):
        if (subject.node.name if method != "request_power" else subject.name) == "n1":
            raise OverflowError("a defect")
        return await real(self, subject, *args, **options)

    monkeypatch.setattr(SleepWriter, method, failing)
    world.policy(minAwake={"count": 0, "spare": 0})
    await world.until(lambda: "n2" in world.in_state("asleep") or "n3" in world.in_state("asleep"))
    assert internal_errors(world, work) > 0
