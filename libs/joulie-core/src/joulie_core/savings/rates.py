"""Rates of savings: watts with an interval, by lever, and the part of them that is unknown."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import hypot
from typing import Final


class Lever(StrEnum):
    """Part of Joulie that saves energy; each is counted on top of those before it."""

    SLEEP = "sleep"
    CAPS = "caps"
    SCORE = "score"


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """Watts or joules with an interval, `lower <= middle <= upper`; below 0 where more is drawn than without Joulie."""

    lower: float = 0.0
    middle: float = 0.0
    upper: float = 0.0

    def __add__(self, other: "EstimateRange") -> "EstimateRange":
        """Return the sum; bounds are added as they are, since errors of models last."""
        return EstimateRange(self.lower + other.lower, self.middle + other.middle, self.upper + other.upper)

    def __sub__(self, other: "EstimateRange") -> "EstimateRange":
        """Return the difference; the bounds are those of values that are wrong in opposite directions."""
        return EstimateRange(self.lower - other.upper, self.middle - other.middle, self.upper - other.lower)

    def times(self, factor: float) -> "EstimateRange":
        """Return the value times a factor that is at least 0."""
        return EstimateRange(self.lower * factor, self.middle * factor, self.upper * factor)


NO_SAVING: Final = EstimateRange()


def around(middle: float, errors: Iterable[float]) -> EstimateRange:
    """Return a value with independent errors of either sign, which are added in quadrature."""
    error = hypot(*errors)
    return EstimateRange(middle - error, middle, middle + error)


@dataclass(frozen=True, slots=True)
class LeverRate:
    """Watts that a lever saves at one moment, as far as they are known."""

    watts: EstimateRange = NO_SAVING
    #: Share in [0, 1] of the lever's nodes, or load, of which that is unknown; `watts` are of the others.
    unknown_share: float = 0.0


#: Nothing of the lever is known.
UNKNOWN_RATE: Final = LeverRate(unknown_share=1.0)
