"""The record of a node in its annotation: what is stored, and what is made of one that is lost or broken."""

import json
from dataclasses import replace

import pytest
from services.operator.tests.sleep.sleep_objects import OWN_TAINT, RECORD, seen_node

from joulie_core.kinds.node_sleep_policy import MOST_CYCLES
from joulie_core.sleep import Shutdown, SleepReason, SleepRecord, SleepState
from joulie_operator.sleep.records import lasting, state_label, stored_record, stored_text

NOW_S = 1_800_000_000.0
FULL = SleepRecord(
    state=SleepState.WAKING,
    since_s=NOW_S - 60,
    reason=SleepReason.PENDING_PODS,
    failed_boots=2,
    not_before_s=NOW_S + 300,
    sleeps=7,
    cycles_s=(NOW_S - 7200.5, NOW_S - 3600),
    shutdown=Shutdown(NOW_S - 90, "first", off_seen=True, sampled_at_s=NOW_S - 91),
    boots_since_s=NOW_S - 30,
    idle_watts=212.5,
    idle_measured=True,
)
#: What a node is that may be off without anybody knowing why.
TO_BE_WOKEN = SleepRecord(state=SleepState.WAKING, since_s=NOW_S, reason=SleepReason.RECORD_LOST)


def read(text, *, tainted=False):
    annotations = {} if text is None else {RECORD: text}
    return stored_record(seen_node(annotations=annotations, taints=[OWN_TAINT] if tainted else []), NOW_S)


@pytest.mark.parametrize("state", SleepState)
def test_a_record_is_read_as_it_was_stored_whatever_the_state(state):
    record = SleepRecord(state=state, since_s=NOW_S - 1.5, reason=SleepReason.IDLE)
    assert read(stored_text(record)) == record


def test_every_field_that_lasts_is_stored():
    assert read(stored_text(FULL)) == FULL
    assert json.loads(stored_text(FULL)) == {
        "state": "Waking",
        "since": NOW_S - 60,
        "reason": "pending_pods",
        "failedBoots": 2,
        "notBefore": NOW_S + 300,
        "sleeps": 7,
        "cycles": [NOW_S - 7200.5, NOW_S - 3600],
        "shutdown": {"at": NOW_S - 90, "bootID": "first", "offSeen": True, "sampledAt": NOW_S - 91},
        "bootsSince": NOW_S - 30,
        "idleWatts": 212.5,
        "idleMeasured": True,
    }


def test_of_more_power_cycles_than_a_policy_can_permit_the_last_are_kept():
    text = json.dumps(json.loads(stored_text(FULL)) | {"cycles": [float(at) for at in range(10_000)]})
    assert read(text).cycles_s == tuple(float(at) for at in range(10_000 - MOST_CYCLES, 10_000))


def test_since_when_a_node_is_idle_is_not_stored():
    idle = SleepRecord(since_s=NOW_S, idle_since_s=NOW_S, sleeps=3)
    assert lasting(idle) == SleepRecord(since_s=NOW_S, sleeps=3)
    assert read(stored_text(idle)) == lasting(idle)


def test_a_record_of_an_earlier_version_without_counters_begins_at_zero():
    text = json.dumps({"state": "Asleep", "since": NOW_S - 5, "reason": "off_confirmed"})
    expected = SleepRecord(state=SleepState.ASLEEP, since_s=NOW_S - 5, reason=SleepReason.OFF_CONFIRMED)
    assert read(text) == expected


def test_a_record_of_a_later_version_is_read_without_the_fields_that_are_not_known():
    text = json.dumps(json.loads(stored_text(FULL)) | {"mood": "sleepy"})
    assert read(text) == FULL


def test_a_time_in_the_future_counts_as_now():
    """As of a clock that was wrong: no deadline may lie beyond its length from now."""
    text = stored_text(SleepRecord(state=SleepState.ASLEEP, since_s=NOW_S + 3600, reason=SleepReason.OFF_CONFIRMED))
    assert read(text).since_s == NOW_S
    ahead = replace(FULL, shutdown=Shutdown(NOW_S + 3600, "first"), boots_since_s=NOW_S + 3600)
    found = read(stored_text(ahead))
    assert (found.shutdown.at_s, found.boots_since_s) == (NOW_S, NOW_S)


def test_a_power_off_of_an_unknown_time_and_boot_stays_so():
    record = replace(FULL, shutdown=Shutdown(None))
    assert read(stored_text(record)) == record


def test_a_time_in_the_past_stays():
    text = stored_text(SleepRecord(state=SleepState.ASLEEP, since_s=NOW_S - 3600, reason=SleepReason.OFF_CONFIRMED))
    assert read(text).since_s == NOW_S - 3600


def test_a_node_without_record_and_taint_has_not_slept():
    assert read(None) is None


def test_a_node_whose_record_is_lost_while_the_taint_is_there_has_to_be_woken():
    assert read(None, tainted=True) == TO_BE_WOKEN


BROKEN = {
    "empty": "",
    "not JSON": "asleep",
    "another state": json.dumps({"state": "Resting", "since": NOW_S, "reason": "idle"}),
    "another reason": json.dumps({"state": "Asleep", "since": NOW_S, "reason": "bored"}),
    "no time": json.dumps({"state": "Asleep", "reason": "idle"}),
    "a time that is no number": json.dumps({"state": "Asleep", "since": "noon", "reason": "idle"}),
    "a long boot ID": json.dumps(
        {"state": "Waking", "since": NOW_S, "reason": "idle", "shutdown": {"bootID": "a" * 65}}
    ),
    "a negative count": json.dumps({"state": "Waking", "since": NOW_S, "reason": "idle", "failedBoots": -1}),
    "a negative number of sleeps": json.dumps({"state": "Waking", "since": NOW_S, "reason": "idle", "sleeps": -1}),
    "a power cycle that is no time": json.dumps({"state": "Asleep", "since": 1, "reason": "idle", "cycles": ["noon"]}),
    "nested too deeply": "[" * 5000,
    "a number without end": '{"state": "Waking", "since": ' + "9" * 5000 + ', "reason": "idle"}',
}


@pytest.mark.parametrize("tainted", [False, True], ids=["without taint", "with taint"])
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_node_whose_record_cannot_be_read_has_to_be_woken_with_and_without_the_taint(text, tainted):
    assert read(text, tainted=tainted) == TO_BE_WOKEN


def test_the_label_says_the_state_and_a_node_that_is_awake_has_none():
    """The values that docs/sleep.md names; people select nodes by them."""
    assert {state: state_label(state) for state in SleepState} == {
        SleepState.AWAKE: None,
        SleepState.CORDONED: "cordoned",
        SleepState.DRAINING: "draining",
        SleepState.POWERING_OFF: "powering-off",
        SleepState.ASLEEP: "asleep",
        SleepState.WAKING: "waking",
        SleepState.QUARANTINED: "quarantined",
    }
