"""History of drawn power: unknown minutes make no baseline, and what is stored is read back or not known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget.drawn_history import DAY_S, MOST_QUARTERS, DrawnHistory, StoredDrawn

#: A full day of UTC.
DAY = 20_000 * DAY_S


def minutes(history, start_s, count, watts=500.0, *, every_s=60, in_event=False):
    for step in range(count):
        history.add(start_s + step * every_s, watts, in_event=in_event)


def hours(history, start_s, count, watts):
    minutes(history, start_s, count * 60, watts)
    history.add(start_s + count * 3600, None, in_event=False)


def test_the_last_hour_is_the_mean_of_its_minutes_whatever_the_number_of_readings():
    history = DrawnHistory()
    minutes(history, DAY, 30, 400.0)
    minutes(history, DAY + 1800, 360, 600.0, every_s=5)
    history.add(DAY + 3600, 1e9, in_event=False)
    assert history.last_hour(DAY + 3600) == 500.0


@pytest.mark.parametrize(("known", "expected"), [(44, None), (45, 500.0)])
def test_45_minutes_of_the_last_hour_have_to_be_known(known, expected):
    history = DrawnHistory()
    minutes(history, DAY, 60 - known, None)
    minutes(history, DAY + (60 - known) * 60, known)
    history.add(DAY + 3600, None, in_event=False)
    assert history.last_hour(DAY + 3600) == expected


def test_a_minute_with_one_unknown_reading_or_an_event_is_not_known():
    for watts, in_event in ((None, False), (1.0, True)):
        history = DrawnHistory()
        minutes(history, DAY, 46)
        for step in range(2):
            history.add(DAY + 60 * step, watts, in_event=in_event)
        assert history.last_hour(DAY + 46 * 60 + 3600) is None
        history = DrawnHistory()
        for step in range(46):
            history.add(DAY + 60 * step, 500.0, in_event=False)
            if step < 2:
                history.add(DAY + 60 * step + 1, watts, in_event=in_event)
        assert history.last_hour(DAY + 46 * 60) is None


def test_the_same_hours_are_those_of_days_that_are_known_and_had_no_event():
    history = DrawnHistory()
    for back, watts in ((5, 100.0), (4, 200.0), (2, 300.0), (1, 9_000.0)):
        hours(history, DAY - back * DAY_S + 3600, 2, watts)
    history.add(DAY - DAY_S + 40_000, 1.0, in_event=True)
    assert history.same_hours(DAY + 3600, DAY + 3 * 3600) == 200.0
    assert history.same_hours(DAY + 3600 + 900, DAY + 2 * 3600) == 200.0
    # Of other hours nothing is known, and of three hours two are too few.
    assert history.same_hours(DAY + 7200 + 3600, DAY + 4 * 3600) is None
    assert history.same_hours(DAY + 3600, DAY + 4 * 3600) is None


def test_less_than_three_days_make_no_baseline():
    history = DrawnHistory()
    for back in (2, 1):
        hours(history, DAY - back * DAY_S, 1, 100.0)
    assert history.same_hours(DAY, DAY + 3600) is None


def test_hours_without_an_end_are_a_day():
    history = DrawnHistory()
    for back in (3, 2, 1):
        hours(history, DAY - back * DAY_S, 24, 100.0 * back)
    assert history.same_hours(DAY, None) == history.same_hours(DAY, DAY + 5 * DAY_S) == 200.0


def test_it_is_the_same_after_a_restart():
    history = DrawnHistory()
    for back in (3, 2, 1):
        hours(history, DAY - back * DAY_S, 24, 100.0 * back)
    minutes(history, DAY - 3600, 60, 250.0)
    history.add(DAY, 1.0, in_event=True)
    stored = history.stored(DAY + 70)
    again = DrawnHistory.load(stored, DAY + 80)
    assert again.last_hour(DAY) == 250.0
    assert again.same_hours(DAY, DAY + 3600) == history.same_hours(DAY, DAY + 3600)
    assert again.stored(DAY + 70) == stored
    assert stored.event_days == (20_000,)
    assert len(stored.quarters) < MOST_QUARTERS * 13


def test_what_is_old_is_forgotten():
    history = DrawnHistory()
    hours(history, DAY, 24, 100.0)
    history.add(DAY + 12 * DAY_S, 1.0, in_event=False)
    assert history.stored(DAY + 12 * DAY_S) == StoredDrawn(DAY + 12 * DAY_S)


@given(
    st.text(alphabet="0123456789,.-+e x\u0660", max_size=200),
    st.floats(allow_nan=True),
    st.lists(st.integers(), max_size=5).map(tuple),
)
def test_a_hostile_store_makes_unknown_figures_and_no_error(text, until_s, days):
    history = DrawnHistory.load(StoredDrawn(until_s, text, text, days), DAY)
    history.add(DAY, 100.0, in_event=False)
    for found in (history.last_hour(DAY), history.same_hours(DAY, DAY + 60)):
        assert found is None or 0.0 <= found < 1e12


def test_a_store_of_the_future_is_not_believed():
    stored = StoredDrawn(DAY, ",".join(["500"] * 60))
    assert DrawnHistory.load(stored, DAY).last_hour(DAY) == 500.0
    assert DrawnHistory.load(stored, DAY - 1).last_hour(DAY) is None
