"""Carrying out the CPU intent of one node: cap the power, else throttle, and give back.

Promises the order of the agent document: watts go to RAPL; where that fails the DVFS loop holds the power at the cap; a
percentage that no range translates becomes a fixed throttle. When RAPL is back its cap comes first and the throttle is
lifted after it, so that the node is never free in between. What may still be in force is remembered until it has been
given back, also when a request got no answer. The memory is a value: nothing here survives the caller's forgetting it.

Source: agent document, CPU enforcement algorithm; contracts, section 3, decisions 3 to 5.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from joulie_agent.backends.base import CpuActuator, CpuReading, Outcome
from joulie_agent.reasons import Reason
from joulie_core.caps_resolve import PctCap, WattCap, WattRange
from joulie_core.dvfs import DvfsDirection, DvfsSettings, DvfsState, step, throttle_for_pct, with_throttle
from joulie_core.kinds.telemetry_profile import ControlReport, ControlResult, CpuControlMode

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


#: Of what was not done as asked, a part is in force.
_IN_FORCE_IN_PART: Final = frozenset({Reason.HELD_BY_FIRMWARE, Reason.PARTLY_APPLIED})


class CpuMode(StrEnum):
    """What holds the power; the `mode` label of `joulie_backend_mode`."""

    NONE = "none"
    RAPL = "rapl"
    DVFS = "dvfs"


@dataclass(frozen=True, slots=True)
class CpuMemory:
    """What is remembered of one node's CPU enforcement between two ticks."""

    mode: CpuMode = CpuMode.NONE
    dvfs: DvfsState = field(default_factory=DvfsState)
    #: A cap or throttle of ours may be in force.
    in_force: bool = False
    #: False until the throttle in force has been read or taken over from the last report.
    throttle_known: bool = False


@dataclass(frozen=True, slots=True)
class CpuOrder:
    """What is wanted of one node's CPUs at one tick."""

    #: None: leave alone, and `absent` says why.
    cap: WattCap | PctCap | None
    absent: Reason
    limits: WattRange
    #: CPU packages of the node; readings are of all of them, caps of each.
    packages: int
    mode: CpuControlMode


@dataclass(frozen=True, slots=True)
class CpuResult:
    """What became of it."""

    memory: CpuMemory
    report: ControlReport
    #: The DVFS action that was carried out in this tick.
    action: DvfsDirection | None = None


def remembered(report: ControlReport | None) -> CpuMemory:
    """What a new agent must assume is in force, from the last report of the one before it."""
    if report is None or not _may_be_in_force(report):
        return CpuMemory()
    if report.reason == Reason.RESTORED or not report.backend:
        return CpuMemory()
    throttle_pct = report.throttle_pct or 0.0
    return CpuMemory(
        mode=CpuMode.DVFS if throttle_pct > 0 else CpuMode.NONE,
        dvfs=DvfsState(throttle_pct=throttle_pct),
        in_force=True,
        throttle_known=report.throttle_pct is not None,
    )


class CpuEnforcer:
    """Carries out orders on one actuator."""

    def __init__(self, actuator: CpuActuator, settings: DvfsSettings) -> None:
        self._actuator = actuator
        self._settings = settings

    async def enforce(self, order: CpuOrder, memory: CpuMemory, reading: CpuReading | None, now: float) -> CpuResult:
        """Carry out an order once; `now` is the tick's time on the loop's clock."""
        memory = _seeded(memory, reading)
        match order.cap:
            case None:
                return await self.give_back(order.absent, order.limits, memory)
            case PctCap(pct_of_max=pct):
                return await self._throttle_by_pct(order, pct, memory)
            case WattCap() as cap:
                return await self._hold_watts(order, cap, memory, reading, now)

    async def give_back(self, reason: Reason, limits: WattRange, memory: CpuMemory) -> CpuResult:
        """Lift what may be in force; where nothing is, report none with the reason why nothing is wanted."""
        if not memory.in_force:
            return CpuResult(CpuMemory(throttle_known=True), ControlReport(reason=reason))
        outcome = await self._actuator.restore_cpu(limits)
        if outcome.result is ControlResult.ERROR or outcome.reason is Reason.NO_CAP_RANGE:
            return CpuResult(memory, _report(outcome))
        return CpuResult(CpuMemory(throttle_known=True), _report(outcome))

    async def _throttle_by_pct(self, order: CpuOrder, pct: float, memory: CpuMemory) -> CpuResult:
        if order.mode is CpuControlMode.RAPL:
            message = f"{pct:g} % of a maximum that is not known, and throttling is turned off"
            report = ControlReport(result=ControlResult.BLOCKED, reason=Reason.NO_CAP_RANGE, message=message)
            return CpuResult(replace(memory, mode=CpuMode.NONE), report)
        wanted_pct = throttle_for_pct(pct)
        outcome = await self._actuator.set_dvfs_throttle(wanted_pct)
        memory = _noted(memory, outcome)
        if not outcome.applied:
            return CpuResult(replace(memory, mode=CpuMode.NONE), _report(outcome))
        memory = replace(memory, mode=CpuMode.DVFS, dvfs=DvfsState(throttle_pct=wanted_pct), throttle_known=True)
        outcome = replace(outcome, reason=Reason.THROTTLED_BY_PERCENT)
        return CpuResult(memory, _report(outcome, throttle_pct=wanted_pct))

    async def _hold_watts(
        self, order: CpuOrder, cap: WattCap, memory: CpuMemory, reading: CpuReading | None, now: float
    ) -> CpuResult:
        if order.mode is CpuControlMode.DVFS:
            return await self._hold_by_dvfs(order, cap, memory, reading, now, why="")
        outcome = await self._actuator.set_cpu_cap(cap.cap_watts)
        memory = _noted(memory, outcome)
        if outcome.applied:
            return await self._capped(cap, memory, outcome)
        if outcome.reason in _NO_FALLBACK:
            # Nothing got through: what was in force still is, and the mode says so.
            return CpuResult(memory, _report(outcome, cap=cap, throttle_pct=_throttle_of(memory)))
        if order.mode is CpuControlMode.RAPL:
            return CpuResult(replace(memory, mode=CpuMode.NONE), _report(outcome, cap=cap))
        why = f"{outcome.backend} {outcome.result}: {outcome.message or outcome.reason}"
        return await self._hold_by_dvfs(order, cap, memory, reading, now, why=why)

    async def _capped(self, cap: WattCap, memory: CpuMemory, outcome: Outcome) -> CpuResult:
        """The cap is in force; lift a throttle that held the power before."""
        if cap.message:
            outcome = replace(outcome, reason=Reason.CLAMPED)
        if memory.dvfs.throttle_pct > 0:
            lifted = await self._actuator.set_dvfs_throttle(0.0)
            if lifted.result is ControlResult.ERROR:
                note = f"throttle not lifted yet: {lifted.message or lifted.reason}"
                report = _report(outcome, cap=cap, throttle_pct=memory.dvfs.throttle_pct, note=note)
                return CpuResult(replace(memory, mode=CpuMode.RAPL), report)
        memory = CpuMemory(mode=CpuMode.RAPL, in_force=True, throttle_known=True)
        return CpuResult(memory, _report(outcome, cap=cap))

    async def _hold_by_dvfs(
        self, order: CpuOrder, cap: WattCap, memory: CpuMemory, reading: CpuReading | None, now: float, *, why: str
    ) -> CpuResult:
        observed_watts = reading.power_watts if reading else None
        before_pct = memory.dvfs.throttle_pct
        dvfs, action = step(
            memory.dvfs,
            cap_watts=cap.cap_watts * order.packages,
            observed_watts=observed_watts,
            now=now,
            settings=self._settings,
        )
        # Sent without an action too: the answer tells whether throttling works, and a backend that lost it regains it.
        outcome = await self._actuator.set_dvfs_throttle(dvfs.throttle_pct)
        memory = replace(_noted(memory, outcome), dvfs=dvfs)
        if not outcome.applied:
            in_force = with_throttle(dvfs, before_pct)
            note = "; ".join(part for part in (why, outcome.message) if part)
            report = _report(replace(outcome, message=""), cap=cap, throttle_pct=_throttle_of(memory), note=note)
            return CpuResult(replace(memory, mode=CpuMode.NONE, dvfs=in_force), report)
        note = "; ".join(
            part for part in (why, "" if observed_watts is not None else "no usable power reading") if part
        )
        report = _report(replace(outcome, reason=Reason.THROTTLED), cap=cap, throttle_pct=dvfs.throttle_pct, note=note)
        memory = replace(memory, mode=CpuMode.DVFS, throttle_known=True)
        return CpuResult(memory, report, action.direction if action else None)


def _seeded(memory: CpuMemory, reading: CpuReading | None) -> CpuMemory:
    """Take over the throttle that the backend had before this agent came."""
    if memory.throttle_known or reading is None or reading.throttle_pct is None:
        return memory
    return replace(
        memory,
        dvfs=with_throttle(memory.dvfs, reading.throttle_pct),
        in_force=memory.in_force or reading.throttle_pct > 0,
        throttle_known=True,
    )


def _noted(memory: CpuMemory, outcome: Outcome) -> CpuMemory:
    """Remember that something may be in force; a request without an answer may have landed."""
    return replace(memory, in_force=memory.in_force or _may_be_in_force(outcome))


def _may_be_in_force(outcome: Outcome | ControlReport) -> bool:
    return outcome.result in {ControlResult.APPLIED, ControlResult.ERROR} or outcome.reason in _IN_FORCE_IN_PART


def _throttle_of(memory: CpuMemory) -> float | None:
    return memory.dvfs.throttle_pct if memory.dvfs.throttle_pct > 0 else None


def _report(
    outcome: Outcome, *, cap: WattCap | None = None, throttle_pct: float | None = None, note: str = ""
) -> ControlReport:
    parts = [cap.message if cap else "", note, outcome.message]
    return ControlReport(
        backend=outcome.backend,
        result=outcome.result,
        reason=outcome.reason,
        message="; ".join(part for part in parts if part)[:1024],
        requested_watts=cap.requested_watts if cap else None,
        enforced_watts=outcome.enforced_watts,
        throttle_pct=throttle_pct,
    )
