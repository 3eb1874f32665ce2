"""What is restored when CPUs leave a class, a class ends, a process dies or a CPU returns."""

import pytest

from joulie_actuator.cpu_class_protocol import Governor
from joulie_actuator.cpus import CpuHandler
from joulie_actuator.executor import RETRY_S, SubsystemExecutor
from joulie_actuator.protocol import (
    Restore,
    Subsystem,
)
from joulie_testing.agent.class_bench import BOTH, ECO, FAST, FREE_KHZ, THROTTLED_KHZ, controls
from joulie_testing.agent.kernel import KernelTree, PolicyReturn


def end_by_no_class(bench):
    bench.apply()


def end_by_lease(bench):
    bench.after(61)


def end_by_sigterm(bench):
    assert bench.executor.stop(bench.clock.now)


def end_by_request(bench):
    assert not bench.executor.execute(Restore(subsystem=Subsystem.CPU)).left


ENDS = [end_by_no_class, end_by_lease, end_by_sigterm, end_by_request]


def test_cpus_that_leave_a_class_have_their_originals_and_those_that_join_its_controls(bench):
    before = bench.state
    bench.apply(eco=ECO)
    report = bench.apply(eco=controls(cpus="1-2", max_khz=2_000_000, epp="power", disabled_idle_states=("POLL",)))
    assert report.classes["eco"].cpus == "1-2"
    assert bench.limits[:4] == [FREE_KHZ, 2_000_000, 2_000_000, FREE_KHZ]
    assert {key for key in ("policy0", "policy0/epp", "cpu0/POLL") if bench.state[key] != before[key]} == set()
    assert bench.machine.class_controls()["cpu2/POLL"] == 1


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("governor", ["powersave", "performance"])
def test_everything_has_its_original_at_the_end(bench, end, governor):
    bench.write(0, "scaling_governor", governor)
    bench.write(2, "scaling_min_freq", 1_200_000)
    bench.write(2, "energy_performance_preference", "balance_power")
    before = bench.state
    bench.apply(eco=controls(cpus="0-1", max_khz=2_000_000, governor=Governor.POWERSAVE, epp="power"), fast=FAST)
    assert bench.state != before
    end(bench)
    assert bench.state == before
    assert not bench.writer.managed


def test_what_a_killed_predecessor_has_set_is_restored(bench, make, tmp_path):
    before = bench.state
    bench.apply(**BOTH)
    heir = SubsystemExecutor(
        Subsystem.CPU,
        CpuHandler(KernelTree(bench.machine), str(tmp_path), bench.writer, THROTTLED_KHZ, bench.clock),
        lambda *_args, **_named: None,
        clock=bench.clock,
    )
    bench.writer.unclaim(bench.writer.managed)
    heir.check()
    assert bench.state == before


def test_an_external_value_of_a_class_control_is_overwritten_and_restored(bench):
    bench.apply(**BOTH)
    bench.write(0, "energy_performance_preference", "balance_power")
    bench.write(3, "scaling_min_freq", 3_000_000)
    report = bench.apply(**BOTH)
    assert "external value" in report.message
    assert bench.of("epp")[0] == "power"
    assert bench.of("min")[3] == 2_500_000
    bench.apply()
    assert bench.of("epp")[0] == "balance_power"
    assert bench.of("min")[3] == 3_000_000


@pytest.mark.parametrize("policy_return", PolicyReturn)
def test_an_offline_cpu_is_left_out_and_has_its_class_again_when_it_returns(make, policy_return):
    bench = make(policy_return=policy_return)
    before = bench.state
    bench.apply(**BOTH)
    bench.machine.set_online(1, online=False)
    report = bench.apply(**BOTH)
    assert (report.classes["eco"].cpus, report.classes["eco"].unmet) == ("0", ())
    bench.machine.set_online(1)
    assert bench.apply(**BOTH).classes["eco"].cpus == "0-1"
    assert bench.limits[:2] == [2_000_000] * 2
    assert bench.of("epp")[1] == "power"
    bench.apply()
    assert bench.state == before


def test_a_cpu_that_returns_after_its_class_has_ended_is_restored(bench):
    before = bench.state
    bench.apply(**BOTH)
    bench.machine.set_online(1, online=False)
    bench.apply()
    assert bench.writer.managed
    bench.machine.set_online(1)
    bench.after(RETRY_S)
    assert bench.state == before
