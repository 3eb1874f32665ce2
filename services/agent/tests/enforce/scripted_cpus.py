"""A scripted actuator of the CPUs, and intents and states for it."""

from dataclasses import dataclass, field, replace

from joulie_actuator.outcome import ControlOutcome, applied, blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuHeld, CpuReading, with_release
from joulie_agent.enforce.cpu import CpuControlState, CpuEnforcer, CpuIntent, CpuMode
from joulie_core.control.caps_resolve import PctCap, WattCap, WattRange
from joulie_core.control.dvfs import DvfsMode, DvfsSettings, DvfsState
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import CpuControlMode, Held

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


BUSY = failed("http-dvfs", Reason.BACKEND_FAILED, "busy")
BOTH = replace(throttled(30), held=CpuHeld(cap=Held.YES, throttle=Held.YES), cap_watts=240)
DVFS_ONLY = replace(WATTS, mode=CpuControlMode.DVFS)
RAPL_ONLY = replace(WATTS, mode=CpuControlMode.RAPL)
PERCENT = replace(WATTS, cap=PctCap(60))
