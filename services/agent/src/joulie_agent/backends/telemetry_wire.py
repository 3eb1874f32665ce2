"""Decodes telemetry answers and control replies of HTTP backends.

The telemetry answer is that of `joulie_api.telemetry`; implausibly high power is refused as well, with a reason.
Hardware facts in it are taken where they fit the schema of NodeHardware, field names included, and told in
`HardwareFacts.dropped` otherwise; unknown fields are ignored. The control reply is `{"result", "message", "state"}`.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuReading, GpuReading, GpuSample, NodeReading, Unavailable
from joulie_agent.discovery.facts import HardwareFacts
from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.telemetry import Telemetry, TelemetryError, decode_telemetry, percentage
from joulie_core.control_result import ControlResult
from joulie_core.kinds.base import Model
from joulie_core.kinds.bounds import dropped_figures
from joulie_core.kinds.node_hardware import CpuHardware, GpuHardware, MemoryHardware
from joulie_core.plausible import Plausibility, judge, plausible_value
from joulie_core.text import printable

_M = TypeVar("_M", bound=Model)
#: Value of an absent object; a null has the four letters.
_ABSENT: Final = msgspec.Raw()
#: An absent part of the facts, and a null.
_NOTHING: Final = frozenset({b"", b"null"})
#: Characters of a reply's message that are kept.
_LONGEST_MESSAGE: Final = 1024


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


_EXTRA: Final = msgspec.json.Decoder(_Extra)
_STATE: Final = msgspec.json.Decoder(_State)
_REPLY: Final = msgspec.json.Decoder(_Reply)


@dataclass(frozen=True, slots=True)
class ControlReply:
    """A decoded control reply."""

    result: ControlResult
    message: str
    cap_watts: float | None = None
    cap_watts_per_gpu: float | None = None
    throttle_pct: float | None = None


def parse_telemetry(raw: bytes) -> NodeReading | Unavailable:
    """Decode a telemetry answer."""
    try:
        telemetry = decode_telemetry(raw)
    except TelemetryError as error:
        return Unavailable(Reason.MALFORMED_REPLY, str(error))
    for watts in (telemetry.cpu_watts, telemetry.gpu_watts, *(gpu.power_watts for gpu in telemetry.gpus)):
        if watts is not None and judge(watts) is Plausibility.TOO_HIGH:
            return Unavailable(Reason.MALFORMED_REPLY, f"{watts:g} W cannot be true")
    return NodeReading(
        cpu=CpuReading(power_watts=telemetry.cpu_watts, throttle_pct=telemetry.throttle_pct),
        gpu=GpuReading(power_watts=telemetry.gpu_watts, gpus=_gpu_samples(telemetry)),
        facts=_facts(raw),
    )


def parse_reply(raw: bytes) -> ControlReply | Unavailable:
    """Decode a control reply. Result `none` is not a valid answer."""
    try:
        wire = decode(_REPLY.decode, raw, "control reply")
    except DecodeError as error:
        return Unavailable(Reason.MALFORMED_REPLY, str(error))
    if wire.result is ControlResult.NONE:
        return Unavailable(Reason.MALFORMED_REPLY, "not a control reply: result none")
    state = _state(wire.state)
    return ControlReply(
        wire.result,
        printable(wire.message or "", _LONGEST_MESSAGE),
        plausible_value(state.cap_watts),
        plausible_value(state.cap_watts_per_gpu),
        percentage(state.throttle_pct),
    )


def _gpu_samples(telemetry: Telemetry) -> tuple[GpuSample, ...]:
    if telemetry.gpus:
        return tuple(GpuSample(gpu.name, gpu.power_watts, gpu.cap_watts) for gpu in telemetry.gpus)
    if telemetry.gpu_watts is None and telemetry.cap_watts_per_gpu is None:
        return ()
    return (GpuSample("all", telemetry.gpu_watts, telemetry.cap_watts_per_gpu),)


def _facts(raw: bytes) -> HardwareFacts:
    extra = decode(_EXTRA.decode, raw, "telemetry answer")  # it has been decoded before, so that nothing is raised
    with dropped_figures() as dropped:
        cpu = _fact(CpuHardware, extra.cpu, dropped)
        gpu = _fact(GpuHardware, extra.gpu, dropped)
        memory = _fact(MemoryHardware, extra.memory, dropped)
    return HardwareFacts(cpu=cpu, gpu=gpu, memory=memory, dropped=tuple(dropped))


def _fact(model: type[_M], raw: msgspec.Raw, dropped: list[str]) -> _M | None:
    """Return one part of the answer; a part that does not fit its schema is none, and told in `dropped`."""
    if bytes(raw) in _NOTHING:
        return None
    try:
        found = decode(model.model_validate_json, bytes(raw), model.__name__)
    except DecodeError as error:
        dropped.append(str(error))
        return None
    return found if found.model_fields_set else None


def _state(raw: msgspec.Raw) -> _State:
    try:
        return decode(_STATE.decode, raw, "state")
    except DecodeError:
        return _State()
