"""The DVFS control loop: figures of the agent document, and bounds under any stream of samples."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from joulie_core.dvfs import (
    DvfsAction,
    DvfsDirection,
    DvfsSettings,
    DvfsState,
    step,
    throttle_for_pct,
    with_throttle,
)

DEFAULTS = DvfsSettings()


def run(samples, *, cap_watts=100.0, period_s=20.0, settings=DEFAULTS, state=None):
    """Feed samples at a fixed period; answer the last state and the actions with the tick they came at."""
    state = state or DvfsState()
    actions = []
    for tick, watts in enumerate(samples):
        state, action = step(state, cap_watts=cap_watts, observed_watts=watts, now=tick * period_s, settings=settings)
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


@pytest.mark.parametrize("reading", [None, math.nan, math.inf, -1.0])
def test_a_bad_reading_changes_nothing(reading):
    before, _ = run([150.0, 150.0, 150.0])
    after, action = step(before, cap_watts=100.0, observed_watts=reading, now=1e6, settings=DEFAULTS)
    assert (after, action) == (before, None)


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

    settings = DvfsSettings(ema_alpha=1.0)

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.state = DvfsState()
        self.run_length = 0
        self.side = 0
        self.acted_at = None

    @rule(watts=st.floats(0, 400), dt=st.floats(0.1, 60))
    def sample(self, watts, dt):
        self.now += dt
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
        assert 0 < abs(action.throttle_pct - before.throttle_pct) <= self.settings.step_pct
        self.acted_at = self.now

    @rule(dt=st.floats(0.1, 60))
    def bad_reading(self, dt):
        self.now += dt
        before = self.state
        self.state, action = step(before, cap_watts=100, observed_watts=None, now=self.now, settings=self.settings)
        assert (self.state, action) == (before, None)

    @precondition(lambda self: self.acted_at is not None)
    @rule(pct=st.floats(-50, 150))
    def something_else_is_in_force(self, pct):
        self.state = with_throttle(self.state, pct)

    @invariant()
    def check(self):
        assert 0 <= self.state.throttle_pct <= 100
        assert not (self.state.above_count and self.state.below_count)


TestControlLoop = ControlLoop.TestCase
