"""Published power intent -> watts requested from a backend.

Guarantees that watts win over percentages, that what is requested lies within the hardware's range where one is known,
and that every clamp has a message. An absent stanza gives None (unmanaged); no default watt value leaks. It does
not promise that the hardware obeys: that is read back and reported by the agent.

Source: docs/decisions/0013-conventions.md (CPU and GPU power caps).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap


@dataclass(frozen=True, slots=True)
class WattRange:
    """Power limits of one CPU package or one GPU; None where the hardware does not report it."""

    max_watts: float | None = None
    min_watts: float | None = None


@dataclass(frozen=True, slots=True)
class WattCap:
    """A cap in watts, per CPU package or per GPU."""

    #: The intent before any clamp.
    requested_watts: float
    #: What is requested from the backend.
    cap_watts: float
    #: Why the two differ; empty where they do not.
    message: str = ""


@dataclass(frozen=True, slots=True)
class PctCap:
    """A percentage that no range translates to watts."""

    pct_of_max: float


@dataclass(frozen=True, slots=True)
class GpuDeviceRange:
    """One GPU and its limits; an empty UUID stands for every GPU behind a backend that does not distinguish them."""

    uuid: str
    limits: WattRange


@dataclass(frozen=True, slots=True)
class GpuDeviceCap:
    """The cap that is requested for one GPU."""

    uuid: str
    cap: WattCap | PctCap


def resolve_cpu_cap(target: CpuTarget | None, limits: WattRange) -> WattCap | PctCap | None:
    """Translate a CPU intent for one package; None leaves it unmanaged."""
    if target is None:
        return None
    return _resolve(target.package_power_cap_watts, target.package_power_cap_pct_of_max, limits)


def resolve_gpu_cap(target: GpuPowerCap | None, limits: WattRange) -> WattCap | PctCap | None:
    """Translate a GPU intent for one device; None leaves it unmanaged."""
    if target is None:
        return None
    return _resolve(target.cap_watts_per_gpu, target.cap_pct_of_max, limits)


def resolve_gpu_caps(target: GpuPowerCap | None, devices: Iterable[GpuDeviceRange]) -> tuple[GpuDeviceCap, ...]:
    """Translate a GPU intent for each device, clamped to that device's own range; empty leaves all unmanaged."""
    resolved = ((device.uuid, resolve_gpu_cap(target, device.limits)) for device in devices)
    return tuple(GpuDeviceCap(uuid=uuid, cap=cap) for uuid, cap in resolved if cap is not None)


def _resolve(watts: float | None, pct_of_max: float | None, limits: WattRange) -> WattCap | PctCap | None:
    if watts is not None:
        return _clamp(watts, limits)
    if pct_of_max is None:
        return None
    if limits.max_watts is None or limits.max_watts <= 0:
        return PctCap(pct_of_max=pct_of_max)
    return _clamp(pct_of_max / 100.0 * limits.max_watts, limits)


def _clamp(watts: float, limits: WattRange) -> WattCap:
    if limits.max_watts is not None and 0 < limits.max_watts < watts:
        return WattCap(watts, limits.max_watts, f"{watts:g} W clamped to the maximum of {limits.max_watts:g} W")
    if limits.min_watts is not None and watts < limits.min_watts:
        return WattCap(watts, limits.min_watts, f"{watts:g} W clamped to the minimum of {limits.min_watts:g} W")
    return WattCap(watts, watts)
