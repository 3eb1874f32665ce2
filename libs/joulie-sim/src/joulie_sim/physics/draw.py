"""Draw and speed of one part under a cap and a throttle.

The model: a part draws its idle watts whatever happens, and above them a dynamic share that follows its power curve
over utilization. Slowing the clock to a fraction f of full speed scales the dynamic share by f cubed (dynamic power is
proportional to f*V^2, and voltage follows frequency). A cap is met by the fastest uniform clock that stays under it; a
throttle holds a share of the cores at their lowest frequency. A part under a cap that does not bind is the part
without it.

Measured against published runs of training jobs under GPU power limits (Zeus: V100, P100 and RTX 6000), the
least-squares exponent lies between 1.8 and 4.3 and its median over runs between 3.5 and 5: cubic errs on the side of
too much slowdown.

Not promised: thermal effects, voltage floors, memory-bound work that does not mind a slow clock.
"""

from dataclasses import dataclass
from typing import Final

from joulie_sim.physics.parts import Curve

#: Exponent of dynamic power over clock speed.
SPEED_EXPONENT: Final = 3.0
#: Lowest frequency of a throttled core over its full frequency: 1.5 GHz (the agent's DVFS floor) of a 3 GHz part.
THROTTLED_SPEED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Draw:
    """What one part draws and how fast it works."""

    watts: float
    #: Work per second over work per second at full clock, in [0, 1].
    speed: float


def _uniform_clock(dynamic_share: float, throttled_share: float) -> float:
    """Solve `(1-t)*f^3 + t*min(f, low)^3 = dynamic_share` for the clock f of the cores that are not throttled."""
    low_cubed = THROTTLED_SPEED**SPEED_EXPONENT
    if dynamic_share <= low_cubed or throttled_share >= 1.0:
        cubed = dynamic_share
    else:
        cubed = (dynamic_share - throttled_share * low_cubed) / (1.0 - throttled_share)
    return float(min(1.0, max(0.0, cubed)) ** (1.0 / SPEED_EXPONENT))


def draw_under(curve: Curve, utilization: float, *, cap_watts: float | None, throttled_share: float = 0.0) -> Draw:
    """Draw and speed of one part whose jobs keep it busy `utilization` of the time.

    Args:
        curve: draw over utilization at full clock.
        utilization: busy share in [0, 1]; slower jobs stay busy longer, they do not lower it.
        cap_watts: power cap of the part, None for none. A cap under the idle draw stops all work; idle is still drawn.
        throttled_share: share in [0, 1] of the cores at their lowest frequency.
    """
    idle_watts = curve.watts(0.0)
    dynamic_watts = max(0.0, curve.watts(min(1.0, max(0.0, utilization))) - idle_watts)
    clock = 1.0
    if dynamic_watts > 0.0 and cap_watts is not None and cap_watts < idle_watts + dynamic_watts:
        clock = _uniform_clock(max(0.0, cap_watts - idle_watts) / dynamic_watts, throttled_share)
    slow = min(clock, THROTTLED_SPEED)
    fast_share = 1.0 - throttled_share
    dynamic_share = fast_share * clock**SPEED_EXPONENT + throttled_share * slow**SPEED_EXPONENT
    watts = idle_watts + dynamic_watts * dynamic_share
    if cap_watts is not None and cap_watts >= idle_watts:
        watts = min(watts, cap_watts)
    return Draw(watts, fast_share * clock + throttled_share * slow)
