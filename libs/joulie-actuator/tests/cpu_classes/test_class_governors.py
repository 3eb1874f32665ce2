"""Governors and energy performance preferences of classes."""

from joulie_actuator.cpu_class_protocol import ClassControl, Governor
from joulie_actuator.protocol import Epp
from joulie_actuator.reasons import Reason
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_testing.agent.class_bench import ECO, controls, unmet


def test_a_preference_of_a_class_comes_before_tuning_which_returns_after_it(bench):
    done = bench.tune(epp=Epp.BALANCE_POWER)
    assert done.reason is Reason.TUNED
    bench.apply(eco=ECO, fast=controls(cpus="2", epp="performance"))
    assert bench.of("epp") == ["power", "power", "performance"] + ["balance_power"] * 5
    assert bench.tune(epp=Epp.BALANCE_POWER).reason is Reason.TUNED
    assert bench.of("epp")[:3] == ["power", "power", "performance"]
    bench.apply()
    assert bench.of("epp") == ["balance_power"] * 8
    bench.tune()
    assert bench.of("epp") == ["balance_performance"] * 8


def test_tuning_that_ends_leaves_the_preferences_of_classes(bench):
    bench.tune(epp=Epp.BALANCE_POWER)
    bench.apply(eco=ECO)
    assert bench.tune().reason is Reason.RESTORED
    assert bench.of("epp") == ["power"] * 2 + ["balance_performance"] * 6


def test_a_shared_policy_has_the_governor_of_the_class_that_is_throttled_last(make):
    bench = make("policy-per-package")
    report = bench.apply(
        eco=controls(cpus="0", governor=Governor.POWERSAVE, throttle_order=ThrottleOrder.ECO),
        fast=controls(cpus="1", governor=Governor.PERFORMANCE, throttle_order=ThrottleOrder.PERFORMANCE),
    )
    assert bench.of("governor") == ["performance", "powersave"]
    assert unmet(report, "eco") == {ClassControl.GOVERNOR: (Reason.OVERRULED, "0")}


def test_a_preference_that_a_governor_forbids_is_reported_and_the_rest_is_set(bench):
    bench.write(1, "scaling_governor", "performance")
    report = bench.apply(eco=ECO)
    assert unmet(report, "eco") == {ClassControl.EPP: (Reason.IO_ERROR, "1")}
    assert bench.limits[:2] == [2_000_000] * 2
    assert bench.of("epp")[:2] == ["power", "balance_performance"]


def test_a_class_with_governor_performance_has_no_other_preference(bench):
    before = bench.state
    report = bench.apply(a=controls(governor=Governor.PERFORMANCE, epp="power"))
    assert unmet(report, "a") == {ClassControl.EPP: (Reason.OVERRULED, "0-1")}
    report = bench.apply(a=controls(governor=Governor.PERFORMANCE, epp="performance"))
    assert unmet(report, "a") == {}
    bench.apply(a=controls(epp="power"))
    assert (bench.of("governor")[0], bench.of("epp")[0]) == ("powersave", "power")
    bench.apply(a=controls(governor=Governor.PERFORMANCE))
    bench.apply(a=controls(governor=Governor.POWERSAVE))
    assert bench.of("epp")[0] == "balance_performance"
    bench.apply()
    assert bench.state == before


def test_a_governor_that_is_not_managed_is_left_alone(make):
    bench = make("epyc-2s")
    bench.write(0, "scaling_governor", "userspace")
    report = bench.apply(a=controls(governor=Governor.POWERSAVE))
    assert unmet(report, "a") == {ClassControl.GOVERNOR: (Reason.MALFORMED_REPLY, "0")}
    assert bench.of("governor")[:2] == ["userspace", "powersave"]


def test_a_governor_that_a_driver_lacks_is_reported(bench):
    report = bench.apply(a=controls(governor=Governor.SCHEDUTIL))
    assert unmet(report, "a") == {ClassControl.GOVERNOR: (Reason.OUT_OF_RANGE, "0-1")}
