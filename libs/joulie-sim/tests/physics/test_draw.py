import csv
import os
from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_sim.physics.draw import THROTTLED_SPEED, draw_under
from joulie_sim.testing import StraightCurve

shares = st.floats(0.0, 1.0)
curves = st.builds(lambda idle, span: StraightCurve(idle, idle + span), st.floats(1.0, 200.0), st.floats(1.0, 800.0))
CURVE = StraightCurve(50.0, 250.0)


@given(curves, shares, shares, st.none() | st.floats(0.0, 1000.0), shares)
def test_draw_never_falls_as_utilization_grows(curve, one, other, cap_watts, throttled):
    low, high = sorted((one, other))
    drawn = [draw_under(curve, used, cap_watts=cap_watts, throttled_share=throttled).watts for used in (low, high)]
    assert drawn[0] <= drawn[1] + 1e-9


@given(curves, shares, st.floats(0.0, 1000.0), shares)
def test_draw_stays_under_a_cap_that_is_not_below_idle(curve, used, cap_watts, throttled):
    draw = draw_under(curve, used, cap_watts=cap_watts, throttled_share=throttled)
    assert draw.watts <= max(cap_watts, curve.idle_watts)
    assert 0.0 <= draw.speed <= 1.0


@given(curves, shares, st.floats(0.0, 1000.0), st.floats(0.0, 1000.0), shares)
def test_a_lower_cap_never_works_faster_nor_draws_more(curve, used, one, other, throttled):
    tight, loose = sorted((one, other))
    low, high = (draw_under(curve, used, cap_watts=cap, throttled_share=throttled) for cap in (tight, loose))
    assert low.speed <= high.speed + 1e-9
    assert low.watts <= high.watts + 1e-6


@given(curves, shares, shares, shares)
def test_more_throttle_never_works_faster_nor_draws_more(curve, used, one, other):
    less, more = sorted((one, other))
    light, heavy = (draw_under(curve, used, cap_watts=None, throttled_share=share) for share in (less, more))
    assert heavy.speed <= light.speed + 1e-9
    assert heavy.watts <= light.watts + 1e-9


@given(curves, shares, shares)
def test_a_cap_that_does_not_bind_changes_nothing(curve, used, throttled):
    free = draw_under(curve, used, cap_watts=None, throttled_share=throttled)
    assert draw_under(curve, used, cap_watts=curve.peak_watts, throttled_share=throttled) == free


@given(curves, st.floats(0.0, 1000.0), shares)
def test_idle_is_the_same_capped_or_not(curve, cap_watts, throttled):
    assert draw_under(curve, 0.0, cap_watts=cap_watts, throttled_share=throttled).watts == curve.idle_watts


@given(curves, st.floats(0.01, 1.0), st.floats(0.0, 1000.0), shares)
def test_no_work_is_free_of_power(curve, used, cap_watts, throttled):
    draw = draw_under(curve, used, cap_watts=cap_watts, throttled_share=throttled)
    dynamic_watts = curve.watts(used) - curve.idle_watts
    # The mean of cubes is never below the cube of the mean: a throttle costs at least what an even clock would.
    assert draw.watts - curve.idle_watts >= dynamic_watts * draw.speed**3 - 1e-6


def test_an_eighth_of_the_dynamic_watts_is_half_the_speed():
    assert draw_under(CURVE, 1.0, cap_watts=75.0).speed == pytest.approx(0.5)


def test_a_cap_is_used_to_the_full_when_it_binds():
    assert draw_under(CURVE, 1.0, cap_watts=150.0).watts == pytest.approx(150.0)


def test_a_cap_at_or_below_idle_stops_the_work_and_not_the_idle_draw():
    draw = draw_under(CURVE, 1.0, cap_watts=40.0)
    assert (draw.watts, draw.speed) == (50.0, 0.0)


def test_a_full_throttle_runs_at_the_lowest_frequency():
    draw = draw_under(CURVE, 1.0, cap_watts=None, throttled_share=1.0)
    assert draw.speed == THROTTLED_SPEED
    assert draw.watts == pytest.approx(50.0 + 200.0 / 8)


def test_half_the_cores_throttled_cost_a_quarter_of_the_speed():
    draw = draw_under(CURVE, 1.0, cap_watts=None, throttled_share=0.5)
    assert draw.speed == pytest.approx(0.75)
    assert draw.watts == pytest.approx(50.0 + 200.0 * (0.5 + 0.5 / 8))


def test_a_cap_slows_the_free_cores_first_when_others_are_throttled():
    draw = draw_under(CURVE, 1.0, cap_watts=100.0, throttled_share=0.5)
    assert draw.watts == pytest.approx(100.0)
    fast = ((0.25 - 0.5 / 8) / 0.5) ** (1 / 3)
    assert draw.speed == pytest.approx(0.5 * fast + 0.5 * 0.5)


def _zeus_v100() -> Path | None:
    roots = [os.environ.get("JOULIE_DATA_DIR"), Path(__file__).parents[5] / "shared" / "data"]
    paths = [Path(root) / "zeus-gpu-caps" / "v100.csv" for root in roots if root]
    return next((path for path in paths if path.is_file()), None)


@pytest.mark.skipif(_zeus_v100() is None, reason="no zeus-gpu-caps data: set JOULIE_DATA_DIR")
def test_the_slowdown_agrees_with_training_jobs_measured_under_v100_power_limits():
    runs = defaultdict(dict)
    with _zeus_v100().open() as file:
        for row in csv.DictReader(file):
            job = (row["dataset"], row["network"], row["batch_size"], row["optimizer"])
            runs[job][float(row["power_limit"])] = (float(row["time_per_epoch"]), float(row["average_power"]))
    for limit_watts in (125.0, 150.0, 175.0, 200.0):
        errors = []
        for limits in runs.values():
            full_s, full_watts = limits[max(limits)]
            time_s, watts = limits.get(limit_watts, (0.0, full_watts))
            if watts < 0.95 * full_watts:
                modelled = draw_under(StraightCurve(40.0, full_watts), 1.0, cap_watts=watts).speed
                errors.append(modelled - full_s / time_s)
        assert len(errors) > 20
        assert abs(median(errors)) < 0.1
