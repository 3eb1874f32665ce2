from joulie_core.kinds.node_sleep_policy import SleepCounts
from joulie_core.sleep_state import CLOSED_TO_PODS, GOING_TO_SLEEP, OUT_OF_SUPPLY, SWITCHED_OFF, SleepState, labels_of


def test_labels_are_what_people_select_nodes_by():
    assert [state.label for state in SleepState] == [
        "awake", "cordoned", "draining", "powering-off", "asleep", "waking", "quarantined",
    ]  # fmt: skip


def test_each_state_has_its_count_in_the_status_of_a_policy():
    assert {state.field for state in SleepState} == SleepCounts.model_fields.keys() - {"selected"}


def test_the_groups():
    assert labels_of(GOING_TO_SLEEP) == {"cordoned", "draining", "powering-off"}
    assert labels_of(SWITCHED_OFF) == {"powering-off", "asleep"}
    assert labels_of(CLOSED_TO_PODS) == {"cordoned", "draining", "powering-off", "asleep"}
    assert labels_of(OUT_OF_SUPPLY) == {"cordoned", "draining", "powering-off", "asleep", "waking"}
