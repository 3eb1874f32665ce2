"""RAPL zones on every shape of machine: which are offered, how a cap gets onto them, and what stands in its way."""

import shutil
from dataclasses import replace

import pytest

from joulie_actuator import cpu_caps
from joulie_actuator.hardware import rapl
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
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
    return found_uw if isinstance(found_uw, HardwareFailure) else cpu_caps.check_cap(cap, found_uw, original_uw)


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


def test_a_zone_is_described_as_it_is_found(machine):
    fake = machine("xeon-multi-die")
    zones = rapl.discover(fake.tree())
    assert [(zone.package, zone.die, zone.dies) for zone in zones] == [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)]
    assert {zone.energy_range_uj for zone in zones} == {fake.spec.energy_range_uj}
    assert {zone.backend for zone in zones} == {"rapl"}


def test_zones_are_in_the_order_of_packages_and_dies_whatever_their_numbers(machine):
    fake = machine("xeon-multi-die")
    names = ["package-10-die-1", "package-2", "package-10-die-0", "package-1"]
    for zone, name in zip(fake.zones(), names, strict=True):
        fake.write(f"{zone}/name", name)
    expected = ["package-1", "package-2", "package-10-die-0", "package-10-die-1"]
    assert [zone.name for zone in rapl.discover(fake.tree())] == expected


def test_a_zone_without_a_name_is_left_out_and_of_two_with_one_name_the_first_counts(machine):
    fake = machine(MachineSpec(sockets=3))
    first, second, third = fake.zones()
    (fake.sys / first / "name").unlink()
    fake.write(f"{third}/name", "package-1")
    assert [(zone.name, zone.path) for zone in rapl.discover(fake.tree())] == [("package-1", second)]


def test_the_switch_of_a_limit_is_that_of_its_zone(machine):
    zone = rapl.discover(machine("xeon-switched-off").tree())[0]
    assert zone.power_limit.switch == zone.enable
    assert (zone.enable.kind, zone.enable.limits, zone.enable.unit) == (KnobKind.SWITCH, KnobLimits(0, 1), "flag")
    assert (zone.enable.read(), zone.is_off) == (0, True)
    zone.enable.write(1)
    assert zone.is_off is False
    assert replace(zone, enable=None).is_off is False


def test_the_range_is_a_quarter_of_the_maximum_to_the_maximum(machine):
    zone = rapl.discover(machine(MachineSpec()).tree())[0]
    assert zone.power_limit.limits == KnobLimits(37_500_000, 150_000_000, rounding=125_000)


def test_an_unknown_maximum_is_taken_from_the_limit_found(machine):
    zone = rapl.discover(machine("xeon-unknown-maximum").tree())[0]
    assert zone.max_power_uw is None
    assert zone.power_limit.limits.high == 150_000_000
    assert rapl.package_range_uw([zone]) is None


def test_an_unknown_maximum_is_the_original_of_a_limit_that_joulie_has_written(machine):
    fake = machine("xeon-unknown-maximum")
    fake.write(fake.limits()[0], 80_000_000)
    (zone,) = rapl.discover(fake.tree(), {"rapl/package-0/long_term": 140_000_000})
    assert (zone.power_limit.limits.low, zone.power_limit.limits.high) == (35_000_000, 140_000_000)
    assert rapl.discover(fake.tree(), {"rapl/package-1/long_term": 1})[0].power_limit.limits.high == 80_000_000


def test_without_any_maximum_nothing_is_capped(machine):
    zone = rapl.discover(machine(replace(PLATFORMS["xeon-unknown-maximum"], limit_watts=0)).tree())[0]
    assert zone.power_limit == HardwareFailure(
        Reason.NO_CAP_RANGE, "rapl/package-0/long_term: neither a maximum nor the limit itself gives a range"
    )


def test_the_range_of_packages_is_what_all_of_them_can_hold(machine):
    one, two = rapl.discover(machine(MachineSpec(sockets=2)).tree())
    zones = [replace(one, max_power_uw=100_000_000), replace(two, max_power_uw=200_000_000)]
    assert rapl.package_range_uw(zones) == KnobLimits(50_000_000, 100_000_000)
    assert rapl.package_range_uw([]) is None


def test_a_cap_goes_to_every_package_and_nowhere_else(machine):
    fake = machine(MachineSpec(sockets=2, zones=frozenset(Zone)))
    before = snapshot(fake)
    for cap in cpu_caps.split_cap(rapl.discover(fake.tree()), 100.0):
        assert put(cap) is None
    changed = {path for path, text in snapshot(fake).items() if before[path] != text}
    assert changed == set(fake.limits())
    assert [fake.read(path) for path in fake.limits()] == [100_000_000, 100_000_000]


def test_a_cap_per_package_is_split_evenly_over_its_dies(machine):
    fake = machine("xeon-multi-die")
    caps = cpu_caps.split_cap(rapl.discover(fake.tree()), 300.0)
    assert [cap.limit_uw for cap in caps] == [150_000_000] * 4
    assert rapl.package_range_uw(cap.zone for cap in caps) == KnobLimits(100_000_000, 400_000_000)


@pytest.mark.parametrize(
    ("watts", "expected_uw", "clamped", "unlimited"),
    [
        (5000.0, 150_000_000, True, True),
        (150.0, 150_000_000, False, True),
        (149.5, 149_500_000, False, False),
        (37.5, 37_500_000, False, False),
        (1.0, 37_500_000, True, False),
    ],
)
def test_a_cap_is_clamped_to_each_zones_range(machine, watts, expected_uw, clamped, unlimited):
    (cap,) = cpu_caps.split_cap(rapl.discover(machine(MachineSpec()).tree()), watts)
    assert (cap.limit_uw, cap.clamped, cap.unlimited) == (expected_uw, clamped, unlimited)
    assert cap.knob is cap.zone.power_limit


def test_a_limit_rounded_down_to_the_power_unit_is_in_force(machine):
    fake = machine(MachineSpec())
    (cap,) = cpu_caps.split_cap(rapl.discover(fake.tree()), 99.99)
    assert put(cap) is None
    assert fake.read(fake.limits()[0]) == 99_875_000


def test_the_short_term_limit_stays_as_it_was(machine):
    fake = machine(MachineSpec())
    (cap,) = cpu_caps.split_cap(rapl.discover(fake.tree()), 60.0)
    put(cap)
    assert fake.read(f"{fake.zones()[0]}/constraint_1_power_limit_uw") == 180_000_000


def test_a_limit_that_the_kernel_shows_as_locked_is_blocked(machine):
    (cap, _) = cpu_caps.split_cap(rapl.discover(machine("xeon-locked").tree()), 100.0)
    assert cap.zone.failure() is None  # nothing but a write tells
    assert put(cap).reason is Reason.FIRMWARE_LOCKED


def test_a_limit_that_takes_a_write_and_keeps_its_value_is_locked(machine):
    (cap,) = cpu_caps.split_cap(rapl.discover(machine("xeon-held").tree()), 100.0)
    failure = put(cap)
    assert failure.reason is Reason.FIRMWARE_LOCKED
    assert failure.message == "package-0 keeps 150 W where 100 W was written"


@pytest.mark.parametrize(
    ("found_uw", "original_uw", "reason"),
    [
        (120_000_000, 150_000_000, Reason.HELD_BY_FIRMWARE),
        (101_000_000, 150_000_000, Reason.HELD_BY_FIRMWARE),
        (100_999_999, 150_000_000, None),
        (101_000_000, 101_000_000, Reason.FIRMWARE_LOCKED),
        (101_000_000, None, Reason.FIRMWARE_LOCKED),
        (80_000_000, 150_000_000, None),
        (99_000_000, 99_000_000, Reason.FIRMWARE_LOCKED),
        (99_000_001, 99_000_001, None),
        (80_000_000, None, None),
    ],
)
def test_a_limit_is_not_set_where_it_stays_or_is_a_watt_above_what_was_written(machine, found_uw, original_uw, reason):
    (cap,) = cpu_caps.split_cap(rapl.discover(machine(MachineSpec()).tree()), 100.0)
    failure = cpu_caps.check_cap(cap, found_uw, original_uw)
    assert (failure and failure.reason) == reason


def test_a_limit_that_moves_to_a_higher_value_is_told_with_both(machine):
    (cap,) = cpu_caps.split_cap(rapl.discover(machine(MachineSpec()).tree()), 100.0)
    failure = cpu_caps.check_cap(cap, 120_000_000, original_uw=150_000_000)
    assert failure.message == "package-0 holds 120 W where 100 W was written"


def test_a_limit_that_is_not_enforced_is_not_in_force_until_it_is_switched_on(machine):
    (cap,) = cpu_caps.split_cap(rapl.discover(machine("xeon-switched-off").tree()), 100.0)
    assert put(cap) is None
    assert cpu_caps.check_enabled(cap.zone) == HardwareFailure(
        Reason.FIRMWARE_LOCKED, "package-0 accepts the limit and does not enforce it (enabled=0)"
    )
    assert cap.zone.enable.write(1) == 1
    assert cpu_caps.check_enabled(cap.zone) is None


def test_a_limit_without_a_write_bit_is_not_permitted(machine):
    zone = rapl.discover(machine("xeon-read-only").tree())[0]
    assert zone.failure().reason is Reason.NOT_PERMITTED


@pytest.mark.parametrize(
    ("platform", "why"),
    [
        ("epyc-2s", "{path}/constraint_0_power_limit_uw: No data available"),
        ("epyc-no-constraints", "there is no long-term limit"),
    ],
)
def test_amd_counts_energy_and_cannot_be_capped(machine, platform, why):
    fake = machine(platform)
    zones = rapl.discover(fake.tree())
    told = [f"energy is counted and cannot be capped: {why.format(path=zone.path)}" for zone in zones]
    assert [zone.failure() for zone in zones] == [HardwareFailure(Reason.NO_INTERFACE, each) for each in told]
    assert cpu_caps.split_cap(zones, 100.0) == ()
    warned = [f"{zone.name}: {each}" for zone, each in zip(zones, told, strict=True)]
    assert rapl.warnings(fake.tree(), zones) == tuple(warned)
    fake.consume(zones[0].path, 3)
    assert (zones[0].read_energy_uj(), zones[0].moved) == (3_000_000, False)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("93500000", 93_500_000),
        ("1", 1),
        ("0", HardwareFailure(Reason.NO_READING, "sensor reads 0")),
        ("lost", HardwareFailure(Reason.MALFORMED_REPLY, "sensor holds 'lost', not an integer")),
    ],
)
def test_a_package_may_have_a_sensor_that_shows_zero_where_nothing_was_measured(machine, text, read):
    fake = machine("epyc-no-constraints")
    zone = rapl.discover(fake.tree())[0]
    assert zone.read_power_uw() == HardwareFailure(Reason.NO_INTERFACE, "package-0 has no power sensor")
    (fake.sys / "sensor").write_text(f"{text}\n")
    assert replace(zone, power_sensor="sensor").read_power_uw() == read


def test_a_second_limit_below_mmio_is_warned_of(machine):
    fake = machine("client-hybrid")
    assert rapl.warnings(fake.tree(), rapl.discover(fake.tree())) == (
        "intel-rapl-mmio:0 may hold the power below the cap: it is a second limit, which is left unmanaged",
    )


def test_a_machine_whose_packages_can_be_capped_is_not_warned_of(machine):
    fake = machine("xeon-2s")
    assert rapl.warnings(fake.tree(), rapl.discover(fake.tree())) == ()


def test_mmio_alone_is_no_way_to_cap(machine):
    fake = machine(MachineSpec(zones=frozenset({Zone.MMIO})))
    (fake.sys / "class/powercap/intel-rapl-mmio:1").mkdir()
    assert rapl.discover(fake.tree()) == ()
    (message,) = rapl.warnings(fake.tree(), ())
    assert message == (
        "intel-rapl-mmio:0, intel-rapl-mmio:1 is present and the package zones of intel-rapl are not: "
        "power cannot be capped"
    )


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
    for cap in cpu_caps.split_cap(rapl.discover(machine(MachineSpec(limit=limit)).tree()), 100.0):
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
    assert first.power_limit.read() == HardwareFailure(
        Reason.DEVICE_LOST, f"{first.path} is package-1 now, and was package-0"
    )
    assert first.power_limit.write(100_000_000).reason is Reason.DEVICE_LOST
    assert second.power_limit.write(100_000_000) == 100_000_000
    assert fake.tree().read_int(first.power_limit.path) == 150_000_000
