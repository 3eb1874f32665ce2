"""RAPL domains beside the packages: each once, by name, measured and never part of the packages' total."""

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.hardware import rapl, rapl_domains
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.power_meter import PowerMeter, total_watts
from joulie_actuator.hardware.rapl_domains import ConstraintReading
from joulie_actuator.protocol import ReadCpu
from joulie_actuator.reasons import Reason
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import PLATFORMS, MachineSpec, Zone


@pytest.fixture
def machine(tmp_path):
    return lambda spec: build(tmp_path / "machine", PLATFORMS[spec] if isinstance(spec, str) else spec)


def names(fake):
    return [domain.name for domain in rapl_domains.discover(fake.tree())]


def test_every_domain_is_named_by_its_package(machine):
    every = MachineSpec(sockets=2, zones=frozenset(Zone))
    kinds = ("core", "dram", "uncore")
    assert names(machine(every)) == [f"package-{n}/{kind}" for n in (0, 1) for kind in kinds] + ["psys"]


def test_the_dies_of_a_package_have_domains_of_their_own(machine):
    assert names(machine("xeon-multi-die"))[:2] == ["package-0-die-0/dram", "package-0-die-1/dram"]


def test_every_domain_has_a_counter_of_its_own(machine):
    fake = machine("client-hybrid")
    for number, path in enumerate(fake.zones(Zone.CORE) + fake.zones(Zone.UNCORE) + fake.zones(Zone.PSYS)):
        fake.consume(path, 10 + number)
    domains = rapl_domains.discover(fake.tree())
    assert [(each.name, each.read_energy_uj()) for each in domains] == [
        ("package-0/core", 10_000_000),
        ("package-0/uncore", 11_000_000),
        ("psys", 12_000_000),
    ]
    assert {each.energy_range_uj for each in domains} == {fake.spec.energy_range_uj}


@pytest.mark.parametrize(("unnamed", "found"), [("", []), ("/{directory}:0", ["package-0/dram"])])
def test_a_zone_whose_name_cannot_be_read_is_left_out_alone(machine, unnamed, found):
    fake = machine(MachineSpec(sockets=2, zones=frozenset({Zone.PACKAGE, Zone.CORE, Zone.DRAM})))
    zone = fake.zones()[0]
    directory = zone.rpartition("/")[2]
    (fake.sys / f"{zone}{unnamed.format(directory=directory)}/name").unlink()
    assert names(fake) == [*found, "package-1/core", "package-1/dram"]


def test_domains_of_packages_are_found_behind_one_of_the_whole_machine(machine):
    fake = machine(MachineSpec(sockets=2))
    fake.write(f"{fake.zones()[0]}/name", "psys")
    assert names(fake) == ["package-1/dram", "psys"]


def test_a_machine_without_rapl_has_none(machine):
    assert names(machine("virtual-machine")) == []


def test_domains_are_measured_and_are_no_part_of_the_total(machine):
    fake = machine("xeon-2s")
    tree = fake.tree()
    meter, zones, domains = PowerMeter(), rapl.discover(tree), rapl_domains.discover(tree)
    meter.sample(zones, 0.0)
    meter.sample_domains(domains, 0.0)
    for zone in fake.zones():
        fake.consume(zone, 1000)
    for zone in fake.zones(Zone.DRAM):
        fake.consume(zone, 70)
    assert total_watts(meter.sample(zones, 10.0)) == 200.0
    assert [reading.power_watts for reading in meter.sample_domains(domains, 10.0)] == [7.0, 7.0]


def readings_of(zone):
    readings = [constraint.read() for constraint in rapl_domains.discover_constraints([zone])]
    return tuple(reading for reading in readings if reading is not None)


def test_the_constraints_of_a_package_are_read_with_their_time_windows(machine):
    zone = rapl.discover(machine(MachineSpec()).tree())[0]
    assert readings_of(zone) == (
        ConstraintReading("package-0", "long_term", 150_000_000, 999_424),
        ConstraintReading("package-0", "short_term", 180_000_000, 999_424),
    )


def test_all_constraints_are_found_in_the_order_of_the_hardware(machine):
    fake = machine(MachineSpec())
    (fake.sys / f"{fake.zones()[0]}/constraint_2_name").write_text("peak_power\n")
    zone = rapl.discover(fake.tree())[0]
    found = rapl_domains.discover_constraints([zone, zone])
    assert [each.name for each in found] == ["long_term", "short_term", "peak_power"] * 2


def test_a_zone_that_only_counts_energy_has_no_constraint(machine):
    zone = rapl.discover(machine("epyc-no-constraints").tree())[0]
    assert readings_of(zone) == ()


def test_a_limit_without_a_register_behind_it_is_left_out(machine):
    zone = rapl.discover(machine("epyc-2s").tree())[0]
    assert "long_term" not in {each.constraint for each in readings_of(zone)}


def test_a_reading_of_the_actuator_carries_domains_and_constraints(machine):
    fake = machine("client-hybrid")
    part = CpuHandler(fake.tree(), str(fake.proc), HardwareFailure(Reason.NO_JOURNAL), 1_500_000, clock=lambda: 0.0)
    readings = part.execute(ReadCpu())
    assert [domain.zone for domain in readings.domains] == ["package-0/core", "package-0/uncore", "psys"]
    assert {each.constraint for each in readings.constraints} == {"long_term", "short_term"}


def test_a_reading_of_power_only_reads_nothing_else(machine):
    fake = machine("client-hybrid")
    handler = CpuHandler(fake.tree(), str(fake.proc), HardwareFailure(Reason.NO_JOURNAL), 1_500_000, clock=lambda: 0.0)
    readings = handler.execute(ReadCpu(power_only=True))
    assert [zone.zone for zone in readings.zones] == ["package-0"]
    assert (readings.policies, readings.domains, readings.constraints) == ((), (), ())
