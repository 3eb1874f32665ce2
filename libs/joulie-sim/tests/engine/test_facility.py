"""Models of a facility, and the outdoor temperatures that one of them depends on."""

import numpy as np
import pytest

from joulie_core.twin.economizer import AirsideEconomizer
from joulie_core.twin.pue import FacilityConditions
from joulie_sim.engine.facility import (
    DailyTemperature,
    EconomizerFacility,
    LinearFacility,
    MeasuredTemperature,
    OutdoorError,
    PoweredNodes,
    idle_watts,
)

_HOUR_S = 3600.0


def _nodes(watts: list[float], at_s: float = 0.0) -> PoweredNodes:
    return PoweredNodes(np.array(watts), np.array([200.0] * len(watts)), 1000.0, at_s)


def test_the_linear_model_has_the_pue_of_each_node() -> None:
    # Half of the TDP: 1.05 + 0.35 / 2; full TDP and above: 1.4.
    assert LinearFacility().watts(_nodes([100.0, 200.0, 300.0])) == pytest.approx(122.5 + 280.0 + 420.0)


@pytest.mark.parametrize("outdoor_c", [10.0, 28.0, 40.0])
def test_the_economizer_has_the_pue_of_the_outdoor_temperature_and_the_load(outdoor_c) -> None:
    pue = AirsideEconomizer().estimate(FacilityConditions(outdoor_c=outdoor_c, load_share=0.5))
    facility = EconomizerFacility(DailyTemperature(outdoor_c))
    assert facility.watts(_nodes([200.0, 300.0])) == pytest.approx(500.0 * pue)
    assert facility.watts(_nodes([0.0, 0.0])) == 0.0


def test_a_day_is_coldest_at_three_and_warmest_at_fifteen() -> None:
    outdoor = DailyTemperature(20.0, 8.0)
    hours = [outdoor.at(hour * _HOUR_S) for hour in range(24)]
    assert (hours.index(min(hours)), hours.index(max(hours))) == (3, 15)
    assert (min(hours), max(hours), outdoor.at(9 * _HOUR_S)) == pytest.approx((12.0, 28.0, 20.0))


def test_measured_temperatures_are_linear_between_two_and_hold_outside(tmp_path) -> None:
    path = tmp_path / "outdoor.csv"
    path.write_text("hour,celsius\n1,10\n3,20\n")
    outdoor = MeasuredTemperature.read(path)
    assert [outdoor.at(hour * _HOUR_S) for hour in (0, 1, 2, 3, 9)] == [10.0, 10.0, 15.0, 20.0, 20.0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hour,celsius\n", "no temperature"),
        ("hour,celsius\n1,warm\n", "line 2"),
        ("hour,celsius\n1,10\n1,11\n", "rise"),
        ("hour,celsius\n1,nan\n", "finite"),
        ("hour\n1\n", "line 2"),
    ],
)
def test_a_file_that_is_no_list_of_temperatures_is_refused(tmp_path, text, reason) -> None:
    path = tmp_path / "outdoor.csv"
    path.write_text(text)
    with pytest.raises(OutdoorError, match=reason):
        MeasuredTemperature.read(path)


def test_idle_nodes_cost_the_mean_of_a_day() -> None:
    watts, tdp = np.array([100.0]), np.array([200.0])
    linear = LinearFacility()
    assert idle_watts(linear, watts, tdp, 1000.0) == pytest.approx(linear.watts(_nodes([100.0])))
    warm = EconomizerFacility(DailyTemperature(28.0, 10.0))
    extremes = [warm.watts(_nodes([100.0], at_s=hour * _HOUR_S)) for hour in (3, 15)]
    assert min(extremes) < idle_watts(warm, watts, tdp, 1000.0) < max(extremes)
