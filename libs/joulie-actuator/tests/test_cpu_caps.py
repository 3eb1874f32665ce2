"""The outcome of a cap, in full: what is in force, why not more, and with which words."""

import errno

import pytest

from joulie_actuator.cpu_caps import set_caps, zone_knobs
from joulie_actuator.hardware import rapl
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.fake_sysfs import FakeMachine, FakeTree, FileFault
from joulie_testing.agent.machine_spec import PLATFORMS

MISSING = HardwareFailure(Reason.NO_DEVICE, "package 2 has no zone")


@pytest.fixture
def cap(tmp_path, writer):
    """Make a machine, and return what sets a cap on it; the machine is `cap.machine`."""

    def make(platform="xeon-2s"):
        machine = FakeMachine(tmp_path / "machine", PLATFORMS[platform])

        def capping(watts, *missing):
            return set_caps(writer, rapl.discover(machine.tree()), watts, missing)

        capping.machine = machine
        return capping

    return make


def limits_watts(cap):
    return [cap.machine.read(path) / 1e6 for path in cap.machine.limits()]


def fail(cap, number, code=errno.EIO):
    cap.machine.faults[cap.machine.limits()[number]] = FileFault(write_errno=code)


def test_a_cap_is_in_force_on_every_package(cap):
    cap = cap()
    assert cap(90) == ControlOutcome(ControlResult.APPLIED, Reason.CAPPED, "rapl", "", 90.0, total_watts=180.0)
    assert limits_watts(cap) == [90, 90]


def test_a_cap_below_the_range_names_each_zone_that_is_limited_by_it(cap):
    cap = cap()
    assert cap(10) == ControlOutcome(
        ControlResult.APPLIED,
        Reason.CLAMPED,
        "rapl",
        "package-0 is limited to 37.5 W by its range; package-1 is limited to 37.5 W by its range",
        37.5,
        total_watts=75.0,
    )


def test_a_cap_at_the_end_of_the_range_is_no_limit_and_the_highest_found_is_reported(cap):
    cap = cap()
    cap.machine.write(cap.machine.limits()[0], 170_000_000)
    cap.machine.write(cap.machine.limits()[1], 160_000_000)
    assert cap(150) == ControlOutcome(
        ControlResult.APPLIED,
        Reason.RESTORED,
        "rapl",
        "no limit is set on package-0: 150 W per package is not below the maximum of its range, 150 W; "
        "no limit is set on package-1: 150 W per package is not below the maximum of its range, 150 W",
        170.0,
        total_watts=330.0,
    )
    assert limits_watts(cap) == [170, 160]


def test_an_overwritten_limit_is_named_and_a_lower_one_stays(cap):
    cap = cap()
    cap(90)
    cap.machine.write(cap.machine.limits()[0], 120_000_000)
    cap.machine.write(cap.machine.limits()[1], 60_000_000)
    assert cap(90) == ControlOutcome(
        ControlResult.APPLIED,
        Reason.CAPPED,
        "rapl",
        "rapl/package-0/long_term: overwrote external value 120000000; "
        "rapl/package-1/long_term: external value 60000000 is lower and stays in force",
        90.0,
        total_watts=150.0,
    )
    assert limits_watts(cap) == [90, 60]


def test_a_machine_without_zones_has_no_interface(cap):
    cap = cap("virtual-machine")
    assert cap(90) == ControlOutcome(ControlResult.BLOCKED, Reason.NO_INTERFACE, "rapl", "no RAPL package zone")


def test_a_zone_that_cannot_be_capped_keeps_all_from_being_capped(cap):
    cap = cap()
    limit = cap.machine.limits()[1]
    cap.machine.faults[limit] = FileFault(read_errno=errno.EIO)
    done = cap(90)
    assert (done.result, done.reason, done.backend, done.enforced_watts) == (
        ControlResult.ERROR,
        Reason.IO_ERROR,
        "rapl",
        None,
    )
    assert done.message == f"energy is counted and cannot be capped: {limit}: Input/output error"
    assert cap.machine.read(cap.machine.limits()[0]) == 150_000_000


def test_one_package_that_fails_leaves_the_other_capped_and_is_counted(cap):
    cap = cap()
    fail(cap, 0)
    assert cap(90) == ControlOutcome(
        ControlResult.ERROR,
        Reason.PARTLY_APPLIED,
        "rapl",
        f"1 of 2 packages capped; {cap.machine.limits()[0]}: Input/output error",
    )
    assert limits_watts(cap) == [150, 90]


def test_packages_that_all_fail_fail_the_cap_with_the_first_reason(cap):
    cap = cap()
    fail(cap, 0)
    fail(cap, 1, errno.EPERM)
    first, second = cap.machine.limits()
    assert cap(90) == ControlOutcome(
        ControlResult.ERROR,
        Reason.IO_ERROR,
        "rapl",
        f"{first}: Input/output error; {second}: Operation not permitted",
    )


def test_packages_without_a_zone_count_as_not_capped(cap):
    cap = cap()
    assert cap(90, MISSING) == ControlOutcome(
        ControlResult.BLOCKED,
        Reason.PARTLY_APPLIED,
        "rapl",
        "2 of 3 packages capped; package 2 has no zone",
    )
    fail(cap, 1)
    done = cap(80, MISSING)
    assert (done.result, done.message) == (
        ControlResult.ERROR,
        f"1 of 3 packages capped; {cap.machine.limits()[1]}: Input/output error; package 2 has no zone",
    )


def test_a_die_that_fails_leaves_its_package_uncapped(cap):
    cap = cap("xeon-multi-die")
    fail(cap, 1)
    assert cap(300).message.startswith("1 of 2 packages capped; ")
    assert limits_watts(cap)[0] == limits_watts(cap)[2] == 150


def held(cap, monkeypatch, *numbers, watts=150):
    """Have firmware hold some limits at so many watts."""
    write_int = FakeTree.write_int
    bounded = {cap.machine.limits()[number] for number in numbers}
    for path in cap.machine.limits():
        cap.machine.write(path, 200_000_000)
    real = {cap.machine.tree().real(path) for path in bounded}

    def write(tree, path, value):
        return write_int(tree, path, max(watts * 1_000_000, value) if tree.real(path) in real else value)

    monkeypatch.setattr(FakeTree, "write_int", write)


def test_what_firmware_holds_above_the_cap_is_reported_with_the_highest_limit_in_force(cap, monkeypatch):
    cap = cap()
    held(cap, monkeypatch, 0, 1)
    assert cap(120) == ControlOutcome(
        ControlResult.BLOCKED,
        Reason.HELD_BY_FIRMWARE,
        "rapl",
        "package-0 holds 150 W where 120 W was written; package-1 holds 150 W where 120 W was written",
        150.0,
        total_watts=300.0,
    )


def test_where_firmware_holds_one_package_the_other_is_capped(cap, monkeypatch):
    cap = cap()
    held(cap, monkeypatch, 1)
    assert cap(120) == ControlOutcome(
        ControlResult.BLOCKED,
        Reason.HELD_BY_FIRMWARE,
        "rapl",
        "package-1 holds 150 W where 120 W was written",
        150.0,
        total_watts=270.0,
    )
    assert limits_watts(cap) == [120, 150]


def test_where_one_package_is_held_and_another_has_no_zone_the_capped_are_counted(cap, monkeypatch):
    cap = cap()
    held(cap, monkeypatch, 1)
    assert cap(120, MISSING) == ControlOutcome(
        ControlResult.BLOCKED,
        Reason.PARTLY_APPLIED,
        "rapl",
        "1 of 3 packages capped; package-1 holds 150 W where 120 W was written; package 2 has no zone",
    )


def test_where_one_package_is_held_and_another_fails_none_is_capped(cap, monkeypatch):
    cap = cap()
    held(cap, monkeypatch, 1)
    fail(cap, 0)
    assert cap(120) == ControlOutcome(
        ControlResult.ERROR,
        Reason.PARTLY_APPLIED,
        "rapl",
        f"0 of 2 packages capped; {cap.machine.limits()[0]}: Input/output error; "
        "package-1 holds 150 W where 120 W was written",
    )


def test_a_limit_that_cannot_be_lifted_is_a_failure_of_its_package(cap):
    cap = cap()
    cap(90)
    fail(cap, 1)
    assert cap(150) == ControlOutcome(
        ControlResult.ERROR,
        Reason.PARTLY_APPLIED,
        "rapl",
        f"1 of 2 packages capped; {cap.machine.limits()[1]}: Input/output error",
    )
    assert limits_watts(cap) == [150, 90]


def test_a_limit_that_is_off_is_enabled_once_it_is_set_and_off_again_without_a_cap(cap):
    cap = cap("xeon-switched-off")
    (zone,) = cap.machine.zones()
    assert cap(90) == ControlOutcome(ControlResult.APPLIED, Reason.CAPPED, "rapl", "", 90.0, total_watts=90.0)
    assert cap.machine.read(f"{zone}/enabled") == 1
    done = cap(1000)
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.APPLIED, Reason.RESTORED, None)
    assert cap.machine.read(f"{zone}/enabled") == 0


def test_a_limit_that_could_not_be_set_is_not_enabled(cap):
    cap = cap("xeon-switched-off")
    (zone,) = cap.machine.zones()
    fail(cap, 0)
    assert cap(90).result is ControlResult.ERROR
    assert cap.machine.read(f"{zone}/enabled") == 0


def test_a_limit_that_stays_off_is_locked(cap):
    cap = cap("xeon-switched-off")
    (zone,) = cap.machine.zones()
    cap.machine.faults[f"{zone}/enabled"] = FileFault(write_errno=errno.EIO)
    assert cap(90) == ControlOutcome(
        ControlResult.BLOCKED,
        Reason.FIRMWARE_LOCKED,
        "rapl",
        "package-0 accepts the limit and does not enforce it (enabled=0)",
    )


def test_a_limit_is_switched_off_before_it_is_restored(cap):
    (zone,) = rapl.discover(cap("xeon-switched-off").machine.tree())
    assert zone_knobs(zone) == [zone.enable, zone.power_limit]
