"""When the power of a server is requested."""

import pytest
from services.operator.tests.sleep.controller.controlled import NOW_S, record
from services.operator.tests.sleep.sleep_objects import REQUESTED, SWITCHED_OFF, owned_pod
from structlog.testing import capture_logs

from joulie_api.errors import Conflict
from joulie_core.sleep import SleepState
from joulie_operator.sleep import controller, facts
from joulie_operator.sleep.records import mark_text


async def test_power_is_cut_only_at_the_pass_after_the_record_was_stored(world):
    world.node(SleepState.DRAINING)
    world.bmc(status={"powerState": "On"})
    world.decide(n1=record(SleepState.POWERING_OFF))
    await world.step()
    assert world.powers() == []
    world.decide()
    world.node(SleepState.POWERING_OFF, version="42")
    await world.step()
    assert world.powers() == [("n1", "Off")]
    (selector,) = world.api.of("list")[-1]
    assert [made[0] for made in world.api.made][-2:] == ["list", "NodeBMC"]
    assert selector.startswith("spec.nodeName=n1,")


@pytest.mark.parametrize("owner", ["ReplicaSet", "Job", None])
async def test_power_is_not_cut_under_a_pod_that_the_watch_has_not_seen(world, owner):
    world.node(SleepState.POWERING_OFF)
    world.bmc(status={"powerState": "On"})
    world.api.pods = [owned_pod("late", owner=owner)]
    await world.step()
    assert world.powers() == []
    world.api.pods = [owned_pod("agent", owner="DaemonSet")]
    await world.step()
    assert world.powers() == [("n1", "Off")]


@pytest.mark.parametrize(("state", "asks"), [("Off", False), ("On", True), ("Unknown", True)])
async def test_pods_are_not_asked_for_where_the_server_is_off_already(world, state, asks):
    world.node(SleepState.ASLEEP)
    world.bmc(status={"powerState": state})
    await world.step()
    assert bool(world.api.of("list")) is asks
    assert world.powers() == [("n1", "Off")]


async def test_a_power_off_that_is_requested_already_costs_no_request(world):
    world.node(SleepState.POWERING_OFF)
    world.bmc(desired="Off", requested="Off", status={"powerState": "On"})
    await world.step()
    assert world.api.made == []


async def test_a_persons_on_is_not_turned_into_off(world):
    world.node(SleepState.ASLEEP)
    world.bmc(desired="On", status={"powerState": "Off"})
    await world.step()
    assert world.powers() == []


async def test_a_persons_off_is_taken_over_for_a_node_that_is_to_be_off(world):
    world.node(SleepState.ASLEEP)
    world.bmc(desired="Off", status={"powerState": "Off"})
    await world.step()
    assert world.powers() == [("n1", "Off")]


async def test_a_node_that_wakes_is_powered_on_and_one_that_is_awake_left_alone(world):
    world.node(SleepState.WAKING)
    world.node(SleepState.AWAKE, "n2")
    world.bmc("n1", desired="Off", requested="Off")
    world.bmc("n2", desired="On", requested="On")
    await world.step()
    assert world.powers() == [("n1", "On"), ("n2", None)]


async def test_a_server_that_was_switched_off_and_whose_node_is_gone_is_powered_on(world):
    world.bmc("gone", desired="Off", requested="Off")
    await world.step()
    assert world.powers() == [("gone", "On")]


async def test_the_request_for_a_server_that_is_on_and_whose_node_is_gone_is_withdrawn(world):
    world.bmc("gone", desired="On", requested="On")
    await world.step()
    assert world.powers() == [("gone", None)]


async def test_a_power_request_that_fails_holds_no_other_up_and_is_repeated(world):
    for name in ("n1", "n2"):
        world.node(SleepState.WAKING, name)
        world.bmc(name)
    world.api.errors["NodeBMC"] = [Conflict(409, "Conflict", "changed")]
    await world.step()
    assert [name for name, _ in world.powers()] == ["n1", "n2"]
    await world.step()
    assert [name for name, _ in world.powers()] == ["n1", "n2", "n1", "n2"]


async def test_the_condition_of_every_node_is_shown(world):
    world.node(SleepState.ASLEEP, shown=False)
    await world.step()
    ((name, body),) = world.api.of("Node status")
    assert (name, body["status"]["conditions"][0]["status"]) == ("n1", "True")


@pytest.mark.parametrize("failing", ["power_facts", "wanted_power"])
async def test_a_server_that_cannot_be_judged_is_a_defect_and_holds_no_other_up(world, monkeypatch, failing):
    for name in ("n1", "n2"):
        world.node(SleepState.WAKING, name)
        world.bmc(name)
    module = facts if failing == "power_facts" else controller
    judge = getattr(module, failing)
    judged = []

    def fail_once(*args):
        judged.append(args)
        return 1 / 0 if len(judged) == 1 else judge(*args)

    monkeypatch.setattr(module, failing, fail_once)
    with capture_logs() as logs:
        await world.step()
    assert world.powers() == [("n2", "On")]
    assert world.defects("read power of node" if failing == "power_facts" else "sleep power") == 1
    assert [each["node"] for each in logs if each["event"] == "internal error, will be repeated"] == ["n1"]


async def test_a_pod_keeps_a_sleeping_server_from_being_powered_off_and_not_from_being_marked(world):
    """Its NodeBMC was written again, and says nothing of the power."""
    world.node(SleepState.ASLEEP)
    world.bmc(version="51")
    world.api.pods = [owned_pod("late")]
    await world.step()
    ((name, body),) = world.api.of("NodeBMC")
    assert (name, body["metadata"]["resourceVersion"], body.get("spec")) == ("n1", "51", None)
    assert body["metadata"]["annotations"] == {REQUESTED: None, SWITCHED_OFF: mark_text(NOW_S, "")}
