"""What a pass is made of, and when there is none."""

import asyncio

import pytest
from services.operator.tests.sleep.controller.controlled import N1, N2, NOW_S, World
from services.operator.tests.sleep.sleep_objects import STATE, seen_node
from structlog.testing import capture_logs

from joulie_api.errors import NotLeader
from joulie_core.sleep import SleepState
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep import controller, pacing


async def test_nothing_is_decided_or_written_while_a_watch_may_be_out_of_date(world, one_pass):
    world.node(SleepState.POWERING_OFF)
    world.bmc(status={"powerState": "On"})
    world.watches.stale = "pods: no contact for 40 s"
    await one_pass(world)
    assert (world.planner.seen, world.api.made) == ([], [])
    world.watches.stale = None
    await one_pass(world)
    assert len(world.planner.seen) == 1


async def test_a_decision_is_made_of_facts_policies_and_the_time(world):
    until = rfc3339(NOW_S + 5, "seconds")
    for name, pool in (("n1", "a"), ("n2", "b"), ("n3", "a")):
        labels = {"pool": pool}
        world.watches.nodes[name] = seen_node(name, labels=labels, annotations={"joulie.io/awake-until": until})
    world.policy("p", mode="Observe")
    assert world.controller.statuses == {}
    await world.step()
    ((facts, (policy,), now_s),) = world.planner.asked
    assert now_s == NOW_S
    assert (policy.name, policy.nodes) == ("p", {"n1"}), "n3 is not managed"
    assert facts.nodes[N1].wake_requested is True
    assert facts.nodes[N1].group == "family"
    ((name, body),) = world.api.of("NodeSleepPolicy status")
    assert (name, body["status"]["observedGeneration"], body["status"]["nodes"]["selected"]) == ("p", 4, 1)
    assert world.controller.statuses["p"].observed_generation == 4


async def test_a_pass_that_fails_for_an_unexpected_reason_is_counted_as_a_defect(world, one_pass):
    world.planner.error = OverflowError("a defect")
    await one_pass(world)
    assert world.defects("decide about sleep") == 1


async def test_the_log_says_once_why_nothing_is_decided_and_when_decisions_go_on(world, one_pass):
    with capture_logs() as logs:
        for age_s in (40, 50):
            world.watches.stale = f"pods: no contact for {age_s} s"
            await one_pass(world)
        world.watches.stale = None
        await one_pass(world)
    assert [(each["event"], each.get("problem")) for each in logs] == [
        ("no decision about sleep", "pods: no contact for 40 s"),
        ("decisions about sleep go on", None),
    ]
    assert logs[0]["cause"] == "stale"


async def test_a_controller_without_policies_wakes_a_node_that_sleeps(world):
    world.controller._planner = world.real_planner
    world.node(SleepState.ASLEEP)
    world.bmc(desired="Off", requested="Off", status={"powerState": "Off"})
    await world.step()
    ((name, body),) = world.api.of("Node")
    assert (name, body["metadata"]["labels"]) == ("n1", {STATE: "waking"})
    assert world.powers() == [("n1", "On")]


async def test_the_status_of_a_policy_has_the_nodes_that_are_recommended_for_it(world):
    world.watches.nodes["n1"] = seen_node("n1", labels={"pool": "a"})
    world.policy("p", mode="Recommend")
    world.planner.recommended = {"p": frozenset({N1})}
    await world.step()
    ((name, body),) = world.api.of("NodeSleepPolicy status")
    assert (name, body["status"]["recommendation"]["nodes"]) == ("p", ["n1"])


async def test_a_policy_that_cannot_be_used_has_a_status_that_says_why(world):
    window = {"days": ["Mon"], "start": "07:00", "end": "19:00", "timeZone": "Europe/Roma", "minAwake": 1}
    world.policy("p", mode="Act", schedules=[window])
    await world.step()
    ((name, body),) = world.api.of("NodeSleepPolicy status")
    accepted = next(each for each in body["status"]["conditions"] if each["type"] == "Accepted")
    assert (name, body["status"]["observedGeneration"], accepted["status"]) == ("p", 4, "False")
    assert "schedules[0].timeZone: 'Europe/Roma'" in accepted["message"]
    assert accepted["lastTransitionTime"] == rfc3339(NOW_S, "seconds")


async def test_a_status_that_cannot_be_made_is_a_defect_and_holds_no_other_up(world, monkeypatch):
    world.policy("p", mode="Act")
    world.policy("q", mode="Act")
    real = controller.policy_status

    def failing(policy, *args):
        return 1 / 0 if policy.name == "p" else real(policy, *args)

    monkeypatch.setattr(controller, "policy_status", failing)
    with capture_logs() as logs:
        await world.step()
    assert world.defects("status of a policy") == 1
    assert [each["policy"] for each in logs if each["event"] == "internal error, will be repeated"] == ["p"]
    assert [name for name, _ in world.api.of("NodeSleepPolicy status")] == ["q"]


@pytest.mark.parametrize(("interval_s", "waits"), [(0, False), (3600, True)])
async def test_a_pass_follows_after_the_interval_or_once_a_pod_waits(monkeypatch, interval_s, waits):
    monkeypatch.setattr(pacing, "LEAST_PAUSE_S", 0.0)
    world = World(interval_s=interval_s)
    seen = world.watches.seen

    def begins_to_wait():
        if world.planner.seen:
            world.planner.error = NotLeader("the second pass")
        elif waits:
            world.watches.notify()
        return seen()

    world.watches.seen = begins_to_wait
    with pytest.raises(NotLeader):
        async with asyncio.timeout(10):
            await world.controller.run()
    assert len(world.planner.seen) == 2


async def test_hardware_that_cannot_be_read_is_a_defect_of_its_node_and_holds_no_other_up(world):
    for name in ("n1", "n2"):
        world.watches.nodes[name] = seen_node(name)
    world.hardware_errors = {"n1": OverflowError("a defect")}
    with capture_logs() as logs:
        await world.step()
    assert world.hardware_read == ["n1", "n2"]
    ((facts, *_),) = world.planner.asked
    assert (facts.nodes[N2].group, facts.nodes[N1].group == "family") == ("family", False)
    assert world.defects("read hardware of node") == 1
    assert [each["node"] for each in logs if each["event"] == "internal error, will be repeated"] == ["n1"]
