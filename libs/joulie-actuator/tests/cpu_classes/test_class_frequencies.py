"""Frequency limits of classes: resolved, written in order, shared and restored."""

import pytest

from joulie_actuator.cpu_class_protocol import ClassControl, KhzSpan
from joulie_actuator.reasons import Reason
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_testing.agent.class_bench import BOTH, FREE_KHZ, LOWEST_KHZ, controls, unmet


@pytest.mark.parametrize(
    ("frequency", "khz"),
    [(FrequencyName.MIN, [LOWEST_KHZ] * 2), (FrequencyName.BASE, [3_200_000] * 2), (3_500_000, [3_500_000] * 2)],
)
def test_frequencies_are_resolved_for_each_kind_of_core(make, frequency, khz):
    bench = make("client-hybrid")
    bench.apply(all=controls(cpus="0,16", max_khz=frequency))
    found = bench.machine.registers()
    low = 800_000 if frequency is FrequencyName.MIN else khz[0]
    assert [found["policy0"], found["policy16"]] == [low, low]


@pytest.mark.parametrize("refuses_crossed_limits", [False, True], ids=["current kernels", "older kernels"])
def test_limits_never_cross_while_a_class_moves_up_and_down(make, refuses_crossed_limits):
    bench = make(refuses_crossed_limits=refuses_crossed_limits)
    before = bench.state
    for low, high in [(1_100_000, 1_200_000), (3_000_000, 3_500_000), (1_300_000, 2_000_000), (2_000_000, 2_000_000)]:
        report = bench.apply(eco=controls(min_khz=low, max_khz=high))
        assert (bench.of("min")[0], bench.limits[0]) == (low, high)
        assert report.classes["eco"].unmet == ()
    bench.apply(eco=controls(max_khz=1_100_000))
    assert (bench.of("min")[0], bench.limits[0]) == (LOWEST_KHZ, 1_100_000)
    bench.apply(eco=controls(min_khz=3_000_000, max_khz=3_000_000))
    bench.apply()
    assert bench.state == before


def test_a_lower_limit_that_something_limits_is_restored_all_the_same(bench):
    bench.write(3, "scaling_min_freq", 1_200_000)
    bench.apply(**BOTH)
    bench.machine.set_thermal_state(1, 3)
    bench.apply(**BOTH)
    bench.apply()
    bench.machine.set_thermal_state(1, 0)
    assert bench.of("min")[3] == 1_200_000


def test_a_lower_limit_that_was_found_at_the_upper_one_is_restored_to_it(bench):
    for file in ("scaling_min_freq", "scaling_max_freq"):
        bench.write(3, file, 2_000_000)
    before = bench.state
    bench.apply(a=controls(cpus="3", min_khz=1_500_000))
    assert bench.of("min")[3] == 1_500_000
    bench.apply()
    assert bench.state == before


def test_a_lower_limit_of_an_administrator_stays_in_force_and_shows(bench):
    bench.write(0, "scaling_max_freq", 1_200_000)
    report = bench.apply(**BOTH)
    assert report.classes["eco"].ceiling_khz == KhzSpan(lowest=1_200_000, highest=2_000_000)
    assert report.classes["eco"].unmet == ()
    assert bench.limits[0] == 1_200_000


def test_a_minimum_above_the_limit_of_an_administrator_is_not_written_and_named(bench):
    bench.write(0, "scaling_max_freq", 2_000_000)
    report = bench.apply(a=controls(min_khz=2_500_000))
    assert bench.of("min")[:3] == [LOWEST_KHZ, 2_500_000, LOWEST_KHZ]
    assert bench.limits[:2] == [2_000_000, FREE_KHZ]
    assert unmet(report, "a") == {ClassControl.MIN_KHZ: (Reason.OVERRULED, "0")}
    report = bench.apply(a=controls(min_khz=2_000_000))
    assert bench.of("min")[:3] == [2_000_000, 2_000_000, LOWEST_KHZ]
    assert unmet(report, "a") == {}


def test_classes_that_share_a_policy_get_the_higher_limit_which_is_reported(make):
    bench = make("policy-per-package")
    report = bench.apply(eco=controls(cpus="0", max_khz=2_000_000), fast=controls(cpus="1-3,8-11", max_khz=3_000_000))
    assert bench.limits == [3_000_000, FREE_KHZ]
    assert unmet(report, "eco") == {ClassControl.MAX_KHZ: (Reason.OVERRULED, "0")}
    assert unmet(report, "fast") == {}
