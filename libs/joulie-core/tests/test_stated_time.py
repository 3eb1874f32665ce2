"""Run times that pods state, and the ninths of them that other pods cover."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.stated_time import LONGEST_S, NINTHS, StatedTime, covered_ninths, stated_time

YEAR = 365 * 86_400


@pytest.mark.parametrize(
    ("annotation", "deadline_s", "expected"),
    [
        (None, None, None),
        ("1h30m", None, StatedTime(5_400.0, 5_400.0)),
        ("250ms", None, StatedTime(0.25, 0.25)),
        (None, 600, StatedTime(600.0)),
        ("2h", 600, StatedTime(600.0, 600.0)),
        ("5m", 600, StatedTime(300.0, 300.0)),
        ("8760h", None, StatedTime(YEAR, YEAR)),
        ("8760h0m1s", None, None),
        (None, YEAR + 1, None),
    ],
)
def test_a_pod_runs_as_long_as_it_states_and_at_most_to_its_deadline(annotation, deadline_s, expected):
    assert stated_time(annotation, deadline_s) == expected


@pytest.mark.parametrize("value", ["", "0", "0s", "-5m", "soon", "5", "1d", "5 m", "9" * 4_000 + "h", "1e3s", "NaN"])
def test_what_cannot_be_read_is_not_stated_and_leaves_the_deadline(value):
    assert stated_time(value, None) is None
    assert stated_time(value, 60) == StatedTime(60.0)


@pytest.mark.parametrize("deadline_s", [0, -1, 2**63, float("nan"), float("inf")])
def test_a_deadline_that_none_can_have_is_not_stated(deadline_s):
    assert stated_time(None, deadline_s) is None


@given(st.floats(1e-9, LONGEST_S), st.floats(-LONGEST_S, 2 * LONGEST_S))
def test_covered_ninths_are_whole_and_never_more_than_is_covered(run_s, left_s):
    covered = covered_ninths(run_s, left_s)
    share = max(Fraction(0), min(Fraction(1), Fraction(left_s) / Fraction(run_s)))
    assert covered in {floor(NINTHS * share), floor(NINTHS * share * (1 + Fraction(1, 10**12)))}


def test_all_of_a_run_time_is_covered_by_a_pod_that_runs_as_long():
    assert [covered_ninths(90.0, left_s) for left_s in (-1.0, 0.0, 9.9, 10.0, 89.9, 90.0, 1e9)] == [0, 0, 0, 1, 8, 9, 9]
