"""Carries out the GPU intent of one node: cap each device within its range, and restore.

What may be in force stays in the state until it has been restored. A percentage is never sent where no range translates
it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import structs

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import GpuActuator
from joulie_agent.enforce.gpu_clocks import NO_CLOCK_INPUTS, ClockInputs, combined, hold
from joulie_core.budget.binding import LimitSource
from joulie_core.budget.device_caps import lower_gpu_caps
from joulie_core.control.caps_resolve import GpuDeviceCap, GpuDeviceRange, WattCap, WattRange, resolve_gpu_caps
from joulie_core.control.gpu_clock import GpuClockState
from joulie_core.control_result import ControlResult
from joulie_core.kinds.node_power_profile import GpuPowerCap
from joulie_core.kinds.telemetry_profile import ControlReport


@dataclass(frozen=True, slots=True)
class GpuControlState:
    """State of one node's GPU enforcement between two ticks."""

    #: Whether a cap may be in force.
    in_force: bool = False
    #: The loops that limit clocks, by UUID.
    clocks: Mapping[str, GpuClockState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuIntent:
    """Cap requested of one node's GPUs at one tick."""

    #: None: unmanaged, for the reason in `absent`.
    target: GpuPowerCap | None
    absent: Reason
    #: Range of one GPU, for backends with one cap for all devices.
    limits: WattRange
    #: Whether the node is known to have GPUs.
    present: bool
    #: Caps by the node's power budget in milliwatts, by UUID; the lower of two caps applies.
    budget_mw: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuResult:
    """State and report after one tick."""

    state: GpuControlState
    report: ControlReport
    #: What setting the caps in this tick answered; None where none was to be set.
    caps: ControlOutcome | None = None
    #: What the caps come from.
    source: LimitSource | None = None


async def enforce(
    intent: GpuIntent, state: GpuControlState, actuator: GpuActuator, inputs: ClockInputs = NO_CLOCK_INPUTS
) -> GpuResult:
    """Carry out an intent once; `inputs` are those of the clock loops."""
    devices = actuator.gpu_devices() or (GpuDeviceRange("", intent.limits),)
    caps, source = lower_gpu_caps(resolve_gpu_caps(intent.target, devices), intent.budget_mw)
    if not caps:
        return await restore(intent.absent, intent.limits, state, actuator)
    cap_watts = {device.uuid: device.cap.cap_watts for device in caps if isinstance(device.cap, WattCap)}
    if len(cap_watts) < len(caps):
        reason = Reason.NO_CAP_RANGE if intent.present else Reason.NO_DEVICE
        return GpuResult(state, ControlReport(result=ControlResult.BLOCKED, reason=reason))
    power = await actuator.set_gpu_caps(cap_watts)
    clocks = await hold(_targets(intent, caps, actuator), state.clocks, actuator, inputs)
    in_force = state.in_force or _landed(power) or (clocks.outcome is not None and _landed(clocks.outcome))
    report = _report(combined(power, clocks.outcome), caps)
    return GpuResult(GpuControlState(in_force=in_force, clocks=clocks.states), report, power, source)


def _landed(outcome: ControlOutcome) -> bool:
    return outcome.result in {ControlResult.APPLIED, ControlResult.ERROR} or outcome.reason is Reason.SATURATED


def _targets(intent: GpuIntent, caps: tuple[GpuDeviceCap, ...], actuator: GpuActuator) -> dict[str, float]:
    """Return the power that each GPU may draw: its cap, before it is clamped to the range of its power limit.

    GPUs without a power limit are not among `caps`; theirs follow from the node's range.
    """
    without = set(actuator.gpu_clocks()) - {device.uuid for device in caps}
    caps += resolve_gpu_caps(intent.target, [GpuDeviceRange(uuid, intent.limits) for uuid in sorted(without)])
    return {
        device.uuid: min(device.cap.requested_watts, device.cap.cap_watts)
        for device in caps
        if isinstance(device.cap, WattCap)
    }


async def restore(reason: Reason, limits: WattRange, state: GpuControlState, actuator: GpuActuator) -> GpuResult:
    """Restore what may be in force; where nothing is, report `none` with the reason for the absent intent."""
    if not state.in_force:
        return GpuResult(state, ControlReport(reason=reason))
    outcome = await actuator.restore_gpu(limits)
    still = outcome.result is ControlResult.ERROR or outcome.reason is Reason.NO_CAP_RANGE
    return GpuResult(GpuControlState(in_force=still), _report(outcome, ()))


def _report(outcome: ControlOutcome, caps: tuple[GpuDeviceCap, ...]) -> ControlReport:
    resolved = [device.cap for device in caps if isinstance(device.cap, WattCap)]
    clamps = dict.fromkeys(cap.message for cap in resolved if cap.message)
    if outcome.reason is Reason.CAPPED and clamps:
        outcome = structs.replace(outcome, reason=Reason.CLAMPED)
    return ControlReport(
        backend=outcome.backend,
        result=outcome.result,
        reason=outcome.reason,
        message="; ".join([*clamps, *([outcome.message] if outcome.message else [])])[:1024],
        requested_watts=max((cap.requested_watts for cap in resolved), default=None),
        enforced_watts=outcome.enforced_watts,
    )
