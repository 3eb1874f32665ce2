"""The Events of nodes that sleep."""

import pytest
from services.operator.tests.sleep.sleep_objects import seen_node

from joulie_core.sleep import SleepReason, SleepRecord, SleepState
from joulie_operator.events import EventType
from joulie_operator.sleep.notices import sleep_event

NODE = seen_node("n1").node


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (SleepState.AWAKE, "NodeAwake"),
        (SleepState.CORDONED, "NodeCordonedForSleep"),
        (SleepState.DRAINING, "NodeDrainingForSleep"),
        (SleepState.POWERING_OFF, "NodePoweringOff"),
        (SleepState.ASLEEP, "NodeAsleep"),
        (SleepState.WAKING, "NodeWaking"),
    ],
)
def test_each_state_has_an_event_of_the_node_that_says_from_where_and_why(state, reason):
    event = sleep_event(NODE, SleepState.WAKING, SleepRecord(state=state, since_s=0, reason=SleepReason.PENDING_PODS))
    assert (event.subject.res.kind, event.subject.name, event.subject.uid) == ("Node", "n1", "uid-n1")
    assert (event.type, event.reason) == (EventType.NORMAL, reason)
    assert event.message == f"Waking -> {state.value}: pending pods"


def test_a_quarantine_is_a_warning_with_the_number_of_boots_and_the_way_out():
    record = SleepRecord(state=SleepState.QUARANTINED, since_s=0, reason=SleepReason.BOOT_TIMEOUT, failed_boots=3)
    event = sleep_event(NODE, SleepState.WAKING, record)
    assert (event.type, event.reason) == (EventType.WARNING, "NodeQuarantined")
    assert event.message == (
        "Waking -> Quarantined: boot timeout; 3 boots have failed. Remove the label joulie.io/sleep-state to clear it"
    )
