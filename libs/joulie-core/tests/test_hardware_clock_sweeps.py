"""Speed and power of a GPU at a lower graphics clock."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_core.hardware.inventory import Inventory

SWEEPS = ClockSweeps.load()
EACH = pytest.mark.parametrize("model", SWEEPS.models)


def test_sweeps_are_of_models_of_the_inventory_and_the_typical_one_is_for_all_others():
    assert SWEEPS.models.keys() <= {spec.model for spec in Inventory.load().gpus.values()}
    assert SWEEPS.of("NVIDIA A100 PCIe 80GB") is not SWEEPS.typical
    assert SWEEPS.of("NVIDIA H100 SXM") is SWEEPS.typical is SWEEPS.of("NVIDIA V100 PCIe")


@EACH
@pytest.mark.parametrize("memory_bound", [False, True])
def test_lower_clocks_are_slower_and_draw_less(model, memory_bound):
    points = [SWEEPS.of(model).at(percent / 100, memory_bound=memory_bound) for percent in range(101)]
    for lower, higher in pairwise(points):
        assert 0.0 <= lower.speed <= higher.speed
        assert 0.0 < lower.power <= higher.power
    assert (points[-1].speed, points[-1].power, points[0].speed) == (1.0, 1.0, 0.0)


@EACH
@given(percent=st.integers(51, 100), memory_bound=st.booleans())
def test_from_half_of_the_clock_on_no_measured_work_loses_more_speed_than_clock(model, percent, memory_bound):
    clock = percent / 100
    if percent >= SWEEPS.of(model).lowest_useful_pct:
        assert SWEEPS.of(model).at(clock, memory_bound=memory_bound).speed >= clock - 0.005


@EACH
def test_at_the_lowest_useful_clock_work_that_follows_the_clock_takes_the_least_energy(model):
    sweep = SWEEPS.of(model)
    energy = {percent: (point := sweep.at(percent / 100)).power / point.speed for percent in range(30, 101)}
    assert min(energy, key=energy.__getitem__) == sweep.lowest_useful_pct


def test_values_between_measured_clocks_are_linear():
    point = SWEEPS.of("NVIDIA V100 PCIe").at(0.85)
    assert (point.clock, point.speed, point.power) == pytest.approx((0.85, 0.85, 0.745))
    memory = SWEEPS.of("NVIDIA V100 PCIe").at(0.85, memory_bound=True)
    assert (memory.speed, memory.power) == pytest.approx((0.97, 0.825))


def test_below_the_lowest_measured_clock_speed_goes_straight_to_zero_and_power_stays():
    sweep = SWEEPS.of("NVIDIA A100 PCIe 80GB")
    assert sweep.at(0.355).speed == pytest.approx(0.724 / 2)
    assert sweep.at(0.355).power == sweep.at(0.71).power
    assert sweep.at(2.0).speed == 1.0
