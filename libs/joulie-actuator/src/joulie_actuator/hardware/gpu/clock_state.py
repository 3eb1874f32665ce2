"""The clock of a GPU and why it is no higher: a limit that does not bind saves nothing.

NVML names the reasons of the moment. AMD SMI counts how long each has held, from MI300 on, so that two readings tell.
Neither names a limit on the clock.
Source: NVIDIA, NVML API Reference Guide, nvmlClocksEventReasons; AMD, AMD SMI documentation, gpu_metrics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

_IDLE: Final = 0x1
_SW_POWER_CAP: Final = 0x4
_POWER_BRAKE: Final = 0x80
#: SwThermalSlowdown, HwThermalSlowdown.
_THERMAL: Final = 0x20 | 0x40

_THERMAL_COUNTERS: Final = (
    "prochot_residency_acc",
    "socket_thm_residency_acc",
    "vr_thm_residency_acc",
    "hbm_thm_residency_acc",
)
#: Between two clocks that NVIDIA's GPUs support since Ampere; less before.
CLOCK_STEP_MHZ: Final = 15
#: Above it is a word for an absent value.
MOST_PCT: Final = 100


class ClockBound(StrEnum):
    """Reason why the graphics clock of a GPU is no higher."""

    #: A limit on power, of the GPU or of the server.
    POWER_LIMIT = "power-limit"
    #: Joulie's limit on the clock.
    CLOCK_LIMIT = "clock-limit"
    THERMAL = "thermal"
    #: There is no work.
    IDLE = "idle"
    #: Nothing keeps it from its highest clock.
    NONE = "none"
    #: Not reported, or a reason that is none of the others.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ClockState:
    """One reading; None where the library does not report a value."""

    clock_mhz: int | None
    reported: ClockBound
    #: Share of the last moments in which the GPU was busy, in percent.
    busy_pct: int | None = None


@dataclass(frozen=True, slots=True)
class Residency:
    """Counters of AMD SMI, which only rise; None where the device has none."""

    #: Readings of the firmware so far.
    readings: int | None
    #: Of these, those under a power limit, and those under each limit of heat.
    power: int | None
    thermal: tuple[int | None, ...]

    @staticmethod
    def of(metrics: Mapping[str, Any]) -> "Residency":
        """Return the counters of `amdsmi_get_gpu_metrics_info`."""
        return Residency(
            _count(metrics.get("accumulation_counter")),
            _count(metrics.get("ppt_residency_acc")),
            tuple(_count(metrics.get(name)) for name in _THERMAL_COUNTERS),
        )


def bound_of_event_reasons(reasons: int) -> ClockBound:
    """Return what NVML's clocks event reasons say, a bit for each."""
    if reasons & _THERMAL:
        return ClockBound.THERMAL
    if reasons & (_SW_POWER_CAP | _POWER_BRAKE):
        return ClockBound.POWER_LIMIT
    if reasons == _IDLE:
        return ClockBound.IDLE
    return ClockBound.UNKNOWN if reasons & ~_IDLE else ClockBound.NONE


def bound_of_metrics(metrics: Mapping[str, Any], before: Residency | None) -> ClockBound:
    """Return what AMD's metrics say; `before`: the counters of an earlier reading, None at the first."""
    if metrics.get("average_gfx_activity") == 0:
        return ClockBound.IDLE
    now = Residency.of(metrics)
    if now.readings is None:
        # Older devices say whether any reason holds, and the package does not pass on which.
        throttled = (metrics.get("throttle_status"), metrics.get("indep_throttle_status"))
        return ClockBound.NONE if False in throttled and True not in throttled else ClockBound.UNKNOWN
    if before is None or before.readings is None or now.readings <= before.readings:
        return ClockBound.UNKNOWN
    thermal = [_risen(later, earlier) for later, earlier in zip(now.thermal, before.thermal, strict=True)]
    power = _risen(now.power, before.power)
    if True in thermal:
        return ClockBound.THERMAL
    if power:
        return ClockBound.POWER_LIMIT
    return ClockBound.UNKNOWN if power is None or None in thermal else ClockBound.NONE


def busy_pct_of_metrics(metrics: Mapping[str, Any]) -> int | None:
    """Return the share of the time in which AMD's graphics engine was busy, in percent; None where that is unknown."""
    return _share(metrics.get("average_gfx_activity"))


def clock_bound(reported: ClockBound, clock_mhz: int | None, limit_mhz: int | None) -> ClockBound:
    """Return what bounds a clock, of what the vendor's library reports and Joulie's limit, which it does not name.

    Args:
        reported: by the library.
        clock_mhz: the clock; None where it is not known.
        limit_mhz: Joulie's limit; None where there is none.
    """
    if reported not in (ClockBound.NONE, ClockBound.UNKNOWN) or limit_mhz is None:
        return reported
    if clock_mhz is None:
        return ClockBound.UNKNOWN
    return ClockBound.CLOCK_LIMIT if clock_mhz >= limit_mhz - CLOCK_STEP_MHZ else reported


def _risen(later: int | None, earlier: int | None) -> bool | None:
    return None if later is None or earlier is None else later > earlier


def _share(value: object) -> int | None:
    pct = _count(value)
    return pct if pct is not None and pct <= MOST_PCT else None


def _count(value: object) -> int | None:
    # The package has a word for an absent value; a bool is an int, too.
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
