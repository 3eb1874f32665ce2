"""Why a node may not be put to sleep, and what a person's request does: each refusal on its own."""

from dataclasses import replace

import pytest

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.sleep import (
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepReason,
    SleepRecord,
    SleepRefusal,
    SleepSettings,
    SleepState,
    decide,
)
from joulie_core.sleep.machine import STALE_AFTER_S, sleep_refusal
from joulie_core.sleep.model import UNREADABLE_POWER

NOW = 100_000.0
SETTINGS = SleepSettings(min_awake={"count": 1, "spare": 0}, idle_seconds=0.0, min_awake_seconds=0.0)
POWER = NodePowerFacts(state=PowerState.ON, sampled_at_s=NOW, reachable=True, wake_proven=True, off_allowed=True)
NODE = SleepNode(name="a", group="cpu", free={"cpu": 8.0}, idle_watts=100.0, ready=True, protected_pods=0, power=POWER)
#: Keeps the minimum awake, and is chosen last, as it draws less.
OTHER = replace(NODE, name="other", idle_watts=50.0)

BY_ANNOTATION = {"wake_requested": True}
BY_POWER_ON = {"power": replace(POWER, requested=DesiredPower.ON)}
BY_POWER_OFF = {"power": replace(POWER, requested=DesiredPower.OFF)}


def next_record(node, before):
    records = {node.name: before, OTHER.name: SleepRecord(since_s=0.0)}
    return decide(SleepCluster(nodes=(node, OTHER), pending=()), records, NOW, SETTINGS)[node.name]


def asleep(**changes):
    """Return a node that is off, with what a person requests of it."""
    node = replace(NODE, ready=False, cordoned=True, **changes)
    return replace(node, power=replace(node.power, state=PowerState.OFF))


def idle():
    return SleepRecord(since_s=0.0, idle_since_s=0.0)


def test_a_node_with_nothing_against_it_may_sleep():
    assert sleep_refusal(NODE, idle(), NOW, SETTINGS) is None
    assert next_record(NODE, idle()).state is SleepState.CORDONED


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"control_plane": True}, SleepRefusal.CONTROL_PLANE),
        ({"power": None}, SleepRefusal.NO_BMC),
        ({"power": replace(POWER, off_allowed=False)}, SleepRefusal.POWER_OFF_NEVER),
        ({"power": replace(POWER, way_off=False)}, SleepRefusal.SHUTDOWN_MISSING),
        ({"power": replace(POWER, wake_proven=None)}, SleepRefusal.WAKE_UNPROVEN),
        ({"power": replace(POWER, reachable=False)}, SleepRefusal.BMC_UNKNOWN),
        ({"power": UNREADABLE_POWER}, SleepRefusal.BMC_UNKNOWN),
        ({"power": replace(POWER, sampled_at_s=NOW - STALE_AFTER_S - 1)}, SleepRefusal.BMC_UNKNOWN),
        ({"power": replace(POWER, sampled_at_s=NOW + STALE_AFTER_S + 1)}, SleepRefusal.BMC_UNKNOWN),
        ({"ready": None}, SleepRefusal.NOT_READY),
        ({"maintenance": True}, SleepRefusal.MAINTENANCE),
        ({"unschedulable": True}, SleepRefusal.UNSCHEDULABLE),
        (BY_ANNOTATION, SleepRefusal.WAKE_REQUESTED),
        (BY_POWER_ON, SleepRefusal.POWER_REQUESTED),
        (BY_POWER_OFF, SleepRefusal.POWER_REQUESTED),
        ({"protected_pods": None}, SleepRefusal.PODS_UNKNOWN),
        ({"rollout_waiting": True}, SleepRefusal.ROLLOUT_WAITING),
    ],
)
def test_each_refusal_keeps_a_node_awake_by_itself(changes, refusal):
    node = replace(NODE, **changes)
    assert sleep_refusal(node, idle(), NOW, SETTINGS) is refusal
    assert next_record(node, idle()).state is SleepState.AWAKE


def test_every_refusal_has_a_case():
    cases = test_each_refusal_keeps_a_node_awake_by_itself.pytestmark[0].args[1]
    # test_bounds.py has that of the bound, which is one of the record.
    assert {refusal for _, refusal in cases} == set(SleepRefusal) - {SleepRefusal.POWER_CYCLES}


@pytest.mark.parametrize("changes", [BY_ANNOTATION, BY_POWER_ON, BY_POWER_OFF])
@pytest.mark.parametrize("state", [SleepState.CORDONED, SleepState.DRAINING])
def test_a_request_brings_back_a_node_that_is_not_off_yet(changes, state):
    after = next_record(replace(NODE, cordoned=True, **changes), SleepRecord(state=state, since_s=NOW - 10.0))
    assert (after.state, after.reason) == (SleepState.AWAKE, SleepReason.NOT_PERMITTED)
    assert after.not_before_s == NOW + SETTINGS.back_off_seconds


@pytest.mark.parametrize("changes", [BY_ANNOTATION, BY_POWER_ON])
def test_a_request_wakes_a_node_that_is_asleep(changes):
    before = SleepRecord(state=SleepState.ASLEEP, since_s=NOW - 10.0)
    after = next_record(asleep(**changes), before)
    assert (after.state, after.reason) == (SleepState.WAKING, SleepReason.REQUESTED)
    assert next_record(asleep(), before).state is SleepState.ASLEEP


def test_power_off_by_a_person_wakes_nothing():
    after = next_record(asleep(**BY_POWER_OFF), SleepRecord(state=SleepState.ASLEEP, since_s=NOW - 10.0))
    assert after.state is SleepState.ASLEEP


def test_a_request_lets_a_power_off_end_and_wakes_the_node_at_once_then():
    before = SleepRecord(state=SleepState.POWERING_OFF, since_s=NOW - 10.0)
    still_on = replace(NODE, ready=False, cordoned=True, **BY_ANNOTATION)
    assert next_record(still_on, before).state is SleepState.POWERING_OFF
    after = next_record(asleep(**BY_ANNOTATION), before)
    assert (after.state, after.reason) == (SleepState.WAKING, SleepReason.REQUESTED)


def test_a_request_ends_no_quarantine():
    before = SleepRecord(state=SleepState.QUARANTINED, since_s=NOW - 10.0)
    assert next_record(asleep(**BY_ANNOTATION), before) == before


def test_a_request_waits_for_the_back_off_after_a_failed_boot():
    before = SleepRecord(state=SleepState.ASLEEP, since_s=NOW - 10.0, failed_boots=1, not_before_s=NOW + 1.0)
    assert next_record(asleep(**BY_ANNOTATION), before).state is SleepState.ASLEEP
    assert next_record(asleep(**BY_ANNOTATION), replace(before, not_before_s=NOW)).state is SleepState.WAKING
