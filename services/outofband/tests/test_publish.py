"""The status as it is written: when, and with which conditions."""

import pytest
from services.outofband.tests.doubles import NOW_S, bench

from joulie_api.errors import ServerError
from joulie_core.kinds import NodeBMCStatus
from joulie_core.kinds.base import Condition, ConditionStatus
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.timestamps import rfc3339
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.publish import with_findings
from joulie_outofband.reasons import BmcReason

YES, NO = BmcFinding.yes(BmcReason.ANSWERS, "m"), BmcFinding.no(BmcReason.BUSY)


async def test_a_change_is_written_as_the_status_subresource_and_the_same_status_once_in_a_heartbeat():
    found = bench(heartbeat_s=60.0)
    found.publisher.change(power_watts=7.0)
    await found.publisher.publish()
    assert found.api.applied == [("nodebmcs.joulie.io", "n1", {"status": found.publisher.status.dump()}, True)]
    found.time.now = 59.9
    found.publisher.change(power_watts=8.0, sampled_at=rfc3339(NOW_S))
    await found.publisher.publish()
    assert len(found.api.applied) == 1
    found.time.now = 60.0
    await found.publisher.publish()
    assert [each[2]["status"]["powerWatts"] for each in found.api.applied] == [7.0, 8.0]
    found.publisher.change(interval_seconds=3.0)
    await found.publisher.publish()
    assert len(found.api.applied) == 3


async def test_the_first_status_of_a_process_is_written_also_if_it_is_the_one_of_the_object():
    found = bench(status=NodeBMCStatus(power_state=PowerState.ON))
    await found.publisher.publish()
    assert found.api.status["powerState"] == "On"


async def test_a_status_that_was_not_written_is_written_the_next_time():
    found = bench()
    await found.publisher.publish()
    found.publisher.change(interval_seconds=3.0)
    found.api.failure = ServerError(500, "", "")
    with pytest.raises(ServerError):
        await found.publisher.publish()
    found.api.failure = None
    await found.publisher.publish()
    assert (len(found.api.applied), found.api.status["intervalSeconds"]) == (2, 3.0)


async def test_a_change_during_a_write_is_written_by_the_next_one():
    found = bench()
    await found.publisher.publish()
    found.api.on_apply = lambda: found.publisher.change(interval_seconds=9.0)
    found.publisher.change(interval_seconds=3.0)
    await found.publisher.publish()
    found.api.on_apply = lambda: None
    await found.publisher.publish()
    assert [each[2]["status"].get("intervalSeconds") for each in found.api.applied] == [None, 3.0, 9.0]


def test_a_power_state_has_the_time_since_which_it_is():
    found = bench()
    found.publisher.note_power(PowerState.ON)
    assert found.publisher.status.last_transition == rfc3339(NOW_S, "seconds")
    found.time.wall += 5
    found.publisher.note_power(PowerState.ON)
    assert found.publisher.status.last_transition == rfc3339(NOW_S, "seconds")
    found.publisher.note_power(PowerState.OFF)
    assert found.publisher.status.last_transition == rfc3339(NOW_S + 5, "seconds")
    assert found.publisher.status.power_state is PowerState.OFF


def test_conditions_are_noted_with_time_and_generation():
    found = bench()
    found.publisher.note({"Reachable": YES}, generation=7)
    assert found.publisher.status.conditions == (
        Condition(
            type="Reachable",
            status=ConditionStatus.TRUE,
            reason="Answers",
            message="m",
            last_transition_time=rfc3339(NOW_S, "seconds"),
            observed_generation=7,
        ),
    )


def test_a_condition_keeps_its_time_with_its_status_and_others_stay():
    before = with_findings((), {"B": YES, "A": YES}, now_s=NOW_S, generation=1)
    assert [each.type for each in before] == ["A", "B"]
    same = with_findings(before, {"B": BmcFinding.yes(BmcReason.IN_FORCE)}, now_s=NOW_S + 9, generation=2)
    assert same[0] == before[0]
    assert (same[1].reason, same[1].last_transition_time) == ("InForce", before[1].last_transition_time)
    other = with_findings(same, {"B": NO}, now_s=NOW_S + 9, generation=3)
    assert (other[1].status.value, other[1].last_transition_time) == ("False", rfc3339(NOW_S + 9, "seconds"))


def test_a_message_is_printable_and_not_longer_than_the_field():
    (condition,) = with_findings(
        (), {"A": BmcFinding.no(BmcReason.BUSY, "\x9b\x7f" + "x" * 9000)}, now_s=0, generation=1
    )
    assert condition.message.isprintable()
    assert len(condition.message) == 1000
