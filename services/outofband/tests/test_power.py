import pytest

from joulie_core.kinds import NodeBMCSpec
from joulie_core.kinds.base import ConditionStatus
from joulie_core.kinds.node_bmc import PowerState
from joulie_outofband.power import PowerRequest, PowerTimeouts, decide_power
from joulie_outofband.reasons import BmcReason

TYPES = ("On", "ForceOff", "GracefulShutdown")
WORD = "the power is forced off without one only where spec.forcedOff is Allowed"
TIMES = PowerTimeouts(graceful_s=180, repeat_s=60)


def spec(desired, power_off="Allowed", forced_off="AfterShutdown"):
    return NodeBMCSpec.model_validate(
        {
            "nodeName": "n1",
            "protocol": "redfish",
            "address": "https://bmc",
            "credentialsSecretRef": {"name": "bmc"},
            "desiredPower": desired,
            "powerOff": power_off,
            "forcedOff": forced_off,
        }
    )


def decide(desired, state, request=None, *, now=0.0, types=TYPES, **allowed):
    return decide_power(spec(desired, **allowed), state, types, request, now=now, timeouts=TIMES)


@pytest.mark.parametrize("state", PowerState)
def test_an_unmanaged_server_is_left_as_it_is(state):
    assert decide("Unmanaged", state).reset is None


@pytest.mark.parametrize("state", PowerState)
def test_never_takes_precedence_over_the_desired_power(state):
    decision = decide("Off", state, power_off="Never")
    assert (decision.reset, decision.finding.reason) == (None, BmcReason.POWER_OFF_NOT_ALLOWED)


def test_power_off_begins_with_a_graceful_shutdown_and_is_forced_after_the_deadline():
    first = decide("Off", PowerState.ON)
    assert first.reset == "GracefulShutdown"
    assert decide("Off", PowerState.ON, first.request, now=179).reset is None
    second = decide("Off", PowerState.ON, first.request, now=180)
    assert second.reset == "ForceOff"
    assert decide("Off", PowerState.OFF, second.request, now=181).finding.status is ConditionStatus.TRUE


def test_a_shutdown_that_hangs_half_way_is_forced():
    first = decide("Off", PowerState.ON)
    assert decide("Off", PowerState.POWERING_OFF, first.request, now=200).reset == "ForceOff"


def test_a_forced_power_off_without_effect_is_repeated_and_reported():
    request = decide("Off", PowerState.ON, types=("ForceOff",), forced_off="Allowed").request
    assert decide("Off", PowerState.ON, request, now=59).reset is None
    again = decide("Off", PowerState.ON, request, now=60)
    assert (again.reset, again.finding.reason) == ("ForceOff", BmcReason.NOT_FOLLOWED)
    assert decide("Off", PowerState.ON, again.request, now=61).finding.reason is BmcReason.NOT_FOLLOWED


def test_a_graceful_shutdown_that_is_refused_is_forced_at_once_where_a_person_allows_it():
    refused = decide("Off", PowerState.ON).request.refused()
    forced = decide("Off", PowerState.ON, refused, now=5, forced_off="Allowed")
    assert (forced.reset, forced.request.at) == ("ForceOff", 5)


def test_a_request_to_power_on_or_to_force_off_that_is_refused_is_repeated_at_once():
    on = decide("On", PowerState.OFF, now=1000).request.refused()
    assert decide("On", PowerState.OFF, on, now=1005).reset == "On"
    forced = decide("Off", PowerState.ON, now=1000, types=("ForceOff",), forced_off="Allowed").request.refused()
    assert decide("Off", PowerState.ON, forced, now=1005).reset == "ForceOff"


def test_the_pause_after_a_refusal_counts_from_the_refused_request():
    refused = decide("Off", PowerState.ON, now=1000).request.refused()
    assert decide("Off", PowerState.ON, refused, now=1059).reset is None
    assert decide("Off", PowerState.ON, refused, now=1060).reset == "GracefulShutdown"


def test_a_graceful_shutdown_that_is_refused_is_repeated_and_never_forced_without_a_persons_word():
    refused = decide("Off", PowerState.ON).request.refused()
    waiting = decide("Off", PowerState.ON, refused, now=59)
    assert (waiting.reset, waiting.request, waiting.finding.reason) == (None, refused, BmcReason.REFUSED)
    assert "spec.forcedOff" in waiting.finding.message
    again = decide("Off", PowerState.ON, refused, now=60)
    assert (again.reset, again.request.at, again.request.refused_shutdown) == ("GracefulShutdown", 60, False)
    assert decide("Off", PowerState.ON, refused, now=9_000).reset == "GracefulShutdown"
    # Taken at last, its own deadline begins.
    assert decide("Off", PowerState.ON, again.request, now=239).reset is None
    assert decide("Off", PowerState.ON, again.request, now=240).reset == "ForceOff"


def test_a_server_without_a_graceful_shutdown_is_forced_off_only_where_a_person_allows_it():
    decision = decide("Off", PowerState.ON, types=("On", "ForceOff"))
    assert (decision.reset, decision.request, decision.finding.reason) == (None, None, BmcReason.RESET_TYPE_MISSING)
    assert "spec.forcedOff" in decision.finding.message
    allowed = decide("Off", PowerState.ON, types=("On", "ForceOff"), forced_off="Allowed")
    assert (allowed.reset, allowed.request.forced) == ("ForceOff", True)


@pytest.mark.parametrize("forced_off", ["AfterShutdown", "Allowed"])
def test_the_power_button_is_the_graceful_way_where_there_is_no_other_and_is_pressed_once(forced_off):
    types = ("On", "ForceOff", "PushPowerButton")
    first = decide("Off", PowerState.ON, types=types, forced_off=forced_off)
    assert (first.reset, first.request.forced) == ("PushPowerButton", False)
    assert decide("Off", PowerState.ON, first.request, now=179, types=types, forced_off=forced_off).reset is None
    assert decide("Off", PowerState.ON, first.request, now=180, types=types, forced_off=forced_off).reset == "ForceOff"
    assert decide("Off", PowerState.ON, types=(*types, "GracefulShutdown")).reset == "GracefulShutdown"


@pytest.mark.parametrize("way", ["PushPowerButton", "GracefulShutdown"])
def test_a_server_that_cannot_be_forced_off_is_asked_to_shut_down_once(way):
    first = decide("Off", PowerState.ON, types=(way,)).request
    late = decide("Off", PowerState.ON, first, now=180, types=(way,))
    assert (late.reset, late.request, late.finding.reason) == (None, first, BmcReason.RESET_TYPE_MISSING)
    assert decide("Off", PowerState.ON, late.request, now=900, types=(way,)).reset is None


def test_power_on_is_repeated_after_its_interval():
    first = decide("On", PowerState.OFF)
    assert first.reset == "On"
    assert decide("On", PowerState.OFF, first.request, now=59).reset is None
    assert decide("On", PowerState.OFF, first.request, now=60).reset == "On"


def test_only_reset_types_that_the_bmc_names_are_requested():
    assert decide("On", PowerState.OFF, types=("ForceOn",)).reset == "ForceOn"
    decision = decide("Off", PowerState.ON, types=("On", "Nmi"))
    assert (decision.reset, decision.finding.reason) == (None, BmcReason.RESET_TYPE_MISSING)


@pytest.mark.parametrize(("desired", "state"), [("On", PowerState.POWERING_OFF), ("Off", PowerState.POWERING_ON)])
def test_a_server_that_changes_the_other_way_is_awaited(desired, state):
    assert decide(desired, state).reset is None


@pytest.mark.parametrize(
    ("desired", "state", "reset"), [("On", PowerState.OFF, "On"), ("Off", PowerState.ON, "GracefulShutdown")]
)
def test_a_new_desire_replaces_the_request_of_the_old_one(desired, state, reset):
    other = decide("Off" if desired == "On" else "On", PowerState.ON if desired == "On" else PowerState.OFF).request
    assert decide(desired, state, other, now=1).reset == reset


@pytest.mark.parametrize("desired", ["On", "Off"])
def test_nothing_is_requested_while_the_power_state_is_unknown(desired):
    decision = decide(desired, PowerState.UNKNOWN)
    assert (decision.reset, decision.finding.status) == (None, ConditionStatus.UNKNOWN)


def test_a_request_that_a_busy_bmc_did_not_take_is_repeated_and_forced_at_its_deadline():
    first = decide("Off", PowerState.ON)
    again = decide("Off", PowerState.ON, first.request.not_taken(), now=5)
    assert (again.reset, again.request.at) == ("GracefulShutdown", first.request.at)
    assert decide("Off", PowerState.ON, again.request, now=6).reset is None
    assert decide("Off", PowerState.ON, again.request.not_taken(), now=180).reset == "ForceOff"


# --- conditions -------------------------------------------------------------------------------------------------------


def shown(decision):
    return decision.finding.status.value, decision.finding.reason, decision.finding.message


def test_every_decision_says_why():
    requested = decide("Off", PowerState.ON).request
    decisions = [
        (decide("Unmanaged", PowerState.ON), ("True", BmcReason.UNMANAGED, "")),
        (decide("On", PowerState.ON), ("True", BmcReason.AS_DESIRED, "")),
        (decide("On", PowerState.UNKNOWN), ("Unknown", BmcReason.POWER_STATE_UNKNOWN, "")),
        (
            decide("Off", PowerState.ON, power_off="Never"),
            ("False", BmcReason.POWER_OFF_NOT_ALLOWED, "powerOff is Never"),
        ),
        (
            decide("On", PowerState.POWERING_OFF),
            ("False", BmcReason.CHANGING, "the server is PoweringOff"),
        ),
        (decide("Off", PowerState.ON), ("False", BmcReason.CHANGING, "GracefulShutdown requested")),
        (
            decide("Off", PowerState.POWERING_OFF, requested, now=1),
            ("False", BmcReason.CHANGING, "the server is PoweringOff"),
        ),
        (decide("Off", PowerState.ON, requested, now=180), ("False", BmcReason.CHANGING, "ForceOff requested")),
        (
            decide("Off", PowerState.ON, types=("On",)),
            (
                "False",
                BmcReason.RESET_TYPE_MISSING,
                f"none of GracefulShutdown, PushPowerButton; {WORD}",
            ),
        ),
        (
            decide("Off", PowerState.ON, types=("On",), forced_off="Allowed"),
            ("False", BmcReason.RESET_TYPE_MISSING, "none of GracefulShutdown, PushPowerButton, ForceOff"),
        ),
        (decide("On", PowerState.OFF, types=()), ("False", BmcReason.RESET_TYPE_MISSING, "none of On, ForceOn")),
    ]
    for decision, expected in decisions:
        assert shown(decision) == expected


def test_a_request_is_awaited_while_the_power_state_is_unknown_and_not_once_it_is_as_desired():
    request = decide("Off", PowerState.ON).request
    assert decide("Off", PowerState.UNKNOWN, request, now=1).request is request
    assert decide("Off", PowerState.ON, request, now=1).request is request
    assert decide("Off", PowerState.OFF, request, now=1).request is None
    assert decide("Unmanaged", PowerState.ON, request, now=1).request is None


def test_a_late_request_that_a_busy_bmc_did_not_take_stays_late():
    first = decide("Off", PowerState.ON, types=("ForceOff",), forced_off="Allowed").request
    late = decide("Off", PowerState.ON, first, now=60).request
    again = decide("Off", PowerState.ON, late.not_taken(), now=70)
    assert (again.reset, again.request) == ("ForceOff", late)
    assert shown(again) == ("False", BmcReason.NOT_FOLLOWED, "ForceOff requested")


def test_a_forced_request_that_was_not_taken_stays_forced():
    first = decide("Off", PowerState.ON)
    forced = decide("Off", PowerState.ON, first.request, now=180)
    again = decide("Off", PowerState.ON, forced.request.not_taken(), now=181)
    assert (again.reset, again.request.forced, again.request.late) == ("ForceOff", True, False)


def test_a_first_request_is_not_late():
    request = decide("On", PowerState.OFF).request
    assert (request.on, request.forced, request.late, request.postponed) == (True, False, False, False)
    assert PowerRequest(on=True, forced=False, at=0.0).late is False
