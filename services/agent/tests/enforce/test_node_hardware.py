"""What a node's tick reads of its hardware, from one source or from one for each subsystem."""

from dataclasses import dataclass, replace

import pytest
from structlog.testing import capture_logs

from joulie_agent.backends.base import CpuReading, GpuReading
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.discovery.facts import HardwareFacts
from joulie_core.kinds.node_hardware import HardwareQuality, MemoryHardware, NodeHardwareStatus, Quality
from joulie_core.kinds.telemetry_profile import TelemetrySource
from joulie_core.node import Node
from joulie_testing.agent.scripted_host import (
    ALL_CAPABILITIES,
    CPU,
    GPU,
    INPUTS,
    NO_ANSWER,
    NODE,
    READING,
    ScriptedHost,
    host_route,
    node_control,
)


@dataclass
class TwoSources:
    """Makes backends whose GPUs are read by a source of their own."""

    factory: BackendFactory
    gpus: ScriptedHost

    def build(self, node, route):
        return replace(self.factory.build(node, route), gpu_source=self.gpus)


@pytest.fixture
def gpus():
    """The source of the GPUs."""
    return ScriptedHost()


@pytest.fixture
def two(factory, gpus):
    """A node whose CPUs and GPUs are read by different sources."""
    return node_control(TwoSources(factory, gpus))


async def test_hardware_that_does_not_answer_is_what_it_was(control, host):
    before = (await control.tick(INPUTS)).hardware
    host.reading = NO_ANSWER
    with capture_logs() as logs:
        tick = await control.tick(replace(INPUTS, now=20.0))
    assert (tick.cpu_reading, tick.gpu_reading) == (None, None)
    assert tick.hardware == before
    assert [(log["event"], log["subsystem"], log["node"]) for log in logs] == [("no reading", "cpu", "n1")]


async def test_hardware_that_has_not_answered_yet_is_what_was_published(control, host):
    host.reading = NO_ANSWER
    published = NodeHardwareStatus(cpu=CPU, updated_at="2026-01-01T00:00:00Z")
    tick = await control.tick(replace(INPUTS, published=published))
    assert tick.hardware.status == published.model_copy(update={"updated_at": None})
    host.reading = READING
    tick = await control.tick(replace(INPUTS, published=published, now=20.0))
    assert tick.hardware.gpu_present


@pytest.mark.parametrize("lacked", ["cpu_control", "gpu_control", "cpu_telemetry", "gpu_telemetry"])
async def test_what_the_host_cannot_do_is_no_capability_of_a_node_that_is_routed_to_it(control, host, lacked):
    can = ALL_CAPABILITIES.model_copy(update={lacked: False})
    host.reading = replace(READING, facts=replace(READING.facts, can=can))
    assert (await control.tick(INPUTS)).hardware.status.capabilities == can


NONE = TelemetrySource(type="none")
CPU_ONLY = replace(INPUTS, route=host_route(gpu_source=NONE))
GPU_ONLY = replace(INPUTS, route=host_route(cpu_source=NONE), now=20.0)


async def test_hardware_and_capabilities_come_from_the_source_of_each_subsystem(control, host):
    host.reading = replace(
        READING, facts=replace(READING.facts, can=ALL_CAPABILITIES.model_copy(update={"cpu_control": False}))
    )
    tick = await control.tick(CPU_ONLY)
    assert (tick.cpu_reading, tick.gpu_reading) == (READING.cpu, None)
    assert (tick.hardware.packages, tick.hardware.gpu_present) == (2, False)
    assert not tick.hardware.status.capabilities.cpu_control
    host.reading = replace(READING, facts=HardwareFacts(cpu=None, gpu=GPU, can=None))
    tick = await control.tick(GPU_ONLY)
    assert (tick.cpu_reading, tick.gpu_reading) == (None, READING.gpu)
    assert (tick.hardware.packages, tick.hardware.gpu_present) == (2, True)
    assert not tick.hardware.status.capabilities.cpu_control


async def test_a_source_of_gpus_alone_reports_gpus_and_capabilities(control, host):
    host.reading = replace(
        READING, facts=replace(READING.facts, can=ALL_CAPABILITIES.model_copy(update={"gpu_control": False}))
    )
    tick = await control.tick(GPU_ONLY)
    assert (tick.hardware.packages, tick.hardware.gpu_present) == (1, True)
    assert not tick.hardware.status.capabilities.gpu_control
    host.reading = NO_ANSWER
    assert (await control.tick(replace(GPU_ONLY, now=40.0))).hardware == tick.hardware


MEMORY = MemoryHardware(total_bytes=1 << 36)
OF_CPUS = replace(READING, gpu=GpuReading(), facts=HardwareFacts(cpu=CPU, memory=MEMORY))
OF_GPUS = replace(READING, cpu=CpuReading(), facts=HardwareFacts(gpu=GPU))
QUALITY = HardwareQuality(overall=Quality.EXACT)
PUBLISHED = NodeHardwareStatus(
    cpu=CPU.model_copy(update={"sockets": 4}),
    gpu=GPU.model_copy(update={"count": 8}),
    memory=MemoryHardware(total_bytes=1 << 40),
    quality=QUALITY,
)


async def test_each_source_is_read_for_its_own_subsystem(two, host, gpus):
    host.reading, gpus.reading = OF_CPUS, OF_GPUS
    tick = await two.tick(INPUTS)
    assert (tick.cpu_reading, tick.gpu_reading) == (OF_CPUS.cpu, OF_GPUS.gpu)
    found = tick.hardware.status
    assert (found.cpu.sockets, found.gpu.count, found.memory) == (2, 2, MEMORY)


@pytest.mark.parametrize(
    ("cpus", "of_gpus"),
    [(NO_ANSWER, OF_GPUS), (OF_CPUS, NO_ANSWER), (NO_ANSWER, NO_ANSWER)],
    ids=["cpu", "gpu", "both"],
)
async def test_a_source_that_stops_to_answer_leaves_the_hardware_as_it_was(two, host, gpus, cpus, of_gpus):
    host.reading, gpus.reading = OF_CPUS, OF_GPUS
    before = (await two.tick(INPUTS)).hardware
    host.reading, gpus.reading = cpus, of_gpus
    with capture_logs() as logs:
        tick = await two.tick(replace(INPUTS, now=20.0))
    assert tick.hardware == before
    silent = [name for name, reading in (("cpu", cpus), ("gpu", of_gpus)) if reading is NO_ANSWER]
    assert [(log["event"], log["subsystem"], log["reason"], log["message"]) for log in logs] == [
        ("no reading", name, "Timeout", "no answer") for name in silent
    ]
    assert (tick.cpu_reading is None, tick.gpu_reading is None) == ("cpu" in silent, "gpu" in silent)


async def test_figures_that_either_source_reports_and_no_machine_has_are_told_at_the_object(two, host, gpus):
    host.reading = replace(OF_CPUS, facts=replace(OF_CPUS.facts, dropped=("sockets 9",)))
    gpus.reading = replace(OF_GPUS, facts=replace(OF_GPUS.facts, dropped=("count 7",)))
    warnings = (await two.tick(INPUTS)).hardware.status.quality.warnings
    assert [each for each in warnings if each in {"sockets 9", "count 7"}] == ["sockets 9", "count 7"]
    host.reading, gpus.reading = NO_ANSWER, OF_GPUS
    warnings = (await two.tick(replace(INPUTS, now=20.0))).hardware.status.quality.warnings
    assert "sockets 9" in warnings, "its facts stay as well"
    host.reading = OF_CPUS
    warnings = (await two.tick(replace(INPUTS, now=40.0))).hardware.status.quality.warnings
    assert not {"sockets 9", "count 7"} & set(warnings)


def lacking(**controls):
    return ALL_CAPABILITIES.model_copy(update=controls)


@pytest.mark.parametrize(
    ("reported", "works"),
    [
        ((lacking(cpu_control=False), lacking(gpu_control=False)), (False, True)),
        ((None, lacking(gpu_control=False)), (True, False)),
        ((None, None), (True, True)),
    ],
)
async def test_what_the_host_can_do_is_what_the_source_of_the_cpus_or_else_of_the_gpus_reports(
    two, host, gpus, reported, works
):
    of_cpus, of_gpus = reported
    host.reading = replace(OF_CPUS, facts=replace(OF_CPUS.facts, can=of_cpus))
    gpus.reading = replace(OF_GPUS, facts=replace(OF_GPUS.facts, can=of_gpus))
    found = (await two.tick(INPUTS)).hardware.status.capabilities
    assert (found.cpu_control, found.gpu_control) == works
    host.reading, gpus.reading = OF_CPUS, OF_GPUS
    found = (await two.tick(replace(INPUTS, now=20.0))).hardware.status.capabilities
    assert (found.cpu_control, found.gpu_control) == works


async def test_gpus_are_as_published_until_their_source_has_answered(two, host, gpus):
    host.reading, gpus.reading = OF_CPUS, NO_ANSWER
    inputs = replace(INPUTS, published=PUBLISHED)
    found = (await two.tick(inputs)).hardware.status
    assert (found.cpu.sockets, found.memory) == (2, MEMORY)
    assert (found.gpu, found.quality) == (PUBLISHED.gpu, QUALITY)
    gpus.reading = OF_GPUS
    found = (await two.tick(replace(inputs, now=20.0))).hardware.status
    assert found.gpu.count == 2
    assert found.quality != QUALITY
    gpus.reading = NO_ANSWER
    assert (await two.tick(replace(inputs, now=40.0))).hardware.status == found


async def test_cpus_and_memory_are_as_published_until_their_source_has_answered(two, host, gpus):
    host.reading, gpus.reading = NO_ANSWER, OF_GPUS
    inputs = replace(INPUTS, published=PUBLISHED)
    found = (await two.tick(inputs)).hardware.status
    assert found.gpu.count == 2
    assert (found.cpu, found.memory, found.quality) == (PUBLISHED.cpu, PUBLISHED.memory, QUALITY)
    host.reading = OF_CPUS
    found = (await two.tick(replace(inputs, now=20.0))).hardware.status
    assert (found.cpu.sockets, found.memory) == (2, MEMORY)
    assert found.quality != QUALITY


async def test_nothing_is_as_published_once_one_source_for_all_has_answered(control, host):
    host.reading = OF_CPUS
    found = (await control.tick(replace(INPUTS, published=PUBLISHED))).hardware.status
    assert (found.cpu.sockets, found.memory) == (2, MEMORY)
    assert found.gpu != PUBLISHED.gpu
    assert found.quality != QUALITY


async def test_only_what_a_source_could_answer_for_is_as_published(control, host):
    host.reading = NO_ANSWER
    published = {"published": PUBLISHED}
    found = (await control.tick(replace(GPU_ONLY, **published))).hardware.status
    assert found.gpu == PUBLISHED.gpu
    assert found.cpu != PUBLISHED.cpu
    host.reading = OF_CPUS
    found = (await control.tick(replace(CPU_ONLY, now=40.0, **published))).hardware.status
    assert found.cpu.sockets == 2
    assert found.gpu != PUBLISHED.gpu


async def test_a_node_that_is_not_published_and_does_not_answer_has_what_its_labels_show(control, host):
    host.reading = NO_ANSWER
    labelled = Node(name=NODE.name, labels={"joulie.io/hw.cpu-sockets": "2"})
    found = (await control.tick(replace(INPUTS, node=labelled))).hardware
    assert found.status.capabilities == ALL_CAPABILITIES
    assert not found.gpu_present
