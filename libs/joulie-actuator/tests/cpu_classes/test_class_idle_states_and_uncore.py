"""Idle states and uncore frequencies of classes."""

import errno

from joulie_actuator.cpu_class_protocol import ClassControl
from joulie_actuator.reasons import Reason
from joulie_testing.agent.class_bench import ECO, controls, unmet
from joulie_testing.agent.kernel import KernelFault


def test_idle_states_that_the_kernel_does_not_let_this_process_disable_are_reported(bench):
    before = bench.state
    bench.machine.set_fault("devices/system/cpu/cpu0/cpuidle/state0/disable", KernelFault(write_errno=errno.EPERM))
    report = bench.apply(eco=ECO)
    assert unmet(report, "eco") == {ClassControl.IDLE_STATES: (Reason.NOT_PERMITTED, "0")}
    bench.apply()
    assert bench.state == before
    assert not bench.writer.managed


def test_a_die_has_the_highest_uncore_limit_of_its_classes(make):
    bench = make("xeon-tpmi")
    bench.tune(uncore_max_khz=1_800_000)
    # CPUs 0-7 are on package 0.
    report = bench.apply(
        eco=controls(cpus="0-3", uncore_max_khz=1_200_000, uncore_min_khz=900_000),
        fast=controls(cpus="4-7", uncore_max_khz=2_000_000),
    )
    uncore = {key: value for key, value in bench.state.items() if key.startswith("uncore")}
    assert uncore == {
        "uncore/0-0": 2_000_000,
        "uncore/1-0": 1_800_000,
        "uncore/0-0/min": 900_000,
        "uncore/1-0/min": 800_000,
    }
    assert unmet(report, "eco") == {ClassControl.UNCORE_MAX_KHZ: (Reason.OVERRULED, "0-3")}
    bench.apply()
    assert bench.machine.registers()["uncore/0-0"] == 1_800_000
    bench.tune()
    assert not bench.writer.managed
