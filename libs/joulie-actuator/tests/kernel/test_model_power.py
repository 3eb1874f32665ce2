"""The model's power limits, counters and the platform's own controls."""

import errno

import pytest

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_testing.agent.kernel import KernelFault, KernelTree, Maximum


def test_a_limit_is_rounded_down_to_power_units(machine, refused):
    kernel = machine()
    path = kernel.limit_path("package-1")
    kernel.external_write(path, 90_180_000)
    assert kernel.external_read(path) == "90125000"
    assert refused(kernel.external_write, path, "90 W") == "EINVAL"


@pytest.mark.parametrize(("platform", "read"), [("xeon-small", 0), ("xeon-tpmi", 4_096_000_000)])
def test_a_limit_is_cut_to_the_width_of_its_register(machine, platform, read):
    kernel = machine(platform)
    kernel.external_write(kernel.limit_path("package-0"), 4_096_000_000)
    assert int(kernel.external_read(kernel.limit_path("package-0"))) == read


@pytest.mark.parametrize(("written", "read"), [(999_424, 999_424), (28_000_000, 27_983_872), (1_000, 976)])
def test_a_time_window_is_what_the_register_can_express(machine, refused, written, read):
    kernel = machine()
    path = kernel.zone_path("package-0") + "/constraint_0_time_window_us"
    kernel.external_write(path, written)
    assert int(kernel.external_read(path)) == read
    assert refused(kernel.external_write, path, 975) == "EINVAL"


@pytest.mark.parametrize(
    ("platform", "answers"),
    [
        ("xeon-locked", ("", "ENODATA", "ENOSYS")),
        ("epyc-2s", ("ENODATA", "ENODATA", "ENOSYS")),
        ("epyc-no-constraints", ("ENOENT", "ENOENT", "")),
        ("xeon-read-only", ("", "EACCES", "")),
    ],
)
def test_a_limit_that_cannot_be_set_fails_as_in_powercap(machine, refused, platform, answers):
    read, write, enable = answers
    kernel = machine(platform)
    path = kernel.limit_path("package-0")
    assert refused(kernel.external_read, path) == read
    assert refused(kernel.external_write, path, 100_000_000) == write
    assert refused(kernel.external_write, kernel.zone_path("package-0") + "/enabled", 1) == enable


@pytest.mark.parametrize(("maximum", "code"), [(Maximum.NO_DATA, "ENODATA"), (Maximum.ABSENT, "ENOENT")])
def test_the_maximum_may_be_unknown(machine, refused, maximum, code):
    kernel = machine(maximum=maximum)
    assert refused(kernel.external_read, kernel.zone_path("package-0") + "/constraint_0_max_power_uw") == code


def test_zones_get_other_numbers_and_registers_keep_their_values(machine):
    kernel = machine()
    kernel.external_write(kernel.limit_path("package-0"), 90_000_000)
    before = kernel.limit_path("package-0")
    kernel.renumber_zones(order=["package-1", "package-0"])
    assert kernel.limit_path("package-0") != before == kernel.limit_path("package-1")
    assert kernel.external_read(kernel.limit_path("package-0")) == "90000000"
    assert kernel.external_read("class/powercap/intel-rapl:0/name") == "package-1"


def test_a_package_without_cpus_loses_its_zones_which_return_switched_off(machine):
    kernel = machine()
    kernel.set_online(2, 3, 6, 7, online=False)
    assert "intel-rapl:1" not in kernel.entries("/sys/class/powercap")
    kernel.set_online(3)
    assert kernel.external_read("class/powercap/intel-rapl:1/name") == "package-1"
    assert kernel.external_read("class/powercap/intel-rapl:1/enabled") == "0"


def test_a_zone_that_returns_gets_the_lowest_free_number(machine):
    kernel = machine("xeon-tpmi")
    kernel.remove_zone("package-0")
    kernel.remove_zone("package-1")
    kernel.return_zone("package-1")
    assert kernel.external_read("class/powercap/intel-rapl:0/name") == "package-1"
    assert kernel.external_read("class/powercap/intel-rapl:2/name") == "psys"


def test_power_follows_the_limit_down_to_what_the_lowest_frequency_draws(machine):
    kernel = machine()
    kernel.set_load(0, 1.0)
    assert kernel.package_watts(0) == 150  # the factory's limit
    kernel.external_write(kernel.limit_path("package-0"), 90_000_000)
    assert kernel.package_watts(0) == 90
    assert int(kernel.external_read("devices/system/cpu/cpufreq/policy0/scaling_cur_freq")) < 3_000_000
    kernel.external_write(kernel.limit_path("package-0"), 20_000_000)
    assert 40 < kernel.package_watts(0) < 60


def test_power_follows_the_frequencies(machine):
    kernel = machine()
    before = kernel.package_watts(0)
    for policy in (0, 1, 4, 5):
        kernel.external_write(f"devices/system/cpu/cpufreq/policy{policy}/scaling_max_freq", 1_950_000)
    assert kernel.package_watts(0) - 40 == pytest.approx((before - 40) / 4)


def test_firmware_may_store_limits_and_ignore_them(machine):
    kernel = machine(firmware_ignores_limits=True)
    kernel.set_load(0, 1.0)
    kernel.external_write(kernel.limit_path("package-0"), 90_000_000)
    assert kernel.external_read(kernel.limit_path("package-0")) == "90000000"
    assert kernel.package_watts(0) == 200


def test_firmware_may_clamp_a_limit(machine):
    kernel = machine()
    kernel.clamp_zone("package-0", 100_000_000, 150_000_000)
    kernel.external_write(kernel.limit_path("package-0"), 60_000_000)
    assert kernel.external_read(kernel.limit_path("package-0")) == "100000000"


def test_counters_advance_with_the_power_and_wrap(machine, clock):
    kernel = machine()
    path = kernel.zone_path("package-0") + "/energy_uj"
    watts = kernel.package_watts(0)
    clock.now += 2
    assert int(kernel.external_read(path)) == pytest.approx(2e6 * watts)
    kernel.reset_energy("package-0", kernel.spec.energy_range_uj - 1)
    clock.now += 1
    assert int(kernel.external_read(path)) == pytest.approx(1e6 * watts, abs=3)


def test_a_counter_may_stand_still(machine, clock):
    kernel = machine(energy_frozen=True)
    clock.now += 10
    assert kernel.external_read(kernel.zone_path("package-0") + "/energy_uj") == "0"


def test_the_platform_has_a_zone_of_its_own_and_all_of_it_counts(machine):
    kernel = machine("xeon-tpmi")
    kernel.set_load(0, 1.0)
    kernel.set_load(1, 1.0)
    kernel.external_write(kernel.limit_path("psys"), 360_000_000)
    assert kernel.package_watts(0) == kernel.package_watts(1) == 150


def test_the_lower_of_a_packages_two_registers_holds(machine):
    kernel = machine("client-hybrid")
    kernel.set_load(0, 1.0)
    kernel.external_write("class/powercap/intel-rapl-mmio:0/constraint_0_power_limit_uw", 80_000_000)
    assert kernel.package_watts(0) == 80


def test_hsmp_caps_a_socket_within_its_range(machine):
    kernel = machine("epyc-hsmp")
    names = {n: kernel.external_read(f"class/hwmon/{n}/name") for n in kernel.entries("/sys/class/hwmon")}
    first, second = (n for n, name in names.items() if name == "amd_hsmp_hwmon")
    kernel.external_write(f"class/hwmon/{second}/power1_cap", 150_000_999)
    assert kernel.external_read(f"class/hwmon/{second}/power1_cap") == "150000000"
    assert kernel.external_read(f"class/hwmon/{second}/device/firmware_node/uid") == "ID01"
    kernel.set_load(1, 1.0)
    assert kernel.external_read(f"class/hwmon/{second}/power1_input") == "150000000"
    kernel.external_write(f"class/hwmon/{first}/power1_cap", 900_000_000)
    assert kernel.external_read(f"class/hwmon/{first}/power1_cap") == "280000000"


def test_uncore_limits_are_multiples_of_100_mhz(machine, refused):
    kernel = machine("xeon-tpmi")
    path = "devices/system/cpu/intel_uncore_frequency/package_01_die_00/max_freq_khz"
    kernel.external_write(path, 1_650_000)
    assert kernel.external_read(path) == "1600000"
    assert refused(kernel.external_write, path, 99_999) == "EINVAL"


def test_a_boot_brings_back_what_firmware_sets(machine):
    kernel = machine("epyc-hsmp")
    fresh = kernel.registers()
    kernel.external_write("devices/system/cpu/cpufreq/policy3/scaling_max_freq", 2_000_000)
    kernel.external_write("class/hwmon/hwmon1/power1_cap", 100_000_000)
    kernel.set_online(5, online=False)
    assert kernel.registers() != fresh
    kernel.reboot()
    assert kernel.registers() == fresh


@pytest.mark.parametrize(
    ("fault", "reads", "writes"),
    [
        (KernelFault(open_errno=errno.EPERM), False, False),
        (KernelFault(read_errno=errno.EIO), False, True),
        (KernelFault(write_errno=errno.EINVAL), True, False),
    ],
)
def test_a_fault_of_a_file_affects_the_agent_and_no_other_process(machine, fault, reads, writes):
    kernel = machine()
    tree, path = KernelTree(kernel), kernel.limit_path("package-0")
    kernel.set_fault("class/powercap/intel-rapl:0/constraint_0_power_limit_uw", fault)
    assert (not isinstance(tree.read_int(path), HardwareFailure)) == reads
    assert (tree.write_int(path, 90_000_000) is None) == writes
    kernel.external_write(path, 80_000_000)
    kernel.set_fault(path, None)
    assert tree.read_int(path) == 80_000_000
    assert tree.write_int(path, 90_000_000) is None


def test_a_file_may_take_writes_and_ignore_them(machine):
    kernel = machine()
    tree, path = KernelTree(kernel), kernel.limit_path("package-0")
    kernel.set_fault(path, KernelFault(ignores_writes=True))
    assert tree.write_int(path, 90_000_000) is None
    assert tree.read_int(path) == 150_000_000
