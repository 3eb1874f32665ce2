"""The one rounding rule: half away from zero. Source: docs/decisions/0013-conventions.md."""

import math

_HALF = 0.5


def round_half_away(x: float) -> int:
    """Return the nearest integer, ties going away from zero (2.5 -> 3, -2.5 -> -3).

    Raises:
        ValueError: `x` is not a number.
        OverflowError: `x` is infinite.
    """
    whole = math.trunc(x)
    # x - whole is exact, whereas x + 0.5 would round 0.49999999999999994 up.
    return whole + int(math.copysign(1, x)) if abs(x - whole) >= _HALF else whole
