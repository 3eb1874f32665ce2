"""Power that a limit of a GPU would save at this moment, and time that it would cost, each as a band or not at all.

Guarantees that nothing is stated which the published sweeps do not show: docs/decisions/0050-class-limits-in-shadow.md.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.class_caps.gpu_limits import GpuLimit
from joulie_core.class_caps.held_clock import LOADED_SHARE
from joulie_core.hardware.clock_sweeps import ClockSweep, ClockSweeps
from joulie_core.hardware.view import GpuView

_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class EffectBand:
    """Lowest and highest value."""

    lower: float
    upper: float


ZERO: Final = EffectBand(0.0, 0.0)


class NotStated(StrEnum):
    """Reason why there is no band."""

    #: The present clock, busy time or power of the GPU is not known.
    NOT_MEASURED = "NotMeasured"
    #: It is busy for too little of the time: sweeps are under load.
    NOT_LOADED = "NotLoaded"
    #: Its model was not swept.
    MODEL_NOT_SWEPT = "ModelNotSwept"
    #: A law of power has no bound.
    FORECAST_ONLY = "ForecastOnly"
    #: It is in force, and what there would be without it is not measured.
    IN_FORCE = "InForce"


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """One reading of a GPU; None is not measured."""

    clock_mhz: int | None = None
    #: Share of the time in which it was busy, in [0, 1].
    busy_share: float | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class LimitEffect:
    """Changes that a limit would make."""

    #: Watts of the whole GPU.
    saved_watts: EffectBand | NotStated
    #: Time that the work of the moment would take longer, in percent.
    slowdown_pct: EffectBand | NotStated


NO_EFFECT: Final = LimitEffect(ZERO, ZERO)


def limit_effect(limit: GpuLimit, load: GpuLoad, gpu: GpuView | None, held_mhz: int | None) -> LimitEffect | None:
    """Return the effect of a limit that is not in force; None without a limit.

    Args:
        limit: the limit.
        load: the present reading.
        gpu: the model; None where that is not known.
        held_mhz: the held clock; sweeps are relative to it.
    """
    if limit.clock_mhz is not None and held_mhz is not None:
        return _of_clock(limit.clock_mhz, load, gpu, held_mhz)
    return None if limit.cap_watts is None else _of_power(limit.cap_watts, load)


def _of_power(cap_watts: float, load: GpuLoad) -> LimitEffect:
    if load.watts is None:
        return LimitEffect(NotStated.NOT_MEASURED, NotStated.NOT_MEASURED)
    saved_watts = load.watts - cap_watts
    return (
        NO_EFFECT if saved_watts <= 0.0 else LimitEffect(EffectBand(saved_watts, saved_watts), NotStated.FORECAST_ONLY)
    )


def _of_clock(limit_mhz: int, load: GpuLoad, gpu: GpuView | None, held_mhz: int) -> LimitEffect:
    if load.busy_share == 0.0 or (load.clock_mhz is not None and load.clock_mhz <= limit_mhz):
        return NO_EFFECT
    if load.clock_mhz is None or load.busy_share is None:
        return LimitEffect(NotStated.NOT_MEASURED, NotStated.NOT_MEASURED)
    sweep = None if gpu is None else ClockSweeps.load().models.get(gpu.model)
    now, then = load.clock_mhz / held_mhz, limit_mhz / held_mhz
    return LimitEffect(
        _saved(load, sweep, now, then),
        _slowdown(
            load.busy_share, load.clock_mhz / limit_mhz, 1.0 if sweep is None else _memory_ratio(sweep, now, then)
        ),
    )


def _slowdown(busy_share: float, most: float, least: float) -> EffectBand:
    """Return the band of the slowdown; both are times of the work over those without the limit."""
    return EffectBand(*(_PERCENT * busy_share * (ratio - 1.0) for ratio in (min(least, most), most)))


def _memory_ratio(sweep: ClockSweep, now: float, then: float) -> float:
    return max(1.0, sweep.at(now, memory_bound=True).speed / sweep.at(then, memory_bound=True).speed)


def _saved(load: GpuLoad, sweep: ClockSweep | None, now: float, then: float) -> EffectBand | NotStated:
    if load.watts is None:
        return NotStated.NOT_MEASURED
    if sweep is None:
        return NotStated.MODEL_NOT_SWEPT
    if load.busy_share is None or load.busy_share < LOADED_SHARE:
        return NotStated.NOT_LOADED
    shares = [
        sweep.at(then, memory_bound=each).power / sweep.at(now, memory_bound=each).power for each in (False, True)
    ]
    saved = sorted(load.watts * (1.0 - share) for share in shares)
    return EffectBand(saved[0], saved[1])
