"""The score formula against the document's figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.powerest.marginal import Marginal
from joulie_core.scoring.formula import score
from joulie_core.scoring.state import ClusterTerms, TwinSnapshot

STANDARD, PERFORMANCE = WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE
QUIET = ClusterTerms()


def points(node, *, added=0.0, workload_class=PERFORMANCE, cluster=QUIET, stale=False):
    return score(node, stale=stale, marginal=Marginal(added), workload_class=workload_class, cluster=cluster)


def node(schedulable_class="performance", measured=300.0, capped=600.0, cooling=20.0, trend=0.0, **fields):
    return TwinSnapshot(
        schedulable_class=SchedulableClass(schedulable_class),
        measured_watts=measured,
        capped_watts=capped,
        cooling_stress_pct=cooling,
        trend_w_per_min=trend,
        **fields,
    )


def test_the_documents_example_scores_41_2():
    terms = points(node(), added=50)
    assert terms.headroom_pct == pytest.approx(41.7, abs=0.05)
    assert terms.headroom_points == pytest.approx(29.2, abs=0.05)
    assert terms.cooling_points == pytest.approx(12.0)
    assert terms.score == pytest.approx(41.2, abs=0.05)


def test_the_terms_have_their_names_and_add_up_to_the_points():
    terms = points(node("eco", trend=6), workload_class=STANDARD)
    assert terms.by_name == pytest.approx({"headroom": 35, "cooling": 12, "trend": -1, "profile": 10, "pressure": 0})
    assert terms.points == pytest.approx(56)


def test_the_documents_ideal_node_scores_95():
    assert points(node("eco", measured=0.0, cooling=0.0), workload_class=STANDARD).score == pytest.approx(95)


def test_headroom_may_go_negative_and_the_score_then_stops_at_zero():
    terms = points(node(measured=900.0, cooling=100.0), added=300)
    assert terms.headroom_points == pytest.approx(-70)
    assert terms.score == 0


def test_the_score_stops_at_100():
    ideal = node("eco", measured=0.0, cooling=0.0, trend=-1_000.0)
    assert points(ideal, workload_class=STANDARD).score == 100


@pytest.mark.parametrize(
    ("trend", "cluster_trend", "expected"),
    [
        (60, 0, -10), (-60, 0, 10), (150, 0, -25), (151, 0, -25), (-1_000, 0, 25),
        (20, 501, -10), (-20, -501, 10), (50, 501, -25), (60, 500, -10),
    ],
)  # fmt: skip
def test_falling_power_is_rewarded_and_rising_power_penalised_within_25_points(trend, cluster_trend, expected):
    cluster = ClusterTerms(trend_w_per_min=cluster_trend)
    assert points(node(trend=float(trend)), cluster=cluster).trend_points == pytest.approx(expected)


@pytest.mark.parametrize(("stress", "expected"), [(0.0, 15), (31.3, 10.305), (100.0, 0), (150.0, 0), (None, 0)])
def test_cooling_is_worth_up_to_15_points_and_nothing_where_it_is_unknown(stress, expected):
    assert points(node(cooling=stress)).cooling_points == pytest.approx(expected)


@pytest.mark.parametrize(
    ("schedulable_class", "workload_class", "bonus"),
    [
        ("eco", STANDARD, 10), ("eco", PERFORMANCE, 0), ("performance", STANDARD, 0), ("performance", PERFORMANCE, 0),
        ("draining", STANDARD, 0), ("unknown", STANDARD, 0),
    ],
)  # fmt: skip
def test_only_a_standard_pod_on_an_eco_node_gets_the_profile_bonus(schedulable_class, workload_class, bonus):
    assert points(node(schedulable_class), workload_class=workload_class).profile_points == bonus


@pytest.mark.parametrize(
    ("schedulable_class", "workload_class", "pressure", "expected"),
    [
        ("performance", STANDARD, 100, -30), ("performance", STANDARD, 50, -15), ("performance", STANDARD, 0, 0),
        ("performance", PERFORMANCE, 100, 0), ("eco", STANDARD, 100, 0), ("draining", STANDARD, 100, 0),
    ],
)  # fmt: skip
def test_only_a_standard_pod_on_a_performance_node_feels_pressure(
    schedulable_class, workload_class, pressure, expected
):
    cluster = ClusterTerms(perf_pressure=float(pressure))
    terms = points(node(schedulable_class), workload_class=workload_class, cluster=cluster)
    assert terms.pressure_points == pytest.approx(expected)
    unpressed = points(node(schedulable_class), workload_class=workload_class).score
    assert terms.score == pytest.approx(unpressed + expected)


def test_without_a_measurement_the_predicted_headroom_is_used():
    terms = points(TwinSnapshot(predicted_headroom_pct=60.0, cooling_stress_pct=0.0), added=500)
    assert terms.headroom_pct == 60
    assert terms.score == pytest.approx(57)


@pytest.mark.parametrize(
    ("state", "stale", "reason"),
    [
        (None, False, "NoTwin"),
        (node(), True, "StaleTwin"),
        (TwinSnapshot(), False, "NoHeadroom"),
    ],
)
def test_a_node_that_cannot_be_judged_scores_50_with_the_reason(state, stale, reason):
    terms = points(state, stale=stale, workload_class=STANDARD, cluster=ClusterTerms(perf_pressure=100))
    assert terms.neutral == reason
    assert terms.score == 50
    assert terms.headroom_pct is None
    assert (terms.headroom_points, terms.cooling_points, terms.trend_points) == (0, 0, 0)
    assert (terms.profile_points, terms.pressure_points) == (0, 0)


def test_a_heavy_pod_scores_lower_than_a_light_one_on_the_same_node():
    assert points(node(), added=200).score < points(node(), added=5).score


WATTS = st.floats(0, 1e5)


@given(
    measured=WATTS,
    capped=st.floats(1, 1e5),
    cooling=st.none() | st.floats(0, 100),
    trend=st.floats(-1e4, 1e4),
    added=WATTS,
    pressure=st.floats(0, 100),
)
def test_every_score_is_within_bounds(*, measured, capped, cooling, trend, added, pressure):
    cluster = ClusterTerms(perf_pressure=pressure)
    for schedulable_class in SchedulableClass:
        state = node(schedulable_class, measured, capped, cooling, trend)
        for workload_class in WorkloadClass:
            terms = points(state, added=added, workload_class=workload_class, cluster=cluster)
            assert 0 <= terms.score <= 100
            assert -25 <= terms.trend_points <= 25
            assert -30 <= terms.pressure_points <= 0
            assert 0 <= terms.cooling_points <= 15


@given(WATTS, WATTS)
def test_more_added_watts_never_raise_a_score(added, more):
    assert points(node(), added=added + more).score <= points(node(), added=added).score


@given(st.sampled_from(["measured_watts", "predicted_headroom_pct", "cooling_stress_pct"]), st.floats(0, 100))
def test_a_missing_reading_never_scores_above_an_idle_cool_node(missing, value):
    known = node(predicted_headroom_pct=0.0, cooling=value, measured=300.0)
    best = replace(known, measured_watts=0.0, cooling_stress_pct=0.0)
    assert points(replace(known, **{missing: None})).score <= points(best).score
