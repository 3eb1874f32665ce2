"""What is known of a server's power, from its NodeBMC; what the NodeBMC does not say is unknown."""

import pytest
from services.operator.tests.sleep.sleep_objects import MARK, seen_bmc

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.facts import power_facts

NOW_S = 1_800_000_000.0


def conditions(**found):
    return [{"type": kind, "status": status, "reason": "R"} for kind, status in found.items()]


def test_what_the_bmc_says_is_taken():
    status = {
        "powerState": "Off",
        "sampledAt": rfc3339(NOW_S - 5, "seconds"),
        "bootSeconds": 240,
        "powerWatts": 12,
        "conditions": conditions(Reachable="True", WakeProven="False"),
    }
    found = power_facts(seen_bmc(status=status))
    assert (found.state, found.sampled_at_s, found.boot_s) == (PowerState.OFF, NOW_S - 5, 240)
    assert (found.reachable, found.wake_proven, found.off_allowed) == (True, False, True)
    assert (found.requested, found.watts) == (DesiredPower.UNMANAGED, 12)


def test_what_the_bmc_does_not_say_is_unknown():
    found = power_facts(seen_bmc(status={"conditions": conditions(Reachable="Unknown")}))
    assert (found.state, found.sampled_at_s, found.boot_s) == (PowerState.UNKNOWN, None, None)
    assert (found.reachable, found.wake_proven) == (None, None)


def test_what_joulie_has_switched_off_is_taken_from_the_mark():
    assert power_facts(seen_bmc(mark=MARK)).switched_off.boot_id == "first"
    assert power_facts(seen_bmc()).switched_off is None


@pytest.mark.parametrize(
    ("desired", "reason", "generation", "taken"),
    [
        ("On", "Changing", 7, True),
        ("On", "NotFollowed", 7, True),
        ("On", "AsDesired", 7, True),
        ("On", "Busy", 7, False),
        ("On", "Refused", 7, False),
        ("On", "PowerStateUnknown", 7, False),
        ("On", "Changing", 6, False),
        ("On", "Changing", None, False),
        ("Off", "Changing", 7, False),
        ("On", None, 7, False),
    ],
)
def test_a_request_to_power_on_has_reached_the_bmc_where_the_service_says_so_of_this_version(
    desired, reason, generation, taken
):
    found = {"type": "PowerAsDesired", "status": "False", "reason": reason, "observedGeneration": generation}
    status = {"conditions": [] if reason is None else [found]}
    assert power_facts(seen_bmc(desired=desired, status=status)).on_taken is taken


@pytest.mark.parametrize(
    ("types", "forced", "way_off"),
    [
        (None, "AfterShutdown", True),
        ([], "AfterShutdown", False),
        (["On", "ForceOff"], "AfterShutdown", False),
        (["On", "ForceOff"], "Allowed", True),
        (["On", "GracefulShutdown"], "AfterShutdown", True),
        (["On", "PushPowerButton"], "AfterShutdown", True),
    ],
)
def test_a_bmc_without_a_graceful_shutdown_has_no_way_off_but_by_a_persons_word(types, forced, way_off):
    capability = {"capability": {"readable": True, "cappable": False, "resetTypes": types}}
    found = power_facts(seen_bmc(status={} if types is None else capability, forcedOff=forced))
    assert found.way_off is way_off


def test_a_server_may_be_powered_off_only_where_its_bmc_allows_it():
    assert power_facts(seen_bmc(powerOff="Never")).off_allowed is False


@pytest.mark.parametrize(
    ("desired", "requested", "expected"),
    [
        ("Off", "Off", DesiredPower.UNMANAGED),
        ("On", "On", DesiredPower.UNMANAGED),
        ("On", None, DesiredPower.ON),
        ("Off", None, DesiredPower.OFF),
        ("On", "Off", DesiredPower.ON),
        (None, "Off", DesiredPower.UNMANAGED),
    ],
)
def test_a_desired_power_that_is_not_the_operators_own_is_a_persons(desired, requested, expected):
    assert power_facts(seen_bmc(desired=desired, requested=requested)).requested is expected
