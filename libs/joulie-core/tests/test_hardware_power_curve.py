import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory

INVENTORY = Inventory.load()
CURVES = {key: spec.curve for key, spec in {**INVENTORY.cpus, **INVENTORY.gpus}.items()}
curves = st.sampled_from(sorted(CURVES)).map(CURVES.__getitem__)
shares = st.floats(0, 1)


@given(curves, shares, shares)
def test_power_rises_with_load_up_to_the_maximum(curve, one, other):
    low, high = sorted((one, other))
    assert 0 < curve.share(0) <= curve.share(low) <= curve.share(high) <= curve.share(1) == 1


@given(curves, st.floats(-10, 10), st.floats(0, 2000))
def test_watts_are_bounded_whatever_the_load(curve, load, max_watts):
    assert 0 <= curve.watts(load, max_watts) <= max_watts


@given(curves, st.floats(0, 2), st.floats(0, 2), st.floats(0, 1.2))
def test_speed_rises_with_the_cap_and_never_passes_one(curve, one, other, demand):
    low, high = sorted((one, other))
    slow, fast = curve.relative_performance(low, demand), curve.relative_performance(high, demand)
    assert 0 <= slow <= fast + 1e-12
    assert fast <= 1


@given(curves, shares, shares)
def test_a_cap_above_the_demand_costs_nothing(curve, cap, demand):
    assert (curve.relative_performance(cap, demand) == 1) == (cap >= demand) or cap == pytest.approx(demand, abs=1e-9)


@given(curves, st.floats(0.01, 1))
def test_a_positive_cap_lets_work_go_on(curve, cap):
    assert curve.relative_performance(cap) > 0


@given(curves)
def test_nothing_runs_without_power(curve):
    assert curve.relative_performance(0) == 0


def test_points_of_a_server_curve_are_met_exactly():
    curve = INVENTORY.cpus["amd-epyc-7763"].curve
    assert curve.watts(0, 280) == pytest.approx(0.212 * 280)
    assert curve.watts(0.5, 280) == pytest.approx(0.620 * 280)
    assert curve.watts(0.55, 280) == pytest.approx((0.620 + 0.713) / 2 * 280)


@pytest.mark.parametrize(
    ("gpu", "cap_watts", "max_watts", "demand", "throughput"),
    [
        # Medians over the jobs that draw over 80 % (P100: 60 %) of the limit at full power; Zeus power-limit sweeps.
        ("nvidia-v100-pcie", 100, 250, 0.894, 0.532),
        ("nvidia-v100-pcie", 150, 250, 0.894, 0.847),
        ("nvidia-v100-pcie", 200, 250, 0.894, 0.948),
        ("nvidia-quadro-rtx-6000", 100, 260, 0.897, 0.426),
        ("nvidia-quadro-rtx-6000", 150, 260, 0.897, 0.830),
        ("nvidia-quadro-rtx-6000", 200, 260, 0.897, 0.941),
        ("nvidia-p100-pcie", 125, 250, 0.666, 0.897),
    ],
)
def test_the_cap_law_agrees_with_published_measurements(gpu, cap_watts, max_watts, demand, throughput):
    curve = INVENTORY.gpus[gpu].curve
    assert curve.relative_performance(cap_watts / max_watts, demand) == pytest.approx(throughput, abs=0.1)


def test_a_cap_saves_energy_per_unit_of_work_on_a_busy_cpu():
    curve = INVENTORY.cpus["intel-xeon-8380"].curve
    assert 0.75 <= 0.6 / curve.relative_performance(0.6) <= 0.9
