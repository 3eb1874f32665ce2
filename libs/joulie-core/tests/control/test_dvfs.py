"""The DVFS control loop: known figures, and bounds under any stream of samples."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from joulie_core.control.dvfs import (
    DvfsAction,
    DvfsDirection,
    DvfsMode,
    DvfsSettings,
    DvfsState,
    Holding,
    Plant,
    careful_throttle_pct,
    judge,
    step,
    throttle_for_pct,
    with_throttle,
)

DEFAULTS = DvfsSettings(mode=DvfsMode.STEPPED)
PROPORTIONAL = DvfsSettings(mode=DvfsMode.PROPORTIONAL)


def run(samples, *, cap_watts=100.0, period_s=20.0, settings=DEFAULTS, state=None, plant=Plant()):  # noqa: B008
    """Feed samples at a fixed period; answer the last state and the actions with the tick they came at."""
    state = state or DvfsState()
    actions = []
    for tick, watts in enumerate(samples):
        state, action = step(
            state, cap_watts=cap_watts, observed_watts=watts, now=tick * period_s, settings=settings, plant=plant
        )
        if action is not None:
            actions.append((tick, action))
    return state, actions


def test_the_defaults_are_the_documented_ones():
    assert (
        DEFAULTS.ema_alpha,
        DEFAULTS.high_margin_watts,
        DEFAULTS.low_margin_watts,
        DEFAULTS.trip_count,
        DEFAULTS.cooldown_s,
        DEFAULTS.step_pct,
    ) == (0.3, 10, 15, 2, 20, 10)
    assert (DvfsSettings().mode, DvfsSettings().blind_after_s) == (DvfsMode.PROPORTIONAL, 180)


def test_the_first_sample_seeds_the_average():
    state, _ = run([80.0])
    assert state.ema_watts == 80.0


def test_the_average_is_alpha_new_plus_the_rest_old():
    state, _ = run([100.0, 200.0])
    assert state.ema_watts == pytest.approx(0.3 * 200 + 0.7 * 100)


def test_two_samples_above_the_upper_margin_throttle_up_by_one_step():
    state, actions = run([111.0, 111.0])
    assert actions == [(1, DvfsAction(DvfsDirection.THROTTLE_UP, 10.0))]
    assert state.throttle_pct == 10.0


def test_exactly_on_the_upper_margin_is_not_above():
    _, actions = run([110.0] * 10)
    assert actions == []


def test_exactly_on_the_lower_margin_is_not_below():
    _, actions = run([85.0] * 10, state=DvfsState(throttle_pct=50))
    assert actions == []


def test_two_samples_below_the_lower_margin_throttle_down_by_one_step():
    _, actions = run([84.0, 84.0], state=DvfsState(throttle_pct=50))
    assert actions == [(1, DvfsAction(DvfsDirection.THROTTLE_DOWN, 40.0))]


def test_a_sample_between_the_margins_breaks_the_count():
    settings = DvfsSettings(ema_alpha=1.0, trip_count=3)
    state, actions = run([120.0, 120.0, 100.0, 120.0, 120.0], settings=settings)
    assert actions == []
    assert state.above_count == 2


def test_a_count_that_trips_inside_the_cooldown_acts_when_it_is_over():
    _, actions = run([150.0] * 12, period_s=5.0)
    assert [tick * 5.0 for tick, _ in actions] == [5.0, 25.0, 45.0]


def test_a_count_restarts_after_an_action():
    state, _ = run([150.0, 150.0])
    assert (state.above_count, state.below_count) == (0, 0)


def test_the_throttle_stops_at_one_hundred_and_then_counts_no_action():
    state, actions = run([500.0] * 40)
    assert state.throttle_pct == 100.0
    assert len(actions) == 10


def test_a_free_node_far_below_its_cap_takes_no_action():
    _, actions = run([10.0] * 20)
    assert actions == []


@pytest.mark.parametrize("reading", [None, math.nan, math.inf, -1.0, 0.0])
def test_a_bad_reading_is_noted_and_changes_nothing_else(reading):
    before, _ = run([150.0, 150.0, 150.0])
    after, action = step(before, cap_watts=100.0, observed_watts=reading, now=1e6, settings=DEFAULTS)
    assert (after, action) == (replace(before, blind_since=1e6), None)


def test_readings_that_stay_away_hold_the_throttle_and_then_raise_it_to_the_careful_level():
    start = DvfsState(throttle_pct=15.0)
    state, actions = run([None] * 30, state=start, plant=Plant(careful_pct=40.0))
    assert [(tick * 20, action.throttle_pct) for tick, action in actions] == [(180, 25), (200, 35), (220, 40)]
    assert state.throttle_pct == 40.0


def test_without_a_known_maximum_the_careful_level_is_a_full_throttle():
    state, _ = run([None] * 40)
    assert state.throttle_pct == 100.0


def test_a_throttle_above_the_careful_level_is_not_eased_without_a_reading():
    state, actions = run([None] * 40, state=DvfsState(throttle_pct=70.0), plant=Plant(careful_pct=40.0))
    assert (state.throttle_pct, actions) == (70.0, [])


def test_a_reading_in_between_starts_the_wait_anew():
    _, actions = run(([None] * 8 + [90.0]) * 5)
    assert actions == []


def test_when_readings_return_the_loop_starts_from_a_new_average():
    state, _ = run([150.0] * 3 + [None] * 30)
    state, action = step(state, cap_watts=100.0, observed_watts=60.0, now=1e5, settings=DEFAULTS)
    assert (state.ema_watts, state.below_count, state.blind_since, action) == (60.0, 1, None, None)


def test_the_average_outlives_a_short_gap():
    state, _ = run([100.0, None, None, 200.0])
    assert state.ema_watts == pytest.approx(130.0)


@pytest.mark.parametrize(("cap", "maximum", "careful"), [(120, 200, 40), (120, None, 100), (300, 200, 0)])
def test_the_careful_level_is_the_throttle_of_the_caps_share_of_the_maximum(cap, maximum, careful):
    assert careful_throttle_pct(cap, maximum) == pytest.approx(careful)


@pytest.mark.parametrize(
    ("samples", "throttle", "holding"),
    [
        ([], 0, Holding.UNKNOWN),
        ([90.0] * 3, 0, Holding.WITHIN),
        ([110.0] * 3, 0, Holding.WITHIN),
        ([602.0], 0, Holding.ABOVE),
        ([602.0], 100, Holding.ABOVE),
        ([602.0] * 3, 100, Holding.SATURATED),
        ([90.0, None], 50, Holding.UNKNOWN),
    ],
)
def test_what_the_loop_achieves_is_judged_by_the_average_and_what_is_left_of_the_throttle(samples, throttle, holding):
    state, _ = run(samples, state=DvfsState(throttle_pct=throttle))
    assert judge(state, cap_watts=100.0, now=1000.0, settings=DEFAULTS) is holding


def test_a_full_throttle_is_not_judged_before_it_can_show():
    state = DvfsState(throttle_pct=100.0, ema_watts=300.0, above_count=5, last_action_at=0.0)
    assert judge(state, cap_watts=100.0, now=19.9, settings=DEFAULTS) is Holding.ABOVE
    assert judge(state, cap_watts=100.0, now=20.0, settings=DEFAULTS) is Holding.SATURATED


def test_a_proportional_step_is_the_error_as_a_share_of_the_range():
    _, actions = run([180.0, 180.0], settings=PROPORTIONAL, plant=Plant(range_watts=400.0))
    assert actions == [(1, DvfsAction(DvfsDirection.THROTTLE_UP, 20.0))]


def test_a_proportional_step_counts_the_higher_one_of_average_and_newest_sample():
    rising, _ = run([100.0, 200.0, 200.0], settings=PROPORTIONAL, plant=Plant(range_watts=400.0))
    assert rising.throttle_pct == pytest.approx(25.0)
    start = DvfsState(throttle_pct=50.0)
    _, falling = run([84.0, 84.0], settings=PROPORTIONAL, plant=Plant(range_watts=400.0), state=start)
    assert falling[0][1].throttle_pct == pytest.approx(46.0)
    _, mistrusted = run([10.0, 99.0], settings=PROPORTIONAL, plant=Plant(range_watts=400.0), state=start)
    assert mistrusted[0][1].throttle_pct == pytest.approx(49.75)


def test_a_proportional_step_has_a_bound():
    state, _ = run([5000.0, 5000.0], settings=PROPORTIONAL, plant=Plant(range_watts=400.0))
    assert state.throttle_pct == 50.0


def test_without_a_known_range_a_proportional_step_is_the_fixed_one():
    state, _ = run([180.0, 180.0], settings=PROPORTIONAL)
    assert state.throttle_pct == 10.0


@given(
    st.floats(60, 1000),
    st.floats(0, 0.99),
    st.floats(0, 1),
    st.floats(0, 100),
)
def test_on_a_linear_plant_proportional_steps_ease_to_the_cap_at_most(free_watts, floor_share, cap_share, throttle):
    """`free_watts` at throttle 0 and `floor_share` of it at 100, below the maximum that the loop is told.

    A raised throttle may undershoot by what the average has kept of the error for the length of a cooldown.
    """

    def plant_watts(pct):
        return free_watts * (1 - (1 - floor_share) * pct / 100)

    cap = max(1.0, cap_share * free_watts)
    state = DvfsState(throttle_pct=throttle)
    above_watts = plant_watts(throttle) - cap
    for tick in range(60):
        watts = plant_watts(state.throttle_pct)
        if above_watts > 0:
            assert watts - cap >= -0.05 * above_watts
        else:
            assert watts <= cap + 1e-6 * free_watts
        state, _ = step(
            state,
            cap_watts=cap,
            observed_watts=watts,
            now=tick * 2.0,
            settings=PROPORTIONAL,
            plant=Plant(range_watts=1000.0),
        )


def test_a_refused_action_keeps_what_is_in_force_and_its_cooldown():
    state, _ = run([150.0, 150.0])
    refused = with_throttle(state, 0.0)
    assert refused.throttle_pct == 0.0
    assert refused.last_action_at == state.last_action_at


@pytest.mark.parametrize(("pct", "throttle"), [(60, 40), (100, 0), (1, 99), (0, 100), (120, 0)])
def test_a_percentage_intent_throttles_what_it_leaves_out(pct, throttle):
    assert throttle_for_pct(pct) == throttle


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True)), max_size=40), st.floats(0, 1000))
def test_samples_of_any_kind_keep_the_throttle_in_its_bounds(samples, cap):
    state, _ = run(samples, cap_watts=cap)
    assert 0 <= state.throttle_pct <= 100


@given(st.floats(0, 1000), st.integers(1, 40), st.floats(1, 500), st.floats(0, 500), st.floats(0, 100))
def test_under_a_steady_load_a_lower_cap_never_leaves_a_node_freer(watts, ticks, cap, lower_by, throttle):
    start = DvfsState(throttle_pct=throttle)
    high, _ = run([watts] * ticks, cap_watts=cap, state=start)
    low, _ = run([watts] * ticks, cap_watts=max(0.0, cap - lower_by), state=start)
    assert low.throttle_pct >= high.throttle_pct


class ControlLoop(RuleBasedStateMachine):
    """Any interleaving of samples, gaps and refused actions."""

    settings = DvfsSettings(ema_alpha=1.0, mode=DvfsMode.STEPPED)

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.state = DvfsState()
        self.run_length = 0
        self.side = 0
        self.acted_at = None
        self.blind_since = None

    @rule(watts=st.floats(0, 400, exclude_min=True), dt=st.floats(0.1, 60))
    def sample(self, watts, dt):
        self.now += dt
        if self.blind_since is not None and self.now - self.blind_since >= self.settings.blind_after_s:
            self.run_length, self.side = 0, 0
        self.blind_since = None
        side = (watts > 110) - (watts < 85)
        self.run_length = self.run_length + 1 if side == self.side else 1
        self.side = side
        before = self.state
        self.state, action = step(before, cap_watts=100, observed_watts=watts, now=self.now, settings=self.settings)
        if action is None:
            assert self.state.throttle_pct == before.throttle_pct
            return
        assert self.acted_at is None or self.now - self.acted_at >= self.settings.cooldown_s
        assert self.run_length >= self.settings.trip_count
        assert (action.direction is DvfsDirection.THROTTLE_UP) == (side > 0)
        # The sum of two floats may be off by one bit: 10.000000000000002 is a step of 10.
        assert 0 < abs(action.throttle_pct - before.throttle_pct) <= self.settings.step_pct + 1e-9
        self.acted_at = self.now

    @rule(dt=st.floats(0.1, 60))
    def bad_reading(self, dt):
        self.now += dt
        before = self.state
        self.blind_since = self.now if self.blind_since is None else self.blind_since
        self.state, action = step(before, cap_watts=100, observed_watts=None, now=self.now, settings=self.settings)
        if action is None:
            assert self.state == replace(before, blind_since=self.blind_since)
            return
        assert self.now - self.blind_since >= self.settings.blind_after_s
        assert action.direction is DvfsDirection.THROTTLE_UP
        assert before.throttle_pct < action.throttle_pct <= before.throttle_pct + self.settings.step_pct
        self.run_length, self.side, self.acted_at = 0, 0, self.now

    @precondition(lambda self: self.acted_at is not None)
    @rule(pct=st.floats(-50, 150))
    def something_else_is_in_force(self, pct):
        self.state = with_throttle(self.state, pct)

    @invariant()
    def check(self):
        assert 0 <= self.state.throttle_pct <= 100
        assert not (self.state.above_count and self.state.below_count)


TestControlLoop = ControlLoop.TestCase
