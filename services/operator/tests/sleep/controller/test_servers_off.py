"""What a pass knows of servers that Joulie has switched off, and of which people have removed something."""

import pytest
from services.operator.tests.sleep.controller.controlled import N1, N2, NOW_S, record
from services.operator.tests.sleep.sleep_objects import MARK, RECORD, SWITCHED_OFF, seen_node

from joulie_core.sleep import Shutdown, SleepReason, SleepRecord, SleepState
from joulie_operator.sleep.left_off import OffReason
from joulie_operator.sleep.records import mark_text, stored_text

LATELY = Shutdown(NOW_S - 60, "first")
LEFT_OFF = SleepRecord(
    state=SleepState.WAKING, since_s=NOW_S, reason=SleepReason.LEFT_OFF, shutdown=Shutdown(NOW_S, "first")
)
AWAKE = record(SleepState.AWAKE)


def taken_back(world, *, ready, stored):
    """Let people remove the record, the label and the taint of a Node, or write that it is awake."""
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    annotations = {RECORD: stored_text(AWAKE)} if stored else {}
    world.watches.nodes["n1"] = seen_node("n1", version="50", conditions=conditions, annotations=annotations)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("ready", ["False", "Unknown", None, "True"])
async def test_a_node_that_slept_is_woken_though_its_nodebmc_and_its_record_are_gone_unless_its_kubelet_is_ready(
    world, ready, stored
):
    world.node(SleepState.ASLEEP, shutdown=LATELY)
    await world.step()
    taken_back(world, ready=ready, stored=stored)
    await world.step()
    found = world.planner.seen[1][N1]
    if ready == "True":
        assert found == (AWAKE if stored else SleepRecord(since_s=0.0))
    else:
        assert found == LEFT_OFF


async def test_a_node_that_slept_and_has_its_nodebmc_is_judged_by_what_that_says(world):
    world.node(SleepState.ASLEEP, shutdown=LATELY)
    world.bmc(desired="Off", requested="Off")
    await world.step()
    taken_back(world, ready="False", stored=False)
    await world.step()
    assert world.planner.seen[1][N1] == SleepRecord(since_s=0.0)


async def test_the_nodebmc_that_is_written_for_a_server_again_gets_the_mark_of_the_one_that_is_gone(world):
    world.node(SleepState.ASLEEP, shutdown=LATELY)
    await world.step()
    del world.watches.nodes["n1"]
    world.bmc()
    world.bmc("n2")
    await world.step()
    ((name, body),) = world.api.of("NodeBMC")
    assert (name, body["metadata"]["annotations"][SWITCHED_OFF]) == ("n1", mark_text(NOW_S, "first"))


async def test_servers_that_stay_off_until_a_person_acts_are_named_at_their_own_nodebmc(world):
    assert world.controller.off == {}
    world.node(SleepState.ASLEEP, "n2")
    for name in ("n1", "n2"):
        world.bmc(name, mark=MARK, desired="Off", requested="Off")
    await world.step()
    assert world.controller.off == {N1: OffReason.NODE_MISSING, N2: OffReason.SLEEP}
    ((name, body),) = world.api.of("NodeBMC status")
    ((condition),) = body["status"]["conditions"]
    assert (name, condition["status"], condition["reason"]) == ("n1", "True", "NodeMissing")
    del world.watches.bmcs["n1"]
    await world.step()
    assert world.controller.off == {N2: OffReason.SLEEP}
