import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.power_curve import CapResponse, PowerCurve
from joulie_core.power.draw import SENSITIVITY, THROTTLED_FREQUENCY, WorkKind, draw_under, speed_at_frequency

INVENTORY = Inventory.load()
shares = st.floats(0.0, 1.0)
parts = st.sampled_from([*INVENTORY.cpus.values(), *INVENTORY.gpus.values()]).map(
    lambda spec: (spec.curve, spec.max_watts)
)
caps = st.floats(0.0, 1500.0)
#: Linear in load, 50 W idle of 250 W; a cap at a quarter of the power above idle halves the speed.
CPU_CURVE = PowerCurve((0.2, 1.0), CapResponse(None, 0.5, 0.0, "fictional"), "fictional")


def drawn(curve, max_watts, utilization, **limits):
    natural_watts, idle_watts = curve.watts(utilization, max_watts), curve.watts(0.0, max_watts)
    return draw_under(curve.response, natural_watts, idle_watts, **limits)


@given(parts, shares, shares, st.none() | caps, shares)
def test_draw_never_falls_as_utilization_grows(part, one, other, cap_watts, throttled):
    low, high = sorted((one, other))
    lower, higher = (drawn(*part, used, cap_watts=cap_watts, throttled_share=throttled).watts for used in (low, high))
    assert lower <= higher + 1e-9


@given(parts, shares, caps, shares)
def test_draw_stays_under_a_cap_that_is_not_below_idle(part, used, cap_watts, throttled):
    curve, max_watts = part
    draw = drawn(curve, max_watts, used, cap_watts=cap_watts, throttled_share=throttled)
    assert draw.watts <= max(cap_watts, curve.watts(0.0, max_watts))
    assert 0.0 <= draw.speed <= 1.0


@given(parts, shares, caps, caps, shares)
def test_a_lower_cap_never_works_faster_nor_draws_more(part, used, one, other, throttled):
    tight, loose = sorted((one, other))
    low, high = (drawn(*part, used, cap_watts=cap, throttled_share=throttled) for cap in (tight, loose))
    assert low.speed <= high.speed + 1e-9
    assert low.watts <= high.watts + 1e-6


@given(parts, shares, shares, shares)
def test_more_throttle_never_works_faster_nor_draws_more(part, used, one, other):
    less, more = sorted((one, other))
    light, heavy = (drawn(*part, used, cap_watts=None, throttled_share=share) for share in (less, more))
    assert heavy.speed <= light.speed + 1e-9
    assert heavy.watts <= light.watts + 1e-9


@given(parts, shares, shares)
def test_a_cap_that_does_not_bind_changes_nothing(part, used, throttled):
    free = drawn(*part, used, cap_watts=None, throttled_share=throttled)
    assert drawn(*part, used, cap_watts=part[1] + 1.0, throttled_share=throttled) == free


@given(parts, caps, shares)
def test_idle_is_the_same_capped_or_not(part, cap_watts, throttled):
    curve, max_watts = part
    draw = drawn(curve, max_watts, 0.0, cap_watts=cap_watts, throttled_share=throttled)
    assert draw.watts == curve.watts(0.0, max_watts)


@given(parts, st.floats(0.01, 1.0), caps, shares)
def test_no_work_is_done_without_power_above_idle(part, used, cap_watts, throttled):
    curve, max_watts = part
    draw = drawn(curve, max_watts, used, cap_watts=cap_watts, throttled_share=throttled)
    assert draw.speed == 0.0 or draw.watts > curve.watts(0.0, max_watts)


def test_a_quarter_of_the_dynamic_watts_is_half_the_speed():
    draw = drawn(CPU_CURVE, 250.0, 1.0, cap_watts=100.0)
    assert (draw.watts, draw.speed) == (100.0, pytest.approx(0.5))


def test_a_cap_at_or_below_idle_stops_the_work_and_not_the_idle_draw():
    draw = drawn(CPU_CURVE, 250.0, 1.0, cap_watts=40.0)
    assert (draw.watts, draw.speed) == (50.0, 0.0)


def test_a_full_throttle_runs_at_the_lowest_frequency():
    draw = drawn(CPU_CURVE, 250.0, 1.0, cap_watts=None, throttled_share=1.0)
    assert draw.speed == THROTTLED_FREQUENCY
    assert draw.watts == pytest.approx(50.0 + 200.0 / 4)


def test_a_throttle_slows_memory_work_less_than_the_clock():
    draw = drawn(CPU_CURVE, 250.0, 1.0, cap_watts=None, throttled_share=1.0, sensitivity=0.4)
    assert draw.speed == pytest.approx(1 / 1.4)


def test_half_the_cores_throttled_cost_a_quarter_of_the_speed():
    draw = drawn(CPU_CURVE, 250.0, 1.0, cap_watts=None, throttled_share=0.5)
    assert draw.speed == pytest.approx(0.75)
    assert draw.watts == pytest.approx(50.0 + 200.0 * (0.5 + 0.5 / 4))


def test_a_cap_and_a_throttle_slow_together():
    draw = drawn(CPU_CURVE, 250.0, 1.0, cap_watts=100.0, throttled_share=1.0)
    assert draw.speed == pytest.approx(0.5)
    tighter = drawn(CPU_CURVE, 250.0, 1.0, cap_watts=62.5, throttled_share=1.0)
    assert tighter.watts == 62.5
    assert tighter.speed == pytest.approx(0.25)


@given(parts, shares, caps, shares, st.tuples(shares, shares))
def test_work_that_depends_less_on_the_clock_is_slowed_less(part, used, cap_watts, throttled, sensitivities):
    less, more = sorted(sensitivities)
    steady, sensitive = (
        drawn(*part, used, cap_watts=cap_watts, throttled_share=throttled, sensitivity=share) for share in (less, more)
    )
    assert steady.speed >= sensitive.speed - 1e-9
    assert steady.watts == sensitive.watts


@given(st.floats(0.01, 1.0), shares)
def test_the_time_of_work_is_the_part_that_follows_the_clock_and_the_part_that_does_not(frequency, sensitivity):
    assert 1.0 / speed_at_frequency(frequency, sensitivity) == pytest.approx(
        sensitivity / frequency + 1.0 - sensitivity
    )


def test_nothing_runs_at_frequency_zero_however_insensitive():
    assert speed_at_frequency(0.0, 0.0) == 0.0


def test_kinds_of_work_differ_in_what_half_the_frequency_costs_them():
    speeds = [speed_at_frequency(0.5, SENSITIVITY[kind].value) for kind in WorkKind]
    assert speeds == pytest.approx([0.5, 1 / 1.4, 1 / 1.1])


@pytest.mark.parametrize("kind", WorkKind)
def test_the_sensitivity_of_a_kind_lies_in_its_band(kind):
    assert 0.0 <= SENSITIVITY[kind].lowest <= SENSITIVITY[kind].value <= SENSITIVITY[kind].highest <= 1.0
