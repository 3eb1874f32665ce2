"""Draw and speed of one part under a cap and a throttle.

The model: a part draws its power curve's watts over utilization. A cap below that is used to the full and costs speed
as the curve's measured response says. A throttle holds a share of the cores at their lowest frequency, where speed and
dynamic power (that above idle) are related by the same response: power ~ speed^(1/exponent). A cap on top of a throttle
slows what the throttle has left. A part under a cap that does not bind is the part without it; idle is always drawn.

Not modelled: thermal effects, transients, and kinds of work that differ in what a slow clock costs them.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.hardware.power_curve import PowerCurve

#: Lowest frequency of a throttled core over its full frequency: 1.5 GHz (the agent's DVFS floor) of a 3 GHz part.
THROTTLED_SPEED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Draw:
    """What one part draws and how fast it works."""

    watts: float
    #: Work per second over work per second at full clock, in [0, 1].
    speed: float


def draw_under(
    curve: PowerCurve,
    max_watts: float,
    utilization: float,
    *,
    cap_watts: float | None,
    throttled_share: float = 0.0,
) -> Draw:
    """Draw and speed of one part whose jobs keep it busy `utilization` of the time.

    Args:
        curve: power over load, and speed over cap.
        max_watts: the part's draw at full load.
        utilization: busy share in [0, 1] (clamped); slower jobs stay busy longer, they do not lower it.
        cap_watts: power cap of the part, None for none. At or below the idle draw it stops all work; idle is drawn.
        throttled_share: share in [0, 1] of the cores at their lowest frequency.
    """
    idle_watts = curve.watts(0.0, max_watts)
    dynamic_watts = curve.watts(utilization, max_watts) - idle_watts
    throttled_power = THROTTLED_SPEED ** (1.0 / curve.response.exponent)
    demand_watts = idle_watts + dynamic_watts * (1.0 - throttled_share * (1.0 - throttled_power))
    speed = 1.0 - throttled_share * (1.0 - THROTTLED_SPEED)
    if cap_watts is None or cap_watts >= demand_watts:
        return Draw(demand_watts, speed)
    if cap_watts <= idle_watts:
        return Draw(idle_watts, 0.0)
    return Draw(cap_watts, speed * curve.relative_performance(cap_watts / max_watts, demand_watts / max_watts))
