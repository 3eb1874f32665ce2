"""RFC 3339, read and written."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.timestamps import age_seconds, epoch_seconds, rfc3339

#: 2026-01-02T03:04:05.678901Z
MOMENT_S = 1767323045.678901


@pytest.mark.parametrize(
    ("timespec", "text"),
    [
        ("seconds", "2026-01-02T03:04:05Z"),
        ("milliseconds", "2026-01-02T03:04:05.678Z"),
        ("microseconds", "2026-01-02T03:04:05.678901Z"),
    ],
)
def test_a_time_is_written_in_utc_with_the_digits_that_the_field_takes(timespec, text):
    assert rfc3339(MOMENT_S, timespec) == text


def test_milliseconds_are_the_default():
    assert rfc3339(MOMENT_S) == "2026-01-02T03:04:05.678Z"


@given(st.integers(0, 4_102_444_800_000))
def test_what_was_written_is_read_to_the_millisecond(epoch_ms):
    assert epoch_seconds(rfc3339(epoch_ms / 1000, "microseconds")) == pytest.approx(epoch_ms / 1000, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.000000000Z",
        "2026-01-02T05:04:05+02:00",
        "2026-01-01T22:04:05-05:00",
    ],
)
def test_the_zone_counts(text):
    assert epoch_seconds(text) == 1767323045


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"])
def test_a_time_that_cannot_be_read_or_has_no_zone_is_unknown(text):
    assert epoch_seconds(text) is None
    assert age_seconds(text, MOMENT_S) == math.inf


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_at_the_end_of_the_calendar_is_read(text):
    assert abs(epoch_seconds(text)) > 6e10


def test_an_age_is_negative_ahead_of_now():
    assert age_seconds("2026-01-02T03:04:05Z", 1767323055) == 10
    assert age_seconds("2026-01-02T03:04:05Z", 1767323035) == -10
