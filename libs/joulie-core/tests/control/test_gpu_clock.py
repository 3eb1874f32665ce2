import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.control.gpu_clock import ClockRange, GpuClockSettings, GpuClockState, exceeds, refused, step

H100 = ClockRange(210, 1980)
SETTINGS = GpuClockSettings()
CAP_WATTS = 400.0


def run(model, state=None, *, cap_watts=CAP_WATTS, samples=60, clocks=H100):
    """Feed the loop with a GPU's draw at the clock it is limited to; returns every state."""
    states = [state or GpuClockState()]
    for index in range(samples):
        limit_mhz = states[-1].limit_mhz or clocks.highest_mhz
        states.append(
            step(
                states[-1],
                cap_watts=cap_watts,
                observed_watts=model(limit_mhz / clocks.highest_mhz),
                clocks=clocks,
                now=index * 5.0,
                settings=SETTINGS,
            )
        )
    return states[1:]


def memory_bound(share):
    """Most of the draw is the memory's and does not fall with the graphics clock."""
    return 300 + 250 * share


def test_a_gpu_within_its_cap_is_left_alone():
    assert {state.limit_mhz for state in run(lambda _: CAP_WATTS)} == {None}


def test_a_memory_bound_gpu_is_brought_below_its_cap_and_stays_there():
    states = run(memory_bound)
    assert all(not exceeds(state, CAP_WATTS, SETTINGS) for state in states[-20:])
    assert len({state.limit_mhz for state in states[-20:]}) == 1, "it has settled"
    assert memory_bound(states[-1].limit_mhz / 1980) > CAP_WATTS - SETTINGS.low_margin_watts, "and no lower than needed"


def test_a_single_sample_above_the_cap_triggers_nothing():
    draws = iter([500.0] + [300.0] * 20)
    assert {state.limit_mhz for state in run(lambda _: next(draws), samples=20)} == {None}


def test_when_the_load_ends_the_clock_is_raised_step_by_step_and_released():
    limited = run(memory_bound)[-1]
    states = run(lambda share: 90 + 10 * share, replace(limited, last_action_at=None))
    assert states[-1].limit_mhz is None
    rises = [later.limit_mhz / sooner.limit_mhz for sooner, later in itertools.pairwise(states) if later.limit_mhz]
    assert max(rises) <= 1.11


def test_a_cap_that_cannot_be_held_ends_at_the_lowest_share_and_is_seen_to_be_exceeded():
    last = run(lambda _: 550.0)[-1]
    assert last.limit_mhz == 594
    assert exceeds(last, CAP_WATTS, SETTINGS)


@pytest.mark.parametrize("unusable", [None, -1.0, float("nan"), float("inf")])
def test_without_a_usable_reading_the_limit_stays(unusable):
    state = GpuClockState(limit_mhz=900, ema_watts=200.0, below_count=5)
    after = step(state, cap_watts=CAP_WATTS, observed_watts=unusable, clocks=H100, now=1e6, settings=SETTINGS)
    assert after == state


def test_within_the_cooldown_nothing_is_done():
    state = GpuClockState(limit_mhz=900, ema_watts=600.0, above_count=5, last_action_at=100.0)
    after = step(state, cap_watts=CAP_WATTS, observed_watts=600.0, clocks=H100, now=104.9, settings=SETTINGS)
    assert after.limit_mhz == 900
    after = step(after, cap_watts=CAP_WATTS, observed_watts=600.0, clocks=H100, now=105.0, settings=SETTINGS)
    assert after.limit_mhz == 630, "30 % is the most that one step takes"


def test_a_limit_that_was_refused_is_not_taken_to_be_in_force_and_is_due_again():
    before = GpuClockState(limit_mhz=900, ema_watts=600.0, above_count=5)
    for now in (100.0, 101.0):
        after = step(before, cap_watts=CAP_WATTS, observed_watts=600.0, clocks=H100, now=now, settings=SETTINGS)
        assert after.limit_mhz == 630
        before = refused(before, after)
        assert before.limit_mhz == 900


@given(
    draws=st.lists(st.one_of(st.none(), st.floats(allow_nan=True)), max_size=40),
    cap_watts=st.floats(1, 2000),
    lowest=st.integers(1, 2000),
    width=st.integers(0, 2000),
)
def test_whatever_is_read_a_limit_lies_within_the_range(draws, cap_watts, lowest, width):
    clocks = ClockRange(lowest, lowest + width)
    state = GpuClockState()
    for index, watts in enumerate(draws):
        state = step(
            state, cap_watts=cap_watts, observed_watts=watts, clocks=clocks, now=10.0 * index, settings=SETTINGS
        )
        assert state.limit_mhz is None or clocks.lowest_mhz <= state.limit_mhz <= clocks.highest_mhz
