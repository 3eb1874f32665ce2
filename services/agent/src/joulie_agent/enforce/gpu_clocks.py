"""Holds GPUs at their caps by clock limits where power limits do not: one loop per GPU.

The loops act on nothing but a measured excess, continue from the limits of the agent before, and count a limit as in
force only if the backend confirmed it. Why: docs/decisions/0008-gpu-clocks.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import GpuActuator, GpuReading, GpuSample
from joulie_core.control.gpu_clock import GpuClockSettings, GpuClockState, at_floor, exceeds, refused, step
from joulie_core.control_result import ControlResult

SETTINGS: Final = GpuClockSettings()


@dataclass(frozen=True, slots=True)
class ClockInputs:
    """Inputs of the clock loops at one tick."""

    reading: GpuReading | None = None
    #: Seconds on the loop's clock.
    now: float = 0.0

    @property
    def samples(self) -> Mapping[str, GpuSample]:
        """The reading of each GPU."""
        return {sample.gpu: sample for sample in self.reading.gpus} if self.reading else {}


NO_CLOCK_INPUTS: Final = ClockInputs()


@dataclass(frozen=True, slots=True)
class ClockResult:
    """States and outcome after one tick."""

    states: Mapping[str, GpuClockState] = field(default_factory=dict)
    #: None where there is nothing to limit and nothing to release.
    outcome: ControlOutcome | None = None


async def hold(
    cap_watts: Mapping[str, float], states: Mapping[str, GpuClockState], actuator: GpuActuator, inputs: ClockInputs
) -> ClockResult:
    """Feed each GPU's loop its reading and carry out the limits that result."""
    ranges, samples = actuator.gpu_clocks(), inputs.samples
    before = {uuid: _seeded(states.get(uuid), samples.get(uuid)) for uuid in ranges}
    after: dict[str, GpuClockState] = {}
    for uuid, clocks in ranges.items():
        if uuid in cap_watts:
            sample = samples.get(uuid)
            after[uuid] = step(
                before[uuid],
                cap_watts=cap_watts[uuid],
                observed_watts=sample.power_watts if sample else None,
                clocks=clocks,
                now=inputs.now,
                settings=SETTINGS,
            )
    wanted = {uuid: state.limit_mhz for uuid, state in after.items() if state.limit_mhz is not None}
    if not wanted and all(state.limit_mhz is None for state in before.values()):
        return ClockResult(after)
    outcome = await actuator.set_gpu_clocks(wanted)
    if not outcome.applied:
        return ClockResult({uuid: refused(before[uuid], state) for uuid, state in after.items()}, outcome)
    if not wanted:
        return ClockResult(after)
    return ClockResult(after, _judged(outcome, cap_watts, after, actuator))


def combined(power: ControlOutcome, clocks: ControlOutcome | None) -> ControlOutcome:
    """Return the outcome of both controls: that of the clocks where there is one, with the power limit's watts."""
    if clocks is None:
        return power
    notes = [] if power.applied else [f"power limit: {power.message or power.reason}"]
    message = "; ".join(part for part in (*notes, clocks.message) if part)
    return structs.replace(clocks, message=message, enforced_watts=power.enforced_watts)


def _judged(
    outcome: ControlOutcome, cap_watts: Mapping[str, float], states: Mapping[str, GpuClockState], actuator: GpuActuator
) -> ControlOutcome:
    """Report GPUs that draw more than their cap, and whether more can be done."""
    ranges = actuator.gpu_clocks()
    hot = {uuid: state for uuid, state in states.items() if exceeds(state, cap_watts[uuid], SETTINGS)}
    if not hot:
        return outcome
    drawn = [f"GPU {uuid}: {hot[uuid].ema_watts:.0f} W drawn, {cap_watts[uuid]:.0f} W allowed" for uuid in hot]
    message = "; ".join([*drawn, outcome.message])
    if any(at_floor(state, ranges[uuid], SETTINGS) for uuid, state in hot.items()):
        return structs.replace(outcome, result=ControlResult.BLOCKED, reason=Reason.SATURATED, message=message)
    return structs.replace(outcome, reason=Reason.ADJUSTING, message=message)


def _seeded(state: GpuClockState | None, sample: GpuSample | None) -> GpuClockState:
    """Continue from the limit that an earlier agent left in force."""
    return state or GpuClockState(limit_mhz=sample.clock_limit_mhz if sample else None)
