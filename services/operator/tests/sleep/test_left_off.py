"""The list of the servers that Joulie switched off last and that are not on."""

from dataclasses import replace

import pytest
from services.operator.tests.sleep.sleep_objects import MARK, seen_bmc

from joulie_core.names import NodeName
from joulie_core.sleep import SleepNode, SleepReason, SleepRecord, SleepState
from joulie_operator.sleep.left_off import WAYS_OUT, OffReason, servers_off

N1 = NodeName("n1")
NODE = SleepNode(name=N1, group="", free={}, idle_watts=0.0, ready=False, protected_pods=0, power=None)


def record(state):
    return SleepRecord(state=state, since_s=0.0, reason=SleepReason.IDLE)


def listed(state=SleepState.ASLEEP, node=NODE, **bmc):
    """Return why a server is in the list that is marked; None where it is not."""
    records = {} if state is None else {N1: record(state)}
    bmcs = [seen_bmc(**({"mark": MARK} | bmc))]
    return servers_off(bmcs, records, {} if node is None else {N1: node}).get(N1)


@pytest.mark.parametrize(
    ("state", "changes", "reason"),
    [
        (SleepState.ASLEEP, {}, OffReason.SLEEP),
        (SleepState.POWERING_OFF, {"unschedulable": True}, OffReason.SLEEP),
        (SleepState.WAKING, {"unschedulable": True}, OffReason.SLEEP),
        (SleepState.ASLEEP, {"unschedulable": True}, OffReason.CORDONED),
        (SleepState.ASLEEP, {"unschedulable": True, "maintenance": True}, OffReason.MAINTENANCE),
        (SleepState.QUARANTINED, {"maintenance": True}, OffReason.MAINTENANCE),
        (SleepState.AWAKE, {"maintenance": True}, OffReason.MAINTENANCE),
        (SleepState.QUARANTINED, {"unschedulable": True}, OffReason.QUARANTINED),
        (SleepState.AWAKE, {"unschedulable": True}, OffReason.UNCONFIRMED),
    ],
)
@pytest.mark.parametrize("status", [{"powerState": "Off"}, {"powerState": "Unknown"}, None])
def test_a_server_is_off_for_what_a_person_has_to_end_first_and_else_for_its_state(state, changes, reason, status):
    assert listed(state, replace(NODE, **changes), status=status) is reason


@pytest.mark.parametrize(("state", "node"), [(SleepState.ASLEEP, None), (None, NODE), (None, None)])
def test_a_server_without_a_node_or_without_its_record_is_off_with_its_node_missing(state, node):
    assert listed(state, node) is OffReason.NODE_MISSING


@pytest.mark.parametrize("state", [None, *SleepState])
def test_a_server_whose_bmc_reads_on_is_not_in_the_list(state):
    assert listed(state, status={"powerState": "On"}) is None


def test_a_server_that_joulie_has_not_switched_off_is_not_in_the_list():
    assert listed(mark=None, desired="Off", status={"powerState": "Off"}) is None


def test_every_server_of_the_list_is_named_with_its_own_reason():
    bmcs = [seen_bmc(name, mark=MARK) for name in ("n1", "n3")] + [seen_bmc("n2"), seen_bmc("n4", requested="Off")]
    records = {NodeName(name): record(SleepState.ASLEEP) for name in ("n1", "n2", "n4")}
    nodes = {name: replace(NODE, name=name, maintenance=name == "n4") for name in records}
    assert servers_off(bmcs, records, nodes) == {
        "n1": OffReason.SLEEP,
        "n3": OffReason.NODE_MISSING,
        "n4": OffReason.MAINTENANCE,
    }


def test_reasons_are_labels_of_a_series_that_alerts_and_dashboards_select():
    values = {"sleep", "node_missing", "maintenance", "cordoned", "quarantined", "unconfirmed"}
    assert {reason.value for reason in OffReason} == values


def test_a_person_is_told_of_every_reason_that_ends_by_a_persons_act_only():
    by_themselves = {OffReason.SLEEP, OffReason.UNCONFIRMED}
    assert WAYS_OUT.keys() == set(OffReason) - by_themselves
