"""The clock that a GPU holds by itself under load."""

import pytest

from joulie_core.class_caps.held_clock import LEAST_SAMPLES, ClockSample, HeldClock

HOUR_S = 3600.0


def seen(state, mhz, now_s=0.0, *, busy=0.9, limited=False, times=1):
    for _ in range(times):
        state = state.seen(ClockSample(mhz, busy, limited), now_s)
    return state


def test_it_is_the_highest_clock_under_load():
    state = seen(seen(HeldClock(), 1500, times=LEAST_SAMPLES), 1700)
    assert seen(state, 1400).mhz == 1700


def test_it_is_unknown_until_enough_was_seen():
    state = seen(HeldClock(), 1500, times=LEAST_SAMPLES - 1)
    assert state.mhz is None
    assert seen(state, 1200).mhz == 1500


@pytest.mark.parametrize(
    "sample",
    [
        ClockSample(1900, 0.49, limited=False),
        ClockSample(1900, None, limited=False),
        ClockSample(1900, 1.0, limited=True),
        ClockSample(1900, 1.0, limited=None),
        ClockSample(None, 1.0, limited=False),
        ClockSample(0, 1.0, limited=False),
    ],
)
def test_samples_without_load_under_a_limit_or_unmeasured_say_nothing(sample):
    assert HeldClock().seen(sample, 0.0) == HeldClock()
    state = seen(HeldClock(), 1500, times=LEAST_SAMPLES)
    assert state.seen(sample, 10 * HOUR_S) == state


def test_a_sample_from_half_of_the_load_on_counts():
    assert seen(HeldClock(), 1500, busy=0.5, times=LEAST_SAMPLES).mhz == 1500


def test_an_hour_counts_until_24_hours_with_load_are_newer():
    state = seen(HeldClock(), 1900, times=LEAST_SAMPLES)
    for hour in range(1, 24):
        state = seen(state, 1500, hour * HOUR_S)
    assert state.mhz == 1900
    assert seen(state, 1500, 24 * HOUR_S).mhz == 1500


def test_time_without_load_does_not_age_what_was_measured():
    state = seen(HeldClock(), 1900, times=LEAST_SAMPLES)
    assert seen(state, 1500, 1000 * HOUR_S).mhz == 1900


def test_the_state_is_bounded():
    state = HeldClock()
    for hour in range(100):
        state = seen(state, 1500, hour * HOUR_S, times=3)
    assert len(state.hours) == 24
    assert state.samples == LEAST_SAMPLES
