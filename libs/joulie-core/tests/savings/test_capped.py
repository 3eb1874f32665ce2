"""Watts that a cap saves, with the longer run of the work counted against it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.power_curve import CapResponse
from joulie_core.power.server import SUPPLY_EFFICIENCY
from joulie_core.savings.capped import CappedDevices, cap_watts_saved
from joulie_core.savings.estimator import CappedNode, caps_rate
from joulie_core.savings.rates import EstimateRange

_CPU = CapResponse(static_share=None, exponent=0.5, lowest=0.0, source="test")
_DEVICES = CappedDevices(
    cap_watts=200.0,
    drawn_watts=200.0,
    idle_watts=100.0,
    natural_watts=300.0,
    most_watts=500.0,
    response=_CPU,
    exponents=(0.4, 0.6),
)


def test_a_cap_saves_what_the_same_work_would_draw_in_a_shorter_time():
    # Speed: sqrt((200 - 100) / (300 - 100)) = 0.7071; 300 W for that share of the time, idle in the rest.
    found = cap_watts_saved(_DEVICES)
    assert found is not None
    assert found.middle == pytest.approx(0.70711 * 300 + 0.29289 * 100 - 200, abs=1e-3)
    # Nothing, where the natural power was that of the cap; and that of full load.
    assert found.lower == pytest.approx(0.0)
    assert found.upper == pytest.approx(400 * 0.25**0.4 - 100, abs=1e-3)


def test_a_cap_above_the_draw_saves_nothing():
    assert cap_watts_saved(replace(_DEVICES, drawn_watts=179.0)) == EstimateRange()
    assert cap_watts_saved(replace(_DEVICES, drawn_watts=181.0)) != EstimateRange()


@pytest.mark.parametrize("drawn_watts", [None, 0.0, -1.0, float("nan")])
def test_what_is_not_measured_is_unknown(drawn_watts):
    assert cap_watts_saved(replace(_DEVICES, drawn_watts=drawn_watts)) is None


def test_a_subsystem_of_unknown_state_is_a_part_that_is_unknown():
    rate = caps_rate([CappedNode((_DEVICES, None))])
    found = cap_watts_saved(_DEVICES)
    assert found is not None
    assert rate.unknown_share == 0.5
    assert rate.watts.middle == pytest.approx(found.middle / SUPPLY_EFFICIENCY)


@given(
    st.floats(50.0, 400.0),
    st.floats(1.0, 600.0),
    st.floats(50.0, 700.0),
)
def test_bounds_are_in_order_and_no_cap_costs_energy_by_this_law(cap_watts, drawn_watts, natural_watts):
    devices = replace(_DEVICES, cap_watts=cap_watts, drawn_watts=drawn_watts, natural_watts=natural_watts)
    found = cap_watts_saved(devices)
    assert found is not None
    assert found.lower <= found.middle <= found.upper
    assert found.lower >= -1e-6
