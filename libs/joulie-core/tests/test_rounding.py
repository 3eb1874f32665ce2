import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.rounding import round_half_away


@pytest.mark.parametrize(
    ("x", "rounded"),
    [
        (0.5, 1),
        (1.5, 2),
        (2.5, 3),
        (-0.5, -1),
        (-2.5, -3),
        (0.49999999999999994, 0),
        (2.4, 2),
        (2.6, 3),
        (7, 7),
        (-0.0, 0),
    ],
)
def test_ties_go_away_from_zero(x, rounded):
    assert round_half_away(x) == rounded


@pytest.mark.parametrize("x", [float("nan"), float("inf")])
def test_what_has_no_nearest_integer_is_refused(x):
    with pytest.raises((ValueError, OverflowError)):
        round_half_away(x)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_result_is_nearest_and_symmetric(x):
    rounded = round_half_away(x)
    assert math.fabs(x - rounded) <= 0.5
    assert round_half_away(-x) == -rounded
