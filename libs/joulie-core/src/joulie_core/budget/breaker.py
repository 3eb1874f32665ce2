"""A breaker by its vendor's curve: the load that it carries for a time, and how warm an overload leaves it.

Guarantees that no load above the highest point of the curve is used, and that a load between 100 % and the lowest point
counts as that point: what the curve does not say is never better than what it says.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: Time that programs take beside `reaction_s`: a pass, a write, its watch, and the setting of limits.
PROGRAMS_S: Final = 10.0
#: The curve is read at this multiple of the time in which an overload ends.
_MARGIN: Final = 2.0
_PERCENT: Final = 100.0
#: Damage at which the breaker trips.
TRIPS: Final = 1.0


@dataclass(frozen=True, slots=True)
class BreakerCurve:
    """Loads, as multiples of the limit above 1, with the seconds for which each is carried: fewer for a higher one."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("a curve has no points")
        if any(load <= 1.0 or seconds <= 0.0 for load, seconds in self.points):
            raise ValueError(f"not loads above 1 with seconds above 0: {self.points}")
        if any(b[0] <= a[0] or b[1] >= a[1] for a, b in pairwise(self.points)):
            raise ValueError(f"not rising loads with falling seconds: {self.points}")

    def carried(self, seconds: float) -> float:
        """Return the highest load that is carried for a time, as a multiple of the limit; 1: no overload is."""
        loads, times = [load for load, _ in reversed(self.points)], [each for _, each in reversed(self.points)]
        if seconds > times[-1]:
            return 1.0
        index = bisect_left(times, seconds)
        if index == 0:
            return loads[0]
        return _between(seconds, times[index - 1], times[index], loads[index - 1], loads[index])

    def seconds(self, load: float) -> float:
        """Return the seconds for which a load is carried: infinite up to 1, and 0 above the highest point."""
        if load <= 1.0:
            return math.inf
        loads, times = [load for load, _ in self.points], [each for _, each in self.points]
        if load > loads[-1]:
            return 0.0
        index = bisect_left(loads, load)
        if index == 0:
            return times[0]
        return _between(load, loads[index - 1], loads[index], times[index - 1], times[index])


@dataclass(frozen=True, slots=True)
class BreakerRating:
    """A breaker, and the time in which an overload of it ends."""

    curve: BreakerCurve
    #: Time constant with which it cools.
    cooling_s: float
    #: Without what programs take.
    reaction_s: int

    @property
    def ends_s(self) -> float:
        """Time in which an overload ends."""
        return self.reaction_s + PROGRAMS_S

    @property
    def permitted(self) -> float:
        """The load that limits may add up to while what is drawn is measured, as a multiple of the limit."""
        return self.curve.carried(_MARGIN * self.ends_s)

    def damage_after(self, damage: float, load: float, seconds: float) -> float:
        """Return the damage after a load, at most that at which the breaker trips."""
        if seconds <= 0.0:
            return damage
        if load <= 1.0:
            return damage * math.exp(-seconds / self.cooling_s)
        carried_s = self.curve.seconds(load)
        return TRIPS if carried_s <= 0.0 else min(damage + seconds / carried_s, TRIPS)


def curve_of(points: Iterable[tuple[int, int]]) -> BreakerCurve:
    """Return the curve of points of percent of the limit and seconds, in any order.

    Raises:
        ValueError: there is none, or a higher load has no shorter time.
    """
    return BreakerCurve(tuple(sorted({(percent / _PERCENT, float(seconds)) for percent, seconds in points})))


def _between(x: float, x0: float, x1: float, y0: float, y1: float) -> float:
    """Return y at x on the line between two points in logarithms, within the two."""
    part = math.log(x / x0) / math.log(x1 / x0)
    y = math.exp(math.log(y0) + part * math.log(y1 / y0))
    return min(max(y, min(y0, y1)), max(y0, y1))
