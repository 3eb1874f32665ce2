"""Which power readings are believed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.plausible import MOST_WATTS, Plausibility, is_measured, judge, limit_watts, plausible_value

MEASURED, NOTHING, TOO_HIGH = Plausibility.MEASURED, Plausibility.NOTHING, Plausibility.TOO_HIGH


@pytest.mark.parametrize("watts", [None, 0.0, -0.0, -1.0, -math.inf, math.nan])
@pytest.mark.parametrize("max_watts", [None, 0.0, 280.0])
def test_what_is_not_above_zero_measures_nothing(watts, max_watts):
    assert judge(watts, max_watts) is NOTHING


@pytest.mark.parametrize(
    ("watts", "max_watts", "expected"),
    [
        (840.0, 280.0, MEASURED),
        (840.1, 280.0, TOO_HIGH),
        (10_000.0, None, MEASURED),
        (10_000.0, 0.0, MEASURED),
        (10_000.0, math.nan, MEASURED),
        (300_000.0, None, TOO_HIGH),
        (300_000.0, 1e9, TOO_HIGH),
        (math.inf, None, TOO_HIGH),
        (0.001, 280.0, MEASURED),
    ],
)
def test_a_maximum_bounds_readings_only_where_it_is_known(watts, max_watts, expected):
    assert judge(watts, max_watts) is expected


@given(st.floats(), st.none() | st.floats())
def test_every_reading_is_judged_and_a_measurement_is_within_the_limit(watts, max_watts):
    result = judge(watts, max_watts)
    assert (result is MEASURED) == is_measured(watts, max_watts) == (0 < watts <= limit_watts(max_watts))
    assert (result is TOO_HIGH) == (watts > limit_watts(max_watts))
    assert 0 < limit_watts(max_watts) <= MOST_WATTS


@pytest.mark.parametrize(
    ("value", "found"), [(0, 0), (1e9, 1e9), (1.1e9, None), (-1, None), (math.nan, None), (None, None)]
)
def test_a_figure_beyond_every_machine_is_none(value, found):
    assert plausible_value(value) == found


def test_a_figure_may_have_a_lower_bound():
    assert (plausible_value(0.5, at_least=1), plausible_value(-5, at_least=-10)) == (None, -5)
