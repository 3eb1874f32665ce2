"""Windows of intervals: OpenADR 3.1.0, User Guide 7.3 and 7.4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.timestamps import epoch_seconds
from joulie_ven.reasons import EventRefused
from joulie_ven.times import FOREVER, parse_duration, windows
from joulie_ven.wire import VtnEvent

START = "2026-03-01T12:00:00Z"
START_S = epoch_seconds(START)
NOW_S = START_S - 1000
BEGINNING = "0001-01-01T00:00:00Z"


def event(*periods, **fields):
    """An event whose intervals have these periods; None for none."""
    intervals = [
        {"id": 0, "payloads": []} | ({} if period is None else {"intervalPeriod": period}) for period in periods
    ]
    return VtnEvent.model_validate({"id": "e", "programID": "p", "intervals": intervals, **fields})


def spans(*periods, seen_s=NOW_S, ven="ven", **fields):
    """Starts and ends, in seconds after START."""
    found = windows(event(*periods, **fields), seen_s=seen_s, ven=ven)
    return [(each.start_s - START_S, each.end_s - START_S) for each in found]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0),
        ("PT0S", 0),
        ("PT30M", 1800),
        ("P1DT2H3M4.5S", 86400 + 7200 + 180 + 4.5),
        ("P2W", 14 * 86400),
        ("P0Y0M1D", 86400),
        ("P9999Y", FOREVER),
    ],
)
def test_a_duration_in_seconds(text, seconds):
    assert parse_duration(text, "duration") == seconds


@pytest.mark.parametrize("text", ["P1Y", "P1M", "P1Y1D", "P9998Y"])
def test_months_and_years_are_refused_by_name(text):
    with pytest.raises(EventRefused, match=rf"^duration: {text} is in years or months"):
        parse_duration(text, "duration")


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "-PT1H", "1H", "PT1H ", "PT\u0661H", "P1D2H", "PT1e9S", "P" + "1" * 80 + "D"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(EventRefused, match=r"^field: .* is not a duration"):
        parse_duration(text, "field")


def test_intervals_without_a_period_follow_each_other_by_that_of_the_event():
    assert spans(None, None, intervalPeriod={"start": START, "duration": "PT1H"}) == [(0, 3600), (3600, 7200)]


def test_an_interval_with_a_length_of_its_own_moves_the_following():
    found = spans(None, {"duration": "PT2H"}, None, intervalPeriod={"start": START, "duration": "PT1H"})
    assert found == [(0, 3600), (3600, 10800), (10800, 14400)]


def test_an_interval_with_a_start_of_its_own_leaves_a_gap_or_overlaps():
    later = {"start": "2026-03-01T15:00:00Z", "duration": "PT1H"}
    earlier = {"start": "2026-03-01T15:30:00+00:00", "duration": "PT1H"}
    assert spans({"start": START, "duration": "PT1H"}, later, earlier) == [(0, 3600), (10800, 14400), (12600, 16200)]


@pytest.mark.parametrize("beginning", ["0001-01-01", "0001-01-01T00:00:00", BEGINNING])
def test_the_beginning_of_time_is_now_for_the_first_and_follows_for_the_others(beginning):
    period = {"start": beginning, "duration": "PT1H"}
    assert spans(period, period, seen_s=START_S) == [(0, 3600), (3600, 7200)]
    assert spans(None, seen_s=START_S, intervalPeriod=period) == [(0, 3600)]
    assert spans(period, seen_s=NOW_S, intervalPeriod={"start": START}) == [(0, 3600)]


def test_for_ever_has_no_end_and_nothing_follows_it_without_a_start():
    assert spans({"start": START, "duration": "P9999Y"}, {"duration": "PT1H"}) == [(0, FOREVER)]


def test_a_cancelled_event_has_no_window():
    assert spans({"start": BEGINNING, "duration": "PT0S"}) == []
    assert spans({"start": START}) == []


def test_the_duration_of_the_event_cuts_its_intervals_and_does_not_repeat_them():
    period = {"start": START, "duration": "PT1H"}
    assert spans(None, None, None, intervalPeriod=period, duration="PT90M") == [(0, 3600), (3600, 5400)]
    assert spans(None, intervalPeriod=period, duration="PT1H") == [(0, 3600)]
    with pytest.raises(EventRefused, match=r"^duration: P9999Y repeats the intervals"):
        spans(None, intervalPeriod=period, duration="P9999Y")


@pytest.mark.parametrize(
    ("period", "message"),
    [
        (None, r"^intervals\[0\].intervalPeriod: absent"),
        ({"duration": "PT1H"}, r"^intervals\[0\].intervalPeriod.start: absent"),
        ({"start": "2026-03-01T12:00:00", "duration": "PT1H"}, r"is not a time of RFC 3339 with a zone"),
        ({"start": "soon", "duration": "PT1H"}, r"is not a time"),
        ({"start": "1969-12-31T23:00:00Z", "duration": "PT1H"}, r"is not within the years"),
        ({"start": START, "duration": "P999999D"}, None),
        ({"start": START, "duration": "P999999W"}, r"is not within the years"),
        ({"start": START, "duration": "PT1H", "randomizeStart": "P9999Y"}, r"randomizeStart: has no end"),
    ],
)
def test_a_time_that_is_not_certain_is_refused_by_name(period, message):
    if message is None:
        assert spans(period)
        return
    with pytest.raises(EventRefused, match=message):
        spans(period)


@given(st.integers(0, 10**6))
def test_a_random_start_is_within_its_bounds_and_the_same_at_every_read(number):
    period = {"start": START, "duration": "PT1H", "randomizeStart": "PT10M"}
    [(start_s, end_s)] = spans(period, ven=f"ven-{number}")
    assert -600 <= start_s < 600
    assert end_s - start_s == pytest.approx(3600)
    assert spans(period, ven=f"ven-{number}") == [(start_s, end_s)]


def test_random_starts_are_spread_over_both_directions():
    period = {"start": START, "duration": "PT1H", "randomizeStart": "PT10M"}
    starts = [spans(period, ven=f"ven-{number}")[0][0] for number in range(200)]
    assert sum(start_s < 0 for start_s in starts) == pytest.approx(100, abs=30)
    assert sum(abs(start_s) < 300 for start_s in starts) == pytest.approx(100, abs=30)


def test_a_shifted_start_shifts_what_follows_and_absolute_starts_by_the_same():
    first = {"start": START, "duration": "PT1H", "randomizeStart": "PT10M"}
    absolute = {"start": "2026-03-01T15:00:00Z", "duration": "PT1H"}
    (shift_s, _), (second_s, _), (third_s, _) = spans(first, {"duration": "PT1H"}, absolute)
    assert (second_s, third_s) == (pytest.approx(3600 + shift_s), pytest.approx(10800 + shift_s))
    assert shift_s != 0


def test_an_absolute_start_with_a_randomization_of_its_own_has_its_own_shift():
    first = {"start": START, "duration": "PT1H", "randomizeStart": "PT10M"}
    second = {"start": "2026-03-01T15:00:00Z", "duration": "PT1H", "randomizeStart": "PT1S"}
    _, (start_s, _) = spans(first, second)
    assert abs(start_s - 10800) <= 1


def test_the_randomization_of_the_event_is_that_of_its_first_interval():
    period = {"start": START, "duration": "PT1H", "randomizeStart": "PT10M"}
    (first_s, _), (second_s, _) = spans(None, None, intervalPeriod=period)
    assert first_s != 0
    assert second_s == pytest.approx(first_s + 3600)
