"""Prepared rows say what the formula says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.powerest.marginal import Coefficients, NodePower, marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.formula import score
from joulie_core.scoring.prepared import NEUTRAL_ROW, ClusterSums, prepare_row
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot, cluster_terms

COUNTS = st.sampled_from([0.0, 1.0, 8.0, 64.0, 256.0])
STATES = st.builds(
    TwinSnapshot,
    schedulable_class=st.sampled_from(SchedulableClass),
    measured_watts=st.none() | st.floats(0, 12_000),
    capped_watts=st.none() | st.floats(1, 12_000),
    predicted_headroom_pct=st.none() | st.floats(-200, 100),
    cooling_stress_pct=st.none() | st.floats(0, 100),
    trend_w_per_min=st.floats(-400, 400),
    pue=st.none() | st.floats(1, 3),
    last_updated_s=st.none() | st.floats(0, 1_000),
    assumed_watts=st.floats(0, 2_000),
)
POWERS = st.builds(
    NodePower,
    COUNTS,
    st.floats(0, 2_000),
    COUNTS,
    st.floats(0, 8_000),
    units_per_gpu=st.sampled_from([1.0, 4.0, 7.0]),
)
DEMANDS = st.builds(
    PodDemand,
    cpu_cores=st.floats(0, 300),
    gpus=st.sampled_from([0.0, 1 / 7, 1.0, 8.0]),
    workload_class=st.sampled_from(WorkloadClass),
)
COEFFICIENTS = st.builds(Coefficients, st.floats(0, 2), st.floats(0, 2), st.floats(0, 2))
NOW_S, THRESHOLD_S = 1_000.0, 300.0


def row_score(node, demand, cluster):
    row = prepare_row(node, demand.workload_class, cluster.trend_scale)
    return row.score((demand.cpu_cores, demand.gpus), cluster.perf_pressure)


def formula_score(node, demand, cluster):
    marginal = marginal_watts(demand, node.power, node.coefficients, node.pue)
    terms = score(node.twin, stale=node.stale, marginal=marginal, workload_class=demand.workload_class, cluster=cluster)
    return terms.score


def test_the_sums_limit_the_congestion_of_a_node_as_the_reference_does():
    wrong = TwinSnapshot(SchedulableClass.PERFORMANCE, predicted_headroom_pct=-1e9)
    idle = TwinSnapshot(SchedulableClass.PERFORMANCE, predicted_headroom_pct=100.0)
    sums = ClusterSums()
    for state in [wrong] + [idle] * 99:
        sums.add(state)
    assert sums.terms.perf_pressure == cluster_terms([wrong] + [idle] * 99).perf_pressure == 2.0
    sums.remove(wrong)
    assert sums.terms.perf_pressure == 0.0


@given(
    st.lists(st.tuples(STATES, POWERS), min_size=1, max_size=12),
    DEMANDS,
    COEFFICIENTS,
    st.booleans(),
)
def test_rows_and_formula_agree_on_random_clusters(cluster, demand, coefficients, weigh_pue):
    fresh = [state for state, _ in cluster if not state.stale(NOW_S, THRESHOLD_S)]
    sums = ClusterSums()
    for state in fresh:
        sums.add(state)
    reference = cluster_terms(fresh)
    assert sums.terms.perf_pressure == pytest.approx(reference.perf_pressure, abs=1e-5)
    assert sums.terms.trend_w_per_min == pytest.approx(reference.trend_w_per_min, abs=1e-4)
    for state, power in cluster:
        pue = state.pue if weigh_pue else None
        node = NodeSituation(state, power, coefficients, state.stale(NOW_S, THRESHOLD_S), pue)
        assert row_score(node, demand, reference) == pytest.approx(formula_score(node, demand, reference), abs=1e-6)


@pytest.mark.parametrize("workload_class", WorkloadClass)
@pytest.mark.parametrize("schedulable_class", SchedulableClass)
@pytest.mark.parametrize("capped_watts", [None, 800.0])
@pytest.mark.parametrize(("cores", "gpus"), [(0.0, 0.0), (5.0, 0.0), (0.0, 1.0), (5.0, 1.0)])
def test_rows_and_formula_agree_where_no_limit_of_the_score_hides_a_difference(
    workload_class, schedulable_class, capped_watts, cores, gpus
):
    state = TwinSnapshot(
        schedulable_class=schedulable_class,
        measured_watts=150.0,
        capped_watts=capped_watts,
        predicted_headroom_pct=80.0,
        cooling_stress_pct=40.0,
        trend_w_per_min=12.0,
    )
    power = NodePower(cpu_threads=64.0, cpu_max_watts=320.0, gpu_count=2.0, gpu_max_watts=400.0)
    node = NodeSituation(state, power, pue=1.3)
    demand = PodDemand(cpu_cores=cores, gpus=gpus, workload_class=workload_class)
    cluster = ClusterTerms(trend_w_per_min=100.0, perf_pressure=50.0)
    expected = formula_score(node, demand, cluster)
    assert 0 < expected < 100
    assert row_score(node, demand, cluster) == pytest.approx(expected)


@given(st.lists(STATES, max_size=10), st.data())
def test_cluster_sums_forget_what_is_removed_whatever_the_order(states, data):
    kept = data.draw(st.lists(st.sampled_from(states), unique_by=id)) if states else []
    direct, changed = ClusterSums(), ClusterSums()
    for state in kept:
        direct.add(state)
    for state in data.draw(st.permutations(states)):
        changed.add(state)
    gone = list(states)
    for state in kept:
        gone.remove(state)
    for state in gone:
        changed.remove(state)
    assert changed.terms == direct.terms


@pytest.mark.parametrize("state", [None, TwinSnapshot(), TwinSnapshot(capped_watts=500)])
def test_a_node_that_cannot_be_judged_gets_the_neutral_row(state):
    row = prepare_row(NodeSituation(state, NodePower()), WorkloadClass.STANDARD, 6.0)
    assert row is NEUTRAL_ROW
    assert row.score((1e9, 1e9), 100.0) == 50


def test_pressure_uses_the_terms_of_the_whole_cluster():
    busy = TwinSnapshot(schedulable_class=SchedulableClass.PERFORMANCE, measured_watts=900, capped_watts=1_000)
    sums = ClusterSums()
    sums.add(busy)
    assert sums.terms == ClusterTerms(0.0, 90.0)


def test_pressure_is_the_mean_over_performance_nodes():
    sums = ClusterSums()
    for headroom_pct in (80.0, 40.0):
        sums.add(TwinSnapshot(schedulable_class=SchedulableClass.PERFORMANCE, predicted_headroom_pct=headroom_pct))
    assert sums.terms.perf_pressure == 40.0


def test_sums_are_exact_to_a_millionth():
    performance, eco = SchedulableClass.PERFORMANCE, SchedulableClass.ECO
    sums = ClusterSums()
    sums.add(TwinSnapshot(schedulable_class=performance, predicted_headroom_pct=99.950001, trend_w_per_min=0.1))
    sums.add(TwinSnapshot(schedulable_class=eco, predicted_headroom_pct=10.0, trend_w_per_min=0.2))
    assert sums.terms == ClusterTerms(0.3, 0.0)
