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

from msgspec import structs

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuActuator, CpuReading, is_released
from joulie_agent.enforce.cpu_paths import CAP_PATHS, FIRST_PATHS, CpuPath, CpuRelease, CpuStep, step_after
from joulie_agent.enforce.cpu_report import dvfs_outcome, report_of
from joulie_agent.enforce.cpu_state import (
    FREE,
    CpuControlState,
    CpuMode,
    cap_noted,
    cap_released,
    recalled,
    seeded,
    throttle_noted,
    throttle_released,
)
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


@dataclass(frozen=True, slots=True)
class CpuIntent:
    """Cap requested of one node's CPUs at one tick, and the way to control it."""

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
    #: What setting a cap in this tick answered; None where none was to be set.
    cap: ControlOutcome | None = None


@dataclass(frozen=True, slots=True)
class _Tick:
    """An intent, and what is known when it is carried out; `now` is the time on the event loop's clock."""

    intent: CpuIntent
    reading: CpuReading | None
    now: float

    @property
    def watt_cap(self) -> WattCap | None:
        """The cap in watts; None where the intent is a percentage, or none."""
        return self.intent.cap if isinstance(self.intent.cap, WattCap) else None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An action that was carried out, or not."""

    path: CpuPath
    state: CpuControlState
    outcome: ControlOutcome
    action: DvfsAction | None = None


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
        if intent.cap is None:
            return await restore(intent.absent, intent.limits, state, self._actuator)
        tick = _Tick(intent, reading, now)
        attempt = await self._attempt(FIRST_PATHS[type(intent.cap), intent.mode], tick, state)
        after, note = step_after(attempt.path, attempt.outcome), ""
        capped = attempt.outcome if attempt.path in CAP_PATHS else None
        if after.then is not None:
            failed = attempt.outcome
            note = f"{failed.backend} {failed.result}: {failed.message or failed.reason}"
            attempt = await self._attempt(after.then, tick, attempt.state)
            after = step_after(attempt.path, attempt.outcome)
        return replace(await self._finish(tick, attempt, after, note), cap=capped)

    async def follow(
        self, intent: CpuIntent, state: CpuControlState, reading: CpuReading | None, now: float
    ) -> tuple[CpuControlState, DvfsDirection | None]:
        """Take one sample of the DVFS loop between two ticks; only changes are sent to the backend."""
        if state.mode is not CpuMode.DVFS or not isinstance(intent.cap, WattCap):
            return state, None
        dvfs, action = self._step(_Tick(intent, reading, now), intent.cap, state.dvfs)
        if action is None:
            return replace(state, dvfs=dvfs), None
        outcome = await self._actuator.set_dvfs_throttle(dvfs.throttle_pct)
        state = _throttled(state, outcome, dvfs)
        return state, action.direction if outcome.applied else None

    async def _attempt(self, path: CpuPath, tick: _Tick, state: CpuControlState) -> _Attempt:
        match tick.intent.cap:
            case PctCap(pct_of_max=pct) if path is CpuPath.NONE:
                message = f"{pct:g} % of a maximum that is not known, and throttling is turned off"
                return _Attempt(path, state, ControlOutcome(ControlResult.BLOCKED, Reason.NO_CAP_RANGE, "", message))
            case PctCap(pct_of_max=pct):
                return await self._throttle(path, tick, state, DvfsState(throttle_pct=throttle_for_pct(pct)))
            case WattCap() as cap if path in CAP_PATHS:
                outcome = await self._actuator.set_cpu_cap(cap.cap_watts, release_throttle=state.held.throttle)
                return _Attempt(path, cap_noted(state, outcome), outcome)
            case WattCap() as cap:
                replaces_cap = path is not CpuPath.THROTTLE_BESIDE_CAP and state.held.cap is Held.YES
                start = _taking_over(tick.intent, cap, state) if replaces_cap else state.dvfs
                dvfs, action = self._step(tick, cap, start)
                return await self._throttle(path, tick, state, dvfs, action)
            case None:
                raise AssertionError("there is nothing to attempt")

    async def _throttle(
        self, path: CpuPath, tick: _Tick, state: CpuControlState, dvfs: DvfsState, action: DvfsAction | None = None
    ) -> _Attempt:
        # Sent without an action too: the answer shows whether throttling works, and a backend that lost it regains it.
        outcome = await self._actuator.set_dvfs_throttle(
            dvfs.throttle_pct,
            release_cap=Held.NO if path is CpuPath.THROTTLE_BESIDE_CAP else state.held.cap,
            limits=tick.intent.limits,
        )
        return _Attempt(path, _throttled(state, outcome, dvfs), outcome, action if outcome.applied else None)

    async def _finish(self, tick: _Tick, attempt: _Attempt, after: CpuStep, note: str) -> CpuResult:
        """Release what is not to stay, and report what is in force."""
        state, outcome = attempt.state, attempt.outcome
        if after.mode is not None:
            state = replace(state, mode=after.mode)
        throttle_pct = state.throttle_pct
        if outcome.applied and after.mode is CpuMode.RAPL:
            if outcome.unreleased is None:
                state = throttle_released(state)
                throttle_pct = None
            if tick.watt_cap is not None and tick.watt_cap.message and outcome.reason is Reason.CAPPED:
                outcome = structs.replace(outcome, reason=Reason.CLAMPED)
        elif outcome.applied:
            throttle_pct = state.dvfs.throttle_pct
            if attempt.path is not CpuPath.THROTTLE_BESIDE_CAP and outcome.unreleased is None:
                state = cap_released(state)
            outcome, note = self._judged(tick, state, outcome, note)
        elif after.release is CpuRelease.THROTTLE:
            state, outcome = await self._without_throttle(state, outcome)
            throttle_pct = state.throttle_pct
        report = report_of(
            outcome, cap=tick.watt_cap, throttle_pct=throttle_pct, note=note, in_force_watts=state.cap_watts
        )
        result = CpuResult(state, report, attempt.action.direction if attempt.action else None)
        return await self._displaced(tick.intent, result) if after.release is CpuRelease.ALL else result

    def _judged(
        self, tick: _Tick, state: CpuControlState, outcome: ControlOutcome, note: str
    ) -> tuple[ControlOutcome, str]:
        """Return the outcome of a throttle in force as it holds the power, and the note with why."""
        if tick.watt_cap is None:
            return structs.replace(outcome, reason=Reason.THROTTLED_BY_PERCENT), note
        watts = tick.watt_cap.cap_watts * tick.intent.packages
        held = dvfs_outcome(state.dvfs, cap_watts=watts, now=tick.now, settings=self._settings)
        outcome = structs.replace(outcome, result=held.result, reason=held.reason)
        return outcome, "; ".join(part for part in (note, held.message) if part)

    async def _without_throttle(
        self, state: CpuControlState, outcome: ControlOutcome
    ) -> tuple[CpuControlState, ControlOutcome]:
        """Release the throttle; where that fails, the outcome names it."""
        held = state.held.throttle
        if held is Held.NO:
            return state, outcome
        release = await self._actuator.set_dvfs_throttle(0.0)
        if is_released(release, held):
            return throttle_released(state), outcome
        return state, structs.replace(outcome, unreleased=release)

    async def _displaced(self, intent: CpuIntent, result: CpuResult) -> CpuResult:
        """Restore what is in force of an earlier path."""
        if not result.state.in_force:
            return result
        outcome = await self._actuator.restore_cpu(intent.limits, result.state.held)
        if not _left(outcome):
            return replace(result, state=FREE, report=result.report.model_copy(update={"throttle_pct": None}))
        left = structs.replace(outcome, unreleased=outcome, message=result.report.message)
        state = result.state
        report = report_of(left, throttle_pct=state.throttle_pct, in_force_watts=state.cap_watts)
        return CpuResult(state, report)

    def _step(self, tick: _Tick, cap: WattCap, state: DvfsState) -> tuple[DvfsState, DvfsAction | None]:
        return step(
            state,
            cap_watts=cap.cap_watts * tick.intent.packages,
            observed_watts=tick.reading.power_watts if tick.reading else None,
            now=tick.now,
            settings=self._settings,
            plant=tick.intent.plant(cap),
        )


async def restore(reason: Reason, limits: WattRange, state: CpuControlState, actuator: CpuActuator) -> CpuResult:
    """Restore what may be in force; where nothing is, report `none` with the reason for the absent intent."""
    if not state.in_force:
        return CpuResult(FREE, ControlReport(reason=reason))
    outcome = await actuator.restore_cpu(limits, state.held)
    if _left(outcome):
        report = report_of(outcome, throttle_pct=state.throttle_pct, in_force_watts=state.cap_watts)
        return CpuResult(state, report)
    return CpuResult(FREE, report_of(outcome))


def _left(outcome: ControlOutcome) -> bool:
    """Return whether something may still be in force after a restore."""
    return outcome.result is ControlResult.ERROR or outcome.reason in {Reason.NO_CAP_RANGE, Reason.REFUSED}


def _throttled(state: CpuControlState, outcome: ControlOutcome, dvfs: DvfsState) -> CpuControlState:
    """Return the state after the outcome of a throttle, which is the one before where it was not applied."""
    noted = throttle_noted(state, outcome, dvfs.throttle_pct)
    if outcome.applied:
        return replace(noted, dvfs=dvfs, throttle_known=True)
    return replace(noted, dvfs=with_throttle(dvfs, state.dvfs.throttle_pct))


def _taking_over(intent: CpuIntent, cap: WattCap, state: CpuControlState) -> DvfsState:
    """Return the loop's state where it replaces a cap: the cap's share counts until the loop has samples."""
    careful_pct = intent.plant(cap).careful_pct if intent.limits.max_watts else 0.0
    return with_throttle(state.dvfs, max(state.dvfs.throttle_pct, careful_pct))
