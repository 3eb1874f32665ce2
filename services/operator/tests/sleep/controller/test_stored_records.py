"""What is stored of a decision, and what a write that failed holds up."""

import pytest
from services.operator.tests.sleep.controller.controlled import N1, N2, NOW_S, record
from services.operator.tests.sleep.sleep_objects import STATE, seen_node

from joulie_api.errors import ApiError, Conflict, NotLeader
from joulie_core.sleep import SleepRecord, SleepState
from joulie_operator.sleep.records import lasting


async def test_a_decision_is_made_on_the_records_of_the_nodes(world):
    world.node(SleepState.ASLEEP, sleeps=3)
    world.watches.nodes["n2"] = seen_node("n2")
    await world.step()
    assert world.planner.seen == [{N1: record(SleepState.ASLEEP, sleeps=3), N2: SleepRecord(since_s=0.0)}]


async def test_a_change_of_state_is_stored_counted_and_an_event(world):
    world.node(SleepState.AWAKE)
    world.decide(n1=record(SleepState.CORDONED))
    await world.step()
    ((name, body),) = world.api.of("Node")
    assert (name, body["metadata"]["labels"]) == ("n1", {STATE: "cordoned"})
    assert [event.reason for event in world.events] == ["NodeCordonedForSleep"]
    labels = {"from_state": "Awake", "to_state": "Cordoned", "reason": "idle"}
    assert world.registry.get_sample_value("joulie_operator_sleep_transitions_total", labels) == 1


async def test_a_record_that_changes_within_its_state_is_stored_without_an_event(world):
    world.node(SleepState.AWAKE)
    world.decide(n1=record(SleepState.AWAKE, not_before_s=NOW_S + 60))
    await world.step()
    assert len(world.api.of("Node")) == 1
    assert world.events == []


async def test_since_when_a_node_is_idle_is_remembered_without_a_write(world):
    world.node(SleepState.AWAKE)
    idle = record(SleepState.AWAKE, idle_since_s=NOW_S)
    world.decide(n1=idle)
    await world.step()
    await world.step()
    assert world.api.of("Node") == []
    assert world.planner.seen[1] == {N1: idle}


async def test_what_is_remembered_of_a_node_without_a_record_counts_while_it_is_awake(world):
    world.watches.nodes["n1"] = seen_node("n1")
    idle = SleepRecord(since_s=0.0, idle_since_s=NOW_S)
    world.decide(n1=idle)
    await world.step()
    await world.step()
    assert world.planner.seen[1] == {N1: idle}


async def test_a_record_that_others_have_removed_with_the_taint_is_gone(world):
    """What remains is the mark of the NodeBMC."""
    world.node(SleepState.ASLEEP)
    world.bmc()
    await world.step()
    world.watches.nodes["n1"] = seen_node("n1", version="50")
    await world.step()
    assert world.planner.seen[1] == {N1: SleepRecord(since_s=0.0)}


async def test_a_record_that_another_process_has_written_counts(world):
    world.node(SleepState.ASLEEP)
    await world.step()
    world.node(SleepState.WAKING, version="50")
    await world.step()
    assert world.planner.seen[1] == {N1: record(SleepState.WAKING)}


async def test_until_a_write_is_seen_the_written_record_counts_and_no_other_is_written_over_it(world):
    world.node(SleepState.AWAKE)
    world.decide(n1=record(SleepState.CORDONED))
    await world.step()
    world.decide(n1=record(SleepState.DRAINING))
    world.pod("web")
    await world.step()
    assert world.planner.seen[1] == {N1: record(SleepState.CORDONED)}
    assert len(world.api.of("Node")) == 1
    assert len(world.events) == 1
    assert world.api.of("evict") == [], "the drain is not stored"
    world.node(SleepState.CORDONED, version="42")
    await world.step()
    assert len(world.api.of("Node")) == 2


@pytest.mark.parametrize("error", [Conflict(409, "Conflict", "changed"), ApiError(500, "", "broken")])
async def test_a_record_that_could_not_be_stored_is_not_carried_out_and_decided_anew(world, error):
    world.node(SleepState.ASLEEP)
    world.bmc(desired="Off", requested="Off", status={"powerState": "Off"})
    world.decide(n1=record(SleepState.WAKING))
    world.api.errors["Node"] = [error]
    await world.step()
    assert world.powers() == []
    assert world.events == []
    await world.step()
    assert world.planner.seen[1] == {N1: record(SleepState.ASLEEP)}
    assert world.powers() == [("n1", "On")]


async def test_a_record_that_could_not_be_stored_holds_no_other_node_up(world):
    world.node(SleepState.AWAKE)
    world.node(SleepState.AWAKE, "n2")
    world.decide(n1=record(SleepState.CORDONED), n2=record(SleepState.CORDONED))
    world.api.errors["Node"] = [ApiError(500, "", "broken")]
    await world.step()
    assert [event.subject.name for event in world.events] == ["n2"]


@pytest.mark.parametrize("what", ["Node", "Node status", "NodeBMC", "evict"])
async def test_a_process_that_lost_the_lease_writes_nothing_more(world, what):
    world.node(SleepState.DRAINING, shown=what != "Node status")
    world.bmc(desired="On", requested="On")
    world.pod("web")
    if what == "Node":
        world.decide(n1=record(SleepState.AWAKE))
    world.api.errors[what] = [NotLeader("gone")]
    with pytest.raises(NotLeader):
        await world.step()
    assert world.api.made[-1][0] == what


async def test_a_node_whose_record_could_not_be_stored_holds_up_no_power_request_of_others(world):
    world.node(SleepState.AWAKE)
    world.node(SleepState.WAKING, "n2")
    world.bmc("n1")
    world.bmc("n2")
    world.decide(n1=record(SleepState.CORDONED))
    world.api.errors["Node"] = [Conflict(409, "Conflict", "changed")]
    await world.step()
    assert world.powers() == [("n2", "On")]


async def test_what_is_remembered_beside_a_written_record_is_kept_until_the_write_is_seen(world):
    world.node(SleepState.AWAKE, shown=False)
    world.decide(n1=record(SleepState.CORDONED))
    await world.step()
    world.decide(n1=record(SleepState.CORDONED, idle_since_s=NOW_S))
    await world.step()
    await world.step()
    assert world.planner.seen[2] == {N1: record(SleepState.CORDONED, idle_since_s=NOW_S)}


def test_what_lasts_of_a_record_is_what_is_stored():
    assert lasting(record(SleepState.AWAKE, idle_since_s=NOW_S)) == record(SleepState.AWAKE)
