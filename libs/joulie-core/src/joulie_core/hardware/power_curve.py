"""Power of a device under load, and the work that it does under a power cap.

Load curves are shapes relative to the device's maximum, so one curve serves every model of a generation. The constants
and their sources are in the inventory. Guarantees monotone functions; does not model transients or temperature.
Source: docs/models.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass


def interpolate(points: Sequence[float], utilization: float) -> float:
    """Return the value at a load in [0, 1] (clamped) of at least two points at equally spaced loads from 0 to 1."""
    last = len(points) - 1
    position = utilization * last
    if position <= 0.0:
        return points[0]
    if position >= last:
        return points[last]
    index = int(position)
    low = points[index]
    return low + (points[index + 1] - low) * (position - index)


@dataclass(frozen=True, slots=True)
class CapResponse:
    """Speed of a device that a cap holds below its natural power: the power that the same work draws without a cap.

    For a cap of share x of the natural power: `((x - s) / (1 - s)) ** exponent` with s the static share; with an
    exponent below one the last watts add the least speed.
    """

    #: Share of the natural power that does no work; None for the device's own idle power.
    static_share: float | None
    exponent: float
    #: Share of the natural power below which nothing was measured; from there the law goes straight to zero.
    lowest: float
    source: str

    def retention(self, cap_watts: float, natural_watts: float, idle_watts: float) -> float:
        """Return the speed under a cap over the speed without one, in [0, 1]; 1 for a cap at or above `natural_watts`.

        At or below `idle_watts` no power is left for work and the speed is 0.
        """
        if cap_watts >= natural_watts:
            return 1.0
        if cap_watts <= idle_watts:
            return 0.0
        share = cap_watts / natural_watts
        static = idle_watts / natural_watts if self.static_share is None else self.static_share
        measured = max(share, self.lowest)
        value: float = ((measured - static) / (1.0 - static)) ** self.exponent
        return value * share / measured

    def share_at(self, speed: float, *, exponent: float | None = None) -> float:
        """Return the cap over the natural power at which the law has a speed in [0, 1].

        Only for a law with a static share; `exponent` replaces the law's own.
        """
        static = self.static_share or 0.0
        share: float = static + (1.0 - static) * speed ** (1.0 / (exponent or self.exponent))
        return max(share, self.lowest)

    def knee_watts(self, natural_watts: float, idle_watts: float, other_watts: float = 0.0) -> float:
        """Return the cap at which the energy per unit of work is least, at most `natural_watts`.

        Args:
            natural_watts: power of the work without a cap.
            idle_watts: the device's power without work.
            other_watts: power of what the work occupies besides the device, and which the cap does not reduce; it lasts
                longer under a cap, so it raises the knee.
        """
        static_watts = idle_watts if self.static_share is None else self.static_share * natural_watts
        least = (static_watts + self.exponent * other_watts) / (1.0 - self.exponent)
        return min(max(least, self.lowest * natural_watts), natural_watts)


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Power over load of one generation of devices, and what a cap costs them."""

    #: Power over power at full load, at equally spaced loads from 0 (idle) to 1; rising, the last is 1.
    shares: tuple[float, ...]
    response: CapResponse
    source: str

    def share(self, utilization: float) -> float:
        """Return the power at a load in [0, 1] (clamped) over the power at full load; linear between the points."""
        return interpolate(self.shares, utilization)

    def watts(self, utilization: float, max_watts: float) -> float:
        """Return the power in watts at a load in [0, 1] of a device that draws `max_watts` at full load."""
        return interpolate(self.shares, utilization) * max_watts
