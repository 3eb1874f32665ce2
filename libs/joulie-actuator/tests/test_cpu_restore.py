"""CPUs whose /sys behaves as the kernel's: caps and throttles are restored whatever else limits, goes and returns."""

from dataclasses import dataclass

import pytest

from joulie_actuator.cpus import DISCOVERY_INTERVAL_S, CpuHandler
from joulie_actuator.executor import RETRY_S, SubsystemExecutor
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob_results import RestoreOutcome
from joulie_actuator.protocol import Restore, SetCpuCap, SetThrottle, Subsystem
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.kernel import Behaviour, KernelFault, KernelMachine, KernelTree, OfflinePolicy, PolicyReturn
from joulie_testing.agent.machine_spec import PLATFORMS

#: The user's own request, an entry of the table where the driver has one.
USER_KHZ = {"xeon-small": 3_000_000, "policy-per-package": 2_450_000, "arm-cppc": 2_400_000}
THROTTLED_KHZ = {"xeon-small": 1_500_000, "policy-per-package": 1_000_000, "arm-cppc": 1_500_000}


@dataclass
class Bench:
    machine: KernelMachine
    handler: CpuHandler
    writer: JournaledWriter
    executor: SubsystemExecutor

    @property
    def requests(self):
        return {name: self.machine.user_request_khz(name) for name in self.machine.cpufreq.policies}

    def read(self, policy):
        return int(self.machine.external_read(path(policy)))

    def limit_watts(self, package):
        return int(self.machine.external_read(self.machine.limit_path(f"package-{package}"))) / 1e6


def path(policy, file="scaling_max_freq"):
    return f"devices/system/cpu/cpufreq/{policy}/{file}"


def cap(watts, **options):
    return SetCpuCap(cap_watts_per_package=watts, lease_s=60, **options)


def throttle(pct):
    return SetThrottle(throttle_pct=pct, lease_s=60)


@pytest.fixture
def make(tmp_path, writer, clock, events):
    def make(platform="xeon-small", **behaviour):
        machine = KernelMachine(PLATFORMS[platform], Behaviour(**behaviour), clock=clock)
        machine.write_proc(tmp_path)
        handler = CpuHandler(
            tree=KernelTree(machine), proc_root=str(tmp_path), writer=writer, min_freq_khz=1_500_000, clock=clock
        )
        return Bench(machine, handler, writer, SubsystemExecutor(Subsystem.CPU, handler, events, clock=clock))

    return make


@pytest.fixture
def writer(tmp_path):
    with Journal.open(tmp_path / "state") as journal:
        yield JournaledWriter(journal)


def lease_ends(executor, clock):
    clock.now += 61
    executor.check()


def sigterm(executor, clock):
    assert executor.stop(clock.now)


def ease(executor, _clock):
    executor.execute(throttle(0))


def uninstall(executor, _clock):
    assert executor.execute(Restore(subsystem=Subsystem.CPU)).left == ()


@pytest.mark.parametrize("end", [lease_ends, sigterm, ease, uninstall])
@pytest.mark.parametrize("platform", USER_KHZ)
def test_the_users_request_is_restored_while_thermal_holds_less(platform, end, make, clock):
    bench = make(platform)
    for policy in bench.requests:
        bench.machine.external_write(path(policy), USER_KHZ[platform])
    bench.executor.execute(throttle(100))
    assert {bench.read(policy) for policy in bench.requests} == {THROTTLED_KHZ[platform]}
    for subject in bench.requests if platform == "arm-cppc" else range(bench.machine.spec.sockets):
        bench.machine.set_thermal_state(subject, 9 if platform == "arm-cppc" else 3)
    end(bench.executor, clock)
    assert set(bench.requests.values()) == {USER_KHZ[platform]}
    assert bench.writer.managed == frozenset()


@pytest.mark.parametrize("end", [lease_ends, sigterm, ease, uninstall])
@pytest.mark.parametrize("platform", ["xeon-small", "policy-per-package"])
def test_the_users_request_is_restored_while_the_platform_holds_less(platform, end, make, clock):
    """Only acpi-cpufreq tells the platform's limit by `bios_limit`."""
    bench = make(platform)
    for policy in bench.requests:
        bench.machine.external_write(path(policy), USER_KHZ[platform])
    bench.executor.execute(throttle(100))
    for policy in bench.requests:
        bench.machine.set_platform_limit(policy, 1_000_000)
    end(bench.executor, clock)
    assert set(bench.requests.values()) == {USER_KHZ[platform]}
    assert bench.writer.managed == frozenset()


def test_a_request_that_a_platform_limit_hides_is_restored_with_a_message(make):
    bench = make("policy-per-package")
    bench.handler.execute(throttle(100))
    bench.machine.set_platform_limit("policy0", 1_725_000)
    report = bench.handler.restore(bench.writer.managed)
    assert [knob.outcome for knob in report.knobs] == [RestoreOutcome.RESTORED] * 2
    assert report.knobs[0].message.startswith("wrote 3900000 kHz, reads 1725000")
    assert "bios_limit is 1725000 kHz" in report.knobs[0].message
    bench.machine.set_platform_limit("policy0", None)
    assert bench.read("policy0") == 3_900_000


def test_a_throttle_under_thermal_pressure_takes_effect_when_that_ends(make):
    bench = make()
    bench.machine.set_thermal_state(0, 3)
    bench.handler.execute(throttle(100))
    assert bench.read("policy0") == 1_500_000  # thermal allows 40 % of 3.9 GHz
    bench.machine.external_write(path("policy2"), 1_200_000)
    bench.machine.set_thermal_state(0, 0)
    done = bench.handler.execute(throttle(100))
    assert "external value 1200000 is lower and stays in force" in done.message
    bench.handler.execute(throttle(0))
    assert bench.requests == dict.fromkeys(bench.requests, 3_900_000) | {"policy2": 1_200_000}


def test_a_lower_external_request_is_distinguished_from_a_thermal_limit(make, clock):
    bench = make()
    bench.executor.execute(throttle(100))
    bench.machine.set_thermal_state(0, 1)
    bench.machine.external_write(path("policy0"), 1_100_000)
    done = bench.executor.execute(throttle(100))
    assert "cpufreq/cpu0/scaling_max_freq: external value 1100000" not in done.message  # policies by their name
    assert "policy0: external value 1100000 is lower and stays in force" in done.message
    assert done.result is ControlResult.APPLIED
    lease_ends(bench.executor, clock)
    assert bench.requests == dict.fromkeys(bench.requests, 3_900_000) | {"policy0": 1_100_000}


#: Whether the hardware is looked for again between a CPU's going offline and the end of the throttle.
looked_for_again = pytest.mark.parametrize("away_s", [0, DISCOVERY_INTERVAL_S + 1])


@looked_for_again
@pytest.mark.parametrize("offline_policy", OfflinePolicy)
@pytest.mark.parametrize("policy_return", PolicyReturn)
def test_a_cpu_that_is_offline_while_a_throttle_is_lifted_is_free_when_it_returns(
    offline_policy, policy_return, away_s, make, clock
):
    bench = make(offline_policy=offline_policy, policy_return=policy_return)
    bench.executor.execute(throttle(100))
    bench.machine.set_online(3, online=False)
    clock.now += away_s
    bench.executor.execute(throttle(100))
    bench.executor.execute(cap(90, release_throttle=True))
    assert bench.writer.unclaimed == {"cpufreq/cpu3/scaling_max_freq"}
    clock.now += 30
    bench.executor.execute(cap(90, release_throttle=True))
    bench.executor.check()
    bench.machine.set_online(3)
    clock.now += RETRY_S
    bench.executor.execute(cap(90, release_throttle=True))
    bench.executor.check()
    assert set(bench.requests.values()) == {3_900_000}
    assert bench.limit_watts(0) == 90
    assert not any(key.startswith("cpufreq/") for key in bench.writer.managed)


@looked_for_again
@pytest.mark.parametrize("offline_policy", OfflinePolicy)
def test_a_cpu_that_is_offline_while_a_throttle_is_eased_is_free_when_it_returns(offline_policy, away_s, make, clock):
    bench = make(offline_policy=offline_policy)
    bench.executor.execute(throttle(100))
    bench.machine.set_online(3, online=False)
    clock.now += away_s
    bench.executor.execute(throttle(100))
    assert bench.executor.execute(throttle(0)).result is ControlResult.APPLIED
    bench.machine.set_online(3)
    clock.now += RETRY_S
    bench.executor.check()
    assert set(bench.requests.values()) == {3_900_000}


def test_a_policy_that_returns_with_defaults_is_limited_again_while_it_is_in_the_plan(make, clock):
    bench = make(policy_return=PolicyReturn.DEFAULTS)
    bench.executor.execute(throttle(100))
    bench.machine.set_online(3, online=False)
    bench.executor.execute(throttle(100))
    bench.machine.set_online(3)
    clock.now += 59
    bench.executor.execute(throttle(100))
    assert set(bench.requests.values()) == {1_500_000}
    bench.executor.execute(Restore(subsystem=Subsystem.CPU))
    assert set(bench.requests.values()) == {3_900_000}


def test_a_share_of_a_hybrid_processor_is_taken_from_both_kinds_of_cores(make):
    bench = make("client-hybrid")
    bench.handler.execute(throttle(50))
    slowed = {int(policy.removeprefix("policy")) for policy, khz in bench.requests.items() if khz == 1_500_000}
    efficient = {cpu.number for cpu in bench.machine.spec.cpus() if cpu.efficient}
    assert (len(slowed - efficient), len(slowed & efficient)) == (8, 4)


def test_zones_that_are_renumbered_between_two_starts_have_their_own_originals_back(make):
    bench = make()
    for name, uw in (("package-0", 140_000_000), ("package-1", 120_000_000)):
        bench.machine.external_write(bench.machine.limit_path(name), uw)
    bench.handler.execute(cap(90))
    bench.machine.renumber_zones(order=["package-1", "package-0"])
    assert bench.machine.limit_path("package-1").endswith("intel-rapl:0/constraint_0_power_limit_uw")
    assert all(knob.done for knob in bench.handler.restore(bench.writer.managed).knobs)
    assert (bench.limit_watts(0), bench.limit_watts(1)) == (140, 120)


def test_a_lower_limit_of_an_external_writer_is_not_raised_and_is_reported_as_in_force(make):
    bench = make()
    for name in ("package-0", "package-1"):
        bench.machine.external_write(bench.machine.limit_path(name), 70_000_000)
    for _ in range(2):
        done = bench.handler.execute(cap(90))
        assert (done.result, done.reason, done.enforced_watts) == (ControlResult.APPLIED, Reason.CAPPED, 70)
        assert "rapl/package-0/long_term: external value 70000000 is lower and stays in force" in done.message
    assert bench.writer.managed == frozenset()
    bench.machine.external_write(bench.machine.limit_path("package-0"), 130_000_000)
    assert bench.handler.execute(cap(90)).enforced_watts == 90
    bench.handler.restore(bench.writer.managed)
    assert (bench.limit_watts(0), bench.limit_watts(1)) == (130, 70)


def test_a_lower_limit_that_comes_while_we_cap_is_respected(make):
    bench = make()
    bench.handler.execute(cap(90))
    bench.machine.external_write(bench.machine.limit_path("package-1"), 60_000_000)
    done = bench.handler.execute(cap(90))
    assert (done.result, done.enforced_watts, bench.limit_watts(1)) == (ControlResult.APPLIED, 90, 60)
    bench.handler.restore(bench.writer.managed)
    assert (bench.limit_watts(0), bench.limit_watts(1)) == (150, 60)


def test_a_limit_that_ignores_the_original_is_refused(make):
    bench = make()
    bench.handler.execute(throttle(100))
    bench.machine.set_fault(path("policy0"), KernelFault(ignores_writes=True))
    (left,) = bench.handler.restore(bench.writer.managed).left
    assert (left.key, left.reason) == ("cpufreq/cpu0/scaling_max_freq", Reason.FIRMWARE_LOCKED)
    bench.machine.clear_faults()
    assert bench.handler.restore(bench.writer.managed).left == ()
    assert set(bench.requests.values()) == {3_900_000}
