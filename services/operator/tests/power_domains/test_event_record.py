"""The record of an event: gaps stay gaps, it goes on where a status ends, and it is bounded."""

import pytest

from joulie_core.budget import TimedLimit
from joulie_core.kinds import PowerEventStatus
from joulie_core.kinds.power_event import MOST_MINUTES, DrawnQuality, EventMinute
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.event_record import (
    EventReading,
    EventRecord,
    is_recorded,
    mean_error_percent,
    rebound_percent,
)
from joulie_operator.power_domains.event_tracker import domains_in_event

START = 1_800_000_000.0
EVENT = TimedLimit("cut", "row", 800_000, START, START + 600, ramp_down_s=60.0, ramp_up_s=120.0)
STANDING = TimedLimit("cut", "row", 800_000, START)
MEASURED, MODELLED = DrawnQuality.MEASURED, DrawnQuality.MODELLED


def take(record, after_s, drawn=800.0, target=800.0, *, quality=MEASURED, is_sample=True, event=EVENT):
    record.take(START + after_s, EventReading(drawn, quality, target, 1_000.0), event, is_sample=is_sample)


def minute(after_s, drawn, target=800.0):
    return EventMinute(start=rfc3339(START + after_s), drawn_watts=drawn, target_watts=target, samples=1)


def test_a_minute_has_the_mean_of_its_readings_and_the_lowest_target():
    record = EventRecord(PowerEventStatus())
    take(record, 0, 900.0, target=950.0)
    take(record, 20, 800.0, target=900.0, quality=MODELLED)
    take(record, 50, 1.0, target=850.0, is_sample=False)
    assert record.minutes == []
    take(record, 60)
    (found,) = record.minutes
    assert found.dump() == {
        "start": rfc3339(START, "seconds"), "baselineWatts": 1_000.0, "targetWatts": 850.0, "drawnWatts": 850.0,
        "samples": 2, "quality": "modelled",
    }  # fmt: skip


@pytest.mark.parametrize("samples", [((0, 900.0), (10, None)), ()])
def test_a_minute_with_an_unknown_reading_or_none_has_no_drawn_power(samples):
    record = EventRecord(PowerEventStatus())
    take(record, 0, is_sample=False)
    for after_s, drawn in samples:
        take(record, after_s, drawn)
    take(record, 60)
    (found,) = record.minutes
    assert (found.drawn_watts, found.samples, found.quality) == (None, len(samples), DrawnQuality.UNKNOWN)


def test_a_minute_of_measured_readings_is_measured_and_its_watts_have_one_decimal():
    record = EventRecord(PowerEventStatus())
    take(record, 0, 900.12, target=850.06)
    take(record, 30, 900.04, target=870.0)
    take(record, 60, 800.0, target=None)
    take(record, 120)
    assert [(each.drawn_watts, each.target_watts, each.quality) for each in record.minutes] == [
        (900.1, 850.1, MEASURED),
        (800.0, None, MEASURED),
    ]


def test_nothing_is_recorded_before_the_start_and_long_after_the_end():
    assert [is_recorded(EVENT, START + each) for each in (-1, 0, 600, 720 + 899, 720 + 900)] == [
        False, True, True, True, False
    ]  # fmt: skip
    record = EventRecord(PowerEventStatus())
    for after_s in (-60, 0, 60, 1_620, 1_700):
        take(record, after_s)
    assert [each.start for each in record.minutes] == [rfc3339(START + each, "seconds") for each in (0, 60)]
    early = TimedLimit("early", "row", 800, START, START - 5)
    assert not is_recorded(early, START)
    assert not is_recorded(TimedLimit("empty", "row", 800, START, START), START)


def test_an_event_that_stands_is_recorded_without_end():
    assert [is_recorded(STANDING, START + each) for each in (-1, 0, 10**9)] == [False, True, True]
    record = EventRecord(PowerEventStatus())
    take(record, 700, event=STANDING)
    assert record.seconds_to_90_percent == 700.0
    assert mean_error_percent([minute(10**6, 900.0)], STANDING) == 12.5


def test_the_record_goes_on_where_a_status_ends_and_is_bounded():
    status = PowerEventStatus(
        minutes=tuple(minute(-60.0 * each, 1.0) for each in range(MOST_MINUTES)),
        dropped_minutes=7,
        seconds_to_90_percent=12.0,
    )
    record = EventRecord(status)
    for after_s, dropped in ((0, 7), (60, 8), (120, 9)):
        take(record, after_s)
        assert (len(record.minutes), record.dropped) == (MOST_MINUTES, dropped)
    assert record.minutes[-1].start == rfc3339(START + 60, "seconds")
    assert record.seconds_to_90_percent == 12.0


def test_the_time_to_90_percent_is_of_the_whole_reduction_and_counts_the_ramp():
    record = EventRecord(PowerEventStatus())
    take(record, 30, 810.0, target=900.0)
    take(record, 60, 821.0)
    take(record, 70, None)
    assert record.seconds_to_90_percent is None
    take(record, 80, 820.0)
    take(record, 90, 700.0)
    assert record.seconds_to_90_percent == 80.0


@pytest.mark.parametrize(
    ("after_s", "drawn", "target", "reached_s"),
    [
        (60, 820.0, 800.0, 60.0),
        (70.26, 820.0, 800.0, 70.3),
        (599, 820.0, 800.0, 599.0),
        (600, 820.0, 800.0, None),
        (70, 820.0, None, None),
        # There is nothing to reduce.
        (70, 1_000.0, 1_000.0, None),
    ],
)
def test_the_reduction_is_reached_only_while_the_limit_is_held(after_s, drawn, target, reached_s):
    record = EventRecord(PowerEventStatus())
    take(record, after_s, drawn, target=target)
    assert record.seconds_to_90_percent == reached_s


def test_without_a_baseline_no_reduction_is_reached():
    record = EventRecord(PowerEventStatus())
    record.take(START + 70, EventReading(1.0, MEASURED, 800.0), EVENT, is_sample=True)
    assert record.seconds_to_90_percent is None


def test_figures_in_percent_have_two_decimals():
    # The last minute of the limit counts, too.
    assert mean_error_percent([minute(540, 800.129)], EVENT) == 0.02
    assert rebound_percent([minute(720, 1_050.129)], EVENT, 1_000.0) == 5.01


def test_the_mean_error_is_of_whole_minutes_while_the_limit_was_held():
    minutes = [
        minute(0, 5_000.0), minute(60, 808.0), minute(120, 784.0), minute(180, None), minute(240, 800.0, None),
        minute(570, 5_000.0), minute(600, 5_000.0),
    ]  # fmt: skip
    assert mean_error_percent(minutes, EVENT) == pytest.approx((1.0 - 2.0) / 2)
    assert mean_error_percent(minutes[:1], EVENT) is None


def test_the_rebound_is_of_the_highest_minute_after_the_ramp_up():
    minutes = [minute(600, 5_000.0), minute(720, 1_050.0), minute(780, None), minute(840, 1_010.0)]
    assert rebound_percent(minutes, EVENT, 1_000.0) == 5.0
    assert rebound_percent(minutes, EVENT, None) is None
    assert rebound_percent(minutes[:1], EVENT, 1_000.0) is None


def test_an_event_changes_what_domains_above_and_below_draw_and_no_others():
    parents = {"feed": None, "row": "feed", "rack": "row", "other": "feed", "far": None, "x": "y", "y": "x"}
    assert domains_in_event(parents, ["row"]) == {"feed", "row", "rack"}
    assert domains_in_event(parents, ["feed"]) == {"feed", "row", "rack", "other"}
    assert domains_in_event(parents, ["x", "gone"]) == {"x", "y"}
    assert domains_in_event(parents, []) == frozenset()


@pytest.mark.timeout(30)
def test_domains_that_are_set_aside_since_their_tree_is_too_deep_hold_up_no_look():
    parents = {f"d{level}": f"d{level + 1}" for level in range(5_000)} | {"d5000": None, "row": None}
    assert domains_in_event(parents, ["row"]) == {"row"}
    assert len(domains_in_event(parents, ["d2500"])) == 5_001
