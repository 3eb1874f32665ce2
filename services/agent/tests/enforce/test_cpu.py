"""CPU enforcement against a scripted actuator: intents, state, restore."""

from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from joulie_agent.backends.base import CpuHeld, CpuReading, with_release
from joulie_agent.enforce.cpu import CpuControlState, CpuEnforcer, CpuIntent, CpuMode
from joulie_agent.outcome import ControlOutcome, applied, blocked, failed
from joulie_agent.reasons import Reason
from joulie_core.control.caps_resolve import PctCap, WattCap, WattRange
from joulie_core.control.dvfs import DvfsDirection, DvfsMode, DvfsSettings, DvfsState
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import ControlReport, CpuControlMode, Held

RAPL_BLOCKED = blocked("http-rapl", Reason.REFUSED, "locked by firmware")


@dataclass
class Actuator:
    rapl: ControlOutcome | None = None
    dvfs: ControlOutcome | None = None
    restored: ControlOutcome | None = None
    calls: list = field(default_factory=list)
    #: What was to be released, call by call.
    releases: list = field(default_factory=list)

    async def set_cpu_cap(self, cap_watts_per_package, *, release_throttle=Held.NO):
        self.calls.append(("cap", cap_watts_per_package))
        self.releases.append(release_throttle)
        outcome = self.rapl or applied("http-rapl", enforced_watts=cap_watts_per_package)
        if not outcome.applied or release_throttle is Held.NO:
            return outcome
        return with_release(outcome, await self.set_dvfs_throttle(0.0), release_throttle)

    async def set_dvfs_throttle(self, throttle_pct, *, release_cap=Held.NO, limits=None):
        self.calls.append(("throttle", throttle_pct))
        self.releases.append(release_cap)
        outcome = self.dvfs or applied("http-dvfs")
        if not outcome.applied or release_cap is Held.NO:
            return outcome
        return with_release(outcome, await self.set_cpu_cap(limits.max_watts), release_cap)

    async def restore_cpu(self, limits, held):
        self.calls.append(("restore", limits.max_watts))
        self.releases.append(held)
        return self.restored or self.rapl or ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, "http-rapl")


WATTS = CpuIntent(
    cap=WattCap(240, 240),
    absent=Reason.NO_INTENT,
    limits=WattRange(400, 120),
    packages=2,
    mode=CpuControlMode.AUTO,
)
HOT = CpuReading(power_watts=600)
STEPPED = DvfsSettings(mode=DvfsMode.STEPPED)
CAPPED = CpuControlState(mode=CpuMode.RAPL, held=CpuHeld(cap=Held.YES), cap_watts=240, throttle_known=True)


def throttled(pct):
    state = DvfsState(throttle_pct=pct)
    return CpuControlState(mode=CpuMode.DVFS, dvfs=state, held=CpuHeld(throttle=Held.YES), throttle_known=True)


async def enforce(actuator, intent=WATTS, state=None, *, reading=HOT, now=0.0):
    return await CpuEnforcer(actuator, STEPPED).enforce(intent, state or CpuControlState(), reading, now)


async def run(actuator, ticks, *, intent=WATTS, state=None, reading=HOT):
    """Tick every 20 s; answer the last result and the actions."""
    actions = []
    result = None
    for tick in range(ticks):
        result = await enforce(actuator, intent, state, reading=reading, now=tick * 20.0)
        state = result.state
        actions += [result.action] if result.action else []
    return result, actions


async def test_watts_go_to_rapl_and_are_read_back():
    result = await enforce(Actuator())
    assert result.report == ControlReport(
        backend="http-rapl", result="applied", reason="Capped", requested_watts=240, enforced_watts=240
    )
    assert result.state.mode is CpuMode.RAPL
    assert result.action is None


async def test_a_clamped_cap_says_so():
    intent = replace(WATTS, cap=WattCap(5000, 400, "5000 W clamped to the maximum of 400 W"))
    result = await enforce(Actuator(), intent)
    assert (result.report.reason, result.report.requested_watts, result.report.enforced_watts) == ("Clamped", 5000, 400)
    assert "clamped" in result.report.message


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


async def test_a_refused_step_is_not_believed():
    actuator = Actuator(rapl=RAPL_BLOCKED, dvfs=failed("http-dvfs", Reason.BACKEND_FAILED, "busy"))
    result, actions = await run(actuator, 4)
    assert actions == []
    assert result.state.dvfs.throttle_pct == 0
    assert (result.report.result, result.report.reason) == ("error", "BackendFailed")


async def test_a_backend_that_cannot_be_reached_is_not_asked_twice():
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


async def test_a_throttle_found_at_the_backend_is_taken_over():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    await enforce(actuator, reading=CpuReading(power_watts=None, throttle_pct=50))
    assert actuator.calls[-1] == ("throttle", 50)


async def test_a_throttle_that_the_backend_lost_is_asserted_again():
    actuator = Actuator(rapl=RAPL_BLOCKED)
    await enforce(actuator, state=throttled(30), reading=CpuReading(power_watts=470, throttle_pct=0))
    assert actuator.calls[-1] == ("throttle", 30)


BUSY = failed("http-dvfs", Reason.BACKEND_FAILED, "busy")
BOTH = replace(throttled(30), held=CpuHeld(cap=Held.YES, throttle=Held.YES), cap_watts=240)
DVFS_ONLY = replace(WATTS, mode=CpuControlMode.DVFS)
RAPL_ONLY = replace(WATTS, mode=CpuControlMode.RAPL)
PERCENT = replace(WATTS, cap=PctCap(60))


def test_the_loop_is_told_the_range_of_all_packages_and_the_share_of_the_cap():
    plant = WATTS.plant(WattCap(240, 240))
    assert (plant.range_watts, plant.careful_pct) == (800, pytest.approx(40))
    assert replace(WATTS, limits=WattRange()).plant(WattCap(240, 240)).range_watts is None


async def test_the_loop_reports_what_was_asked_and_why_it_acts():
    result = await enforce(Actuator(rapl=RAPL_BLOCKED))
    assert result.report.requested_watts == 240
    assert result.report.message == (
        "http-rapl blocked: locked by firmware; 600 W drawn, 480 W allowed, not throttled yet"
    )
    assert result.state.throttle_known


async def test_the_loop_alone_says_nothing_of_rapl_and_goes_by_the_time_of_its_samples():
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


async def test_a_cap_of_unknown_range_hands_over_without_a_throttle():
    actuator = Actuator()
    await enforce(actuator, replace(DVFS_ONLY, limits=WattRange()), CAPPED, reading=CpuReading(400.0))
    assert actuator.calls[0] == ("throttle", 0)


async def test_a_cap_is_told_which_throttle_it_replaces():
    actuator = Actuator()
    await enforce(actuator, state=throttled(30))
    assert actuator.releases[0] is Held.YES


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


async def test_where_cap_and_throttle_fail_the_report_says_both():
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
