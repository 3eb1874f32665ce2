"""One node's tick on a host backend that does what a test tells it: readings, intents, reports."""

from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from joulie_agent.backends.base import CpuReading, GpuReading, NodeReading, Unavailable
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.discovery.facts import HardwareFacts
from joulie_agent.enforce.node import Inputs, NodeControl
from joulie_agent.outcome import ControlOutcome, applied, blocked, failed
from joulie_agent.reasons import Reason
from joulie_core.control.dvfs import DvfsDirection, DvfsMode, DvfsSettings
from joulie_core.control.lost_control import Floor
from joulie_core.control.telemetry_route import Route
from joulie_core.control_result import ControlResult
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import (
    Capabilities,
    CpuCapRange,
    CpuHardware,
    GpuCapRange,
    GpuHardware,
    NodeHardwareStatus,
)
from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget, NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import CpuControl, GpuControl, PrometheusQuery, TelemetrySource
from joulie_core.names import NodeName
from joulie_core.node import Node

NODE = Node(name=NodeName("n1"), labels={})
INVENTORY = Inventory.load()
CPU = CpuHardware(sockets=2, cap_range=CpuCapRange(min_watts_per_socket=60, max_watts_per_socket=240))
GPU = GpuHardware(present=True, count=2, cap_range_per_gpu=GpuCapRange(min_watts=150, max_watts=400))
ALL = Capabilities(cpu_control=True, gpu_control=True, cpu_telemetry=True, gpu_telemetry=True)
READING = NodeReading(
    CpuReading(power_watts=300), GpuReading(power_watts=500), HardwareFacts(cpu=CPU, gpu=GPU, can=ALL)
)
SILENT = Unavailable(Reason.TIMEOUT, "no answer")
CAP_REFUSED = blocked("rapl", Reason.REFUSED, "locked")


@dataclass
class Host:
    """Applies everything unless told otherwise."""

    reading: object = READING
    cap: ControlOutcome | None = None
    gpu: ControlOutcome | None = None
    tuned: ControlOutcome | None = None
    calls: list = field(default_factory=list)
    saving: list = field(default_factory=list)

    async def read(self):
        return self.reading

    async def read_cpu(self):
        return self.reading if isinstance(self.reading, Unavailable) else self.reading.cpu

    async def set_cpu_cap(self, cap_watts_per_package, **_options):
        self.calls.append(("cap", cap_watts_per_package))
        return self.cap or applied("rapl", enforced_watts=cap_watts_per_package)

    async def set_dvfs_throttle(self, throttle_pct, **_options):
        self.calls.append(("throttle", throttle_pct))
        return applied("dvfs")

    async def tune_cpu(self, *, saving):
        self.saving.append(saving)
        return self.tuned

    async def restore_cpu(self, limits, _held):
        self.calls.append(("restore cpu", limits.max_watts))
        return ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, "rapl")

    def gpu_devices(self):
        return ()

    async def set_gpu_caps(self, cap_watts):
        self.calls.append(("gpu", dict(cap_watts)))
        return self.gpu or applied("nvml", enforced_watts=max(cap_watts.values()))

    def gpu_clocks(self):
        return {}

    async def set_gpu_clocks(self, _clocks_mhz):
        return applied("nvml")

    async def restore_gpu(self, limits):
        self.calls.append(("restore gpu", limits.max_watts))
        return ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, "nvml")


class NoNetwork:
    """Reaches nothing."""

    async def get(self, _target, _params=None):
        return SILENT


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def control(host):
    factory = BackendFactory(NoNetwork(), lambda _node: host)
    settings = DvfsSettings(mode=DvfsMode.STEPPED)
    return NodeControl(NODE, None, factory=factory, discoverer=Discoverer(INVENTORY), dvfs=settings)


def route(mode="auto", **parts):
    source = TelemetrySource(type="host")
    controls = {"cpu_control": CpuControl(type="host", mode=mode), "gpu_control": GpuControl(type="host")}
    return Route(**{"cpu_source": source, "gpu_source": source, **controls, **parts})


def target(profile="eco", *, draining=False, cpu=True, gpu=True):
    return NodePowerProfileSpec(
        node_name="n1",
        profile=profile,
        draining=draining,
        cpu=CpuTarget(package_power_cap_watts=100) if cpu else None,
        gpu=GpuTarget(power_cap=GpuPowerCap(cap_watts_per_gpu=200)) if gpu else None,
    )


INPUTS = Inputs(node=NODE, route=route(), target=target(), lost=False, published=None, now=0.0)
DVFS = replace(INPUTS, route=route("dvfs"))


async def test_a_tick_tells_what_it_read_and_found(control):
    tick = await control.tick(INPUTS)
    assert (tick.cpu_reading, tick.gpu_reading) == (READING.cpu, READING.gpu)
    assert (tick.hardware.packages, tick.hardware.cpu_limits.max_watts, tick.hardware.gpu_present) == (2, 240, True)
    assert (tick.cpu.reason, tick.cpu.enforced_watts) == ("Capped", 100)
    assert (tick.gpu.reason, tick.gpu.enforced_watts) == ("Capped", 200)
    assert (tick.action, tick.released, tick.failed) == (None, False, False)
    assert control.floor == Floor(60, 150)


def test_before_the_first_tick_nothing_is_known_or_in_force(control):
    assert control.floor == Floor(None, None)
    assert not control.in_force
    assert not control.looping


async def test_the_loop_counts_the_time_without_readings(control, host):
    await control.tick(DVFS)
    host.reading = SILENT
    for tick in range(1, 15):
        told = await control.tick(replace(DVFS, now=tick * 20.0))
    assert told.cpu.reason == "ThrottledWithoutReading"


async def test_the_loop_acts_in_a_tick_and_says_how(control):
    await control.tick(DVFS)
    tick = await control.tick(replace(DVFS, now=20.0))
    assert tick.action is DvfsDirection.THROTTLE_UP


@pytest.mark.parametrize(
    ("cpu", "gpu", "is_failed"),
    [(None, None, False), (failed("rapl", Reason.TIMEOUT), None, True), (None, failed("nvml", Reason.TIMEOUT), True)],
)
async def test_an_error_of_either_part_is_a_failed_tick(control, host, cpu, gpu, is_failed):
    host.cap, host.gpu = cpu, gpu
    assert (await control.tick(INPUTS)).failed is is_failed


@pytest.mark.parametrize(
    ("wanted", "saving"),
    [
        (target(), True),
        (target(draining=True), False),
        (target("performance"), False),
        (None, False),
    ],
)
async def test_optional_controls_save_power_at_the_caps_of_eco_only(control, host, wanted, saving):
    await control.tick(replace(INPUTS, target=wanted))
    assert host.saving == [saving]


@pytest.mark.parametrize(
    ("tuned", "message"),
    [
        (None, ""),
        (applied("tuning", "done"), ""),
        (blocked("tuning", Reason.REFUSED, "no such file"), "optional controls blocked: no such file"),
        (failed("tuning", Reason.TIMEOUT), "optional controls error: Timeout"),
    ],
)
async def test_optional_controls_are_reported_where_they_are_not_as_configured(control, host, tuned, message):
    host.tuned = tuned
    assert (await control.tick(INPUTS)).cpu.message == message


@pytest.mark.parametrize(
    ("wanted", "lost", "reason"),
    [(target(cpu=False, gpu=False), False, "NoIntent"), (None, False, "NoProfile"), (None, True, "LostControl")],
)
async def test_a_part_without_an_intent_says_why(control, wanted, lost, reason):
    tick = await control.tick(replace(INPUTS, target=wanted, lost=lost))
    assert (tick.cpu.reason, tick.gpu.reason) == (reason, reason)


@pytest.mark.parametrize(("cpu", "gpu"), [(True, False), (False, True), (False, False)])
async def test_what_is_in_force_on_either_part_counts_until_it_is_restored(control, host, cpu, gpu):
    assert not control.in_force
    await control.tick(replace(INPUTS, target=target(cpu=cpu, gpu=gpu)))
    assert control.in_force is (cpu or gpu)
    host.calls.clear()
    reports = await control.restore(replace(INPUTS, target=None))
    assert not control.in_force
    assert host.calls == [("restore cpu", 240)] * cpu + [("restore gpu", 400)] * gpu
    assert (reports.cpu.reason, reports.gpu.reason) == ("Restored", "Restored")


async def test_only_a_throttle_against_watts_is_sampled_between_two_ticks(control, host):
    assert not control.looping
    assert await control.follow(0.0) is None
    await control.tick(INPUTS)
    assert not control.looping
    await control.tick(replace(DVFS, now=20.0))
    assert control.looping
    await control.tick(replace(DVFS, target=target(cpu=False), now=40.0))
    assert not control.looping


async def test_a_source_that_repeats_its_last_figure_is_not_sampled_between_two_ticks(control):
    prometheus = TelemetrySource(type="prometheus", prometheus=PrometheusQuery(endpoint="http://p", query="q"))
    inputs = replace(DVFS, route=route("dvfs", cpu_source=prometheus, gpu_source=TelemetrySource(type="none")))
    await control.tick(inputs)
    assert not control.looping


async def test_samples_between_two_ticks_act_on_readings_only(control, host):
    await control.tick(DVFS)
    host.calls.clear()
    host.reading = SILENT
    assert await control.follow(30.0) is None
    host.reading = READING
    assert [await control.follow(now) for now in (50.0, 70.0)].count(DvfsDirection.THROTTLE_UP) == 1
    assert [call[0] for call in host.calls] == ["throttle"]


async def test_hardware_that_does_not_answer_is_what_it_was(control, host):
    before = (await control.tick(INPUTS)).hardware
    host.reading = SILENT
    with capture_logs() as logs:
        tick = await control.tick(replace(INPUTS, now=20.0))
    assert (tick.cpu_reading, tick.gpu_reading) == (None, None)
    assert tick.hardware == before
    assert [(log["event"], log["subsystem"], log["node"]) for log in logs] == [("no reading", "cpu", "n1")]


async def test_hardware_that_has_not_answered_yet_is_what_was_published(control, host):
    host.reading = SILENT
    published = NodeHardwareStatus(cpu=CPU, updated_at="2026-01-01T00:00:00Z")
    tick = await control.tick(replace(INPUTS, published=published))
    assert tick.hardware.status == published.model_copy(update={"updated_at": None})
    host.reading = READING
    tick = await control.tick(replace(INPUTS, published=published, now=20.0))
    assert tick.hardware.gpu_present


async def test_what_the_host_cannot_do_is_no_capability_of_a_node_that_is_routed_to_it(control, host):
    host.reading = replace(READING, facts=replace(READING.facts, can=ALL.model_copy(update={"cpu_control": False})))
    found = (await control.tick(INPUTS)).hardware.status.capabilities
    assert (found.cpu_control, found.gpu_control, found.cpu_telemetry, found.gpu_telemetry) == (False, True, True, True)


NONE = TelemetrySource(type="none")
CPU_ONLY = replace(INPUTS, route=route(gpu_source=NONE))
GPU_ONLY = replace(INPUTS, route=route(cpu_source=NONE), now=20.0)


async def test_sources_of_their_own_tell_each_part_of_the_hardware_and_what_it_can(control, host):
    host.reading = replace(READING, facts=replace(READING.facts, can=ALL.model_copy(update={"cpu_control": False})))
    tick = await control.tick(CPU_ONLY)
    assert (tick.cpu_reading, tick.gpu_reading) == (READING.cpu, None)
    assert (tick.hardware.packages, tick.hardware.gpu_present) == (2, False)
    assert not tick.hardware.status.capabilities.cpu_control
    host.reading = replace(READING, facts=HardwareFacts(cpu=None, gpu=GPU, can=None))
    tick = await control.tick(GPU_ONLY)
    assert (tick.cpu_reading, tick.gpu_reading) == (None, READING.gpu)
    assert (tick.hardware.packages, tick.hardware.gpu_present) == (2, True)
    assert not tick.hardware.status.capabilities.cpu_control


async def test_a_source_for_gpus_alone_tells_them_and_what_can_be_done(control, host):
    host.reading = replace(READING, facts=replace(READING.facts, can=ALL.model_copy(update={"gpu_control": False})))
    tick = await control.tick(GPU_ONLY)
    assert (tick.hardware.packages, tick.hardware.gpu_present) == (1, True)
    assert not tick.hardware.status.capabilities.gpu_control
    host.reading = SILENT
    assert (await control.tick(replace(GPU_ONLY, now=40.0))).hardware == tick.hardware
