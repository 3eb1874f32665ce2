"""What is requested of the power of a server: by its record, by its mark, and after its NodeBMC was removed."""

from dataclasses import replace

import pytest
from services.operator.tests.sleep.sleep_objects import MARK, seen_bmc

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.names import NodeName
from joulie_core.sleep import NodePowerFacts, Shutdown, SleepNode, SleepReason, SleepRecord, SleepSettings, SleepState
from joulie_core.sleep.machine import STALE_AFTER_S
from joulie_core.sleep.shutdowns import longest_shutdown_s
from joulie_operator.sleep.power_requests import LostMarks, SleepPowerRequest, wanted_power

NOW_S = 1_800_000_000.0
N1 = NodeName("n1")
#: After this long no power-off that was requested is carried out any more.
SHUTDOWN_S = longest_shutdown_s(SleepSettings())
OFF, ON, UNMANAGED = DesiredPower.OFF, DesiredPower.ON, DesiredPower.UNMANAGED
LATELY = Shutdown(NOW_S - 10, "first")


def facts(state=PowerState.ON, **changes):
    known = NodePowerFacts(state=state, sampled_at_s=NOW_S, reachable=True, wake_proven=True, off_allowed=True)
    return replace(known, **changes)


def node(power, **changes):
    made = SleepNode(
        name=N1, group="", free={}, idle_watts=0.0, ready=True, protected_pods=0, power=power, boot_id="first"
    )
    return replace(made, **changes)


def record(state, shutdown=None):
    return SleepRecord(state=state, since_s=NOW_S - 60, reason=SleepReason.IDLE, shutdown=shutdown)


def wanted(power, found, **changes):
    return wanted_power(power, node(power, **changes), found, NOW_S)


# --- by the record ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [SleepState.POWERING_OFF, SleepState.ASLEEP])
@pytest.mark.parametrize("power", PowerState)
def test_a_server_that_sleeps_is_to_be_off_and_marked_with_the_boot_that_ends(state, power):
    found = wanted(facts(power), record(state), boot_id="second")
    assert found == SleepPowerRequest(OFF, "second", is_on=False, marked=True)


@pytest.mark.parametrize("state", [SleepState.CORDONED, SleepState.DRAINING])
@pytest.mark.parametrize("shutdown", [None, LATELY])
def test_nothing_is_requested_of_a_server_before_it_is_powered_off(state, shutdown):
    found = wanted(facts(), record(state, shutdown))
    assert (found.power, found.is_on, found.marked) == (UNMANAGED, False, False)


@pytest.mark.parametrize("state", SleepState)
def test_the_power_of_a_server_in_maintenance_is_left_alone(state):
    power = facts(PowerState.OFF)
    assert wanted(power, record(state), maintenance=True).power is UNMANAGED


def test_a_server_that_sleeps_and_is_in_maintenance_stays_marked_with_the_boot_that_was_ended():
    found = wanted(facts(PowerState.OFF), record(SleepState.ASLEEP, LATELY), maintenance=True, boot_id="second")
    assert found == SleepPowerRequest(UNMANAGED, "first", is_on=False, marked=True)


@pytest.mark.parametrize("shutdown", [None, LATELY])
def test_a_server_that_wakes_is_to_be_on_and_is_marked_while_its_bmc_does_not_read_on(shutdown):
    boot_id = None if shutdown is None else "first"
    found = wanted(facts(PowerState.OFF), record(SleepState.WAKING, shutdown))
    assert found == SleepPowerRequest(ON, boot_id, is_on=False, marked=True)


@pytest.mark.parametrize(("shutdown", "marked"), [(None, False), (LATELY, True)])
def test_a_server_that_wakes_and_reads_on_is_marked_where_a_power_off_was_requested(shutdown, marked):
    """It is confirmed to be on once it is awake, not before."""
    found = wanted(facts(PowerState.ON), record(SleepState.WAKING, shutdown))
    assert (found.power, found.is_on, found.marked) == (ON, False, marked)


@pytest.mark.parametrize("state", [SleepState.AWAKE, SleepState.QUARANTINED])
def test_the_power_of_a_server_that_is_on_is_left_alone_and_its_mark_removed(state):
    assert wanted(facts(), record(state)) == SleepPowerRequest(UNMANAGED, None, is_on=True, marked=False)


@pytest.mark.parametrize(
    "unconfirmed",
    [
        {"state": PowerState.OFF},
        {"state": PowerState.UNKNOWN},
        {"reachable": False},
        {"reachable": None},
        {"sampled_at_s": None},
        {"sampled_at_s": NOW_S - STALE_AFTER_S - 1},
    ],
)
def test_a_server_is_confirmed_to_be_on_by_a_bmc_that_has_said_so_lately(unconfirmed):
    power = facts(**unconfirmed)
    assert wanted(power, record(SleepState.AWAKE)) == SleepPowerRequest(UNMANAGED, is_on=False, marked=False)
    assert wanted(power, record(SleepState.QUARANTINED)) == SleepPowerRequest(UNMANAGED, is_on=False, marked=True)


@pytest.mark.parametrize("state", [SleepState.AWAKE, SleepState.QUARANTINED])
@pytest.mark.parametrize(("age_s", "is_on"), [(SHUTDOWN_S, False), (SHUTDOWN_S + 1, True)])
def test_a_server_that_is_on_and_may_still_go_off_is_not_confirmed_to_be_on(state, age_s, is_on):
    shutdown = Shutdown(NOW_S - age_s, "first")
    found = wanted(facts(), record(state, shutdown))
    marked = state is SleepState.QUARANTINED and not is_on
    assert found == SleepPowerRequest(UNMANAGED, "first", is_on=is_on, marked=marked)


def test_a_server_that_has_booted_since_it_was_powered_off_is_confirmed_to_be_on():
    assert wanted(facts(), record(SleepState.AWAKE, LATELY), boot_id="second").is_on is True


# --- by the mark, where the Node or its record is missing -------------------------------------------------------------

GONE = [(None, record(SleepState.ASLEEP)), (node(None), None), (None, None)]


@pytest.mark.parametrize(("seen", "found"), GONE)
@pytest.mark.parametrize("power", PowerState)
def test_nothing_is_requested_of_a_server_without_a_node_that_joulie_has_not_switched_off(seen, found, power):
    assert wanted_power(facts(power), seen, found, NOW_S) == SleepPowerRequest(UNMANAGED)


@pytest.mark.parametrize(("seen", "found"), GONE)
@pytest.mark.parametrize("power", PowerState)
@pytest.mark.parametrize("at_s", [None, NOW_S - SHUTDOWN_S])
def test_a_server_without_a_node_that_joulie_has_switched_off_is_to_be_on(seen, found, power, at_s):
    """Of one that reads On, too, as long as it may still go off."""
    power = facts(power, switched_off=Shutdown(at_s, "first"))
    assert wanted_power(power, seen, found, NOW_S) == SleepPowerRequest(ON)


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (PowerState.ON, SleepPowerRequest(UNMANAGED, is_on=True)),
        (PowerState.OFF, SleepPowerRequest(ON)),
        (PowerState.UNKNOWN, SleepPowerRequest(ON)),
    ],
)
def test_a_server_without_a_node_is_confirmed_to_be_on_once_no_shutdown_takes_that_long(power, expected):
    power = facts(power, switched_off=Shutdown(NOW_S - SHUTDOWN_S - 1, "first"))
    assert wanted_power(power, None, None, NOW_S) == expected


@pytest.mark.parametrize(("requested", "expected"), [(OFF, UNMANAGED), (ON, ON), (UNMANAGED, ON)])
def test_a_persons_off_is_left_to_a_server_without_a_node(requested, expected):
    power = facts(PowerState.OFF, switched_off=LATELY, requested=requested)
    assert wanted_power(power, None, None, NOW_S) == SleepPowerRequest(expected)


# --- after the NodeBMC was removed ------------------------------------------------------------------------------------


def lost(found, bmcs=()):
    """Return what is remembered once the node `n1` with this record was seen, with NodeBMCs of these names."""
    marks = LostMarks()
    marks.note({N1: found}, bmcs)
    return marks


MARKED = [SleepState.POWERING_OFF, SleepState.ASLEEP, SleepState.WAKING, SleepState.QUARANTINED]


@pytest.mark.parametrize("state", SleepState)
def test_a_node_whose_server_may_be_off_is_to_be_woken_when_its_record_is_gone_after_its_nodebmc(state):
    waking = SleepRecord(
        state=SleepState.WAKING, since_s=NOW_S, reason=SleepReason.LEFT_OFF, shutdown=Shutdown(NOW_S, "first")
    )
    assert lost(record(state, LATELY)).record_of(N1, NOW_S) == (waking if state in MARKED else None)


def test_nothing_is_remembered_of_a_node_that_has_its_nodebmc():
    assert lost(record(SleepState.ASLEEP, LATELY), bmcs=["n2", "n1"]).record_of(N1, NOW_S) is None


def test_a_power_off_that_nothing_is_known_of_is_of_an_unknown_boot():
    found = lost(record(SleepState.ASLEEP), bmcs=["n2"]).record_of(N1, NOW_S)
    assert found is not None
    assert found.shutdown == Shutdown(NOW_S, "")


def test_what_is_remembered_of_a_node_stays_when_others_are_seen():
    marks = lost(record(SleepState.ASLEEP, LATELY))
    marks.note({NodeName("n2"): record(SleepState.ASLEEP)}, [])
    assert [marks.record_of(NodeName(name), NOW_S) is not None for name in ("n1", "n2", "n3")] == [True, True, False]


@pytest.mark.parametrize(("boot_id", "expected"), [(None, "first"), ("", "first"), ("second", "second")])
def test_a_nodebmc_that_was_written_again_gets_the_mark_until_it_has_one(boot_id, expected):
    marks = lost(record(SleepState.ASLEEP, LATELY))
    request = SleepPowerRequest(ON, boot_id)
    asked = SleepPowerRequest(ON, expected, marked=True)
    assert [marks.with_mark(seen_bmc(), request) for _ in range(2)] == [asked, asked]
    assert marks.with_mark(seen_bmc(mark=MARK), request) == request
    assert marks.with_mark(seen_bmc(), request) == request, "what was written is not remembered beside it"
    assert marks.record_of(N1, NOW_S) is None


def test_a_server_that_is_confirmed_to_be_on_gets_no_mark_any_more():
    marks = lost(record(SleepState.ASLEEP, LATELY))
    on = SleepPowerRequest(UNMANAGED, is_on=True)
    assert marks.with_mark(seen_bmc(), on) == on
    unmanaged = SleepPowerRequest(UNMANAGED)
    assert marks.with_mark(seen_bmc(), unmanaged) == unmanaged


def test_a_server_that_has_lost_no_mark_gets_none():
    marks = lost(record(SleepState.ASLEEP, LATELY))
    request = SleepPowerRequest(ON)
    assert marks.with_mark(seen_bmc("n2"), request) == request
