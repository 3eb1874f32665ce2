"""What is read of a twin, and what the cluster contributes."""

import math
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.kinds.node_twin import NodeTwinStatus, SchedulableClass
from joulie_core.scoring.state import ClusterTerms, TwinSnapshot, cluster_terms, node_state

PERFORMANCE = SchedulableClass.PERFORMANCE
THRESHOLD_S = 300.0


def status(**fields):
    return NodeTwinStatus.model_validate(fields)


def test_a_full_twin_is_read():
    twin = status(
        schedulableClass="eco",
        predictedPowerHeadroomScore=40,
        predictedCoolingStressScore=20,
        estimatedPUE=1.2,
        lastUpdated="2026-01-02T03:04:05Z",
        powerMeasurement={
            "source": "agent",
            "quality": "measured",
            "measuredNodePowerW": 300,
            "nodeCappedPowerW": 600,
            "nodeTdpW": 1000,
            "powerTrendWPerMin": -5.2,
        },
    )
    assert node_state(twin) == TwinSnapshot(
        schedulable_class=SchedulableClass.ECO,
        measured_watts=300,
        capped_watts=600,
        tdp_watts=1000,
        predicted_headroom_pct=40,
        cooling_stress_pct=20,
        trend_w_per_min=-5.2,
        pue=1.2,
        last_updated_s=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp(),
    )


def test_an_empty_twin_knows_nothing_and_claims_nothing():
    assert node_state(status()) == TwinSnapshot()


def test_a_cap_of_zero_is_no_cap():
    power = {"source": "static", "quality": "unknown", "nodeCappedPowerW": 0}
    assert node_state(status(powerMeasurement=power)).capped_watts is None


@pytest.mark.parametrize(("watts", "usable"), [(0.5, None), (1.0, 1.0), (1e9, 1e9), (1.1e9, None)])
def test_caps_and_tdp_of_no_machine_are_no_figures(watts, usable):
    power = {"source": "static", "quality": "unknown", "nodeCappedPowerW": watts, "nodeTdpW": watts}
    state = node_state(status(powerMeasurement=power))
    assert (state.capped_watts, state.tdp_watts) == (usable, usable)


def test_a_predicted_headroom_may_be_negative_and_a_power_without_trend_is_steady():
    power = {"source": "agent", "quality": "measured", "measuredNodePowerW": 300}
    state = node_state(status(powerMeasurement=power, predictedPowerHeadroomScore=-40))
    assert (state.predicted_headroom_pct, state.trend_w_per_min) == (-40, 0)


def test_a_power_beyond_any_machine_leaves_no_head_room():
    power = {"source": "http", "quality": "measured", "measuredNodePowerW": 1e300, "nodeCappedPowerW": 500}
    state = node_state(status(powerMeasurement=power, predictedPowerHeadroomScore=90))
    assert state.measured_watts == 100_000
    assert state.headroom_pct() < 0


@pytest.mark.parametrize(
    ("timestamp", "known"),
    [
        ("2026-01-02T03:04:05Z", True),
        ("2026-01-02T03:04:05.123456789Z", True),
        ("2026-01-02T04:04:05+01:00", True),
        ("2026-01-02T03:04:05", False),
        ("yesterday", False),
        (None, False),
    ],
)
def test_a_timestamp_without_zone_or_sense_dates_nothing(timestamp, known):
    assert (node_state(status(lastUpdated=timestamp)).last_updated_s is not None) is known


@pytest.mark.parametrize(("age_s", "stale"), [(0, False), (300, False), (300.5, True), (-300, False), (-300.5, True)])
def test_a_twin_is_stale_after_the_threshold_and_when_dated_in_the_future(age_s, stale):
    assert TwinSnapshot(last_updated_s=1_000.0).stale(1_000.0 + age_s, THRESHOLD_S) is stale


def test_a_twin_without_a_date_is_stale():
    assert TwinSnapshot().stale(0.0, THRESHOLD_S)


def test_assumed_watts_take_headroom():
    assert TwinSnapshot(measured_watts=300, capped_watts=600, assumed_watts=60).headroom_pct() == pytest.approx(40)


def test_headroom_is_negative_above_the_cap():
    assert TwinSnapshot(measured_watts=300, capped_watts=600).headroom_pct(360) == pytest.approx(-10)


def test_without_a_cap_the_prediction_stands_as_it_is():
    assert TwinSnapshot(predicted_headroom_pct=33.0).headroom_pct(500) == 33.0


def test_without_a_measurement_added_watts_still_take_headroom_from_the_prediction():
    assert TwinSnapshot(capped_watts=1000, predicted_headroom_pct=40.0).headroom_pct(100) == pytest.approx(30)


def test_without_measurement_and_prediction_headroom_is_unknown():
    assert TwinSnapshot(capped_watts=1000).headroom_pct() is None


def perf(headroom_pct, **fields):
    return TwinSnapshot(schedulable_class=PERFORMANCE, predicted_headroom_pct=headroom_pct, **fields)


def test_pressure_is_the_mean_congestion_of_performance_nodes():
    eco = TwinSnapshot(schedulable_class=SchedulableClass.ECO, predicted_headroom_pct=0.0)
    assert cluster_terms([perf(80.0), perf(20.0), eco]).perf_pressure == pytest.approx(50)


def test_pressure_is_clamped_to_100():
    assert cluster_terms([perf(-300.0)]).perf_pressure == 100


@pytest.mark.parametrize(
    "wrong",
    [
        node_state(status(schedulableClass="performance", predictedPowerHeadroomScore=-1e9)),
        TwinSnapshot(schedulable_class=PERFORMANCE, measured_watts=90_000, capped_watts=1),
    ],
    ids=["predicted", "measured"],
)
def test_a_node_counts_in_the_pressure_with_at_most_twice_its_cap(wrong):
    assert cluster_terms([wrong] + [perf(100.0)] * 99).perf_pressure == 2.0
    assert cluster_terms([perf(-90.0), perf(100.0)]).perf_pressure == 95.0


def test_pressure_is_in_whole_tenths():
    assert cluster_terms([perf(33.33), perf(33.34)]).perf_pressure == 66.7


def test_pressure_is_zero_without_performance_nodes():
    assert cluster_terms([]) == ClusterTerms(0.0, 0.0) == ClusterTerms()


def test_a_performance_node_of_unknown_headroom_does_not_count_as_idle():
    unknown = TwinSnapshot(schedulable_class=PERFORMANCE)
    assert cluster_terms([perf(20.0), unknown]).perf_pressure == pytest.approx(80)


@pytest.mark.parametrize(
    ("trend", "scale"), [(0, 6.0), (500, 6.0), (-500, 6.0), (500.1, 2.0), (-500.1, 2.0), (9_000, 2.0)]
)
def test_the_trend_scale_adapts_to_bursts_of_more_than_500_watts_a_minute(trend, scale):
    assert ClusterTerms(trend_w_per_min=trend).trend_scale == scale


def test_the_cluster_trend_is_the_sum_over_nodes():
    states = [TwinSnapshot(trend_w_per_min=trend) for trend in (300.0, 250.0, -100.0)]
    assert cluster_terms(states).trend_w_per_min == 450


@given(st.lists(st.builds(perf, st.floats(-1e9, 100), trend_w_per_min=st.floats(-1e9, 1e9))), st.randoms())
def test_cluster_terms_do_not_depend_on_order(states, random):
    shuffled = list(states)
    random.shuffle(shuffled)
    assert cluster_terms(shuffled) == cluster_terms(states)
    assert 0 <= cluster_terms(states).perf_pressure <= 100
    assert math.isfinite(cluster_terms(states).trend_w_per_min)


@pytest.mark.parametrize(("estimated", "pue"), [(1, 1.0), (1.2, 1.2), (5, 5.0), (5.01, 5.0), (160, 5.0), (1e308, 5.0)])
def test_a_pue_that_no_facility_has_counts_as_the_highest_one(estimated, pue):
    assert node_state(status(estimatedPUE=estimated)).pue == pue


def test_without_a_pue_nothing_is_weighted():
    assert node_state(status()).pue is None
    assert node_state(NodeTwinStatus.model_construct(estimated_pue=math.nan)).pue is None
    assert node_state(NodeTwinStatus.model_construct(estimated_pue=0.5)).pue is None


def test_a_twin_with_other_pods_is_otherwise_the_same():
    figures = {each.name: number for number, each in enumerate(fields(TwinSnapshot))}
    twin = TwinSnapshot(**figures)
    assert twin.with_pods(1.5, 2.5, 3.5) == replace(twin, assumed_watts=1.5, held_cores=2.5, held_gpus=3.5)
