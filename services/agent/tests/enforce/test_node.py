"""One node's tick on a host backend: intents, reports, restore, and the DVFS loop."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from joulie_actuator.outcome import applied, blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import GpuReading, GpuSample
from joulie_agent.discovery.facts import HardwareFacts
from joulie_core.control.dvfs import DvfsDirection
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control.lost_control import Floor
from joulie_core.kinds.node_hardware import CpuCapRange, GpuCapRange, GpuHardware
from joulie_core.kinds.node_power_profile import GpuPowerCap, GpuTarget
from joulie_core.kinds.telemetry_profile import (
    ControlPlace,
    ControlReport,
    ControlReports,
    CpuControl,
    GpuControl,
    Held,
    PrometheusQuery,
    TelemetrySource,
)
from joulie_testing.agent.scripted_host import (
    CPU,
    GPU,
    INPUTS,
    NO_ANSWER,
    READING,
    capped_target,
    host_route,
    node_control,
)

DVFS = replace(INPUTS, route=host_route("dvfs"))


async def test_a_tick_returns_readings_hardware_and_reports(control):
    tick = await control.tick(INPUTS)
    assert (tick.cpu_reading, tick.gpu_reading) == (READING.cpu, READING.gpu)
    assert (tick.hardware.packages, tick.hardware.cpu_limits.max_watts, tick.hardware.gpu_present) == (2, 240, True)
    assert (tick.cpu.reason, tick.cpu.enforced_watts) == ("Capped", 100)
    assert (tick.gpu.reason, tick.gpu.enforced_watts) == ("Capped", 200)
    assert (tick.action, tick.again, tick.failed) == (None, False, False)
    assert control.floor == Floor(60, 150)


def test_before_the_first_tick_nothing_is_known_or_in_force(control):
    assert control.floor == Floor(None, None)
    assert not control.in_force
    assert not control.looping


async def test_the_loop_counts_the_time_without_readings(control, host):
    await control.tick(DVFS)
    host.reading = NO_ANSWER
    for tick in range(1, 15):
        last = await control.tick(replace(DVFS, now=tick * 20.0))
    assert last.cpu.reason == "ThrottledWithoutReading"


async def test_a_tick_returns_the_action_of_the_loop(control):
    await control.tick(DVFS)
    tick = await control.tick(replace(DVFS, now=20.0))
    assert tick.action is DvfsDirection.THROTTLE_UP


@pytest.mark.parametrize(
    ("cpu", "gpu", "is_failed"),
    [(None, None, False), (failed("rapl", Reason.TIMEOUT), None, True), (None, failed("nvml", Reason.TIMEOUT), True)],
)
async def test_an_error_of_either_subsystem_is_a_failed_tick(control, host, cpu, gpu, is_failed):
    host.cap, host.gpu = cpu, gpu
    assert (await control.tick(INPUTS)).failed is is_failed


@pytest.mark.parametrize(
    ("wanted", "saving"),
    [
        (capped_target(), True),
        (capped_target(draining=True), False),
        (capped_target("performance"), False),
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


async def test_the_note_on_optional_controls_follows_the_message_of_the_cap(control, host):
    host.cap, host.tuned = blocked("rapl", Reason.REFUSED, "locked"), blocked("tuning", Reason.REFUSED, "x" * 2000)
    message = (await control.tick(replace(INPUTS, route=host_route("rapl")))).cpu.message
    assert message.startswith("locked; optional controls blocked: xxx")
    assert len(message) == 1024


@pytest.mark.parametrize(("gpus", "reason"), [(GpuHardware(present=True, count=2), "NoCapRange"), (None, "NoDevice")])
async def test_a_share_of_an_unknown_gpu_is_blocked_with_the_reason(control, host, gpus, reason):
    host.reading = replace(READING, facts=HardwareFacts(cpu=CPU, gpu=gpus))
    share = GpuTarget(power_cap=GpuPowerCap(cap_pct_of_max=60))
    tick = await control.tick(replace(INPUTS, target=capped_target().model_copy(update={"gpu": share})))
    assert (tick.gpu.result, tick.gpu.reason) == ("blocked", reason)


@pytest.mark.parametrize(
    ("wanted", "lost", "reason"),
    [(capped_target(cpu=False, gpu=False), False, "NoIntent"), (None, False, "NoProfile"), (None, True, "LostControl")],
)
async def test_a_subsystem_without_an_intent_is_reported_with_the_reason(control, wanted, lost, reason):
    tick = await control.tick(replace(INPUTS, target=wanted, lost=lost))
    assert (tick.cpu.reason, tick.gpu.reason) == (reason, reason)


@pytest.mark.parametrize(("cpu", "gpu"), [(True, False), (False, True), (False, False)])
async def test_what_is_in_force_on_either_subsystem_counts_until_it_is_restored(control, host, cpu, gpu):
    assert not control.in_force
    await control.tick(replace(INPUTS, target=capped_target(cpu=cpu, gpu=gpu)))
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
    await control.tick(replace(DVFS, target=capped_target(cpu=False), now=40.0))
    assert not control.looping


async def test_a_source_that_repeats_its_last_figure_is_not_sampled_between_two_ticks(control):
    prometheus = TelemetrySource(type="prometheus", prometheus=PrometheusQuery(endpoint="http://p", query="q"))
    inputs = replace(DVFS, route=host_route("dvfs", cpu_source=prometheus, gpu_source=TelemetrySource(type="none")))
    await control.tick(inputs)
    assert not control.looping


async def test_samples_between_two_ticks_act_on_readings_only(control, host):
    await control.tick(DVFS)
    host.calls.clear()
    host.reading = NO_ANSWER
    assert await control.follow(30.0) is None
    host.reading = READING
    assert [await control.follow(now) for now in (50.0, 70.0)].count(DvfsDirection.THROTTLE_UP) == 1
    assert [call[0] for call in host.calls] == ["throttle"]
    assert [await control.follow(70.0 + more) for more in range(1, 10)].count(DvfsDirection.THROTTLE_UP) == 1


NOWHERE = {"cpu_control": CpuControl(type="none"), "gpu_control": GpuControl(type="none")}


async def test_gpus_that_exceed_their_cap_are_limited_by_clock_from_tick_to_tick(control, host):
    host.clock_ranges = {"g": ClockRange(300, 1500)}
    host.reading = replace(READING, gpu=GpuReading(gpus=(GpuSample("g", power_watts=400),)))
    for now in (0.0, 20.0, 21.0, 22.0, 40.0):
        await control.tick(replace(INPUTS, now=now))
    first, *others = (limits["g"] for name, limits in host.calls if name == "clocks")
    assert 300 < first < 1500
    assert others[:2] == [first, first], "between two actions time passes"
    assert others[2] < first


@pytest.mark.parametrize(("cpu", "gpu"), [(True, False), (False, True), (True, True), (False, False)])
async def test_controls_that_are_turned_off_are_released_within_the_limits_that_were_known(control, host, cpu, gpu):
    await control.tick(replace(INPUTS, target=capped_target(cpu=cpu, gpu=gpu)))
    host.calls.clear()
    higher = CpuCapRange(min_watts_per_socket=60, max_watts_per_socket=300)
    more = GpuCapRange(min_watts=150, max_watts=500)
    facts = HardwareFacts(
        cpu=CPU.model_copy(update={"cap_range": higher}), gpu=GPU.model_copy(update={"cap_range_per_gpu": more})
    )
    host.reading = replace(READING, facts=facts)
    with capture_logs() as logs:
        tick = await control.tick(replace(INPUTS, route=host_route(**NOWHERE), now=20.0))
    assert host.calls == [("restore cpu", 240)] * cpu + [("restore gpu", 400)] * gpu
    assert tick.again is (cpu or gpu)
    assert not control.in_force
    moved = [name for name, held in (("cpu", cpu), ("gpu", gpu)) if held]
    assert [(log["event"], log["subsystem"], log["address"], log["node"]) for log in logs] == [
        ("earlier backend restored", name, "host", "n1") for name in moved
    ]
    assert not (await control.tick(replace(INPUTS, route=host_route(**NOWHERE), now=40.0))).again


async def test_what_an_earlier_agent_left_is_released_within_the_limits_known_now(factory, host):
    place = ControlPlace(type="host", cap=Held.YES)
    last = ControlReports(cpu=ControlReport(places=(place,)), gpu=ControlReport(places=(place,)))
    tick = await node_control(factory, last).tick(replace(INPUTS, route=host_route(**NOWHERE)))
    assert host.calls == [("restore cpu", 240), ("restore gpu", 400)]
    assert tick.again


async def test_a_throttle_that_an_earlier_agent_left_is_not_sampled_before_the_first_tick(factory, host):
    place = ControlPlace(type="host", throttle=Held.YES)
    last = ControlReports(cpu=ControlReport(throttle_pct=40, places=(place,)))
    host.restored = failed("dvfs", Reason.TIMEOUT)
    control = node_control(factory, last)
    reports = await control.restore(DVFS)
    assert (reports.cpu.result, control.in_force) == ("error", True)
    assert not control.looping
    assert await control.follow(20.0) is None
