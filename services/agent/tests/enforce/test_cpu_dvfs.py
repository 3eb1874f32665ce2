"""Watts that the DVFS loop holds: ticks, samples between them, and reports."""

from dataclasses import replace

import pytest
from msgspec import structs
from services.agent.tests.enforce.scripted_cpus import (
    BUSY,
    CAPPED,
    DVFS_ONLY,
    HOT,
    RAPL_BLOCKED,
    STEPPED,
    WATTS,
    Actuator,
    enforce,
    run,
    throttled,
)

from joulie_actuator.outcome import blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuReading
from joulie_agent.enforce.cpu import CpuEnforcer, CpuMode
from joulie_core.control.caps_resolve import WattCap, WattRange
from joulie_core.control.dvfs import DvfsDirection
from joulie_core.kinds.telemetry_profile import CpuControlMode, Held


async def test_without_rapl_the_dvfs_loop_holds_the_sum_of_the_packages():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    result, actions = await run(actuator, 2)
    assert actions == [DvfsDirection.THROTTLE_UP]
    assert result.state.mode is CpuMode.DVFS
    assert (result.report.backend, result.report.reason, result.report.throttle_pct) == ("http-dvfs", "Adjusting", 10)
    assert "locked by firmware" in result.report.message


async def test_power_between_one_cap_and_the_sum_of_the_caps_is_not_too_much():
    _, actions = await run(Actuator(rapl=RAPL_BLOCKED), 5, reading=CpuReading(power_watts=480))
    assert actions == []


async def test_a_missing_reading_holds_the_throttle():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    result, actions = await run(actuator, 9, state=throttled(30), reading=None)
    assert actions == []
    assert {call for call in actuator.calls if call[0] == "throttle"} == {("throttle", 30)}
    assert (result.report.result, result.report.reason, result.report.throttle_pct) == ("blocked", "NoReading", 30)
    assert "no usable power reading" in result.report.message


@pytest.mark.parametrize("intent", [WATTS, replace(WATTS, mode=CpuControlMode.DVFS)], ids=["auto", "dvfs"])
async def test_readings_that_stay_away_raise_the_throttle_to_the_caps_share_with_a_reason_of_its_own(intent):
    actuator = Actuator(rapl=RAPL_BLOCKED)
    result, _ = await run(actuator, 14, intent=intent, reading=None)
    assert (result.report.result, result.report.reason) == ("blocked", "ThrottledWithoutReading")
    assert result.report.throttle_pct == pytest.approx(40)  # 240 W of 400 W
    result = await enforce(actuator, intent, result.state, reading=CpuReading(power_watts=300), now=300.0)
    assert (result.report.result, result.report.reason) == ("applied", "Throttled")
    assert result.report.throttle_pct == pytest.approx(40)


async def test_without_a_reading_and_without_a_throttle_nothing_is_applied():
    result = await enforce(Actuator(rapl=RAPL_BLOCKED), reading=None)
    assert (result.report.result, result.report.reason, result.report.throttle_pct) == ("blocked", "NoReading", 0)


async def test_a_full_throttle_above_the_cap_is_saturated_and_not_applied():
    intent = replace(WATTS, cap=WattCap(120, 120), packages=1)
    reading = CpuReading(power_watts=602)
    result, _ = await run(Actuator(rapl=RAPL_BLOCKED), 30, intent=intent, reading=reading)
    assert (result.report.result, result.report.reason) == ("blocked", "Saturated")
    assert result.report.throttle_pct == 100
    assert "602 W drawn, 120 W allowed" in result.report.message
    assert result.state.in_force


async def test_power_above_the_cap_is_not_applied_before_there_is_a_throttle():
    result = await enforce(Actuator(rapl=RAPL_BLOCKED))
    assert (result.report.result, result.report.reason, result.report.throttle_pct) == ("blocked", "Adjusting", 0)


async def test_power_below_the_cap_needs_no_throttle_to_be_applied():
    result = await enforce(Actuator(rapl=RAPL_BLOCKED), reading=CpuReading(power_watts=300))
    assert (result.report.result, result.report.reason, result.report.throttle_pct) == ("applied", "Throttled", 0)


async def test_a_sample_between_two_ticks_sends_only_a_throttle_that_changes():
    actuator = Actuator()
    intent = replace(WATTS, mode=CpuControlMode.DVFS)
    result = await enforce(actuator, intent)
    state, actuator.calls = result.state, []
    enforcer = CpuEnforcer(actuator, STEPPED)
    actions = []
    for sample in range(1, 10):
        state, action = await enforcer.follow(intent, state, HOT, sample * 2.0)
        actions += [action] if action else []
    assert actuator.calls == [("throttle", 10)]
    assert actions == [DvfsDirection.THROTTLE_UP]
    assert state.held.throttle is Held.YES


async def test_a_step_that_is_refused_between_two_ticks_is_not_believed():
    actuator = Actuator()
    intent = replace(WATTS, mode=CpuControlMode.DVFS)
    state = (await enforce(actuator, intent)).state
    actuator.dvfs = failed("http-dvfs", Reason.BACKEND_FAILED, "busy")
    state, action = await CpuEnforcer(actuator, STEPPED).follow(intent, state, HOT, 2.0)
    assert (state.dvfs.throttle_pct, state.held.throttle, action) == (0, Held.NO, None)


async def test_a_cap_that_holds_the_power_is_not_sampled_between_two_ticks():
    state, action = await CpuEnforcer(Actuator(), STEPPED).follow(WATTS, CAPPED, HOT, 2.0)
    assert (state, action) == (CAPPED, None)


async def test_a_refused_step_is_not_believed():
    actuator = Actuator(rapl=RAPL_BLOCKED, dvfs=failed("http-dvfs", Reason.BACKEND_FAILED, "busy"))
    result, actions = await run(actuator, 4)
    assert actions == []
    assert result.state.dvfs.throttle_pct == 0
    assert (result.report.result, result.report.reason) == ("error", "BackendFailed")


async def test_a_throttle_found_at_the_backend_is_taken_over():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    await enforce(actuator, reading=CpuReading(power_watts=None, throttle_pct=50))
    assert actuator.calls[-1] == ("throttle", 50)


async def test_a_throttle_that_the_backend_lost_is_asserted_again():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    await enforce(actuator, state=throttled(30), reading=CpuReading(power_watts=470, throttle_pct=0))
    assert actuator.calls[-1] == ("throttle", 30)


def test_the_loop_gets_the_range_of_all_packages_and_the_share_of_the_cap():
    plant = WATTS.plant(WattCap(240, 240))
    assert (plant.range_watts, plant.careful_pct) == (800, pytest.approx(40))
    assert replace(WATTS, limits=WattRange()).plant(WattCap(240, 240)).range_watts is None


async def test_the_loop_reports_the_request_and_why_it_acts():
    result = await enforce(Actuator(rapl=RAPL_BLOCKED))
    assert result.report.requested_watts == 240
    assert result.report.message == (
        "http-rapl blocked: locked by firmware; 600 W drawn, 480 W allowed, not throttled yet"
    )
    assert result.state.throttle_known


async def test_the_loop_alone_does_not_mention_rapl_and_goes_by_the_time_of_its_samples():
    result, actions = await run(Actuator(), 2, intent=DVFS_ONLY)
    assert actions == [DvfsDirection.THROTTLE_UP]
    assert result.report.message == "600 W drawn, 480 W allowed"


async def test_a_loop_beside_a_cap_in_part_reports_its_actions():
    partly = structs.replace(blocked("rapl", Reason.HELD_BY_FIRMWARE, "package-0 holds 300 W"), enforced_watts=300)
    _, actions = await run(Actuator(rapl=partly), 2)
    assert actions == [DvfsDirection.THROTTLE_UP]


@pytest.mark.parametrize("dvfs", [None, BUSY], ids=["taken", "refused"])
async def test_every_sample_between_two_ticks_counts(dvfs):
    actuator = Actuator()
    state = (await enforce(actuator, DVFS_ONLY)).state
    before = state.dvfs.ema_watts
    actuator.dvfs = dvfs
    for now in (2.0, 30.0):
        state, _ = await CpuEnforcer(actuator, STEPPED).follow(DVFS_ONLY, state, CpuReading(590.0), now)
        assert state.dvfs.ema_watts < before
        before = state.dvfs.ema_watts
