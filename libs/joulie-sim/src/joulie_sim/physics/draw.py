"""Power and speed of one part under a cap and a throttle.

Model: without limits a part draws the watts of its power curve at its utilization. Under a lower cap it draws the cap,
and its speed follows the curve's measured response. A throttle holds a share of the cores at their lowest frequency,
where speed and dynamic power (above idle) are related by the same response: power ~ speed^(1/exponent). A cap in
addition to a throttle reduces the speed that the throttle leaves. A cap above the demand has no effect; idle power is
always drawn.

Limits: no thermal effects, no transients, and the same response to a low frequency for all kinds of work.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.hardware.power_curve import PowerCurve

#: Lowest frequency of a throttled core over its full frequency: 1.5 GHz (the agent's DVFS floor) of a 3 GHz part.
THROTTLED_SPEED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Draw:
    """Power and speed of one part."""

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
    """Return power and speed of one part whose jobs keep it busy `utilization` of the time.

    Args:
        curve: power over load, and speed over cap.
        max_watts: the part's power at full load.
        utilization: busy share in [0, 1] (clamped); slower jobs are busy longer, they do not lower it.
        cap_watts: power cap of the part, None for none. At or below the idle power all work stops; idle is drawn.
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
