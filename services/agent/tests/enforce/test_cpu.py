"""CPU enforcement against a scripted actuator: intents, state, restore."""

from dataclasses import replace

import pytest
from msgspec import structs
from services.agent.tests.enforce.scripted_cpus import (
    BOTH,
    CAPPED,
    PERCENT,
    RAPL_BLOCKED,
    WATTS,
    Actuator,
    enforce,
    run,
    throttled,
)

from joulie_actuator.outcome import blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuHeld
from joulie_agent.enforce.cpu import CpuMode
from joulie_core.control.caps_resolve import PctCap, WattCap
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import ControlReport, CpuControlMode, Held


async def test_watts_go_to_rapl_and_are_read_back():
    result = await enforce(Actuator())
    assert result.report == ControlReport(
        backend="http-rapl", result="applied", reason="Capped", requested_watts=240, enforced_watts=240
    )
    assert result.state.mode is CpuMode.RAPL
    assert result.action is None


async def test_a_clamped_cap_is_reported_as_clamped():
    intent = replace(WATTS, cap=WattCap(5000, 400, "5000 W clamped to the maximum of 400 W"))
    result = await enforce(Actuator(), intent)
    assert (result.report.reason, result.report.requested_watts, result.report.enforced_watts) == ("Clamped", 5000, 400)
    assert "clamped" in result.report.message


async def test_a_backend_that_cannot_be_reached_gets_one_request():
    actuator = Actuator(rapl=failed("http-rapl", Reason.TIMEOUT, "no answer within 5 s"))
    result = await enforce(actuator)
    assert actuator.calls == [("cap", 240)]
    assert (result.report.result, result.report.reason) == ("error", "Timeout")
    assert result.state.in_force


async def test_mode_rapl_never_throttles():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    result = await enforce(actuator, replace(WATTS, mode=CpuControlMode.RAPL))
    assert actuator.calls == [("cap", 240)]
    assert (result.report.result, result.report.message) == ("blocked", "locked by firmware")


@pytest.mark.parametrize("reason", [Reason.HELD_BY_FIRMWARE, Reason.PARTLY_APPLIED])
async def test_a_cap_that_is_in_force_in_part_is_remembered_and_restored(reason):
    actuator = Actuator(rapl=structs.replace(blocked("rapl", reason, "package-0 holds 150 W"), enforced_watts=150))
    result = await enforce(actuator, replace(WATTS, mode=CpuControlMode.RAPL))
    assert (result.report.result, result.report.reason, result.report.enforced_watts) == ("blocked", reason, 150)
    assert result.state.in_force
    assert result.state.in_force
    actuator.rapl = None
    result = await enforce(actuator, replace(WATTS, cap=None), result.state)
    assert actuator.calls[-1] == ("restore", 400)
    assert not result.state.in_force


async def test_mode_dvfs_never_caps():
    actuator = Actuator()
    result, _ = await run(actuator, 3, intent=replace(WATTS, mode=CpuControlMode.DVFS))
    assert all(call[0] == "throttle" for call in actuator.calls)
    assert result.state.mode is CpuMode.DVFS


async def test_a_percentage_without_a_range_throttles_the_rest():
    actuator = Actuator()
    result = await enforce(actuator, replace(WATTS, cap=PctCap(60)))
    assert actuator.calls == [("throttle", 40)]
    assert (result.report.reason, result.report.throttle_pct) == ("ThrottledByPercent", 40)


async def test_a_percentage_without_a_range_is_blocked_where_throttling_is_off():
    actuator = Actuator()
    result = await enforce(actuator, replace(WATTS, cap=PctCap(60), mode=CpuControlMode.RAPL))
    assert actuator.calls == []
    assert (result.report.result, result.report.reason) == ("blocked", "NoCapRange")


async def test_an_absent_intent_leaves_a_free_node_alone():
    actuator = Actuator()
    result = await enforce(actuator, replace(WATTS, cap=None))
    assert actuator.calls == []
    assert result.report == ControlReport(result="none", reason="NoIntent")


async def test_an_intent_that_vanishes_restores_once():
    actuator = Actuator()
    result = await enforce(actuator)
    actuator.calls = []
    result = await enforce(actuator, replace(WATTS, cap=None), result.state)
    assert (result.report.result, result.report.reason) == ("applied", "Restored")
    result = await enforce(actuator, replace(WATTS, cap=None), result.state)
    assert actuator.calls == [("restore", 400)]
    assert (result.report.result, result.state.in_force) == ("none", False)


async def test_what_could_not_be_restored_is_tried_again():
    actuator = Actuator()
    result = await enforce(actuator)
    actuator.rapl = failed("http-rapl", Reason.TIMEOUT)
    result = await enforce(actuator, replace(WATTS, cap=None), result.state)
    assert result.report.result is ControlResult.ERROR
    assert result.state.in_force


async def test_what_is_restored_is_what_may_be_in_force():
    actuator = Actuator()
    await enforce(actuator, replace(WATTS, cap=None), CAPPED)
    assert actuator.releases == [CpuHeld(cap=Held.YES)]


async def test_a_restore_that_failed_reports_what_is_in_force():
    actuator = Actuator(restored=failed("http-rapl", Reason.TIMEOUT, "no answer"))
    result = await enforce(actuator, replace(WATTS, cap=None), BOTH)
    assert (result.report.result, result.report.reason) == ("error", "Timeout")
    assert (result.report.enforced_watts, result.report.throttle_pct) == (240, 30)
    assert result.state == BOTH


async def test_a_request_that_did_not_get_through_reports_what_is_in_force():
    result = await enforce(Actuator(rapl=failed("http-rapl", Reason.TIMEOUT, "no answer")), state=BOTH)
    assert result.report == ControlReport(
        backend="http-rapl",
        result="error",
        reason="Timeout",
        message="no answer",
        requested_watts=240,
        enforced_watts=240,
        throttle_pct=30,
    )
    assert result.state == BOTH


@pytest.mark.parametrize("before", [None, throttled(30), CAPPED], ids=["free", "throttled", "capped"])
async def test_a_percentage_is_remembered_as_the_throttle_that_it_became(before):
    result = await enforce(Actuator(), PERCENT, before)
    assert result.state == throttled(40)
