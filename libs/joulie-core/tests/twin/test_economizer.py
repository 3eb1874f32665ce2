import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.twin import AirsideEconomizer, CoolingMode, FacilityConditions

FACILITY = AirsideEconomizer()
outdoors = st.floats(-40, 55)
loads = st.floats(0.01, 1.2)


def pue(outdoor_c, load_share):
    return FACILITY.estimate(FacilityConditions(outdoor_c=outdoor_c, load_share=load_share))


@given(outdoors, outdoors, loads)
def test_warmer_air_outside_never_makes_cooling_cheaper(one, other, load):
    cold, warm = sorted((one, other))
    assert 1 < pue(cold, load) <= pue(warm, load) + 1e-12


@given(outdoors, st.floats(0.1, 1), st.floats(0.1, 1))
def test_the_facility_draws_more_the_more_computing_does(outdoor, one, other):
    low, high = sorted((one, other))
    assert low * pue(outdoor, low) <= high * pue(outdoor, high) + 1e-12


@given(outdoors, loads)
def test_each_mode_is_where_its_share_of_mechanical_cooling_is(outdoor, load):
    share = FACILITY.mechanical_share(outdoor)
    mode = CoolingMode.FREE if share == 0 else CoolingMode.MECHANICAL if share == 1 else CoolingMode.PARTIAL
    assert FACILITY.mode(outdoor) is mode or share == pytest.approx(round(share), abs=1e-9)


@pytest.mark.parametrize(
    ("outdoor_c", "mode", "expected"),
    [(10, CoolingMode.FREE, 1.09), (28, CoolingMode.PARTIAL, 1.19), (35, CoolingMode.MECHANICAL, 1.318)],
)
def test_full_load_costs_losses_and_fans_then_a_part_of_the_heat_then_all_of_it(outdoor_c, mode, expected):
    assert FACILITY.mode(outdoor_c) is mode
    assert pue(outdoor_c, 1.0) == pytest.approx(expected, abs=0.01)


@given(outdoors, st.floats(0, 1), st.floats(0, 1))
def test_the_plant_is_less_efficient_at_part_load_and_in_warm_air(outdoor, one, other):
    low, high = sorted((one, other))
    assert 0 < FACILITY.cop(outdoor, low) <= FACILITY.cop(outdoor, high)
    assert FACILITY.cop(outdoor + 5, low) <= FACILITY.cop(outdoor, low)


def test_the_pue_is_unknown_without_outdoor_temperature_or_load():
    assert pue(None, 0.5) is None
    assert pue(20.0, None) is None
    assert pue(20.0, 0.0) is None


def test_fans_do_not_turn_slower_than_their_least_speed():
    # At a fifth of the load they run at 40 % speed; the losses are 1 % and 4 % of the load.
    assert pue(10, 0.2) == pytest.approx(1 + (0.04 * 0.4**3 + 0.01 + 0.04 * 0.2) / 0.2)


def test_air_colder_than_the_condenser_needs_does_not_help_the_plant():
    assert FACILITY.cop(-30, 1.0) == FACILITY.cop(15, 1.0) > FACILITY.cop(35, 1.0) == 4.39
