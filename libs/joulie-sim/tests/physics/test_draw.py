import csv
from collections import defaultdict
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory
from joulie_sim.physics.draw import THROTTLED_SPEED, draw_under
from joulie_sim.testing import CPU_CURVE

INVENTORY = Inventory.load()
shares = st.floats(0.0, 1.0)
parts = st.sampled_from([*INVENTORY.cpus.values(), *INVENTORY.gpus.values()]).map(
    lambda spec: (spec.curve, spec.max_watts)
)
caps = st.floats(0.0, 1500.0)


@given(parts, shares, shares, st.none() | caps, shares)
def test_draw_never_falls_as_utilization_grows(part, one, other, cap_watts, throttled):
    low, high = sorted((one, other))
    drawn = [draw_under(*part, used, cap_watts=cap_watts, throttled_share=throttled).watts for used in (low, high)]
    assert drawn[0] <= drawn[1] + 1e-9


@given(parts, shares, caps, shares)
def test_draw_stays_under_a_cap_that_is_not_below_idle(part, used, cap_watts, throttled):
    curve, max_watts = part
    draw = draw_under(curve, max_watts, used, cap_watts=cap_watts, throttled_share=throttled)
    assert draw.watts <= max(cap_watts, curve.watts(0.0, max_watts))
    assert 0.0 <= draw.speed <= 1.0


@given(parts, shares, caps, caps, shares)
def test_a_lower_cap_never_works_faster_nor_draws_more(part, used, one, other, throttled):
    tight, loose = sorted((one, other))
    low, high = (draw_under(*part, used, cap_watts=cap, throttled_share=throttled) for cap in (tight, loose))
    assert low.speed <= high.speed + 1e-9
    assert low.watts <= high.watts + 1e-6


@given(parts, shares, shares, shares)
def test_more_throttle_never_works_faster_nor_draws_more(part, used, one, other):
    less, more = sorted((one, other))
    light, heavy = (draw_under(*part, used, cap_watts=None, throttled_share=share) for share in (less, more))
    assert heavy.speed <= light.speed + 1e-9
    assert heavy.watts <= light.watts + 1e-9


@given(parts, shares, shares)
def test_a_cap_that_does_not_bind_changes_nothing(part, used, throttled):
    free = draw_under(*part, used, cap_watts=None, throttled_share=throttled)
    assert draw_under(*part, used, cap_watts=part[1] + 1.0, throttled_share=throttled) == free


@given(parts, caps, shares)
def test_idle_is_the_same_capped_or_not(part, cap_watts, throttled):
    curve, max_watts = part
    draw = draw_under(curve, max_watts, 0.0, cap_watts=cap_watts, throttled_share=throttled)
    assert draw.watts == curve.watts(0.0, max_watts)


@given(parts, st.floats(0.01, 1.0), caps, shares)
def test_no_work_is_done_without_power_above_idle(part, used, cap_watts, throttled):
    curve, max_watts = part
    draw = draw_under(curve, max_watts, used, cap_watts=cap_watts, throttled_share=throttled)
    assert draw.speed == 0.0 or draw.watts > curve.watts(0.0, max_watts)


def test_a_quarter_of_the_dynamic_watts_is_half_the_speed():
    draw = draw_under(CPU_CURVE, 250.0, 1.0, cap_watts=100.0)
    assert (draw.watts, draw.speed) == (100.0, pytest.approx(0.5))


def test_a_cap_at_or_below_idle_stops_the_work_and_not_the_idle_draw():
    draw = draw_under(CPU_CURVE, 250.0, 1.0, cap_watts=40.0)
    assert (draw.watts, draw.speed) == (50.0, 0.0)


def test_a_full_throttle_runs_at_the_lowest_frequency():
    draw = draw_under(CPU_CURVE, 250.0, 1.0, cap_watts=None, throttled_share=1.0)
    assert draw.speed == THROTTLED_SPEED
    assert draw.watts == pytest.approx(50.0 + 200.0 / 4)


def test_half_the_cores_throttled_cost_a_quarter_of_the_speed():
    draw = draw_under(CPU_CURVE, 250.0, 1.0, cap_watts=None, throttled_share=0.5)
    assert draw.speed == pytest.approx(0.75)
    assert draw.watts == pytest.approx(50.0 + 200.0 * (0.5 + 0.5 / 4))


def test_a_cap_and_a_throttle_slow_together():
    draw = draw_under(CPU_CURVE, 250.0, 1.0, cap_watts=100.0, throttled_share=1.0)
    assert draw.speed == pytest.approx(0.5)
    tighter = draw_under(CPU_CURVE, 250.0, 1.0, cap_watts=62.5, throttled_share=1.0)
    assert tighter.watts == 62.5
    assert tighter.speed == pytest.approx(0.25)


def test_the_slowdown_agrees_with_training_jobs_measured_under_v100_power_limits(public_data):
    runs = defaultdict(dict)
    with public_data("zeus-gpu-caps/v100.csv").open() as file:
        for row in csv.DictReader(file):
            job = (row["dataset"], row["network"], row["batch_size"], row["optimizer"])
            runs[job][float(row["power_limit"])] = (float(row["time_per_epoch"]), float(row["average_power"]))
    v100 = INVENTORY.find_gpu("V100-PCIE-32GB").spec
    for limit_watts in (125.0, 150.0, 175.0, 200.0):
        errors = []
        for limits in runs.values():
            full_s, full_watts = limits[max(limits)]
            time_s, watts = limits.get(limit_watts, (0.0, full_watts))
            if watts < 0.95 * full_watts:
                used = (full_watts - v100.idle_watts) / (v100.max_watts - v100.idle_watts)
                modelled = draw_under(v100.curve, v100.max_watts, used, cap_watts=watts).speed
                errors.append(modelled - full_s / time_s)
        assert len(errors) > 20
        assert abs(median(errors)) < 0.1
