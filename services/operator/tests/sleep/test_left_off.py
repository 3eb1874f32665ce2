"""The list of the servers that Joulie switched off last and that are not on."""

from dataclasses import replace

import pytest
from services.operator.tests.sleep.recorded_api import Api
from services.operator.tests.sleep.sleep_objects import MARK, seen_bmc

from joulie_core.names import NodeName
from joulie_core.sleep import SleepNode, SleepReason, SleepRecord, SleepState
from joulie_operator.sleep.left_off import WAYS_OUT, OffReason, servers_off
from joulie_operator.sleep.writer import SleepWriter

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


# --- at the NodeBMC ---------------------------------------------------------------------------------------------------

NOON = "2026-11-25T12:00:00Z"
NOON_S = 1_795_608_000.0


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def writer(api):
    return SleepWriter(api, api)


NAMED = [
    (
        OffReason.NODE_MISSING,
        "NodeMissing",
        "its Node is missing: it is powered on, unless spec.desiredPower is Off",
    ),
    (OffReason.MAINTENANCE, "Maintenance", "its Node is in maintenance: it stays off until that ends"),
    (
        OffReason.CORDONED,
        "Cordoned",
        "its Node is cordoned: it stays off until that ends, or until it is requested to be awake",
    ),
    (
        OffReason.QUARANTINED,
        "Quarantined",
        "its boots have failed: see its console and its BMC, and clear the quarantine",
    ),
]


@pytest.mark.parametrize(("reason", "shown", "way_out"), NAMED)
async def test_a_server_that_stays_off_until_a_person_acts_is_named_with_the_way_out(
    api, writer, reason, shown, way_out
):
    await writer.show_left_off(seen_bmc(), reason, now_s=NOON_S)
    ((verb, kind, name, part, body),) = api.made
    assert (verb, kind, name, part) == ("apply", "NodeBMC", "n1", "status")
    ((condition),) = body["status"]["conditions"]
    assert condition == {
        "type": "LeftOff",
        "status": "True",
        "reason": shown,
        "message": f"Joulie switched the server off, and {way_out}",
        "lastTransitionTime": NOON,
        "observedGeneration": 7,
    }


async def test_what_is_named_already_is_not_written_again_and_taken_back_once(api, writer):
    found = {"type": "LeftOff", "status": "True", "reason": "Maintenance", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    bmc = seen_bmc(status={"conditions": [found]})
    await writer.show_left_off(bmc, OffReason.MAINTENANCE, now_s=NOON_S)
    assert api.made == []
    await writer.show_left_off(bmc, OffReason.NODE_MISSING, now_s=NOON_S)
    await writer.show_left_off(bmc, None, now_s=NOON_S)
    missing, handled = (body["status"]["conditions"][0] for *_, body in api.made)
    assert (missing["reason"], missing["lastTransitionTime"]) == ("NodeMissing", "2026-01-01T00:00:00Z")
    assert handled == {
        "type": "LeftOff",
        "status": "False",
        "reason": "Handled",
        "message": "",
        "lastTransitionTime": NOON,
        "observedGeneration": 7,
    }
    over = seen_bmc(status={"conditions": [found | {"status": "False", "reason": "Handled"}]})
    api.made.clear()
    await writer.show_left_off(over, None, now_s=NOON_S)
    assert api.made == []


@pytest.mark.parametrize("reason", [None, OffReason.SLEEP, OffReason.UNCONFIRMED])
async def test_a_server_that_is_handled_gets_no_condition(api, writer, reason):
    await writer.show_left_off(seen_bmc(), reason, now_s=NOON_S)
    assert api.made == []
