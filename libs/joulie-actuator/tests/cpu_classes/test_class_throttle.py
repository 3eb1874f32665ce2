"""Classes beside the throttle of the power loop, and the leases of both."""

from joulie_actuator.cpu_class_protocol import ClassControl
from joulie_actuator.executor import RETRY_S
from joulie_actuator.protocol import (
    Epp,
    ReadCpu,
    Restore,
    SetCpuCap,
    Subsystem,
)
from joulie_actuator.reasons import Reason
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_core.control_result import ControlResult
from joulie_testing.agent.class_bench import (
    BOTH,
    CPUFREQ,
    ECO,
    FREE_KHZ,
    LOWEST_KHZ,
    THROTTLED_KHZ,
    controls,
    unmet,
)
from joulie_testing.agent.kernel import KernelFault


def test_the_throttle_and_a_class_leave_the_lower_limit(bench):
    bench.apply(low=controls(max_khz=1_200_000), high=controls(cpus="2-3", max_khz=3_000_000))
    report = bench.throttle(100)
    assert report.result is ControlResult.APPLIED
    assert bench.limits == [1_200_000] * 2 + [THROTTLED_KHZ] * 6
    bench.throttle(0)
    assert bench.limits == [1_200_000] * 2 + [3_000_000] * 2 + [FREE_KHZ] * 4


def test_eco_cpus_are_throttled_first_and_performance_cpus_last(bench):
    # Each class has whole cores: CPUs 0 and 4 are threads of one.
    bench.apply(
        eco=controls(cpus="1,5", throttle_order=ThrottleOrder.ECO),
        fast=controls(cpus="0,4", throttle_order=ThrottleOrder.PERFORMANCE),
    )
    throttled = []
    for pct in (25, 75, 100):
        bench.throttle(pct)
        throttled.append([cpu for cpu, khz in enumerate(bench.limits) if khz == THROTTLED_KHZ])
    assert throttled == [[1, 5], [1, 2, 3, 5, 6, 7], list(range(8))]
    assert bench.executor.execute(ReadCpu()).throttled_by_class == {"eco": 2, "fast": 2}
    assert bench.apply(eco=controls(cpus="1,5")).classes["eco"].throttled_cpus == 2
    bench.throttle(0)
    assert bench.executor.execute(ReadCpu()).throttled_by_class == {"eco": 0}


def test_a_throttle_replaces_a_floor_that_is_above_it(bench):
    bench.apply(**BOTH)
    bench.throttle(100)
    assert bench.of("min") == [LOWEST_KHZ] * 8
    report = bench.apply(**BOTH)
    assert unmet(report, "fast") == {ClassControl.MIN_KHZ: (Reason.OVERRULED, "2-3")}
    bench.throttle(0)
    assert bench.of("min")[2:4] == [2_500_000] * 2


def test_the_end_of_the_controllers_lease_leaves_classes_in_force(bench, events):
    bench.throttle(100, lease_s=30)
    bench.executor.execute(SetCpuCap(cap_watts_per_package=90, lease_s=30))
    bench.apply(**BOTH)
    assert bench.after(0) == 30
    bench.after(30)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6
    assert bench.of("min")[2:4] == [2_500_000] * 2
    assert bench.machine.registers()["package-0/long_term"] == 150_000_000
    assert bench.executor.execute(ReadCpu()).throttle_pct == 0
    assert events.named("restored")[-1]["cause"] == "lease expired"


def test_the_end_of_the_resource_managers_lease_leaves_the_throttle_in_force(bench):
    before = bench.state
    bench.throttle(100)
    bench.apply(lease_s=30, **BOTH)
    bench.after(30)
    assert bench.limits == [THROTTLED_KHZ] * 8
    others = {key for key, value in bench.state.items() if value != before[key]}
    assert others == {f"policy{cpu}" for cpu in range(8)}
    bench.throttle(0)
    assert bench.state == before


def test_a_lease_that_has_expired_ends_also_where_a_request_of_the_other_client_comes_first(bench):
    bench.throttle(100, lease_s=30)
    bench.clock.now += 31
    bench.apply(eco=ECO)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6


def test_an_expired_lease_of_which_nothing_is_managed_ends_too(bench):
    for cpu in range(8):
        bench.write(cpu, "scaling_max_freq", 1_200_000)
    bench.throttle(100, lease_s=30)
    assert not bench.writer.managed
    bench.clock.now += 31
    for cpu in range(8):
        bench.write(cpu, "scaling_max_freq", FREE_KHZ)
    bench.apply(eco=ECO)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6


def test_the_controller_restores_its_own_controls_only(bench):
    bench.throttle(100)
    bench.tune(epp=Epp.BALANCE_POWER)
    bench.apply(**BOTH)
    report = bench.executor.execute(Restore(subsystem=Subsystem.CPU, keep_classes=True))
    assert report.left == ()
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6
    assert bench.of("epp")[4:] == ["balance_performance"] * 4
    bench.apply()
    assert not bench.writer.managed


def test_without_classes_the_controller_restores_everything(bench):
    bench.throttle(100)
    bench.executor.execute(Restore(subsystem=Subsystem.CPU, keep_classes=True))
    assert not bench.writer.managed


def test_a_cap_that_releases_the_throttle_leaves_classes_in_force(bench):
    bench.apply(**BOTH)
    bench.throttle(100)
    done = bench.executor.execute(SetCpuCap(cap_watts_per_package=90, release_throttle=True, lease_s=60))
    assert done.unreleased is None
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6


def test_a_throttle_that_cannot_be_released_below_a_class_is_reported(bench):
    bench.apply(**BOTH)
    bench.throttle(100)
    bench.machine.set_fault(f"{CPUFREQ}/policy0/scaling_max_freq", KernelFault(write_errno=5))
    done = bench.executor.execute(SetCpuCap(cap_watts_per_package=90, release_throttle=True, lease_s=60))
    assert done.unreleased is not None
    bench.machine.clear_faults()
    bench.apply(**BOTH)
    assert bench.limits[0] == 2_000_000


def test_a_failed_restore_of_one_lease_is_retried_while_the_other_goes_on(bench):
    bench.apply(lease_s=3600, **BOTH)
    bench.throttle(100, lease_s=30)
    stuck = f"{CPUFREQ}/policy7/scaling_max_freq"
    bench.machine.set_fault(stuck, KernelFault(write_errno=5))
    bench.after(30)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 5 + [THROTTLED_KHZ]
    bench.machine.set_fault(stuck, None)
    bench.after(RETRY_S)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6
