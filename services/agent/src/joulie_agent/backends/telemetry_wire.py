"""What HTTP backends say: the telemetry answer and the control reply.

Promises that a figure of the contract is either understood or refused with a reason, never guessed: text where a number
should be, negative watts, or more than any node draws, is no reading. 0 W is a meter that does not measure and counts
as absent. Facts about the hardware that come along are taken where they fit the model
of NodeHardware, field names included, and left out where they do not: extra fields are welcome and cannot do harm.

Telemetry: `{"packagePowerWatts": w}` or `{"cpu": {"packagePowerWatts": w, "throttlePct": t, ...}, "gpu": {"powerWatts":
w, "capWattsPerGpu": w, "devices": [{"uuid", "powerWatts", "capWatts"}], ...}, "memory": {...}}`; `packagePowerWatts` is
the sum of all packages, `gpu.powerWatts` of all GPUs. Control: `{"result", "message", "state"}`. Source: contracts,
section 4.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
import pydantic

from joulie_agent.backends.base import CpuReading, GpuReading, GpuSample, HardwareFacts, NodeReading, Unavailable
from joulie_agent.reasons import Reason
from joulie_core.kinds.base import Model
from joulie_core.kinds.node_hardware import CpuHardware, GpuHardware, MemoryHardware
from joulie_core.kinds.telemetry_profile import ControlResult
from joulie_core.plausible import Plausibility, judge, reading_watts

_M = TypeVar("_M", bound=Model)
#: What a part that is not there holds; one that is there but null holds the four letters.
_ABSENT: Final = msgspec.Raw()


class _Cpu(msgspec.Struct, rename="camel"):
    package_power_watts: float | None = None
    throttle_pct: float | None = None


class _Device(msgspec.Struct, rename="camel"):
    uuid: str | None = None
    index: int | None = None
    power_watts: float | None = None
    cap_watts: float | None = None


class _Gpu(msgspec.Struct, rename="camel"):
    power_watts: float | None = None
    cap_watts_per_gpu: float | None = None
    devices: list[_Device] | None = None


class _Telemetry(msgspec.Struct, rename="camel"):
    package_power_watts: float | None = None
    cpu: _Cpu | None = None
    gpu: _Gpu | None = None


class _Extra(msgspec.Struct):
    cpu: msgspec.Raw = _ABSENT
    gpu: msgspec.Raw = _ABSENT
    memory: msgspec.Raw = _ABSENT


class _State(msgspec.Struct, rename="camel"):
    cap_watts: float | None = None
    cap_watts_per_gpu: float | None = None
    throttle_pct: float | None = None


class _Reply(msgspec.Struct):
    result: ControlResult
    message: str | None = None
    state: msgspec.Raw = _ABSENT


@dataclass(frozen=True, slots=True)
class ControlReply:
    """A control reply that was understood."""

    result: ControlResult
    message: str
    cap_watts: float | None = None
    cap_watts_per_gpu: float | None = None
    throttle_pct: float | None = None


def parse_telemetry(raw: bytes) -> NodeReading | Unavailable:
    """Read a telemetry answer."""
    try:
        wire = msgspec.json.decode(raw, type=_Telemetry)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Unavailable(Reason.MALFORMED_REPLY, f"not a telemetry answer: {error}")
    cpu, gpu = wire.cpu or _Cpu(), wire.gpu or _Gpu()
    cpu_watts = cpu.package_power_watts if cpu.package_power_watts is not None else wire.package_power_watts
    devices = gpu.devices or []
    for watts in (cpu_watts, gpu.power_watts, *(device.power_watts for device in devices)):
        if watts is not None and (watts < 0 or judge(watts) is Plausibility.TOO_HIGH):
            return Unavailable(Reason.MALFORMED_REPLY, f"{watts:g} W cannot be true")
    return NodeReading(
        cpu=CpuReading(power_watts=reading_watts(cpu_watts), throttle_pct=_percentage(cpu.throttle_pct)),
        gpu=GpuReading(power_watts=_gpu_watts(gpu), gpus=_gpu_samples(gpu)),
        facts=_facts(raw),
    )


def parse_reply(raw: bytes) -> ControlReply | Unavailable:
    """Read a control reply. The result `none` is not an answer to a request."""
    try:
        wire = msgspec.json.decode(raw, type=_Reply)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Unavailable(Reason.MALFORMED_REPLY, f"not a control reply: {error}")
    if wire.result is ControlResult.NONE:
        return Unavailable(Reason.MALFORMED_REPLY, "not a control reply: result none")
    state = _state(wire.state)
    return ControlReply(
        wire.result, wire.message or "", state.cap_watts, state.cap_watts_per_gpu, _percentage(state.throttle_pct)
    )


def _gpu_watts(gpu: _Gpu) -> float | None:
    if gpu.power_watts is not None:
        return reading_watts(gpu.power_watts)
    watts = [reading_watts(device.power_watts) for device in gpu.devices or []]
    # A sum over some of the devices would pass for the node's power.
    return sum(part for part in watts if part is not None) if watts and None not in watts else None


def _gpu_samples(gpu: _Gpu) -> tuple[GpuSample, ...]:
    if gpu.devices:
        return tuple(
            GpuSample(
                gpu=device.uuid or str(position if device.index is None else device.index),
                power_watts=reading_watts(device.power_watts),
                cap_watts=gpu.cap_watts_per_gpu if device.cap_watts is None else device.cap_watts,
            )
            for position, device in enumerate(gpu.devices)
        )
    if gpu.power_watts is None and gpu.cap_watts_per_gpu is None:
        return ()
    return (GpuSample(gpu="all", power_watts=reading_watts(gpu.power_watts), cap_watts=gpu.cap_watts_per_gpu),)


def _facts(raw: bytes) -> HardwareFacts:
    extra = msgspec.json.decode(raw, type=_Extra)
    return HardwareFacts(
        cpu=_fact(CpuHardware, extra.cpu), gpu=_fact(GpuHardware, extra.gpu), memory=_fact(MemoryHardware, extra.memory)
    )


def _fact(model: type[_M], raw: msgspec.Raw) -> _M | None:
    try:
        found = model.model_validate_json(bytes(raw))
    except pydantic.ValidationError:
        return None
    return found if found.model_fields_set else None


def _state(raw: msgspec.Raw) -> _State:
    try:
        return msgspec.json.decode(raw, type=_State)
    except msgspec.MsgspecError:
        return _State()


def _percentage(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= 100 else None  # noqa: PLR2004 - percent
