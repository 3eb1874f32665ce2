"""Answers of a node's telemetry endpoint (the HTTP backend).

`{"packagePowerWatts": w}` or `{"cpu": {"packagePowerWatts": w, "throttlePct": t}, "gpu": {"powerWatts": w,
"capWattsPerGpu": w, "devices": [{"uuid", "index", "powerWatts", "capWatts"}]}}`; other fields are ignored.
`packagePowerWatts` is the sum of all packages, `gpu.powerWatts` that of all GPUs; where it is missing, the devices are
added up.

An answer with text in place of a number, or with negative watts, is rejected as a whole. 0 W means that the meter does
not measure, and counts as absent. The caller, which knows the hardware, decides whether a value is too high: see
`joulie_core.plausible`.
"""

import math
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core.plausible import reading_watts

_FULL_PCT: Final = 100.0


class TelemetryError(Exception):
    """The answer is not valid telemetry; the message has the reason."""


@dataclass(frozen=True, slots=True)
class GpuTelemetry:
    """One GPU; None is a value that is not measured."""

    #: UUID, else its index, else its position in the answer.
    name: str
    power_watts: float | None
    cap_watts: float | None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Power of one node, in watts; None is a value that is not measured."""

    #: All packages.
    cpu_watts: float | None = None
    #: All GPUs; also None where one of them is not measured, since the sum of the others would be too low.
    gpu_watts: float | None = None
    #: 0 to 100; None where the answer has any other value.
    throttle_pct: float | None = None
    #: The cap of each GPU where they are capped alike.
    cap_watts_per_gpu: float | None = None
    gpus: tuple[GpuTelemetry, ...] = ()


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


class _Answer(msgspec.Struct, rename="camel"):
    package_power_watts: float | None = None
    cpu: _Cpu | None = None
    gpu: _Gpu | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)


def decode_telemetry(raw: bytes) -> Telemetry:
    """Return the decoded answer of a telemetry endpoint.

    Raises:
        TelemetryError: not JSON of that form, or negative watts.
    """
    try:
        answer = decode(_ANSWER.decode, raw, "telemetry answer")
    except DecodeError as error:
        raise TelemetryError(str(error)) from error
    cpu, gpu = answer.cpu or _Cpu(), answer.gpu or _Gpu()
    devices = gpu.devices or []
    cpu_watts = answer.package_power_watts if cpu.package_power_watts is None else cpu.package_power_watts
    for watts in (cpu_watts, gpu.power_watts, *(device.power_watts for device in devices)):
        if watts is not None and watts < 0:
            raise TelemetryError(f"implausible power {watts:g} W")
    return Telemetry(
        cpu_watts=reading_watts(cpu_watts),
        gpu_watts=_sum(devices) if gpu.power_watts is None else reading_watts(gpu.power_watts),
        throttle_pct=percentage(cpu.throttle_pct),
        cap_watts_per_gpu=gpu.cap_watts_per_gpu,
        gpus=tuple(_gpu(position, device, gpu.cap_watts_per_gpu) for position, device in enumerate(devices)),
    )


def percentage(value: float | None) -> float | None:
    """Return the value if it is between 0 and 100, else None."""
    return value if value is not None and 0 <= value <= _FULL_PCT else None


def _sum(devices: list[_Device]) -> float | None:
    watts = [reading_watts(device.power_watts) for device in devices]
    measured = [part for part in watts if part is not None]
    return math.fsum(measured) if measured and len(measured) == len(watts) else None


def _gpu(position: int, device: _Device, cap_watts_per_gpu: float | None) -> GpuTelemetry:
    return GpuTelemetry(
        name=device.uuid or str(position if device.index is None else device.index),
        power_watts=reading_watts(device.power_watts),
        cap_watts=cap_watts_per_gpu if device.cap_watts is None else device.cap_watts,
    )
