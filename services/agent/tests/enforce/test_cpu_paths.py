"""Changes from cap to throttle and back: the new path is in force before the other is released."""

from dataclasses import replace

import pytest
from msgspec import structs
from services.agent.tests.enforce.scripted_cpus import (
    BOTH,
    BUSY,
    CAPPED,
    DVFS_ONLY,
    PERCENT,
    RAPL_BLOCKED,
    RAPL_ONLY,
    WATTS,
    Actuator,
    enforce,
    run,
    throttled,
)

from joulie_actuator.outcome import ControlOutcome, blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuHeld, CpuReading
from joulie_agent.enforce.cpu import CpuMode
from joulie_core.control.caps_resolve import PctCap, WattRange
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import ControlReport, CpuControlMode, Held


async def test_when_rapl_is_back_its_cap_comes_before_the_throttle_is_lifted():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    result, _ = await run(actuator, 2)
    actuator.rapl, actuator.calls = None, []
    result = await enforce(actuator, state=result.state, now=60.0)
    assert actuator.calls == [("cap", 240), ("throttle", 0.0)]
    assert result.state == CAPPED


async def test_a_throttle_that_could_not_be_lifted_is_an_error_and_is_tried_again():
    actuator = Actuator(dvfs=failed("http-dvfs", Reason.BACKEND_FAILED, "busy"))
    result = await enforce(actuator, state=throttled(30))
    assert (result.report.result, result.report.reason) == ("error", "NotReleased")
    assert (result.report.enforced_watts, result.report.throttle_pct) == (240, 30)
    assert "http-dvfs not released: BackendFailed busy" in result.report.message
    actuator.dvfs = None
    result = await enforce(actuator, state=result.state)
    assert result.state.dvfs.throttle_pct == 0
    assert result.report.throttle_pct is None


async def test_a_change_to_mode_dvfs_puts_the_caps_share_in_force_and_then_releases_the_cap():
    actuator = Actuator()
    result = await enforce(actuator, replace(WATTS, mode=CpuControlMode.DVFS), CAPPED, reading=CpuReading(400.0))
    assert actuator.calls == [("throttle", pytest.approx(40)), ("cap", 400)]
    assert result.state.held == CpuHeld(throttle=Held.YES)
    assert (result.report.result, result.report.reason, result.report.enforced_watts) == ("applied", "Throttled", None)


async def test_a_cap_that_could_not_be_released_is_reported_with_its_watts_and_tried_again():
    actuator = Actuator(rapl=failed("http-rapl", Reason.BACKEND_FAILED, "busy"))
    intent = replace(WATTS, mode=CpuControlMode.DVFS)
    result = await enforce(actuator, intent, CAPPED, reading=CpuReading(400.0))
    assert (result.report.result, result.report.reason) == ("error", "NotReleased")
    assert result.report.enforced_watts == 240
    assert result.state.held == CpuHeld(cap=Held.YES, throttle=Held.YES)
    actuator.rapl = None
    result = await enforce(actuator, intent, result.state, reading=CpuReading(400.0))
    assert result.state.held == CpuHeld(throttle=Held.YES)


async def test_a_percentage_that_no_range_translates_releases_the_cap_before_it():
    actuator = Actuator()
    result = await enforce(actuator, replace(WATTS, cap=PctCap(60)), CAPPED)
    assert actuator.calls == [("throttle", 40), ("cap", 400)]
    assert result.state.held == CpuHeld(throttle=Held.YES)


async def test_a_percentage_that_mode_rapl_cannot_carry_out_restores_the_cap_before_it():
    actuator = Actuator()
    result = await enforce(actuator, replace(WATTS, cap=PctCap(60), mode=CpuControlMode.RAPL), CAPPED)
    assert actuator.calls == [("restore", 400)]
    assert not result.state.in_force
    assert (result.report.result, result.report.reason) == ("blocked", "NoCapRange")


async def test_a_change_to_mode_rapl_releases_the_throttle_also_where_the_cap_is_refused():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    result = await enforce(actuator, replace(WATTS, mode=CpuControlMode.RAPL), throttled(30))
    assert actuator.calls == [("cap", 240), ("throttle", 0)]
    assert not result.state.in_force
    assert (result.report.result, result.report.reason) == ("blocked", "Refused")


async def test_a_cap_in_force_in_part_stays_while_the_loop_does_the_rest():
    partly = structs.replace(blocked("rapl", Reason.HELD_BY_FIRMWARE, "package-0 holds 300 W"), enforced_watts=300)
    actuator = Actuator(rapl=partly)
    result, _ = await run(actuator, 3)
    assert ("cap", 400) not in actuator.calls
    assert result.state.held == CpuHeld(cap=Held.YES, throttle=Held.YES)
    assert (result.report.backend, result.report.enforced_watts) == ("http-dvfs", 300)
    assert "package-0 holds 300 W" in result.report.message


async def test_a_lost_cap_is_released_once_the_throttle_is_in_force():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    result = await enforce(actuator, state=CAPPED, reading=CpuReading(400.0))
    assert actuator.calls[:2] == [("cap", 240), ("throttle", pytest.approx(40))]
    assert result.report.reason == "NotReleased"  # the backend had said that the cap is in force


async def test_a_cap_of_unknown_range_hands_over_without_a_throttle():
    actuator = Actuator()
    await enforce(actuator, replace(DVFS_ONLY, limits=WattRange()), CAPPED, reading=CpuReading(400.0))
    assert actuator.calls[0] == ("throttle", 0)


async def test_a_cap_gets_the_throttle_that_it_replaces():
    actuator = Actuator()
    await enforce(actuator, state=throttled(30))
    assert actuator.releases[0] is Held.YES


async def test_a_percentage_whose_cap_could_not_be_released_reports_its_watts():
    result = await enforce(Actuator(rapl=failed("http-rapl", Reason.BACKEND_FAILED, "busy")), PERCENT, CAPPED)
    assert (result.report.result, result.report.reason, result.report.enforced_watts) == ("error", "NotReleased", 240)
    assert result.state.held.cap is Held.YES


@pytest.mark.parametrize(
    ("outcome", "mode"),
    [(BUSY, CpuMode.NONE), (failed("http-dvfs", Reason.TIMEOUT, "no answer"), CpuMode.DVFS)],
    ids=["refused", "not reached"],
)
@pytest.mark.parametrize("intent", [PERCENT, DVFS_ONLY], ids=["percent", "watts"])
async def test_a_throttle_that_failed_leaves_the_one_before_it_in_force(outcome, mode, intent):
    actuator = Actuator(dvfs=outcome)
    result = await enforce(actuator, intent, throttled(30), reading=CpuReading(400.0))
    assert (result.report.result, result.report.reason, result.report.throttle_pct) == ("error", outcome.reason, 30)
    assert result.report.message == outcome.message
    assert (result.state.mode, result.state.held) == (mode, CpuHeld(throttle=Held.YES))
    assert len(actuator.calls) == 1


async def test_where_cap_and_throttle_fail_the_report_has_both():
    result = await enforce(Actuator(rapl=RAPL_BLOCKED, dvfs=BUSY))
    assert result.report.message == "http-rapl blocked: locked by firmware; busy"
    assert result.report.requested_watts == 240


@pytest.mark.parametrize(
    ("intent", "reason", "restored"),
    [
        (PERCENT, Reason.REFUSED, True),
        (DVFS_ONLY, Reason.REFUSED, True),
        (WATTS, Reason.REFUSED, False),  # the cap may come back
        (DVFS_ONLY, Reason.SIMULATE_ONLY, False),  # nor would a restore get through
    ],
)
async def test_what_the_path_before_holds_is_restored_where_throttling_is_declined_for_good(intent, reason, restored):
    actuator = Actuator(
        rapl=RAPL_BLOCKED,
        dvfs=blocked("http-dvfs", reason, "declined"),
        restored=ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, "http-rapl"),
    )
    result = await enforce(actuator, intent, BOTH)
    assert (("restore", 400) in actuator.calls) is restored
    assert result.state.in_force is not restored
    assert (result.report.result, result.report.reason) == ("blocked", reason)
    assert result.report.throttle_pct == (None if restored else 30)
    if restored:
        assert actuator.releases[-1] == CpuHeld(cap=Held.YES, throttle=Held.YES)


async def test_what_cannot_be_restored_when_nothing_can_be_put_in_force_is_an_error_that_names_both():
    actuator = Actuator(restored=failed("http-rapl", Reason.TIMEOUT, "no answer"))
    result = await enforce(actuator, replace(PERCENT, mode=CpuControlMode.RAPL), BOTH)
    assert result.report == ControlReport(
        backend="http-rapl",
        result="error",
        reason="NotReleased",
        message="60 % of a maximum that is not known, and throttling is turned off; "
        "http-rapl not released: Timeout no answer",
        enforced_watts=240,
        throttle_pct=30,
    )
    assert result.state == replace(BOTH, mode=CpuMode.NONE)


@pytest.mark.parametrize(
    ("rapl", "mode", "released"),
    [
        (RAPL_BLOCKED, CpuMode.NONE, True),
        (blocked("http-rapl", Reason.HELD_BY_FIRMWARE, "held"), CpuMode.RAPL, True),
        (failed("http-rapl", Reason.PARTLY_APPLIED, "package-1 failed"), CpuMode.RAPL, True),
        (failed("http-rapl", Reason.BACKEND_FAILED, "busy"), CpuMode.NONE, False),
    ],
)
async def test_mode_rapl_keeps_a_throttle_only_where_the_refusal_of_the_cap_may_pass(rapl, mode, released):
    result = await enforce(Actuator(rapl=rapl), RAPL_ONLY, throttled(30))
    assert result.state.mode is mode
    assert result.state.held.throttle is (Held.NO if released else Held.YES)
    assert (result.report.requested_watts, result.report.message) == (240, rapl.message)


async def test_a_throttle_that_mode_rapl_could_not_lift_is_an_error_and_is_remembered():
    declined = blocked("http-dvfs", Reason.REFUSED, "declined")
    result = await enforce(Actuator(rapl=RAPL_BLOCKED, dvfs=declined), RAPL_ONLY, throttled(30))
    assert (result.report.result, result.report.reason, result.report.throttle_pct) == ("blocked", "NotReleased", 30)
    assert result.report.message == "locked by firmware; http-dvfs not released: Refused declined"
    assert result.state.held == CpuHeld(throttle=Held.YES)
