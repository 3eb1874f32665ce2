"""Frequency policies on every shape of machine, and the throttle that is spread over them."""

from itertools import pairwise

import pytest

from joulie_actuator.hardware import cpufreq
from joulie_actuator.hardware.knob import HardwareFailure, KnobLimits
from joulie_actuator.hardware.topology import read_topology
from joulie_actuator.reasons import Reason
from joulie_core.control.throttle_plan import plan_throttle, throttled_khz
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_files import CPU_ROOT
from joulie_testing.agent.machine_spec import PLATFORMS, MachineSpec, Policies


@pytest.fixture
def machine(tmp_path):
    return lambda spec: build(tmp_path / "machine", PLATFORMS[spec] if isinstance(spec, str) else spec)


def policies_of(fake):
    return cpufreq.discover(fake.tree(), read_topology(fake.tree()))


@pytest.mark.parametrize(
    ("platform", "count"),
    [
        ("xeon-2s", 32),
        ("policy-per-core", 8),
        ("policy-per-package", 2),
        ("policy-shared", 1),
        ("client-hybrid", 24),
        ("cpus-offline", 14),
        ("virtual-machine", 0),
    ],
)
def test_each_policy_with_an_online_cpu_is_found_once(machine, platform, count):
    assert len(policies_of(machine(platform))) == count


def test_a_policy_has_its_cores_and_its_range(machine):
    policy = policies_of(machine("xeon-2s"))[8]
    assert (policy.name, policy.cpus, policy.package) == ("policy8", (8,), 1)
    assert policy.max_freq.key == "cpufreq/cpu8/scaling_max_freq"
    assert policy.max_freq.unit == "kHz"
    assert policy.max_freq.limits == KnobLimits(1_000_000, 3_900_000)
    assert (policy.base_khz, policy.driver, policy.governor) == (2_500_000, "intel_pstate", "powersave")


def test_the_base_frequency_comes_from_acpi_where_the_driver_has_none(machine):
    assert policies_of(machine("epyc-2s"))[0].base_khz == 2_450_000


def test_a_duplicate_directory_of_a_policy_is_passed_over(machine):
    fake = machine("policy-per-package")
    (fake.sys / CPU_ROOT / "cpufreq/policy99").symlink_to("policy0")
    assert [policy.name for policy in policies_of(fake)] == ["policy0", "policy4"]


def test_a_second_policy_for_the_same_cpus_is_passed_over(machine):
    fake = machine("policy-shared")
    first, second = fake.sys / CPU_ROOT / "cpufreq/policy0", fake.sys / CPU_ROOT / "cpufreq/policy1"
    second.mkdir()
    for file in first.iterdir():
        (second / file.name).write_text(file.read_text())
    assert [policy.name for policy in policies_of(fake)] == ["policy0"]


@pytest.mark.parametrize(
    ("driver", "family"),
    [
        ("intel_pstate", "intel_pstate"),
        ("intel_cpufreq", "intel_pstate"),
        ("amd-pstate-epp", "amd-pstate"),
        ("amd_pstate", "amd-pstate"),
        ("acpi-cpufreq", "acpi-cpufreq"),
    ],
)
def test_drivers_have_families(machine, driver, family):
    assert cpufreq.driver_family(policies_of(machine(MachineSpec(driver=driver)))) == family


def test_a_machine_without_policies_has_no_family():
    assert cpufreq.driver_family(()) == ""


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        ("cpufreq/cpu0/scaling_max_freq", True),
        ("cpufreq/cpu0/scaling_min_freq", False),
        ("cpufreq/cpu0/scaling_governor", False),
        ("uncore/cpu0/scaling_max_freq", False),
    ],
)
def test_a_key_is_that_of_an_upper_limit_by_its_beginning_and_its_end(key, limit):
    assert cpufreq.is_limit(key) is limit


def test_a_policy_is_named_in_keys_for_its_lowest_cpu_and_reports_the_current_frequency(machine):
    fake = machine("policy-per-package")
    put(fake, f"{CPU_ROOT}/cpufreq/policy4/scaling_cur_freq", 2_100_000)
    policy = policies_of(fake)[1]
    assert (policy.cpu_key, policy.current_khz()) == ("cpu4", 2_100_000)


def test_requests_that_are_known_are_not_read_again(machine):
    fake = machine("policy-per-package")
    known = cpufreq.requests(fake.tree())
    first = dict([next(iter(known.items()))])
    found = cpufreq.discover(fake.tree(), read_topology(fake.tree()), first)
    assert [policy.max_freq for policy in found] == list(first.values())


def plan(policies, throttle_pct):
    return plan_throttle([policy.to_plan() for policy in policies], throttle_pct)


def test_half_a_throttle_takes_half_of_each_package_and_both_threads_of_a_core(machine):
    policies = policies_of(machine("xeon-2s"))
    chosen = plan(policies, 50.0)
    throttled = [policy for policy in policies if policy.name in chosen]
    assert len(throttled) == 16
    assert [sum(policy.package == package for policy in throttled) for package in (0, 1)] == [8, 8]
    assert {policy.cpus[0] % 16 for policy in throttled if policy.cpus[0] >= 16} == {
        policy.cpus[0] for policy in throttled if policy.cpus[0] < 16
    }


def test_a_higher_throttle_keeps_what_is_throttled_already(machine):
    policies = policies_of(machine("client-hybrid"))
    plans = [plan(policies, pct) for pct in range(0, 101, 10)]
    assert plans == sorted(plans, key=len)
    assert all(less <= more for less, more in pairwise(plans))
    assert plans[-1] == {policy.name for policy in policies}


def test_a_shared_policy_is_throttled_as_one(machine):
    assert plan(policies_of(machine("policy-shared")), 10.0) == {"policy0"}


def test_the_plan_is_applied_and_reverted(machine):
    fake = machine("policy-per-package")
    policies = policies_of(fake)
    chosen = plan(policies, 50.0)
    for policy in policies:
        if policy.name in chosen:
            target_khz = throttled_khz(policy.highest_khz, lowest_khz=policy.lowest_khz, min_freq_khz=1_500_000)
            assert policy.max_freq.write(target_khz) == 1_500_000
    assert [fake.read(path) for path in fake.policy_limits()] == [1_500_000, 3_900_000]


def test_without_permission_the_reason_is_reported(machine):
    fake = machine("policy-per-core")
    (fake.sys / fake.policy_limits()[0]).chmod(0o444)
    failure = policies_of(fake)[0].max_freq.write(1_500_000)
    assert isinstance(failure, HardwareFailure)
    assert failure.reason is Reason.NOT_PERMITTED


def test_a_cpu_that_comes_back_has_its_policy_again(machine):
    fake = machine(MachineSpec(threads=1, policies=Policies.PER_CPU))
    before = [policy.name for policy in policies_of(fake)]
    fake.set_offline(2)
    assert [policy.name for policy in policies_of(fake)] == ["policy0", "policy1", "policy3"]
    fake.set_offline()
    assert [policy.name for policy in policies_of(fake)] == before


def test_a_policy_that_lost_only_some_of_its_cpus_stays(machine):
    fake = machine("policy-per-package")
    fake.set_offline(0, 1)
    assert policies_of(fake)[0].cpus == (2, 3, 8, 9, 10, 11)


@pytest.mark.parametrize("broken", ["cpuinfo_min_freq", "cpuinfo_max_freq", "affected_cpus", "related_cpus"])
def test_a_policy_without_a_range_is_left_unmanaged(machine, broken):
    fake = machine("policy-per-package")
    (fake.sys / CPU_ROOT / "cpufreq/policy0" / broken).unlink()
    assert [policy.name for policy in policies_of(fake)] == ["policy4"]


def put(fake, path, value):
    file = fake.sys / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


def cooler(fake, number, kind, state=0):
    put(fake, f"class/thermal/cooling_device{number}/type", kind)
    put(fake, f"class/thermal/cooling_device{number}/cur_state", state)


def first_request(fake):
    return policies_of(fake)[0].max_freq


def test_a_request_of_the_highest_frequency_needs_no_explanation(machine):
    fake = machine("policy-per-package")
    cooler(fake, 0, "Processor", 3)
    assert first_request(fake).platform_limit(3_900_000) == ""


def test_without_anything_that_limits_nothing_explains_a_lower_frequency(machine):
    assert first_request(machine("policy-per-package")).platform_limit(2_000_000) == ""


@pytest.mark.parametrize(
    ("value", "explained"),
    [(2_000_000, True), (1_800_000, True), (1_500_000, False), (2_450_000, False)],
    ids=["the limit", "what the driver's table has below it", "lower than that", "higher"],
)
def test_a_limit_of_firmware_explains_what_the_driver_makes_of_it_and_nothing_else(value, explained, machine):
    fake = machine("policy-per-package")
    put(fake, f"{CPU_ROOT}/cpufreq/policy0/bios_limit", 2_000_000)
    put(fake, f"{CPU_ROOT}/cpufreq/policy0/scaling_available_frequencies", "2450000 1800000 1500000")
    assert (first_request(fake).platform_limit(value) == "bios_limit is 2000000 kHz") is explained


def test_a_limit_of_firmware_explains_no_lower_entry_of_a_table_that_has_the_limit_itself(machine):
    fake = machine("policy-per-package")
    put(fake, f"{CPU_ROOT}/cpufreq/policy0/bios_limit", 2_000_000)
    put(fake, f"{CPU_ROOT}/cpufreq/policy0/scaling_available_frequencies", "2450000 2000000 1800000")
    assert first_request(fake).platform_limit(1_800_000) == ""


def test_a_limit_of_firmware_explains_itself_where_the_driver_has_no_table(machine):
    fake = machine("policy-per-package")
    put(fake, f"{CPU_ROOT}/cpufreq/policy0/bios_limit", 2_000_000)
    request = first_request(fake)
    assert [request.platform_limit(khz) for khz in (2_000_000, 1_999_000)] == ["bios_limit is 2000000 kHz", ""]
    assert request.offered_khz() == ()


@pytest.mark.parametrize(
    ("table", "steps"),
    [
        (None, {1_000_000: 1_100_000, 3_799_000: 3_899_000, 3_850_000: 3_900_000, 3_900_000: None, 4_000_000: None}),
        ("2450000 1800000 boost", {1_800_000: 2_450_000, 1_799_999: 1_800_000, 2_450_000: 2_550_000, 3_900_000: None}),
    ],
    ids=["clock", "table"],
)
def test_a_request_is_raised_to_the_next_entry_of_the_table_else_by_a_step_of_the_clock(table, steps, machine):
    fake = machine("policy-per-package")
    if table is not None:
        put(fake, f"{CPU_ROOT}/cpufreq/policy0/scaling_available_frequencies", table)
    request = first_request(fake)
    assert {khz: request.next_above(khz) for khz in steps} == steps


def test_the_nominal_frequency_in_bios_limit_is_no_limit_where_boost_exceeds_it(machine):
    """Firmware without a limit answers with the first entry of its table, which boost is not in."""
    fake = machine("policy-per-package")
    put(fake, f"{CPU_ROOT}/cpufreq/policy0/bios_limit", 2_450_000)
    put(fake, f"{CPU_ROOT}/cpufreq/policy0/scaling_available_frequencies", "2450000 1800000")
    assert first_request(fake).platform_limit(2_450_000) == ""


@pytest.mark.parametrize("kind", ["Processor", "thermal-cpufreq-0", "cpufreq-cpu2"])
def test_a_cooling_device_explains_a_lower_frequency_while_it_cools(kind, machine):
    fake = machine("policy-per-package")
    cooler(fake, 7, kind, 2)
    assert first_request(fake).platform_limit(2_000_000) == "cooling_device7 is at state 2"
    cooler(fake, 7, kind, 0)
    assert first_request(fake).platform_limit(2_000_000) == ""


@pytest.mark.parametrize("kind", ["Fan", "intel_powerclamp", "cpufreq-cpu4"])
def test_a_device_that_cools_something_else_explains_nothing(kind, machine):
    fake = machine("policy-per-package")  # its first policy has CPUs 0 to 3 and 8 to 11
    cooler(fake, 0, kind, 2)
    assert first_request(fake).platform_limit(2_000_000) == ""


def test_a_cooling_device_of_acpi_is_that_of_the_processor_that_it_links_to(machine):
    fake = machine("policy-per-package")
    for number, cpu in ((0, 1), (1, 5)):
        node = fake.sys / f"devices/LNXSYSTM:00/LNXCPU:0{cpu}"
        node.mkdir(parents=True)
        (fake.sys / CPU_ROOT / f"cpu{cpu}/firmware_node").symlink_to(node)
        cooler(fake, number, "Processor", cpu)
        (fake.sys / f"class/thermal/cooling_device{number}/device").symlink_to(node)
    explanations = [policy.max_freq.platform_limit(2_000_000) for policy in policies_of(fake)]
    assert explanations == ["cooling_device0 is at state 1", "cooling_device1 is at state 5"]


def test_requests_of_policies_without_an_online_cpu_are_known_for_restoring(machine):
    fake = machine("policy-per-package")
    put(fake, f"{CPU_ROOT}/cpufreq/policy4/affected_cpus", "")
    assert [policy.name for policy in policies_of(fake)] == ["policy0"]
    assert set(cpufreq.requests(fake.tree())) == {"cpufreq/cpu0/scaling_max_freq", "cpufreq/cpu4/scaling_max_freq"}


def test_cores_of_a_hybrid_processor_are_of_two_kinds(machine):
    kinds = {core.kind for policy in policies_of(machine("client-hybrid")) for core in policy.cores}
    assert kinds == {"cpu_core", "cpu_atom"}


def test_cores_of_other_processors_are_of_no_kind(machine):
    assert {core.kind for policy in policies_of(machine("xeon-2s")) for core in policy.cores} == {""}
