"""Power and speed of a device under a cap and a throttle.

Without limits a device draws its natural power. Under a lower cap it draws the cap, and its speed follows its response
(`joulie_core.hardware.power_curve`). A throttle holds a share of the cores at their lowest frequency, where frequency
and power above idle are related by the same response: power ~ frequency^(1/exponent). A cap in addition to a throttle
reduces the speed that the throttle leaves. Idle power is always drawn, whatever the limits.

How much a lower frequency slows work depends on how much of its time the core's clock decides: `WorkKind`. Constants,
their sources and their bands: docs/models.md.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.hardware.power_curve import CapResponse

#: Lowest frequency of a throttled core over its full frequency: 1.5 GHz (the agent's DVFS floor) of a 3 GHz part.
THROTTLED_FREQUENCY: Final = 0.5


class WorkKind(StrEnum):
    """Kind of work, by what it waits for."""

    COMPUTE = "compute"
    MEMORY = "memory"
    IO = "io"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Share of the time of work, at full frequency, that is inversely proportional to the frequency."""

    value: float
    lowest: float
    highest: float


#: Hsu and Feng, "A Power-Aware Run-Time System for High-Performance Computing", SC 2005, doi.org/10.1109/SC.2005.3: the
#: law T(f) = T(f_max) * (b * f_max / f + 1 - b), with b near 1 for work in caches and far below for work in memory. The
#: values are typical ones and no fit; the bands are for sensitivity runs.
SENSITIVITY: Final = {
    WorkKind.COMPUTE: Sensitivity(1.0, 0.9, 1.0),
    WorkKind.MEMORY: Sensitivity(0.4, 0.2, 0.6),
    WorkKind.IO: Sensitivity(0.1, 0.0, 0.3),
}


@dataclass(frozen=True, slots=True)
class Draw:
    """Power and speed of one device."""

    watts: float
    #: Work per second over work per second without limits, in [0, 1].
    speed: float


@dataclass(frozen=True, slots=True)
class LimitedDraw:
    """Power of a device under limits, and what they leave of its clock."""

    watts: float
    #: Share in [0, 1] of the full frequency that a cap leaves to all cores.
    frequency: float
    #: Share in [0, 1] of the cores that a throttle holds at `THROTTLED_FREQUENCY` of it.
    throttled_share: float = 0.0

    @property
    def slowed(self) -> bool:
        """Whether the limits slow any work."""
        return self.frequency < 1.0 or self.throttled_share > 0.0

    def speed(self, sensitivity: float) -> float:
        """Return the speed of work of that sensitivity, in [0, 1]."""
        speed = speed_at_frequency(self.frequency, sensitivity)
        if self.throttled_share > 0.0:
            speed *= 1.0 - self.throttled_share * (1.0 - speed_at_frequency(THROTTLED_FREQUENCY, sensitivity))
        return speed


def speed_at_frequency(frequency_share: float, sensitivity: float = 1.0) -> float:
    """Return the speed of work at a share in [0, 1] of the full frequency, in [0, 1]."""
    if frequency_share <= 0.0:
        return 0.0
    return frequency_share / (sensitivity + (1.0 - sensitivity) * frequency_share)


def limited_draw(
    response: CapResponse,
    natural_watts: float,
    idle_watts: float,
    *,
    cap_watts: float | None,
    throttled_share: float = 0.0,
) -> LimitedDraw:
    """Return power and frequency of one device, or of several alike whose watts are added.

    Args:
        response: what a cap costs the device.
        natural_watts: what its work draws without limits, not below `idle_watts`.
        idle_watts: its power without work.
        cap_watts: power cap, None for none. At or below the idle power all work stops; idle is drawn.
        throttled_share: share in [0, 1] of the cores at their lowest frequency.
    """
    demand_watts = natural_watts
    if throttled_share > 0.0:
        throttled_power: float = THROTTLED_FREQUENCY ** (1.0 / response.exponent)
        demand_watts -= (natural_watts - idle_watts) * throttled_share * (1.0 - throttled_power)
    if cap_watts is None or cap_watts >= demand_watts:
        return LimitedDraw(demand_watts, 1.0, throttled_share)
    if cap_watts <= idle_watts:
        return LimitedDraw(idle_watts, 0.0, throttled_share)
    return LimitedDraw(cap_watts, response.retention(cap_watts, demand_watts, idle_watts), throttled_share)


def draw_under(
    response: CapResponse,
    natural_watts: float,
    idle_watts: float,
    *,
    cap_watts: float | None,
    throttled_share: float = 0.0,
    sensitivity: float = 1.0,
) -> Draw:
    """Return power and speed of one device, or of several alike whose watts are added.

    Arguments as in `limited_draw`; `sensitivity`, in [0, 1], is that of the work to the frequency: `SENSITIVITY`; 1 for
    GPUs, whose response has it included.
    """
    draw = limited_draw(response, natural_watts, idle_watts, cap_watts=cap_watts, throttled_share=throttled_share)
    return Draw(draw.watts, draw.speed(sensitivity))
