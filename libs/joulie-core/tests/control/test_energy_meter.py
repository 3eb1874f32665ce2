"""Power from energy counters: every reason to drop a sample, wrap-around, and bounds under any stream of samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.control.energy_meter import PACKAGE_BOUND_WATTS, EnergyCounter, MeterState, SampleResult, step

RANGE_UJ = 262_143_328_850
COUNTER = EnergyCounter(range_uj=RANGE_UJ, max_watts=150.0)


def run(samples, counter=COUNTER):
    """Feed (time, microjoules); answer the figure and the result of each sample."""
    state, answers = MeterState(), []
    for now, energy_uj in samples:
        state, sampled = step(state, energy_uj=energy_uj, now=now, counter=counter)
        answers.append((sampled, state.power_watts))
    return answers


def test_the_first_sample_gives_no_figure():
    assert run([(5.0, 1_000_000)]) == [(SampleResult.FIRST, None)]


def test_power_is_energy_over_time():
    assert run([(0.0, 0), (2.0, 200_000_000)])[-1] == (SampleResult.GOOD, 100.0)


def test_a_counter_that_stands_still_gives_no_figure_and_never_zero():
    assert run([(0.0, 7), (1.0, 7), (2.0, 7)])[1:] == [(SampleResult.STOOD_STILL, None)] * 2


def test_the_first_move_after_standing_still_is_measured_from_and_gives_no_figure():
    answers = run([(0.0, 0), (1.0, 100_000_000), (2.0, 100_000_000), (60.0, 200_000_000), (61.0, 300_000_000)])
    assert [answer[0] for answer in answers[2:]] == [SampleResult.STOOD_STILL, SampleResult.FIRST, SampleResult.GOOD]
    assert [answer[1] for answer in answers[2:]] == [None, None, 100.0]


@pytest.mark.parametrize("range_uj", [RANGE_UJ, None])
def test_a_counter_of_an_unlisted_model_that_was_reset_gives_no_figure(range_uj):
    counter = EnergyCounter(range_uj, None)
    answers = run([(0.0, 200_000_000_000), (1.0, 1_000_000), (2.0, 101_000_000)], counter)
    assert answers[1:] == [(SampleResult.NEGATIVE, None), (SampleResult.GOOD, 100.0)]


def test_without_a_maximum_a_wrap_cannot_be_distinguished_from_a_reset():
    counter = EnergyCounter(RANGE_UJ, None)
    assert run([(0.0, RANGE_UJ - 40_000_000), (1.0, 60_000_000)], counter)[-1] == (SampleResult.NEGATIVE, None)


@pytest.mark.parametrize(
    ("watts", "expected"), [(PACKAGE_BOUND_WATTS, SampleResult.GOOD), (2001.0, SampleResult.TOO_HIGH)]
)
def test_without_a_maximum_only_what_no_package_can_draw_is_dropped(watts, expected):
    assert run([(0.0, 0), (1.0, round(watts * 1e6))], EnergyCounter(RANGE_UJ, None))[-1][0] is expected


def test_without_a_maximum_a_sample_is_too_late_when_any_package_may_have_lapped():
    late_s = RANGE_UJ / 1e6 / PACKAGE_BOUND_WATTS
    counter = EnergyCounter(RANGE_UJ, None)
    assert run([(0.0, 0), (late_s, 1_000_000)], counter)[-1] == (SampleResult.TOO_LATE, None)


def test_a_counter_that_wraps_around_loses_nothing():
    assert run([(0.0, RANGE_UJ - 40_000_000), (1.0, 60_000_000)])[-1] == (SampleResult.GOOD, 100.0)


def test_samples_less_than_100_ms_apart_are_dropped_and_measured_from_the_earlier_one():
    answers = run([(0.0, 0), (1.0, 100_000_000), (1.099, 400_000_000), (2.0, 200_000_000)])
    assert answers[2] == (SampleResult.TOO_SOON, 100.0)
    assert answers[3] == (SampleResult.GOOD, 100.0)


def test_a_sample_after_exactly_100_ms_counts():
    assert run([(0.0, 0), (0.1, 10_000_000)])[-1] == (SampleResult.GOOD, 100.0)


@pytest.mark.parametrize(("watts", "expected"), [(450.0, SampleResult.GOOD), (450.001, SampleResult.TOO_HIGH)])
def test_power_over_three_times_the_maximum_is_dropped(watts, expected):
    assert run([(0.0, 0), (1.0, round(watts * 1e6))])[-1][0] is expected


def test_a_dropped_sample_leaves_no_old_figure_behind():
    answers = run([(0.0, 0), (1.0, 100_000_000), (2.0, 10_000_000_000)])
    assert answers[-1] == (SampleResult.TOO_HIGH, None)


def test_after_a_driver_reload_the_second_sample_measures_again():
    answers = run([(0.0, 200_000_000_000), (1.0, 1_000_000), (2.0, 101_000_000)])
    assert answers[1:] == [(SampleResult.TOO_HIGH, None), (SampleResult.GOOD, 100.0)]


@pytest.mark.parametrize(
    "counter", [EnergyCounter(None, 150.0), EnergyCounter(0, 150.0), EnergyCounter(90_000_000, 150.0)]
)
def test_a_counter_that_goes_back_without_a_range_to_explain_it_is_dropped(counter):
    assert run([(0.0, 100_000_000), (0.2, 80_000_000)], counter)[-1] == (SampleResult.NEGATIVE, None)


def test_time_that_goes_back_is_dropped_and_measured_from():
    answers = run([(10.0, 0), (9.0, 100_000_000), (10.0, 200_000_000)])
    assert answers[1:] == [(SampleResult.NEGATIVE, None), (SampleResult.GOOD, 100.0)]


def test_a_sample_so_late_that_the_counter_may_have_lapped_is_no_measure():
    late_s = RANGE_UJ / 1e6 / 150.0
    assert run([(0.0, 0), (late_s, 1_000_000)])[-1] == (SampleResult.TOO_LATE, None)
    assert run([(0.0, 0), (late_s - 1, 100_000_000_000)])[-1][0] is SampleResult.GOOD


@given(
    st.lists(st.tuples(st.floats(0, 2000), st.integers(0, RANGE_UJ)), max_size=20),
    st.one_of(st.none(), st.just(RANGE_UJ)),
)
def test_a_figure_is_never_negative_nor_over_three_times_the_maximum(samples, range_uj):
    for sampled, watts in run(samples, EnergyCounter(range_uj, 150.0)):
        assert watts is None or 0 < watts <= 450.0
        assert watts is not None or sampled is not SampleResult.GOOD


@given(
    st.integers(0, RANGE_UJ),
    st.lists(st.tuples(st.floats(0.11, 60.0), st.integers(1, 150)), min_size=1, max_size=30),
)
def test_a_steady_load_is_measured_wherever_the_counter_stands(start_uj, loads):
    state, _ = step(MeterState(), energy_uj=start_uj, now=0.0, counter=COUNTER)
    energy_uj, now = start_uj, 0.0
    for wait_s, watts in loads:
        now += wait_s
        energy_uj = (energy_uj + round(watts * wait_s * 1e6)) % RANGE_UJ
        state, sampled = step(state, energy_uj=energy_uj, now=now, counter=COUNTER)
        assert sampled is SampleResult.GOOD
        assert state.power_watts == pytest.approx(watts, rel=1e-4, abs=1e-3)
