"""Limits of cores by the class of their containers: set, combined, restored by every end."""

import pytest

from joulie_actuator.cpu_class_protocol import CoreFrequencyLimit, CpuClassControls
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import Restore, SetCoreLimits, Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CoreLimitsReport
from joulie_testing.agent.class_bench import CPUFREQ, ECO, FREE_KHZ, LOWEST_KHZ, THROTTLED_KHZ
from joulie_testing.agent.kernel import KernelFault

LIMIT_KHZ = 3_000_000


def limit(bench, cpus="", khz=LIMIT_KHZ, lease_s=10.0):
    limits = (CoreFrequencyLimit(cpus=cpus, max_khz=khz),) if cpus else ()
    return bench.executor.execute(SetCoreLimits(limits=limits, lease_s=lease_s))


def expected(bench, **of_cpus):
    found = [FREE_KHZ] * len(bench.limits)
    for cpus, khz in of_cpus.values():
        for cpu in cpus:
            found[cpu] = khz
    return found


def test_cores_are_limited_and_restored(bench):
    before = bench.state
    assert limit(bench, "0-1") == CoreLimitsReport()
    assert bench.limits == expected(bench, a=((0, 1), LIMIT_KHZ))
    assert limit(bench, "1") == CoreLimitsReport()
    assert bench.limits == expected(bench, a=((1,), LIMIT_KHZ))
    assert limit(bench) == CoreLimitsReport()
    assert bench.state == before
    assert not bench.writer.managed


def test_the_lowest_of_class_throttle_and_limit_is_in_force(bench):
    bench.apply(eco=ECO)
    limit(bench, "0,2")
    assert bench.limits == expected(bench, eco=((0, 1), ECO.max_khz), own=((2,), LIMIT_KHZ))
    limit(bench, "0,2", 1_800_000)
    assert bench.limits == expected(bench, a=((0, 2), 1_800_000), eco=((1,), ECO.max_khz))
    bench.throttle(100)
    assert bench.limits == [THROTTLED_KHZ] * len(bench.limits)
    bench.throttle(0)
    assert bench.limits == expected(bench, a=((0, 2), 1_800_000), eco=((1,), ECO.max_khz))
    limit(bench)
    assert bench.limits == expected(bench, eco=((0, 1), ECO.max_khz))


def test_a_lower_limit_of_an_administrator_stays(bench):
    bench.write(0, "scaling_max_freq", 2_000_000)
    limit(bench, "0")
    assert bench.limits[0] == 2_000_000
    limit(bench)
    assert bench.limits[0] == 2_000_000


def test_limits_end_with_their_lease_and_leave_the_classes(bench):
    bench.apply(eco=ECO, lease_s=60.0)
    limit(bench, "0-3")
    bench.after(9.0)
    assert bench.limits[2] == LIMIT_KHZ
    bench.after(2.0)
    assert bench.limits == expected(bench, eco=((0, 1), ECO.max_khz))


def test_classes_that_end_leave_the_limits(bench):
    bench.apply(eco=ECO, lease_s=5.0)
    limit(bench, "0-3", lease_s=60.0)
    bench.after(6.0)
    assert bench.limits == expected(bench, a=((0, 1, 2, 3), LIMIT_KHZ))


def test_the_controllers_restore_leaves_the_limits_and_another_does_not(bench):
    before = bench.state
    limit(bench, "0-1")
    bench.throttle(100)
    bench.executor.execute(Restore(subsystem=Subsystem.CPU, keep_classes=True))
    assert bench.limits == expected(bench, a=((0, 1), LIMIT_KHZ))
    bench.executor.execute(Restore(subsystem=Subsystem.CPU))
    assert bench.state == before


def test_a_stopping_actuator_lifts(bench):
    before = bench.state
    limit(bench, "0-1", lease_s=3600.0)
    assert bench.executor.stop(bench.clock.now + 5.0)
    assert bench.state == before


def test_a_limit_outside_of_the_hardware_is_brought_within_it(bench):
    limit(bench, "0", 1)
    assert bench.limits[0] == LOWEST_KHZ
    limit(bench, "0", 90_000_000)
    assert bench.limits[0] == FREE_KHZ


def test_cpus_that_share_their_policy_with_others_are_told_and_not_limited(make):
    bench = make("policy-per-package")
    report = limit(bench, "0")
    (failed,) = report.failed
    assert (failed.cpus, failed.failure.reason) == ("0", Reason.OVERRULED)
    assert limit(bench, ",".join(map(str, bench.handler._cpus.policies[0].cpus))) == CoreLimitsReport()


def test_a_limit_that_cannot_be_written_is_told(bench):
    bench.machine.set_fault(f"{CPUFREQ}/policy0/scaling_max_freq", KernelFault(write_errno=5))
    (failed,) = limit(bench, "0").failed
    assert failed.cpus == "0"


def test_without_a_journal_nothing_is_limited(bench):
    bench.handler.writer = HardwareFailure(Reason.NO_JOURNAL, "no journal")
    assert limit(bench, "0").failure.reason is Reason.NO_JOURNAL
    assert bench.limits == expected(bench)


@pytest.mark.parametrize("cpus", ["0-", "x", "3-1"])
def test_what_is_no_list_of_cpus_is_refused(cpus):
    with pytest.raises(ValueError):  # noqa: PT011 - the message is that of the list's parser
        CoreFrequencyLimit(cpus=cpus, max_khz=LIMIT_KHZ)
    with pytest.raises(ValueError):  # noqa: PT011
        CpuClassControls(cpus=cpus)


def test_a_cpu_has_one_limit():
    twice = (CoreFrequencyLimit(cpus="0-1", max_khz=1), CoreFrequencyLimit(cpus="1", max_khz=2))
    with pytest.raises(ValueError, match="a CPU has two limits"):
        SetCoreLimits(limits=twice, lease_s=10.0)
