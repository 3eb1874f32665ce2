"""Machines in directories, and handlers over them."""

import os
from dataclasses import dataclass

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.gpus import GpuHandler
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.protocol import SetThrottle
from joulie_actuator.settings import ActuatorSettings
from joulie_core.control_result import ControlResult
from joulie_testing.agent.actuator_process import ActuatorNode, Events, cap, settings_of_machine
from joulie_testing.agent.fake_gpu import FakeGpuLibrary, fake_gpu_driver
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS


@dataclass
class Clock:
    """Monotonic seconds, as the test wants them."""

    now: float = 1000.0

    def __call__(self):
        return self.now


@dataclass
class CpuBench:
    machine: FakeMachine
    handler: CpuHandler
    writer: JournaledWriter
    clock: Clock

    @property
    def limits_watts(self):
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

    @property
    def policies_khz(self):
        return [self.machine.read(path) for path in self.machine.policy_limits()]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def events():
    return Events()


@pytest.fixture
def writer(tmp_path):
    with Journal.open(tmp_path / "state") as journal:
        yield JournaledWriter(journal)


@pytest.fixture
def cpu_bench(tmp_path, writer, clock):
    def make(platform="xeon-2s"):
        machine = FakeMachine(tmp_path / "machine", PLATFORMS[platform])
        handler = CpuHandler(
            tree=machine.tree(), proc_root=str(machine.proc), writer=writer, min_freq_khz=1_500_000, clock=clock
        )
        return CpuBench(machine, handler, writer, clock)

    return make


@dataclass
class GpuBench:
    handler: GpuHandler
    library: FakeGpuLibrary
    writer: JournaledWriter
    clock: Clock


@pytest.fixture
def gpu_bench(writer, clock):
    def make(*gpus):
        driver, library = fake_gpu_driver(*gpus)
        return GpuBench(GpuHandler(drivers=[driver], writer=writer, clock=clock), library, writer, clock)

    return make


@pytest.fixture
def actuator_settings(tmp_path):
    """Settings over a fake two-socket machine; the machine is at `tmp_path / "machine"`."""

    def make(platform="xeon-2s") -> tuple[ActuatorSettings, FakeMachine]:
        return settings_of_machine(tmp_path, platform)

    return make


@pytest.fixture
def actuator_environment():
    """Of the environment, what tells a process given settings."""

    def make(settings: ActuatorSettings) -> dict[str, str]:
        return {
            "HOST_SYS_ROOT": settings.host_sys_root,
            "HOST_PROC_ROOT": settings.host_proc_root,
            "HOST_IRQ_ROOT": settings.host_irq_root,
            "STATE_DIR": settings.state_dir,
            "ACTUATOR_SOCKET": settings.actuator_socket,
        }

    return make


@pytest.fixture
def node(actuator_settings, actuator_environment):
    settings, machine = actuator_settings()
    env = os.environ | actuator_environment(settings)
    made = ActuatorNode(machine, env)
    yield made
    for running in made.running:
        running.kill()
        running.communicate()


@pytest.fixture
def capped(node):
    """A machine with caps of an actuator that was killed."""
    killed = node.start_listening()
    assert node.request(cap(90)).result is ControlResult.APPLIED
    assert node.request(SetThrottle(throttle_pct=100, lease_s=60)).result is ControlResult.APPLIED
    killed.kill()
    killed.wait()
    assert node.limits_watts == [90, 90]
    return node


@pytest.fixture
def elsewhere(tmp_path):
    """The environment of a second agent on the same machine."""
    return {"STATE_DIR": str(tmp_path / "elsewhere"), "ACTUATOR_SOCKET": str(tmp_path / "second")}


@pytest.fixture
def blocks(node):
    """Make a file of the machine block every open; it is a pipe without a writer."""
    made = []

    def make(path):
        file = node.machine.sys / path
        file.rename(file.with_suffix(".real"))
        os.mkfifo(file)
        made.append(file)
        return file

    return make
