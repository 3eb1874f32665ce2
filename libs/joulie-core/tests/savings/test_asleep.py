"""Watts that sleep saves: what a node would draw awake, less what it draws, and never a figure for what is unknown."""

import pytest

from joulie_core.savings.asleep import SleepingServer, sleep_watts
from joulie_core.savings.estimator import sleep_rate
from joulie_core.savings.rates import EstimateRange
from joulie_core.sleep_state import SleepState


def test_a_node_off_saves_its_measured_idle_power_less_the_reading_of_its_bmc():
    server = SleepingServer(SleepState.ASLEEP, 200.0, idle_measured=True, drawn_watts=10.0)
    assert sleep_watts(server) == EstimateRange(190.0 - 10.5, 190.0, pytest.approx(210.0 - 9.5))


def test_modelled_idle_power_has_the_wider_band():
    server = SleepingServer(SleepState.ASLEEP, 200.0, drawn_watts=10.0)
    assert sleep_watts(server) == EstimateRange(140.0 - 10.5, 190.0, pytest.approx(300.0 - 9.5))


def test_without_a_reading_a_server_that_is_off_draws_what_is_assumed():
    server = SleepingServer(SleepState.ASLEEP, 200.0, idle_measured=True)
    assert sleep_watts(server) == EstimateRange(160.0, 185.0, 205.0)


def test_a_boot_counts_against_sleep():
    measured = SleepingServer(SleepState.WAKING, 200.0, idle_measured=True, drawn_watts=350.0)
    assumed = SleepingServer(SleepState.WAKING, 200.0, idle_measured=True)
    assert sleep_watts(measured) == EstimateRange(190.0 - 367.5, -150.0, pytest.approx(210.0 - 332.5))
    assert sleep_watts(assumed) == EstimateRange(-210.0, -100.0, 0.0)


def test_a_shutdown_without_a_reading_saves_nothing_yet():
    assert sleep_watts(SleepingServer(SleepState.POWERING_OFF, 200.0)) == EstimateRange()


@pytest.mark.parametrize("state", [SleepState.AWAKE, SleepState.CORDONED, SleepState.DRAINING, SleepState.QUARANTINED])
def test_a_node_that_is_on_is_not_counted(state):
    assert not SleepingServer(state, None).counted
    assert sleep_watts(SleepingServer(state, None)) == EstimateRange()


@pytest.mark.parametrize("idle_watts", [None, 0.0, -5.0, float("nan")])
def test_without_a_known_idle_power_the_saving_is_unknown(idle_watts):
    assert sleep_watts(SleepingServer(SleepState.ASLEEP, idle_watts)) is None


def test_the_share_of_nodes_that_are_unknown_stands_beside_the_watts_of_the_others():
    known = SleepingServer(SleepState.ASLEEP, 200.0, idle_measured=True, drawn_watts=10.0)
    awake = SleepingServer(SleepState.AWAKE, None)
    rate = sleep_rate([known, known, known, SleepingServer(SleepState.ASLEEP, None), awake])
    assert rate.unknown_share == 0.25
    assert rate.watts.middle == 570.0


def test_without_a_node_that_sleeps_nothing_is_saved_and_nothing_unknown():
    rate = sleep_rate([])
    assert rate.unknown_share == 0.0
    assert rate.watts == EstimateRange()
