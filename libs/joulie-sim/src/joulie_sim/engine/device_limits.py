"""Limits of devices that standard jobs hold: those of an arm, and what they are on each node.

The engine has shares of clocks and no clock in MHz; the decision of `joulie_core.class_caps` gets the clocks below in
their place.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.gpu_limits import GpuClocks, bounded_cap_watts, gpu_limit
from joulie_core.class_caps.waiting import LiftRule
from joulie_core.hardware.view import GpuView

_PERCENT: Final = 100.0
#: Of H100 SXM, in steps of 15 MHz. No limit below it binds in the engine without caps, so that it is held.
_HIGHEST_MHZ: Final = 1980
_CLOCKS: Final = GpuClocks(_HIGHEST_MHZ, _HIGHEST_MHZ, tuple(range(210, _HIGHEST_MHZ + 1, 15)))


class LimitedBy(StrEnum):
    """Quantity by which a GPU is limited."""

    CLOCK = "clock"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class ClassCapSettings:
    """Limits at fixed shares of devices that standard jobs hold, from the start of a job on; no node sets them."""

    #: Cap of a GPU in percent of the natural power of its model, within the bounds of `bounded_cap_watts`.
    gpu_pct_of_natural: float
    #: Highest frequency of a core in percent of its full frequency.
    cpu_frequency_pct: float


@dataclass(frozen=True, slots=True)
class ClassLimitSettings:
    """Limits of GPUs that standard jobs hold, by what all of these jobs allow; cores are not limited.

    They are set as late as on a node, see `joulie_sim.engine.settling_jobs`.
    """

    allowed: AllowedSlowdown
    limited_by: LimitedBy = LimitedBy.CLOCK
    #: When limits are lifted, since performance jobs wait for the GPUs; None: never.
    lift: LiftRule | None = None


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Limits of the devices of one node that standard jobs hold; None is no limit."""

    gpu_cap_watts: float | None = None
    #: Highest frequency of cores over the full one.
    cpu_frequency_share: float | None = None
    #: Highest clock of GPUs over the one that they hold alone.
    gpu_clock_share: float | None = None


NO_LIMITS: Final = DeviceLimits()


def limits_of_node(gpu: GpuView | None, settings: ClassCapSettings | ClassLimitSettings | None) -> DeviceLimits:
    """Return the limits of devices that standard jobs hold; in the engine no device is shared by two jobs.

    Args:
        gpu: the node's GPUs, which are alike; None where there is none.
        settings: of the arm; None limits nothing.
    """
    if isinstance(settings, ClassCapSettings):
        frequency = settings.cpu_frequency_pct / _PERCENT
        return DeviceLimits(
            gpu_cap_watts=None if gpu is None else bounded_cap_watts(gpu, settings.gpu_pct_of_natural / _PERCENT),
            cpu_frequency_share=frequency if frequency < 1.0 else None,
        )
    if settings is None or gpu is None:
        return NO_LIMITS
    limit = gpu_limit([settings.allowed], gpu, _CLOCKS if settings.limited_by is LimitedBy.CLOCK else None)
    clock = limit.clock_mhz
    return DeviceLimits(gpu_cap_watts=limit.cap_watts, gpu_clock_share=None if clock is None else clock / _HIGHEST_MHZ)
