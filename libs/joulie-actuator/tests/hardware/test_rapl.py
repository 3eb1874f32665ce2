"""RAPL zones on every shape of machine: which are offered, how a cap gets onto them, and what stands in its way."""

import shutil
from dataclasses import replace

import pytest

from joulie_actuator.hardware import rapl
from joulie_actuator.hardware.knob import HardwareFailure, KnobLimits
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.reasons import Reason
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_files import POWERCAP
from joulie_testing.agent.machine_spec import PLATFORMS, Limit, MachineSpec, Zone


@pytest.fixture
def machine(tmp_path):
    return lambda spec: build(tmp_path / "machine", PLATFORMS[spec] if isinstance(spec, str) else spec)


def put(cap):
    """Write a cap as the agent does, without the journal."""
    original_uw = cap.knob.read()
    found_uw = cap.knob.write(cap.limit_uw)
    return found_uw if isinstance(found_uw, HardwareFailure) else rapl.check_cap(cap, found_uw, original_uw)


@pytest.mark.parametrize(
    ("platform", "names"),
    [
        ("xeon-2s", ["package-0", "package-1"]),
        ("xeon-multi-die", ["package-0-die-0", "package-0-die-1", "package-1-die-0", "package-1-die-1"]),
        ("client-hybrid", ["package-0"]),
        ("epyc-2s", ["package-0", "package-1"]),
        ("epyc-no-constraints", ["package-0"]),
        ("virtual-machine", []),
    ],
)
def test_each_package_zone_is_found_once(machine, platform, names):
    assert [zone.name for zone in rapl.discover(machine(platform).tree())] == names


def test_no_zone_but_a_package_of_the_msr_interface_is_ever_offered(machine):
    every = MachineSpec(sockets=2, zones=frozenset(Zone))
    zones = rapl.discover(machine(every).tree())
    assert [zone.path for zone in zones] == [f"{POWERCAP}/intel-rapl/intel-rapl:{n}" for n in (0, 1)]


def test_keys_name_the_place_and_not_the_mount(machine):
    zone = rapl.discover(machine("xeon-2s").tree())[1]
    assert zone.power_limit.key == "rapl/package-1/long_term"
    assert zone.power_limit.unit == "uW"
    assert zone.enable.key == "rapl/package-1/enabled"


def test_zones_are_found_where_the_class_directory_is_not_mounted(machine):
    fake = machine("xeon-2s")
    shutil.rmtree(fake.sys / "class")
    assert [zone.directory for zone in rapl.discover(fake.tree())] == ["intel-rapl:0", "intel-rapl:1"]


def test_more_than_ten_packages_have_hexadecimal_numbers(machine):
    zones = rapl.discover(machine(MachineSpec(sockets=12, cores=1, threads=1)).tree())
    assert zones[11].directory == "intel-rapl:b"


def test_the_long_term_limit_is_found_whatever_its_index(machine):
    fake = machine(MachineSpec())
    zone = fake.zones()[0]
    fake.write(f"{zone}/constraint_0_name", "short_term")
    fake.write(f"{zone}/constraint_1_name", "long_term")
    assert rapl.discover(fake.tree())[0].power_limit.path == f"{zone}/constraint_1_power_limit_uw"


def test_the_range_is_a_quarter_of_the_maximum_to_the_maximum(machine):
    zone = rapl.discover(machine(MachineSpec()).tree())[0]
    assert zone.power_limit.limits == KnobLimits(37_500_000, 150_000_000, rounding=125_000)


def test_an_unknown_maximum_is_taken_from_the_limit_found(machine):
    zone = rapl.discover(machine("xeon-unknown-maximum").tree())[0]
    assert zone.max_power_uw is None
    assert zone.power_limit.limits.high == 150_000_000
    assert rapl.package_range_uw([zone]) is None


def test_without_any_maximum_nothing_is_capped(machine):
    zone = rapl.discover(machine(replace(PLATFORMS["xeon-unknown-maximum"], limit_watts=0)).tree())[0]
    assert zone.power_limit.reason is Reason.NO_CAP_RANGE


def test_a_cap_goes_to_every_package_and_nowhere_else(machine):
    fake = machine(MachineSpec(sockets=2, zones=frozenset(Zone)))
    before = snapshot(fake)
    for cap in rapl.split_cap(rapl.discover(fake.tree()), 100.0):
        assert put(cap) is None
    changed = {path for path, text in snapshot(fake).items() if before[path] != text}
    assert changed == set(fake.limits())
    assert [fake.read(path) for path in fake.limits()] == [100_000_000, 100_000_000]


def test_a_cap_per_package_is_split_evenly_over_its_dies(machine):
    fake = machine("xeon-multi-die")
    caps = rapl.split_cap(rapl.discover(fake.tree()), 300.0)
    assert [cap.limit_uw for cap in caps] == [150_000_000] * 4
    assert rapl.package_range_uw(cap.zone for cap in caps) == KnobLimits(100_000_000, 400_000_000)


@pytest.mark.parametrize(("watts", "expected_uw"), [(5000.0, 150_000_000), (1.0, 37_500_000)])
def test_a_cap_is_clamped_to_each_zones_range(machine, watts, expected_uw):
    (cap,) = rapl.split_cap(rapl.discover(machine(MachineSpec()).tree()), watts)
    assert (cap.limit_uw, cap.clamped) == (expected_uw, True)


def test_a_limit_rounded_down_to_the_power_unit_is_in_force(machine):
    fake = machine(MachineSpec())
    (cap,) = rapl.split_cap(rapl.discover(fake.tree()), 99.99)
    assert put(cap) is None
    assert fake.read(fake.limits()[0]) == 99_875_000


def test_the_short_term_limit_stays_as_it_was(machine):
    fake = machine(MachineSpec())
    (cap,) = rapl.split_cap(rapl.discover(fake.tree()), 60.0)
    put(cap)
    assert fake.read(f"{fake.zones()[0]}/constraint_1_power_limit_uw") == 180_000_000


def test_a_limit_that_the_kernel_shows_as_locked_is_blocked(machine):
    (cap, _) = rapl.split_cap(rapl.discover(machine("xeon-locked").tree()), 100.0)
    assert cap.zone.failure() is None  # nothing but a write tells
    assert put(cap).reason is Reason.FIRMWARE_LOCKED


def test_a_limit_that_takes_a_write_and_keeps_its_value_is_locked(machine):
    (cap,) = rapl.split_cap(rapl.discover(machine("xeon-held").tree()), 100.0)
    failure = put(cap)
    assert failure.reason is Reason.FIRMWARE_LOCKED
    assert failure.message == "package-0 keeps 150 W where 100 W was written"


def test_a_limit_that_moves_to_a_higher_value_than_the_one_written_is_held_by_firmware(machine):
    (cap,) = rapl.split_cap(rapl.discover(machine(MachineSpec()).tree()), 100.0)
    failure = rapl.check_cap(cap, 120_000_000, original_uw=150_000_000)
    assert failure.reason is Reason.HELD_BY_FIRMWARE
    assert failure.message == "package-0 holds 120 W where 100 W was written"


def test_a_limit_that_firmware_moves_to_a_lower_value_keeps_the_cap(machine):
    (cap,) = rapl.split_cap(rapl.discover(machine(MachineSpec()).tree()), 100.0)
    assert rapl.check_cap(cap, 80_000_000, original_uw=150_000_000) is None


def test_a_lower_limit_that_never_moves_is_locked(machine):
    (cap,) = rapl.split_cap(rapl.discover(machine(MachineSpec()).tree()), 100.0)
    assert rapl.check_cap(cap, 80_000_000, original_uw=80_000_000).reason is Reason.FIRMWARE_LOCKED


def test_a_limit_that_is_not_enforced_is_not_in_force_until_it_is_switched_on(machine):
    (cap,) = rapl.split_cap(rapl.discover(machine("xeon-switched-off").tree()), 100.0)
    assert put(cap) is None
    assert rapl.check_enabled(cap.zone).reason is Reason.FIRMWARE_LOCKED
    assert cap.zone.enable.write(1) == 1
    assert rapl.check_enabled(cap.zone) is None


def test_a_limit_without_a_write_bit_is_not_permitted(machine):
    zone = rapl.discover(machine("xeon-read-only").tree())[0]
    assert zone.failure().reason is Reason.NOT_PERMITTED


@pytest.mark.parametrize("platform", ["epyc-2s", "epyc-no-constraints"])
def test_amd_counts_energy_and_cannot_be_capped(machine, platform):
    fake = machine(platform)
    zones = rapl.discover(fake.tree())
    assert {zone.failure().reason for zone in zones} == {Reason.NO_INTERFACE}
    assert rapl.split_cap(zones, 100.0) == ()
    assert all("cannot be capped" in message for message in rapl.warnings(fake.tree(), zones))
    assert zones[0].read_energy_uj() == 0


def test_a_second_limit_below_mmio_is_warned_of(machine):
    fake = machine("client-hybrid")
    messages = rapl.warnings(fake.tree(), rapl.discover(fake.tree()))
    assert len(messages) == 1
    assert messages[0].startswith("intel-rapl-mmio:0 may hold the power below the cap")


def test_mmio_alone_is_no_way_to_cap(machine):
    fake = machine(MachineSpec(zones=frozenset({Zone.MMIO})))
    assert rapl.discover(fake.tree()) == ()
    assert "power cannot be capped" in rapl.warnings(fake.tree(), ())[0]


def test_zones_that_come_back_after_a_driver_reload_have_the_same_keys(machine):
    fake = machine("xeon-2s")
    before = rapl.discover(fake.tree())
    fake.unload_rapl()
    assert rapl.discover(fake.tree()) == ()
    assert before[0].power_limit.read().reason is Reason.NO_INTERFACE
    fake.load_rapl()
    assert [zone.power_limit.key for zone in rapl.discover(fake.tree())] == [zone.power_limit.key for zone in before]


def test_a_reading_of_energy_that_is_not_permitted_has_its_reason(machine, monkeypatch):
    fake = machine("xeon-2s")
    zone = rapl.discover(fake.tree())[0]
    monkeypatch.setattr(SysfsTree, "read_int", lambda *_: HardwareFailure(Reason.NOT_PERMITTED, "denied"))
    assert zone.read_energy_uj().reason is Reason.NOT_PERMITTED


@pytest.mark.parametrize("limit", Limit)
def test_no_behaviour_of_a_limit_is_an_exception(machine, limit):
    for cap in rapl.split_cap(rapl.discover(machine(MachineSpec(limit=limit)).tree()), 100.0):
        put(cap)


def snapshot(fake):
    files = (path for path in (fake.sys / "devices").rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(fake.sys)): path.read_text() for path in files}


def test_a_zone_whose_directory_has_become_another_zone_is_neither_read_nor_written(machine):
    fake = machine(replace(MachineSpec(), sockets=2))
    first, second = rapl.discover(fake.tree())
    (fake.sys / first.path / "name").write_text("package-1\n")
    assert first.moved
    assert not second.moved
    assert first.power_limit.read().reason is Reason.DEVICE_LOST
    assert first.power_limit.write(100_000_000).reason is Reason.DEVICE_LOST
    assert second.power_limit.write(100_000_000) == 100_000_000
    assert fake.tree().read_int(first.power_limit.path) == 150_000_000
