"""A machine's facts and the inventory's, as NodeHardware has them."""

import pytest

from joulie_actuator.hardware import cpuinfo
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_agent.discovery.host import describe_cpu, describe_memory, find_cpu
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import CpuCapRange, Exactness, FrequencyLandmarks
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import PLATFORMS, MachineSpec

INVENTORY = Inventory.load()


@pytest.fixture
def described(tmp_path):
    def describe(spec):
        fake = build(tmp_path / "machine", PLATFORMS[spec] if isinstance(spec, str) else spec)
        facts = cpuinfo.discover(fake.tree(), fake.proc).facts
        return describe_cpu(facts, INVENTORY, control_available=True, telemetry_available=True)

    return describe


def test_a_two_socket_server(described):
    cpu = described("xeon-2s")
    assert (cpu.model, cpu.vendor, cpu.sockets, cpu.total_cores, cpu.cores_per_socket) == (
        "Intel Xeon 6248",
        "Intel",
        2,
        16,
        8,
    )
    assert cpu.threads == 32
    assert cpu.driver_family == "intel_pstate"
    assert cpu.landmarks == FrequencyLandmarks(min_freq_mhz=1000, base_freq_mhz=2500, max_boost_mhz=3900)
    assert cpu.cap_range.max_watts_per_socket == 150.0
    assert (cpu.control_available, cpu.telemetry_available, cpu.warnings) == (True, True, ())


def test_the_range_of_the_hardware_wins_over_the_inventory(described):
    cpu = described(MachineSpec(max_watts=125.0))
    assert cpu.cap_range == CpuCapRange(min_watts_per_socket=60.0, max_watts_per_socket=125.0)


def test_a_multi_die_package_has_the_range_of_all_its_dies(described):
    assert described("xeon-multi-die").cap_range.max_watts_per_socket == 400.0


def test_where_the_hardware_has_no_range_that_of_the_inventory_is_used(described):
    cpu = described("epyc-2s")
    assert cpu.model == "AMD EPYC 7763"
    assert cpu.cap_range == CpuCapRange(min_watts_per_socket=112.0, max_watts_per_socket=280.0)
    assert cpu.landmarks.base_freq_mhz == 2450
    assert any("cannot be capped" in said for said in cpu.warnings)


def test_an_unknown_model_without_rapl_has_no_range(described):
    cpu = described(MachineSpec(model_name="Intel(R) Mystery", model=250, zones=frozenset()))
    assert cpu.cap_range is None
    assert cpu.landmarks.base_freq_mhz == 2500


def test_an_unknown_model_with_rapl_has_the_range_of_its_zones(described):
    cpu = described("client-hybrid")
    assert cpu.cap_range == CpuCapRange(min_watts_per_socket=31.25, max_watts_per_socket=125.0)


def test_a_name_hidden_by_the_hypervisor_is_found_by_family_and_model(tmp_path):
    fake = build(tmp_path / "machine", MachineSpec(vendor="AuthenticAMD", model_name="AMD EPYC", family=25, model=17))
    match = find_cpu(cpuinfo.discover(fake.tree(), fake.proc).facts, INVENTORY)
    assert (match.spec.generation, match.exactness) == ("genoa", Exactness.PROXY)


def test_memory_is_what_the_kernel_manages(tmp_path):
    fake = build(tmp_path / "machine", MachineSpec(memory_bytes=8 * 1024**3))
    assert describe_memory(cpuinfo.discover(fake.tree(), fake.proc).facts).total_bytes == 8 * 1024**3


def test_memory_that_is_not_reported_is_absent(tmp_path):
    assert describe_memory(cpuinfo.discover(SysfsTree(tmp_path), tmp_path).facts) is None


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_platform_is_described_the_same_way_twice(described, tmp_path, platform):
    first = described(platform)
    fake = build(tmp_path / "again", PLATFORMS[platform])
    facts = cpuinfo.discover(fake.tree(), fake.proc).facts
    assert describe_cpu(facts, INVENTORY, control_available=True, telemetry_available=True) == first


def test_this_machine_is_described_without_an_exception():
    facts = cpuinfo.discover(SysfsTree("/sys")).facts
    cpu = describe_cpu(facts, INVENTORY, control_available=False, telemetry_available=False)
    assert cpu.dump()["controlAvailable"] is False


def test_a_desktop_is_not_taken_for_the_server_of_its_family_and_model(described):
    cpu = described(
        MachineSpec(model_name="Intel(R) Core(TM) i9-10980XE CPU @ 3.00GHz", family=6, model=85, zones=frozenset())
    )
    assert (cpu.model, cpu.vendor, cpu.cap_range) == ("intel core i9 10980xe", "Intel", None)
