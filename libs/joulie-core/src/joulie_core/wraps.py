"""Difference of two readings of a counter that starts again at zero: the one rule, for every place that takes one.

Takes any unit; a wrap and a reset look alike, and the caller says whether a wrap may be believed.
"""

from typing import TypeVar

N = TypeVar("N", int, float)


def difference(before: N, after: N, wraps_at: N | None) -> N:
    """Return what was counted between two readings; negative where the counter went back and no wrap explains it.

    Args:
        before: the earlier reading.
        after: the later one.
        wraps_at: the largest value before the counter starts again at zero; None or 0 where a wrap is not believed.
    """
    if after >= before or not wraps_at or before > wraps_at:
        return after - before
    return after + wraps_at - before


def may_have_lapped(most: float, wraps_at: float | None) -> bool:
    """Return whether a counter may have come round once more than is seen; `most`: more than it counts meanwhile."""
    return bool(wraps_at) and most >= (wraps_at or 0.0)
