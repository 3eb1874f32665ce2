"""The model's frequency policies against what the kernel's documentation says of them."""

import os

import pytest

from joulie_testing.agent.kernel import OfflinePolicy, PolicyReturn

POLICY = "devices/system/cpu/cpufreq/policy1"
MAX = f"{POLICY}/scaling_max_freq"


@pytest.mark.parametrize(
    ("user", "thermal_state", "platform", "read"),
    [
        (2_000_000, 0, None, 2_000_000),
        (2_000_000, 1, None, 2_000_000),
        (2_000_000, 3, None, 1_560_000),
        (2_000_000, 0, 1_200_000, 1_200_000),
        (3_900_000, 2, 3_000_000, 2_340_000),
        (9_000_000, 0, None, 3_900_000),
        (0, 0, None, 1_000_000),
    ],
)
def test_the_limit_reads_the_lowest_of_all_requests_and_a_write_sets_the_users_only(
    machine, user, thermal_state, platform, read
):
    kernel = machine()
    kernel.set_thermal_state(0, thermal_state)
    kernel.set_platform_limit("policy1", platform)
    kernel.external_write(MAX, user)
    assert int(kernel.external_read(MAX)) == read
    assert kernel.user_request_khz("policy1") == min(user, 3_900_000)
    kernel.set_thermal_state(0, 0)
    kernel.set_platform_limit("policy1", None)
    assert int(kernel.external_read(MAX)) == max(min(user, 3_900_000), 1_000_000)


def test_a_limit_below_the_lower_one_lowers_what_the_lower_one_reads_and_not_its_request(machine):
    kernel = machine()
    kernel.external_write(f"{POLICY}/scaling_min_freq", 2_500_000)
    kernel.external_write(MAX, 2_000_000)
    assert kernel.external_read(f"{POLICY}/scaling_min_freq") == "2000000"
    kernel.external_write(MAX, 3_000_000)
    assert kernel.external_read(f"{POLICY}/scaling_min_freq") == "2500000"


@pytest.mark.parametrize(("text", "code"), [("fast", "EINVAL"), ("-1", "EINVAL"), ("", "EINVAL"), (10**30, "ERANGE")])
def test_a_limit_that_is_no_number_is_refused(machine, refused, text, code):
    kernel = machine()
    assert refused(kernel.external_write, MAX, text) == code
    assert kernel.user_request_khz("policy1") == 3_900_000


def test_a_driver_with_a_table_rounds_down_to_it_and_shows_the_platforms_limit(machine):
    kernel = machine("epyc-2s")
    kernel.external_write(MAX, 2_449_999)
    table = [int(each) for each in kernel.external_read(f"{POLICY}/scaling_available_frequencies").split()]
    assert int(kernel.external_read(MAX)) == max(each for each in table if each < 2_449_999)
    assert kernel.user_request_khz("policy1") == 2_449_999
    assert kernel.external_read(f"{POLICY}/bios_limit") == "3529052"
    kernel.set_platform_limit("policy1", 2_000_000)
    assert kernel.external_read(f"{POLICY}/bios_limit") == "2000000"


def test_only_drivers_that_know_the_platforms_limit_show_it(machine, refused):
    assert refused(machine().external_read, f"{POLICY}/bios_limit") == "ENOENT"


@pytest.mark.parametrize(
    ("policy_return", "request_khz"), [(PolicyReturn.REQUEST, 2_000_000), (PolicyReturn.DEFAULTS, 3_900_000)]
)
def test_a_policy_without_cpus_is_busy_and_returns_with_its_request_or_without(
    machine, refused, policy_return, request_khz
):
    kernel = machine(policy_return=policy_return)
    kernel.external_write(MAX, 2_000_000)
    kernel.external_write("devices/system/cpu/cpu1/online", 0)
    assert refused(kernel.external_read, MAX) == refused(kernel.external_write, MAX, 1) == "EBUSY"
    assert kernel.external_read("devices/system/cpu/online") == "0,2-7"
    kernel.external_write("devices/system/cpu/cpu1/online", 1)
    assert int(kernel.external_read(MAX)) == kernel.user_request_khz("policy1") == request_khz


def test_a_policy_may_also_vanish_with_its_cpus(machine, refused):
    kernel = machine(offline_policy=OfflinePolicy.REMOVED)
    opened = kernel.open(f"/sys/{MAX}", os.O_RDONLY)
    kernel.set_online(1, online=False)
    assert refused(kernel.external_read, MAX) == "ENOENT"
    assert refused(kernel.read, opened) == "ENODEV"
    kernel.set_online(1)
    assert kernel.external_read(MAX) == "3900000"


def test_a_policy_stays_while_one_of_its_cpus_runs(machine):
    kernel = machine("policy-per-core")
    policy = "devices/system/cpu/cpufreq/policy0"
    before = kernel.external_read(f"{policy}/affected_cpus")
    second = int(before.split()[1])
    kernel.external_write(f"{policy}/scaling_max_freq", 2_000_000)
    kernel.set_online(second, online=False)
    assert kernel.external_read(f"{policy}/affected_cpus") == "0"
    assert kernel.external_read(f"{policy}/related_cpus") == before
    assert kernel.external_read(f"{policy}/scaling_max_freq") == "2000000"


def test_an_offline_cpu_has_no_place_and_the_first_one_cannot_be_stopped(machine, refused):
    kernel = machine()
    kernel.set_online(3, online=False)
    assert refused(kernel.external_read, "devices/system/cpu/cpu3/topology/physical_package_id") == "ENOENT"
    assert refused(kernel.external_write, "devices/system/cpu/cpu0/online", 0) == "ENOENT"


def test_the_states_of_a_processor_hold_for_its_package_only(machine, refused):
    kernel = machine()
    device = "class/thermal/cooling_device0"
    assert kernel.external_read(f"{device}/type") == "Processor"
    kernel.external_write(f"{device}/cur_state", 2)
    assert kernel.external_read("class/thermal/cooling_device1/cur_state") == "2"
    assert kernel.real(f"/sys/{device}/device") == kernel.real("/sys/devices/system/cpu/cpu0/firmware_node")
    # CPUs 0, 1, 4 and 5 are of package 0.
    found = [int(kernel.external_read(f"devices/system/cpu/cpufreq/policy{n}/scaling_max_freq")) for n in range(8)]
    assert found == [2_340_000, 2_340_000, 3_900_000, 3_900_000] * 2
    assert refused(kernel.external_write, f"{device}/cur_state", 11) == "EINVAL"


def test_other_machines_cool_by_policy(machine):
    kernel = machine("arm-cppc")
    assert kernel.external_read("class/thermal/cooling_device1/type") == "cpufreq-cpu1"
    kernel.external_write("class/thermal/cooling_device1/cur_state", 10)
    assert kernel.external_read(MAX) == "1000000"
    assert kernel.external_read("devices/system/cpu/cpufreq/policy0/scaling_max_freq") == "3000000"


def test_an_energy_preference_is_a_word_of_the_list_and_not_to_be_had_in_performance_mode(machine, refused):
    kernel = machine()
    preference = f"{POLICY}/energy_performance_preference"
    kernel.external_write(preference, "power")
    assert kernel.external_read(preference) == "power"
    assert refused(kernel.external_write, preference, "thrift") == "EINVAL"
    kernel.external_write(f"{POLICY}/scaling_governor", "performance")
    assert refused(kernel.external_write, preference, "power") == "EBUSY"


def test_governor_performance_forces_the_preference_and_returns_it(machine):
    kernel = machine()
    preference = f"{POLICY}/energy_performance_preference"
    kernel.external_write(preference, "power")
    for _ in range(2):
        kernel.external_write(f"{POLICY}/scaling_governor", "performance")
        assert kernel.external_read(preference) == "performance"
    for _ in range(2):
        kernel.external_write(f"{POLICY}/scaling_governor", "powersave")
        assert kernel.external_read(preference) == "power"


def test_a_driver_with_a_table_rounds_the_lower_limit_up_to_it(machine):
    kernel = machine("epyc-2s")
    kernel.external_write(f"{POLICY}/scaling_min_freq", 1_500_001)
    table = [int(each) for each in kernel.external_read(f"{POLICY}/scaling_available_frequencies").split()]
    assert int(kernel.external_read(f"{POLICY}/scaling_min_freq")) == min(each for each in table if each > 1_500_000)


def test_an_idle_state_is_disabled_by_any_number_but_zero_and_stays_so_while_its_cpu_is_offline(machine, refused):
    kernel = machine()
    switch = "devices/system/cpu/cpu1/cpuidle/state2/disable"
    assert kernel.external_read("devices/system/cpu/cpu1/cpuidle/state2/name") == "C6"
    assert kernel.external_read(switch) == "0"
    kernel.external_write(switch, 2)
    kernel.set_online(1, online=False)
    assert kernel.external_read(switch) == "1"
    assert kernel.external_read("devices/system/cpu/cpu2/cpuidle/state2/disable") == "0"
    kernel.external_write(switch, 0)
    assert kernel.external_read(switch) == "0"
    assert refused(kernel.external_write, switch, "on") == "EINVAL"


def test_a_machine_without_cpuidle_has_no_idle_states(machine, refused):
    assert refused(machine("epyc-2s").external_read, "devices/system/cpu/cpu0/cpuidle/state0/name") == "ENOENT"
