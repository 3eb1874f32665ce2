"""Differences of counters that start again at zero."""

import pytest

from joulie_core.wraps import difference, may_have_lapped


@pytest.mark.parametrize(
    ("before", "after", "wraps_at", "counted"),
    [
        (10, 25, 100, 15),
        (90, 5, 100, 15),
        (90, 5, None, -85),
        (90, 5, 0, -85),
        (190, 5, 100, -185),
        (7, 7, 100, 0),
    ],
)
def test_a_wrap_is_added_only_where_it_can_have_been_one(before, after, wraps_at, counted):
    assert difference(before, after, wraps_at) == counted


@pytest.mark.parametrize(("most", "wraps_at", "may"), [(99.0, 100, False), (100.0, 100, True), (1e9, None, False)])
def test_a_counter_may_have_lapped_once_as_much_as_its_range_is_possible(most, wraps_at, may):
    assert may_have_lapped(most, wraps_at) is may
