"""Energy of CPU packages by pod: conservation, bounds, and what is unknown."""

import math
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.attribution.cpus import PackagesInterval, WattsBand, packages_energy, watts_per_cpu_second
from joulie_core.attribution.fit import fitted_watts
from joulie_core.power.curves import NodeCurves

BUSY, IDLE = WattsBand(1.0, 4.0), WattsBand(40.0, 40.0)


def by_pod(result):
    return {pod.holder: (pod.lower_joules, pod.joules, pod.upper_joules) for pod in result.pods}


def test_the_bounds_of_one_pod_are_clipped_by_what_the_others_leave():
    interval = PackagesInterval(10.0, 400.0 + 70.0, 20.0, {"a": 10.0, "b": 10.0})
    lower, point, upper = by_pod(packages_energy(interval, BUSY, IDLE))["a"]
    assert (lower, upper) == (30.0, 40.0)
    assert point == pytest.approx(35.0)


def test_a_pod_without_cpu_time_is_part_of_the_rest_which_is_unattributed():
    interval = PackagesInterval(10.0, 440.0, 20.0, {"a": 10.0, "b": None})
    result = packages_energy(interval, BUSY, IDLE)
    assert by_pod(result).keys() == {"a"}
    assert result.unattributed_joules == pytest.approx(20.0)


def test_without_the_cpu_time_of_the_node_all_energy_over_idle_is_unattributed():
    result = packages_energy(PackagesInterval(10.0, 440.0, None, {"a": 10.0}), BUSY, IDLE)
    assert (result.pods, result.idle_joules, result.unattributed_joules) == ((), 400.0, 40.0)


def test_energy_over_idle_without_any_cpu_time_is_unattributed_and_refutes_the_band():
    result = packages_energy(PackagesInterval(10.0, 450.0, 0.0, {"a": 0.0}), BUSY, IDLE)
    assert (result.idle_joules, result.unattributed_joules, result.band_held) == (400.0, 50.0, False)


@pytest.mark.parametrize("active", [5.0, 500.0])
def test_a_counter_outside_the_band_leaves_bounds_of_nothing_and_all(active):
    result = packages_energy(PackagesInterval(10.0, 400.0 + active, 20.0, {"a": 10.0, "b": 10.0}), BUSY, IDLE)
    assert not result.band_held
    assert by_pod(result)["a"] == pytest.approx((0.0, active / 2.0, active))


CPU = st.dictionaries(st.sampled_from("abcdefgh"), st.none() | st.floats(0.0, 100.0), max_size=8)


@given(CPU, st.floats(0.0, 50.0), st.floats(0.0, 3000.0), st.floats(0.0, 60.0))
def test_pods_idle_and_unattributed_are_the_counter_and_points_lie_within_bounds(cpu, rest, joules, spread):
    total = math.fsum(seconds for seconds in cpu.values() if seconds) + rest
    interval = PackagesInterval(10.0, joules, total, cpu)
    result = packages_energy(interval, BUSY, WattsBand(40.0, 40.0 + spread))
    parts = [result.idle_joules, result.unattributed_joules, *(pod.joules for pod in result.pods)]
    assert math.fsum(parts) == pytest.approx(joules, abs=1e-6)
    assert min(parts) >= 0.0
    assert all(p.lower_joules - 1e-6 <= p.joules <= p.upper_joules + 1e-6 for p in result.pods)


@given(CPU, st.floats(400.0, 3000.0), st.randoms())
def test_names_and_their_order_change_nothing(cpu, joules, rng):
    total = math.fsum(seconds for seconds in cpu.values() if seconds)
    others = dict(zip(cpu, rng.sample(sorted(cpu), len(cpu)), strict=True))
    renamed = {others[pod]: cpu[pod] for pod in sorted(cpu, key=others.__getitem__)}
    was = by_pod(packages_energy(PackagesInterval(10.0, joules, total, cpu), BUSY, IDLE))
    now = by_pod(packages_energy(PackagesInterval(10.0, joules, total, renamed), BUSY, IDLE))
    assert {others[pod] for pod in was} == now.keys()
    assert all(now[others[pod]] == pytest.approx(values, abs=1e-6) for pod, values in was.items())


def test_the_fit_tells_pods_apart_whose_cpu_times_vary():
    times = [(10.0, 2.0), (3.0, 9.0), (6.0, 6.0)]
    seen = [PackagesInterval(10.0, 400.0 + 1.5 * a + 3.0 * b, a + b, {"a": a, "b": b}) for a, b in times]
    assert fitted_watts(seen, BUSY, IDLE) == pytest.approx({"a": 1.5, "b": 3.0}, rel=0.01)


def test_the_fit_leaves_pods_alike_that_rise_and_fall_together():
    seen = [PackagesInterval(10.0, 400.0 + 5.0 * s, 2.0 * s, {"a": s, "b": s}) for s in (1.0, 4.0, 7.0)]
    watts = fitted_watts(seen, BUSY, IDLE)
    assert watts["a"] + watts["b"] == pytest.approx(5.0, rel=0.01)


def test_the_fit_without_intervals_knows_nothing():
    assert fitted_watts([PackagesInterval(10.0, 400.0, None, {"a": 1.0})], BUSY, IDLE) == {}


def test_a_pod_that_ends_within_an_interval_loses_nothing():
    interval = PackagesInterval(10.0, 400.0 + 21.0, 10.5, {"long": 10.0, "short": 0.5})
    points = {pod: point for pod, (_, point, _) in by_pod(packages_energy(interval, BUSY, IDLE)).items()}
    assert points == pytest.approx({"long": 20.0, "short": 1.0})


def test_the_band_is_half_the_flattest_to_double_the_steepest_secant_of_the_curve_of_the_packages():
    curve = (50.0, *(50.0 + 10.0 * step for step in range(1, 10)), 250.0)
    curves = mock.create_autospec(NodeCurves, instance=True, packages_watts=curve, threads=10.0)
    assert watts_per_cpu_second(curves) == WattsBand(5.0, 40.0)
