"""What classes do not get since hardware has it once for several CPUs, or not at all, and the words that say so."""

from dataclasses import replace

import pytest

from joulie_actuator.class_controls import ClassAssignment, Shortages
from joulie_actuator.cpu_class_protocol import ClassControl, Governor, UnmetControl
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import Epp
from joulie_actuator.reasons import Reason
from joulie_core.containers.idset import Cpus
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_testing.agent.class_bench import controls
from joulie_testing.agent.machine_spec import PLATFORMS, Policies

FIRST, LAST = ThrottleOrder.ECO, ThrottleOrder.PERFORMANCE
#: Of the CPUs 0-3 and 8-11 of package 0, which share a policy.
REST = "1-3,8-11"


@pytest.fixture
def shared(make, monkeypatch):
    """A machine with one frequency policy for each package, which has a preference."""
    spec = replace(PLATFORMS["xeon-tpmi"], cores=4, policies=Policies.PER_PACKAGE)
    monkeypatch.setitem(PLATFORMS, "shared", spec)
    return make("shared")


def said(report, name):
    return {each.control: (each.reason, each.cpus, each.message) for each in report.classes[name].unmet}


def test_shortages_of_one_reason_are_one_with_all_cpus_and_the_first_message():
    found = Shortages()
    for cpus, reason, message in (
        ("0", Reason.NO_INTERFACE, "first"),
        ("3", Reason.NO_INTERFACE, "second"),
        ("1", Reason.OVERRULED, "other"),
    ):
        found.add("a", ClassControl.EPP, HardwareFailure(reason, message), Cpus.parse(cpus))
    found.add("b", ClassControl.EPP, HardwareFailure(Reason.NO_INTERFACE, "b"), Cpus.parse("2"))
    assert found.of("a") == (
        UnmetControl(control=ClassControl.EPP, reason=Reason.NO_INTERFACE, message="first", cpus="0,3"),
        UnmetControl(control=ClassControl.EPP, reason=Reason.OVERRULED, message="other", cpus="1"),
    )
    assert [each.message for each in found.of("b")] == ["b"]
    assert found.of("c") == ()


def test_cpus_without_a_class_are_members_of_none():
    assigned = ClassAssignment({"a": controls(cpus="0-1"), "b": controls(cpus="4")})
    assert assigned.members([5, 1, 4, 0]) == {"": Cpus.parse("5"), "a": Cpus.parse("0-1"), "b": Cpus.parse("4")}
    assert (bool(assigned), bool(ClassAssignment({}))) == (True, False)


@pytest.mark.parametrize("control", ["epp", "governor"])
def test_of_classes_that_share_a_policy_the_one_that_is_throttled_last_has_its_own(shared, control):
    values = {"epp": ("power", "balance_power"), "governor": (Governor.POWERSAVE, Governor.PERFORMANCE)}[control]
    report = shared.apply(
        eco=controls(cpus="0", throttle_order=FIRST, **{control: values[0]}),
        fast=controls(cpus=REST, throttle_order=LAST, **{control: values[1]}),
    )
    assert shared.of(control)[0] == values[1]
    why = (Reason.OVERRULED, "0", "class fast shares the frequency policy")
    assert said(report, "eco") == {ClassControl(control): why}
    assert said(report, "fast") == {}


@pytest.mark.parametrize("control", ["epp", "governor"])
def test_classes_that_share_a_policy_and_want_the_same_both_get_it(shared, control):
    value = {"epp": "power", "governor": Governor.PERFORMANCE}[control]
    report = shared.apply(
        eco=controls(cpus="0", throttle_order=FIRST, **{control: value}),
        fast=controls(cpus=REST, throttle_order=LAST, **{control: value}),
    )
    assert shared.of(control)[0] == value
    assert (said(report, "eco"), said(report, "fast")) == ({}, {})


@pytest.mark.parametrize("control", ["epp", "governor"])
def test_a_class_that_shares_a_policy_with_cpus_that_are_throttled_later_has_the_originals(shared, control):
    before = shared.state
    value = {"epp": "power", "governor": Governor.PERFORMANCE}[control]
    report = shared.apply(eco=controls(cpus="0", throttle_order=FIRST, **{control: value}))
    assert shared.state == before
    why = (Reason.OVERRULED, "0", "CPUs without a class share the frequency policy")
    assert said(report, "eco") == {ClassControl(control): why}


def test_tuning_has_the_policies_whose_last_class_has_no_preference(shared):
    shared.tune(epp=Epp.BALANCE_POWER)
    shared.apply(eco=controls(cpus="0", throttle_order=FIRST, epp="power"), fast=controls(cpus=REST, max_khz=3_000_000))
    assert shared.of("epp") == ["balance_power"] * 2


def test_a_governor_that_prefers_performance_leaves_that_preference_to_its_class(bench):
    for epp in ("performance", "0"):
        report = bench.apply(a=controls(governor=Governor.PERFORMANCE, epp=epp))
        assert said(report, "a") == {}
    report = bench.apply(a=controls(governor=Governor.PERFORMANCE, epp="power"), b=controls(cpus="2", epp="power"))
    why = (Reason.OVERRULED, "0-1", "governor performance of this driver prefers performance")
    assert said(report, "a") == {ClassControl.EPP: why}
    assert said(report, "b") == {}
    assert bench.of("epp")[2] == "power"


def test_an_idle_state_that_a_machine_lacks_is_named_with_its_cpus_and_the_others_are_disabled(bench):
    before = bench.state
    report = bench.apply(a=controls(cpus="1-2", disabled_idle_states=("C6", "C9", "C6")), b=controls(cpus="0"))
    assert said(report, "a") == {ClassControl.IDLE_STATES: (Reason.NO_INTERFACE, "1-2", "no idle state C9")}
    assert said(report, "b") == {}
    changed = {key: value for key, value in bench.state.items() if value != before[key]}
    assert changed == {"cpu1/C6": 1, "cpu2/C6": 1}


def test_cpus_without_a_frequency_policy_lack_what_their_class_wants_of_one(make):
    bench = make("virtual-machine")
    wanted = {"min_khz": FrequencyName.MIN, "max_khz": 2_000_000, "epp": "power", "governor": Governor.POWERSAVE}
    report = bench.apply(a=controls(cpus="0-1,99", **wanted), b=controls(cpus="2", epp="power"), c=controls(cpus="3"))
    why = (Reason.NO_INTERFACE, "0-1", "no frequency policy")
    assert said(report, "a") == {ClassControl(control): why for control in wanted}
    assert said(report, "b") == {ClassControl.EPP: (Reason.NO_INTERFACE, "2", "no frequency policy")}
    assert said(report, "c") == {}


def test_a_machine_without_uncore_limits_lacks_those_that_its_classes_want(bench):
    report = bench.apply(
        a=controls(cpus="0-1", uncore_min_khz=900_000), b=controls(cpus="2,5", uncore_max_khz=1_200_000)
    )
    why = "no uncore frequency limit"
    assert said(report, "a") == {ClassControl.UNCORE_MIN_KHZ: (Reason.NO_INTERFACE, "0-1", why)}
    assert said(report, "b") == {ClassControl.UNCORE_MAX_KHZ: (Reason.NO_INTERFACE, "2,5", why)}


def test_classes_that_share_a_die_get_the_higher_limit_within_its_range(make):
    bench = make("xeon-tpmi")
    report = bench.apply(
        eco=controls(cpus="0-1", uncore_max_khz=1_200_000, uncore_min_khz=100_000),
        fast=controls(cpus="2,8", uncore_max_khz=9_000_000),
        same=controls(cpus="3", uncore_max_khz=9_000_000),
    )
    uncore = {key: value for key, value in bench.state.items() if key.startswith("uncore")}
    assert uncore == {
        "uncore/0-0": 2_200_000,
        "uncore/1-0": 2_200_000,
        "uncore/0-0/min": 800_000,
        "uncore/1-0/min": 800_000,
    }
    why = (Reason.OVERRULED, "0-1", "class same shares the die")
    assert said(report, "eco") == {ClassControl.UNCORE_MAX_KHZ: why}
    assert (said(report, "fast"), said(report, "same")) == ({}, {})
