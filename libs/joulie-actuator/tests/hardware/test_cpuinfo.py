"""Facts about machines of every shape, and about the one that the tests run on."""

import subprocess
import sys

import pytest

from joulie_actuator.hardware import cpuinfo
from joulie_actuator.hardware.cpuinfo import CpuIdentity, read_identity, read_memory_bytes
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.hardware.topology import read_topology
from joulie_core.control.throttle_plan import CpuCore
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_files import CPU_ROOT
from joulie_testing.agent.machine_spec import PLATFORMS, MachineSpec


@pytest.fixture
def facts_of(tmp_path):
    def facts(spec):
        fake = build(tmp_path / "machine", PLATFORMS[spec] if isinstance(spec, str) else spec)
        return cpuinfo.discover(fake.tree(), fake.proc).facts

    return facts


@pytest.mark.parametrize(
    ("platform", "packages", "cores", "threads"),
    [
        ("xeon-2s", 2, 16, 32),
        ("xeon-multi-die", 2, 16, 32),
        ("client-hybrid", 1, 16, 24),
        ("cpus-offline", 2, 7, 14),
        ("virtual-machine", 1, 4, 4),
    ],
)
def test_packages_cores_and_threads_are_counted(facts_of, platform, packages, cores, threads):
    facts = facts_of(platform)
    assert (facts.packages, facts.cores, facts.threads) == (packages, cores, threads)


def test_a_two_socket_server_has_all_facts(facts_of):
    facts = facts_of("xeon-2s")
    assert facts.identity == CpuIdentity("GenuineIntel", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", 6, 85)
    assert (facts.lowest_khz, facts.base_khz, facts.highest_khz) == (1_000_000, 2_500_000, 3_900_000)
    assert (facts.driver_family, facts.policies) == ("intel_pstate", 32)
    assert facts.zones == ("package-0", "package-1")
    assert (facts.min_package_watts, facts.max_package_watts) == (37.5, 150.0)
    assert facts.memory_bytes == 192 * 1024**3
    assert facts.warnings == ()


def test_the_power_range_of_a_package_is_that_of_all_its_dies(facts_of):
    facts = facts_of("xeon-multi-die")
    assert (facts.min_package_watts, facts.max_package_watts) == (100.0, 400.0)


def test_a_hybrid_package_is_reported_and_spans_both_kinds_of_cores(facts_of):
    facts = facts_of("client-hybrid")
    assert facts.hybrid
    assert (facts.lowest_khz, facts.highest_khz) == (800_000, 5_200_000)
    assert any("two kinds" in warning for warning in facts.warnings)


def test_offline_cpus_are_reported(facts_of):
    facts = facts_of("cpus-offline")
    assert facts.offline_cpus == (3, 11)
    assert "2 CPUs are offline and not counted" in facts.warnings


def test_a_virtual_machine_has_warnings_for_what_it_lacks(facts_of):
    facts = facts_of("virtual-machine")
    assert (facts.zones, facts.policies, facts.driver_family, facts.max_package_watts) == ((), 0, "", None)
    assert [warning.partition(":")[0] for warning in facts.warnings] == ["no RAPL package zone", "no cpufreq policy"]


def test_two_discoveries_of_the_same_machine_are_equal(tmp_path):
    fake = build(tmp_path / "machine", PLATFORMS["client-hybrid"])
    first = cpuinfo.discover(fake.tree(), fake.proc).facts
    fake.write(fake.limits()[0], 60_000_000)
    fake.write(fake.policy_limits()[0], 1_500_000)
    fake.consume(fake.zones()[0], 100)
    assert cpuinfo.discover(fake.tree(), fake.proc).facts == first


def test_an_empty_tree_has_no_facts_and_no_exception(tmp_path):
    facts = cpuinfo.discover(SysfsTree(tmp_path), tmp_path).facts
    assert (facts.packages, facts.cores, facts.memory_bytes, facts.identity) == (0, 0, None, CpuIdentity())


def test_this_machine_is_described_without_an_exception():
    facts = cpuinfo.discover(SysfsTree("/sys")).facts
    assert facts.threads >= 0


def test_an_arm_machine_is_named_by_its_numbers(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\nprocessor\t: 1\n")
    assert read_identity(tmp_path / "cpuinfo") == CpuIdentity(model_name="ARM implementer 0x41 part 0xd4f")


def test_only_the_first_processor_is_read(tmp_path):
    (tmp_path / "cpuinfo").write_text("vendor_id\t: A\nmodel name\t: one\n\nvendor_id\t: B\nmodel name\t: two\n")
    assert read_identity(tmp_path / "cpuinfo") == CpuIdentity("A", "one")


def test_unknown_memory_is_not_zero(tmp_path):
    (tmp_path / "meminfo").write_text("MemFree: 12 kB\n")
    assert read_memory_bytes(tmp_path / "meminfo") is None
    assert read_memory_bytes(tmp_path / "absent") is None


def test_cores_of_different_dies_are_distinct_though_their_numbers_repeat(tmp_path):
    fake = build(tmp_path / "machine", MachineSpec(dies=2, cores=2, threads=1))
    core_of = read_topology(fake.tree()).core_of
    assert len(set(core_of.values())) == 4


def test_a_package_of_minus_one_is_the_first(tmp_path):
    fake = build(tmp_path / "machine", MachineSpec(cores=1, threads=1))
    fake.write(f"{CPU_ROOT}/cpu0/topology/physical_package_id", -1)
    assert read_topology(fake.tree()).core_of == {0: CpuCore(0, 0, 0)}


def test_the_actuator_stays_small():
    """The actuator imports these modules and must stay below 40 MiB."""
    heavy = "pydantic|aiohttp|asyncio|structlog|kubernetes_asyncio|prometheus_client"
    code = (
        "import re, sys, joulie_actuator.hardware.cpuinfo, joulie_actuator.hardware.power_meter;"
        f"print([name for name in sys.modules if re.fullmatch('({heavy})', name)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
