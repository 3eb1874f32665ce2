"""Energy of one GPU by holder."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.attribution.counters import CounterReading, from_millijoules, joules_between
from joulie_core.attribution.energy import AllocationRule, EnergyKind
from joulie_core.attribution.gpus import DeviceEnergy, DeviceHold, device_energy

READINGS = [CounterReading(0.0, 1000.0), CounterReading(10.0, 3000.0)]


def energy(*holds, readings=READINGS) -> DeviceEnergy:
    return device_energy(readings, holds, most_watts=1000.0, longest_seconds=30.0)


def test_one_holder_for_the_whole_interval_is_measured():
    (pod,) = energy(DeviceHold("a", 0.0, 10.0)).holders
    assert (pod.kind, pod.rule) == (EnergyKind.MEASURED, AllocationRule.NONE)
    assert (pod.lower_joules, pod.joules, pod.upper_joules) == (2000.0, 2000.0, 2000.0)


def test_a_shared_device_is_allocated_in_equal_parts_with_bounds_of_nothing_and_all():
    first, second = energy(DeviceHold("a", -5.0), DeviceHold("b", 0.0, 20.0)).holders
    assert (first.kind, first.rule, first.joules) == (EnergyKind.ALLOCATED, AllocationRule.EQUAL_SHARE, 1000.0)
    assert (second.lower_joules, second.joules, second.upper_joules) == (0.0, 1000.0, 2000.0)


def test_holders_one_after_the_other_within_an_interval_are_allocated_by_time():
    result = energy(DeviceHold("a", 0.0, 4.0), DeviceHold("b", 5.0))
    assert {pod.holder: pod.joules for pod in result.holders} == pytest.approx({"a": 800.0, "b": 1000.0})
    assert {pod.rule for pod in result.holders} == {AllocationRule.HOLDING_TIME}
    assert result.idle_joules == pytest.approx(200.0)


def test_two_holds_of_one_holder_that_follow_each_other_are_one():
    (pod,) = energy(DeviceHold("a", 0.0, 4.0), DeviceHold("a", 4.0)).holders
    assert pod.kind is EnergyKind.MEASURED


def test_a_device_without_holders_is_idle():
    assert energy() == DeviceEnergy((), 2000.0, 0.0, 0.0)


def test_an_interval_with_an_unknown_holder_is_unattributed():
    assert energy(DeviceHold("a", 0.0), DeviceHold(None, 3.0, 4.0)) == DeviceEnergy((), 0.0, 2000.0, 0.0)


def test_a_gap_is_unattributed():
    gap = [CounterReading(0.0, 0.0), CounterReading(31.0, 500.0)]
    assert energy(DeviceHold("a", 0.0), readings=gap) == DeviceEnergy((), 0.0, 500.0, 0.0)


def test_a_counter_that_went_backwards_counts_nothing_and_tells_its_seconds():
    reset = [*READINGS, CounterReading(20.0, 5.0), CounterReading(30.0, 105.0)]
    result = energy(DeviceHold("a", 0.0), readings=reset)
    assert [pod.joules for pod in result.holders] == [2100.0]
    assert result.unknown_seconds == 10.0


@pytest.mark.parametrize(
    ("before", "after", "wraps", "joules"),
    [
        ((0, 5000), (10, 6500), None, 1.5),
        ((0, 5000), (10, 5000), None, 0.0),
        ((0, 5000), (10, 4000), None, None),
        ((0, 9000), (10, 1000), 10.0, None),
        ((0, 1900000), (10, 100000), 2000.0, 200.0),
        ((0, 0), (10, 1000001), None, None),
        ((0, 0), (10, 1000000), None, 1000.0),
        ((10, 0), (10, 0), None, None),
        ((0, -1), (10, 5), None, None),
    ],
)
def test_a_difference_of_a_counter_is_plausible_or_unknown(before, after, wraps, joules):
    got = joules_between(from_millijoules(*before), from_millijoules(*after), most_watts=100.0, wraps_at_joules=wraps)
    assert got == (None if joules is None else pytest.approx(joules))


HOLDS = st.lists(
    st.builds(
        lambda holder, start, length: DeviceHold(holder, start, start + length),
        st.sampled_from(["a", "b", "c", None]),
        st.floats(0.0, 40.0),
        st.floats(0.1, 30.0),
    ),
    max_size=8,
)
STEPS = st.lists(st.tuples(st.floats(1.0, 40.0), st.floats(0.0, 900.0)), min_size=1, max_size=6)


@given(HOLDS, STEPS, st.randoms())
def test_all_parts_add_up_to_the_counter_in_any_order_of_holds_however_short(holds, steps, rng):
    readings = [CounterReading(0.0, 0.0)]
    for seconds, watts in steps:
        last = readings[-1]
        readings.append(CounterReading(last.at_seconds + seconds, last.joules + seconds * watts))
    result = energy(*holds, readings=readings)
    parts = [result.idle_joules, result.unattributed_joules, *(pod.joules for pod in result.holders)]
    assert math.fsum(parts) == pytest.approx(readings[-1].joules, abs=1e-6)
    assert all(p.lower_joules - 1e-6 <= p.joules <= p.upper_joules + 1e-6 for p in result.holders)
    assert energy(*rng.sample(holds, len(holds)), readings=readings) == result
