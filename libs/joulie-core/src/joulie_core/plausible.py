"""Plausibility of a power reading: the one rule, for every place that takes one.

A reading is a measurement, or none at all, or too high to be true, and the last two are not alike. What is not above
zero measures nothing: a running CPU draws power, so 0 W is a counter that stands still or a meter without access. What
is too high is a meter's fault or unknown hardware; it is not exact, but it does not show a free node
either, so it must not be replaced by a lower figure than the limit that it exceeded.

The limit is `OVER_MAX` times the maximum from the hardware itself or its own entry of the inventory. A maximum
that is inferred (a relative's, a generic model's, a label's) bounds nothing: a reading far above it means that the
inference was wrong. Then only what no machine exceeds holds. Source: docs/decisions/0010-readings-and-demand.md.
"""

from enum import StrEnum
from typing import Final

#: Meters, capacitors and turbo modes exceed the maximum for moments, but not by this factor.
OVER_MAX: Final = 3.0
#: More than any single node draws, in watts; servers with eight GPUs of 2025 draw 15 kW.
MOST_WATTS: Final = 100_000.0
#: Nothing measured or known of a machine lies beyond: watts, watts a minute, percent, threads, GPUs.
HIGHEST_VALUE: Final = 1e9


class Plausibility(StrEnum):
    """Result of judging a reading."""

    MEASURED = "measured"
    #: Absent, 0 W, negative or not a number.
    NOTHING = "nothing"
    TOO_HIGH = "too_high"


def judge(watts: float | None, max_watts: float | None = None, most_watts: float = MOST_WATTS) -> Plausibility:
    """Judge one reading.

    Args:
        watts: the reading; None where there is none.
        max_watts: the most that is drawn for long, from the hardware or its own inventory entry; None where that is
            unknown or inferred.
        most_watts: more than any model of what is measured draws.

    """
    # Written so that a value that is not a number measures nothing.
    if watts is None or not watts > 0:
        return Plausibility.NOTHING
    return Plausibility.MEASURED if watts <= limit_watts(max_watts, most_watts) else Plausibility.TOO_HIGH


def is_measured(watts: float | None, max_watts: float | None = None) -> bool:
    """Return whether a reading is a measurement; arguments as in `judge`."""
    return judge(watts, max_watts) is Plausibility.MEASURED


def reading_watts(watts: float | None) -> float | None:
    """Return a reading that measures something, even if too high; None where it measures nothing."""
    return None if judge(watts) is Plausibility.NOTHING else watts


def plausible_value(value: float | None, at_least: float = 0.0) -> float | None:
    """Return a value that is no power reading; None where it is absent, out of range or not a number."""
    return value if value is not None and at_least <= value <= HIGHEST_VALUE else None


def limit_watts(max_watts: float | None = None, most_watts: float = MOST_WATTS) -> float:
    """Return the highest reading that is believed; a maximum that is not above zero is unknown."""
    return min(OVER_MAX * max_watts, most_watts) if max_watts is not None and max_watts > 0 else most_watts
