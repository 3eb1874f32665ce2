import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.durations import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("+0", 0),
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h15m30.918s", 4530.918),
        ("1.5s", 1.5),
        (".5m", 30),
        ("2.h", 7200),
        ("250ms", 0.25),
        ("10us", 1e-5),
        ("10\u00b5s", 1e-5),
        ("10\u03bcs", 1e-5),
        ("7ns", 7e-9),
        ("-1m30s", -90),
        ("1s1s", 2),
        ("1m1h", 3660),
        ("0.9ns", 0),
    ],
)
def test_the_grammar_of_go_is_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "-", "30", "s", ".s", "1 s", "1d", "1S", "-0.", "1h-5m", "1e3s", "abc", "300y", "2562048h", "\u0661s"]
)
def test_what_is_no_duration_is_refused_by_name(text):
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-0.0, "0s"),
        (30, "30s"),
        (90, "1m30s"),
        (3600, "1h0m0s"),
        (4530.5, "1h15m30.5s"),
        (0.25, "250ms"),
        (1.5e-5, "15\u00b5s"),
        (1e-9, "1ns"),
        (-1.5, "-1.5s"),
    ],
)
def test_the_canonical_form_is_written(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e12])
def test_what_go_cannot_hold_is_refused(seconds):
    with pytest.raises(DurationError):
        format_duration(seconds)


@given(st.integers(-(10**15), 10**15))
def test_reading_what_was_written_gives_the_same_value(nanoseconds):
    seconds = nanoseconds / 1e9
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.text("0123456789.hmsnu+-", max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        seconds = parse_duration(text)
    except DurationError:
        return
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
