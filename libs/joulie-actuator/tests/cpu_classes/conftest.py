"""Benches of CPU classes."""

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.executor import SubsystemExecutor
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.protocol import Subsystem
from joulie_testing.agent.class_bench import THROTTLED_KHZ, ClassBench
from joulie_testing.agent.kernel import Behaviour, KernelMachine, KernelTree
from joulie_testing.agent.machine_spec import PLATFORMS


@pytest.fixture
def make(tmp_path, writer, clock, events):
    def make(platform="xeon-small", **behaviour):
        machine = KernelMachine(PLATFORMS[platform], Behaviour(**behaviour), clock=clock)
        machine.write_proc(tmp_path)
        handler = CpuHandler(
            tree=KernelTree(machine), proc_root=str(tmp_path), writer=writer, min_freq_khz=THROTTLED_KHZ, clock=clock
        )
        executor = SubsystemExecutor(Subsystem.CPU, handler, events, clock=clock)
        return ClassBench(machine, handler, writer, executor, clock)

    return make


@pytest.fixture
def bench(make):
    return make()


@pytest.fixture
def writer(tmp_path):
    with Journal.open(tmp_path / "state") as journal:
        yield JournaledWriter(journal)
