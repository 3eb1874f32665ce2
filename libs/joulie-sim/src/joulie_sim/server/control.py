"""Control requests to a simulated node, and their effects. No I/O.

A cap outside the hardware's range is clamped, with a message; a request for a part that the node does not have is
`blocked`; a malformed request has no effect. Protocol: docs/decisions/0013-conventions.md, "HTTP backend".
`gpu.set_clock_limit_pct`, which agents do not send, stands for what an actuator would set on the node.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from joulie_sim.physics.operation import effective_cpu_cap, effective_gpu_cap
from joulie_sim.physics.parts import Controls, GpuPart, Hardware

_PERCENT: Final = 100.0


class Action(StrEnum):
    """Action of a control request."""

    CPU_CAP = "rapl.set_power_cap_watts"
    THROTTLE = "dvfs.set_throttle_pct"
    GPU_CAP = "gpu.set_power_cap_watts"
    GPU_CLOCK = "gpu.set_clock_limit_pct"


class Result(StrEnum):
    """Result of a control request."""

    APPLIED = "applied"
    BLOCKED = "blocked"
    ERROR = "error"


class MalformedControlError(ValueError):
    """The body is not a valid control request; the message has the reason."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """One action and its value: watts per package, percent, or watts per GPU.

    The limit of a GPU's clock is in percent of the one that it holds alone; 100 is none.
    """

    action: Action
    value: float
    #: Index of the GPU whose clock is limited; all other actions are for all devices of a node.
    gpu: int = 0


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """The answer to a request, and the controls after it."""

    result: Result
    message: str
    controls: Controls


class _Body(msgspec.Struct, rename="camel"):
    action: str
    node: str | None = None
    cap_watts: float | None = None
    throttle_pct: float | None = None
    cap_watts_per_gpu: float | None = None
    gpu: Annotated[int, msgspec.Meta(ge=0)] | None = None
    clock_pct: Annotated[float, msgspec.Meta(le=100.0)] | None = None


def parse_control(node: str, body: bytes) -> ControlRequest:
    """Parse a request for `node`.

    Raises:
        MalformedControlError: the body is not a valid request for this node.
    """
    try:
        wire = msgspec.json.decode(body, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedControlError(f"not a control request: {error}") from error
    if wire.node not in (None, node):
        raise MalformedControlError(f"request for node {wire.node!r} sent to {node!r}")
    try:
        action = Action(wire.action)
    except ValueError as error:
        raise MalformedControlError(f"action {wire.action!r} is not one of {', '.join(Action)}") from error
    field, value = {
        Action.CPU_CAP: ("capWatts", wire.cap_watts),
        Action.THROTTLE: ("throttlePct", wire.throttle_pct),
        Action.GPU_CAP: ("capWattsPerGpu", wire.cap_watts_per_gpu),
        Action.GPU_CLOCK: ("clockPct", wire.clock_pct),
    }[action]
    if value is None:
        raise MalformedControlError(f"{action} needs {field}")
    if value < 0.0 or (value == 0.0 and action is not Action.THROTTLE):
        raise MalformedControlError(f"{field} = {value:g} must be positive")
    if action is Action.GPU_CLOCK and wire.gpu is None:
        raise MalformedControlError(f"{action} needs gpu")
    return ControlRequest(action, value, wire.gpu or 0)


def perform(request: ControlRequest, hardware: Hardware, controls: Controls) -> ControlAnswer:
    """Return the answer of a node with this hardware to a request."""
    match request.action:
        case Action.CPU_CAP:
            if hardware.cpu is None:
                return ControlAnswer(Result.BLOCKED, "the node's CPUs are not known", controls)
            cap_watts, note = _clamp(
                request.value, hardware.cpu.min_cap_watts, hardware.cpu.max_cap_watts, unit="W per package"
            )
            return ControlAnswer(Result.APPLIED, note, replace(controls, cpu_cap_watts=cap_watts))
        case Action.THROTTLE:
            if hardware.cpu is None:
                return ControlAnswer(Result.BLOCKED, "the node's CPUs are not known", controls)
            throttle_pct, note = _clamp(request.value, 0.0, 100.0, unit="%")
            return ControlAnswer(Result.APPLIED, note, replace(controls, throttle_pct=throttle_pct))
        case Action.GPU_CAP:
            return _cap_gpus(request.value, hardware.gpu, controls)
        case Action.GPU_CLOCK:
            return _limit_gpu_clock(request, hardware.gpu, controls)


def _cap_gpus(asked_watts: float, gpu: GpuPart | None, controls: Controls) -> ControlAnswer:
    if gpu is None:
        return ControlAnswer(Result.BLOCKED, "the node has no GPU", controls)
    cap_watts, note = _clamp(asked_watts, gpu.min_cap_watts, gpu.max_cap_watts, unit="W per GPU")
    return ControlAnswer(Result.APPLIED, note, replace(controls, gpu_cap_watts=cap_watts))


def _limit_gpu_clock(request: ControlRequest, gpu: GpuPart | None, controls: Controls) -> ControlAnswer:
    if gpu is None or request.gpu >= gpu.count:
        return ControlAnswer(Result.BLOCKED, f"the node has no GPU {request.gpu}", controls)
    return ControlAnswer(Result.APPLIED, "", controls.with_gpu_clock(request.gpu, request.value / _PERCENT))


def control_state(hardware: Hardware, controls: Controls) -> dict[str, Any]:
    """Return the controls in force in the form of the reply's `state`: caps are per package and per GPU."""
    state: dict[str, Any] = {}
    if hardware.cpu is not None:
        state["capWatts"] = effective_cpu_cap(hardware.cpu, controls)
        state["throttlePct"] = controls.throttle_pct
    if hardware.gpu is not None:
        state["capWattsPerGpu"] = effective_gpu_cap(hardware.gpu, controls)
        state["clockPct"] = [_PERCENT * controls.gpu_clock_share(index) for index in range(hardware.gpu.count)]
    return state


def _clamp(value: float, low: float, high: float, *, unit: str) -> tuple[float, str]:
    clamped = min(high, max(low, value))
    if clamped == value:
        return value, ""
    return clamped, f"{value:g} {unit} clamped to {clamped:g}, range {low:g} to {high:g}"
