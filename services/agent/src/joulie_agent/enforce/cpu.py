"""Carries out the CPU intent of one node: cap the power, else throttle, else restore.

Watts are set through RAPL. Where that fails, the DVFS loop holds the power at the cap. A percentage that no range
translates becomes a fixed throttle. One path at a time holds the CPUs: every change of path, by control mode, target or
loss of RAPL, puts the new one in force and then releases the other, so that the node is never unlimited in between; a
throttle that replaces a cap starts at the cap's share of the maximum. Caps that are in force in part are the exception:
they stay while the loop does the rest. What may be in force stays in the state until it has been released, also if a
request got no answer, and the report names it.

Why: docs/decisions/0006-kernel-semantics.md and 0007-dvfs.md.
"""

from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from joulie_agent.backends.base import CpuActuator, CpuReading, is_released
from joulie_agent.enforce.cpu_report import dvfs_outcome, report_of
from joulie_agent.enforce.cpu_state import (
    FREE,
    IN_FORCE_IN_PART,
    CpuControlState,
    CpuMode,
    cap_noted,
    cap_released,
    recalled,
    seeded,
    throttle_noted,
    throttle_released,
)
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control.caps_resolve import PctCap, WattCap, WattRange
from joulie_core.control.dvfs import (
    DvfsAction,
    DvfsDirection,
    DvfsSettings,
    DvfsState,
    Plant,
    careful_throttle_pct,
    step,
    throttle_for_pct,
    with_throttle,
)
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import ControlReport, CpuControlMode, Held

__all__ = ["CpuControlState", "CpuEnforcer", "CpuIntent", "CpuMode", "CpuResult", "recalled", "restore"]

#: Faults of the backend as a whole: another action would meet the same, so there is nothing to fall back to.
_NO_FALLBACK: Final = frozenset(
    {
        Reason.TIMEOUT,
        Reason.UNREACHABLE,
        Reason.NOT_FOUND,
        Reason.BAD_ENDPOINT,
        Reason.BAD_SECRET,
        Reason.TURNED_OFF,
        Reason.HOST_IN_POOL,
        Reason.SIMULATE_ONLY,
        Reason.NO_HOST_INTERFACE,
    }
)


@dataclass(frozen=True, slots=True)
class CpuIntent:
    """What is requested of one node's CPUs at one tick."""

    #: None: unmanaged, for the reason in `absent`.
    cap: WattCap | PctCap | None
    absent: Reason
    limits: WattRange
    #: CPU packages of the node; readings are of all of them, caps of each.
    packages: int
    mode: CpuControlMode

    def plant(self, cap: WattCap) -> Plant:
        """Return what the DVFS loop knows of the node."""
        top = self.limits.max_watts
        careful = careful_throttle_pct(cap.cap_watts, top)
        return Plant(range_watts=top * self.packages if top else None, careful_pct=careful)


@dataclass(frozen=True, slots=True)
class CpuResult:
    """State and report after one tick."""

    state: CpuControlState
    report: ControlReport
    #: The DVFS action that was carried out in this tick.
    action: DvfsDirection | None = None


class CpuEnforcer:
    """Carries out intents on one backend."""

    def __init__(self, actuator: CpuActuator, settings: DvfsSettings) -> None:
        self._actuator = actuator
        self._settings = settings

    async def enforce(
        self, intent: CpuIntent, state: CpuControlState, reading: CpuReading | None, now: float
    ) -> CpuResult:
        """Carry out an intent once; `now` is the tick's time on the event loop's clock."""
        state = seeded(state, reading)
        match intent.cap:
            case None:
                return await restore(intent.absent, intent.limits, state, self._actuator)
            case PctCap(pct_of_max=pct):
                return await self._throttle_by_pct(intent, pct, state)
            case WattCap() as cap:
                return await self._hold_watts(intent, cap, state, reading, now)

    async def follow(
        self, intent: CpuIntent, state: CpuControlState, reading: CpuReading | None, now: float
    ) -> tuple[CpuControlState, DvfsDirection | None]:
        """Take one sample of the DVFS loop between two ticks; only changes are sent to the backend."""
        if state.mode is not CpuMode.DVFS or not isinstance(intent.cap, WattCap):
            return state, None
        dvfs, action = self._step(intent, intent.cap, state.dvfs, reading, now)
        if action is None:
            return replace(state, dvfs=dvfs), None
        outcome = await self._actuator.set_dvfs_throttle(dvfs.throttle_pct)
        state = throttle_noted(state, outcome, dvfs.throttle_pct)
        if not outcome.applied:
            return replace(state, dvfs=with_throttle(dvfs, state.dvfs.throttle_pct)), None
        return replace(state, dvfs=dvfs), action.direction

    async def _throttle_by_pct(self, intent: CpuIntent, pct: float, state: CpuControlState) -> CpuResult:
        if intent.mode is CpuControlMode.RAPL:
            message = f"{pct:g} % of a maximum that is not known, and throttling is turned off"
            report = ControlReport(result=ControlResult.BLOCKED, reason=Reason.NO_CAP_RANGE, message=message)
            return await self._displaced(intent, CpuResult(replace(state, mode=CpuMode.NONE), report))
        wanted_pct = throttle_for_pct(pct)
        outcome = await self._set_throttle(intent, wanted_pct, state.held.cap)
        state = throttle_noted(state, outcome, wanted_pct)
        if not outcome.applied:
            return await self._not_throttled(
                intent, state, outcome, report_of(outcome, throttle_pct=state.throttle_pct)
            )
        state = replace(state, mode=CpuMode.DVFS, dvfs=DvfsState(throttle_pct=wanted_pct), throttle_known=True)
        outcome = structs.replace(outcome, reason=Reason.THROTTLED_BY_PERCENT)
        report = report_of(outcome, throttle_pct=wanted_pct, in_force_watts=_left_watts(state, outcome))
        return self._owned_by_throttle(state, outcome, report)

    async def _hold_watts(
        self, intent: CpuIntent, cap: WattCap, state: CpuControlState, reading: CpuReading | None, now: float
    ) -> CpuResult:
        if intent.mode is CpuControlMode.DVFS:
            return await self._hold_by_dvfs(intent, cap, state, reading, now)
        outcome = await self._actuator.set_cpu_cap(cap.cap_watts, release_throttle=state.held.throttle)
        state = cap_noted(state, outcome)
        if outcome.applied:
            return self._capped(cap, state, outcome)
        if outcome.reason in _NO_FALLBACK:
            # No request got through: what was in force still is, and the mode stays.
            return CpuResult(state, _refused(outcome, cap, state))
        if intent.mode is CpuControlMode.RAPL:
            return await self._not_capped(cap, state, outcome)
        why = f"{outcome.backend} {outcome.result}: {outcome.message or outcome.reason}"
        in_part = outcome.reason in IN_FORCE_IN_PART
        return await self._hold_by_dvfs(intent, cap, state, reading, now, why=why, keep_cap=in_part)

    def _capped(self, cap: WattCap, state: CpuControlState, outcome: ControlOutcome) -> CpuResult:
        """Return the result of a cap in force: a throttle before it is released, or the report names it."""
        state = replace(state, mode=CpuMode.RAPL)
        if cap.message and outcome.reason is Reason.CAPPED:
            outcome = structs.replace(outcome, reason=Reason.CLAMPED)
        if outcome.unreleased is None:
            state = throttle_released(state)
        report = report_of(outcome, cap=cap, throttle_pct=state.throttle_pct)
        return CpuResult(state, report)

    async def _not_capped(self, cap: WattCap, state: CpuControlState, outcome: ControlOutcome) -> CpuResult:
        """Return the result where the only path of the mode failed; a throttle stays if the failure may pass."""
        in_part = outcome.reason in IN_FORCE_IN_PART
        state = replace(state, mode=CpuMode.RAPL if in_part else CpuMode.NONE)
        held = state.held.throttle
        if held is not Held.NO and (in_part or outcome.result is ControlResult.BLOCKED):
            release = await self._actuator.set_dvfs_throttle(0.0)
            if is_released(release, held):
                state = throttle_released(state)
            else:
                outcome = structs.replace(outcome, unreleased=release)
        return CpuResult(state, _refused(outcome, cap, state))

    async def _hold_by_dvfs(
        self,
        intent: CpuIntent,
        cap: WattCap,
        state: CpuControlState,
        reading: CpuReading | None,
        now: float,
        *,
        why: str = "",
        keep_cap: bool = False,
    ) -> CpuResult:
        release = Held.NO if keep_cap else state.held.cap
        start = self._taking_over(intent, cap, state) if release is Held.YES else state.dvfs
        dvfs, action = self._step(intent, cap, start, reading, now)
        # Sent without an action too: the answer shows whether throttling works, and a backend that lost it regains it.
        outcome = await self._set_throttle(intent, dvfs.throttle_pct, release)
        before_pct = state.dvfs.throttle_pct
        state = replace(throttle_noted(state, outcome, dvfs.throttle_pct), dvfs=dvfs)
        if not outcome.applied:
            state = replace(state, dvfs=with_throttle(dvfs, before_pct))
            return await self._not_throttled(intent, state, outcome, _refused(outcome, cap, state, why))
        state = replace(state, mode=CpuMode.DVFS, throttle_known=True)
        throttle = dvfs_outcome(dvfs, cap_watts=cap.cap_watts * intent.packages, now=now, settings=self._settings)
        outcome = structs.replace(outcome, result=throttle.result, reason=throttle.reason)
        note = "; ".join(part for part in (why, throttle.message) if part)
        report = report_of(
            outcome,
            cap=cap,
            throttle_pct=dvfs.throttle_pct,
            note=note,
            in_force_watts=state.cap_watts if keep_cap else _left_watts(state, outcome),
        )
        action_taken = action.direction if action else None
        if keep_cap:
            return CpuResult(state, report, action_taken)
        return replace(self._owned_by_throttle(state, outcome, report), action=action_taken)

    def _step(
        self, intent: CpuIntent, cap: WattCap, state: DvfsState, reading: CpuReading | None, now: float
    ) -> tuple[DvfsState, DvfsAction | None]:
        return step(
            state,
            cap_watts=cap.cap_watts * intent.packages,
            observed_watts=reading.power_watts if reading else None,
            now=now,
            settings=self._settings,
            plant=intent.plant(cap),
        )

    def _taking_over(self, intent: CpuIntent, cap: WattCap, state: CpuControlState) -> DvfsState:
        """Return the loop's state where it replaces a cap: the cap's share counts until the loop has samples."""
        careful_pct = intent.plant(cap).careful_pct if intent.limits.max_watts else 0.0
        return with_throttle(state.dvfs, max(state.dvfs.throttle_pct, careful_pct))

    async def _set_throttle(self, intent: CpuIntent, throttle_pct: float, release_cap: Held) -> ControlOutcome:
        return await self._actuator.set_dvfs_throttle(throttle_pct, release_cap=release_cap, limits=intent.limits)

    def _owned_by_throttle(self, state: CpuControlState, outcome: ControlOutcome, report: ControlReport) -> CpuResult:
        return CpuResult(state if outcome.unreleased else cap_released(state), report)

    async def _not_throttled(
        self, intent: CpuIntent, state: CpuControlState, outcome: ControlOutcome, report: ControlReport
    ) -> CpuResult:
        """Return the result of a failed throttle. A cap stays if the failure may pass or the mode allows caps."""
        result = CpuResult(state if outcome.reason in _NO_FALLBACK else replace(state, mode=CpuMode.NONE), report)
        allowed = intent.mode is CpuControlMode.AUTO and isinstance(intent.cap, WattCap)
        if outcome.result is not ControlResult.BLOCKED or outcome.reason in _NO_FALLBACK or allowed:
            return result
        return await self._displaced(intent, result)

    async def _displaced(self, intent: CpuIntent, result: CpuResult) -> CpuResult:
        """Restore the path before, where nothing can be put in force."""
        if not result.state.in_force:
            return result
        outcome = await self._actuator.restore_cpu(intent.limits, result.state.held)
        if not _left(outcome):
            return replace(result, state=FREE, report=result.report.model_copy(update={"throttle_pct": None}))
        left = structs.replace(outcome, unreleased=outcome, message=result.report.message)
        state = result.state
        report = report_of(left, throttle_pct=state.throttle_pct, in_force_watts=state.cap_watts)
        return CpuResult(state, report)


async def restore(reason: Reason, limits: WattRange, state: CpuControlState, actuator: CpuActuator) -> CpuResult:
    """Restore what may be in force; where nothing is, report `none` with the reason for the absent intent."""
    if not state.in_force:
        return CpuResult(FREE, ControlReport(reason=reason))
    outcome = await actuator.restore_cpu(limits, state.held)
    if _left(outcome):
        report = report_of(outcome, throttle_pct=state.throttle_pct, in_force_watts=state.cap_watts)
        return CpuResult(state, report)
    return CpuResult(FREE, report_of(outcome))


def _left_watts(state: CpuControlState, outcome: ControlOutcome) -> float | None:
    """Return the watts of a cap that could not be released."""
    return state.cap_watts if outcome.unreleased else None


def _left(outcome: ControlOutcome) -> bool:
    """Return whether something may still be in force after a restore."""
    return outcome.result is ControlResult.ERROR or outcome.reason in {Reason.NO_CAP_RANGE, Reason.REFUSED}


def _refused(outcome: ControlOutcome, cap: WattCap, state: CpuControlState, why: str = "") -> ControlReport:
    """Return the report of a failed action, with what is in force all the same."""
    return report_of(outcome, cap=cap, throttle_pct=state.throttle_pct, note=why, in_force_watts=state.cap_watts)
