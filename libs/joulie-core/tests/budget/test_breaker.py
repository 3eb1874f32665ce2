"""Curves of breakers, and how warm they get."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget.breaker import TRIPS, BreakerCurve, BreakerRating, curve_of

POINTS = ((110, 1_000), (130, 60), (200, 10))


def rating(points=POINTS, cooling_s=600.0, reaction_s=20):
    return BreakerRating(curve_of(points), cooling_s, reaction_s)


@st.composite
def curves(draw):
    loads = draw(st.lists(st.integers(101, 1_000), min_size=1, max_size=16, unique=True))
    times = draw(st.lists(st.integers(1, 86_400), min_size=len(loads), max_size=len(loads), unique=True))
    return curve_of(draw(st.permutations(tuple(zip(sorted(loads), sorted(times, reverse=True), strict=True)))))


def test_points_of_a_curve_are_carried_as_they_are_given_in_any_order():
    for points in (POINTS, POINTS[::-1], (*POINTS, POINTS[0])):
        curve = curve_of(points)
        assert [curve.carried(seconds) for _, seconds in POINTS] == [1.1, 1.3, 2.0]
        assert [curve.seconds(load / 100) for load, _ in POINTS] == [1_000.0, 60.0, 10.0]


def test_between_two_points_logarithms_are_interpolated():
    curve = curve_of(((110, 1_000), (200, 10)))
    assert curve.carried(100) == pytest.approx(math.sqrt(1.1 * 2.0))
    assert curve.seconds(math.sqrt(1.1 * 2.0)) == pytest.approx(100)


def test_nothing_is_better_than_the_curve_says():
    curve = curve_of(POINTS)
    assert curve.carried(1) == 2.0, "no load above the highest point is used"
    assert curve.carried(1_000.1) == 1.0, "no overload is carried for longer than the longest time"
    assert curve.seconds(1.0) == math.inf
    assert curve.seconds(1.0001) == 1_000.0
    assert curve.seconds(2.0001) == 0.0


@pytest.mark.parametrize(
    "points",
    [(), ((1.0, 5.0),), ((1.5, 0.0),), ((1.2, 5.0), (1.5, 5.0)), ((1.5, 5.0), (1.2, 9.0)), ((1.2, 5.0), (1.5, 9.0))],
)
def test_a_curve_that_no_breaker_has_is_refused(points):
    with pytest.raises(ValueError, match=r"curve|loads"):
        BreakerCurve(points)


@given(curves(), st.floats(0.1, 100_000), st.floats(0.1, 100_000))
def test_a_load_is_carried_for_at_least_the_time_that_it_was_found_for(curve, a_s, b_s):
    load = curve.carried(a_s)
    assert 1.0 <= load <= curve.points[-1][0]
    assert curve.seconds(load) >= a_s * (1 - 1e-9)
    assert curve.carried(min(a_s, b_s)) >= curve.carried(max(a_s, b_s))


@given(curves(), st.floats(0.5, 20), st.floats(0.5, 20))
def test_a_higher_load_is_carried_for_no_longer_time(curve, a, b):
    assert curve.seconds(max(a, b)) <= curve.seconds(min(a, b))


def test_the_curve_is_read_at_twice_the_time_in_which_an_overload_ends():
    assert rating().ends_s == 30.0
    assert rating().permitted == 1.3
    assert rating(reaction_s=600).permitted == 1.0


@given(st.floats(1.0001, 2.5), st.integers(1, 50))
def test_damage_grows_to_a_trip_in_the_time_of_the_curve_in_any_number_of_steps(load, steps):
    found = rating()
    damage, carried_s = 0.0, found.curve.seconds(load)
    for _ in range(steps):
        damage = found.damage_after(damage, load, carried_s / steps + 1e-6)
    assert damage == pytest.approx(TRIPS)
    assert found.damage_after(damage, load, 10) == TRIPS


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 5_000.0))
def test_damage_decays_with_the_time_constant_at_and_below_the_limit(damage, load, seconds):
    found = rating().damage_after(damage, load, seconds)
    assert found == pytest.approx(damage * math.exp(-seconds / 600.0))


def test_time_that_goes_back_changes_nothing():
    assert rating().damage_after(0.5, 1.3, -5.0) == 0.5
    assert rating().damage_after(0.5, 0.3, -5.0) == 0.5
