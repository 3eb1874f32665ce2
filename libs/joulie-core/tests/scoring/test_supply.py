"""What power domains can supply: the refusal of performance pods, and the points of every score policy."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.marginal import NodePower
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.filter import FilterReason
from joulie_core.scoring.registry import SCORE_POLICIES
from joulie_core.scoring.state import ClusterTerms, NodeSituation, SupplyFigure, TwinSnapshot
from joulie_core.scoring.supply import (
    SUPPLY_POINTS,
    explain_with_supply,
    row_with_supply,
    short_supply,
    supply_points,
)

WATTS = st.floats(0, 1e6)
SUPPLIES = st.lists(st.builds(SupplyFigure, st.sampled_from(["rack", "row", "feed"]), st.none() | WATTS), max_size=4)
POWER = NodePower(64.0, 500.0, 0.0, 0.0)


def twin(*watts, tdp=500.0, **fields):
    supplies = tuple(SupplyFigure(f"d{number}", each) for number, each in enumerate(watts))
    fields = {"measured_watts": 100.0, "capped_watts": 500.0, "cpu_cap_share": 1.0} | fields
    return TwinSnapshot(tdp_watts=tdp, supplies=supplies, last_updated_s=0.0, **fields)


def points(*watts, **fields):
    return supply_points(NodeSituation(twin(*watts, **fields), POWER))


def test_the_domain_and_both_figures_are_named():
    judged = short_supply([SupplyFigure("rack-1", 500.0), SupplyFigure("feed", 100.0)], {"feed": 20.5}, 79.6)
    assert (judged.ok, judged.reason) == (False, FilterReason.POWER_DOMAIN)
    assert judged.message == "joulie: power domain feed can supply 79 W more, the pod needs 80 W"


@given(SUPPLIES, st.dictionaries(st.sampled_from(["rack", "row", "feed", "other"]), WATTS), WATTS)
def test_a_pod_is_refused_exactly_where_a_known_domain_lacks_its_watts(supplies, in_flight, watts):
    judged = short_supply(supplies, in_flight, watts)
    enough = [
        each.available_watts is None or watts <= max(0.0, each.available_watts - in_flight.get(each.domain, 0.0))
        for each in supplies
    ]
    assert (judged is None) == all(enough)


@given(SUPPLIES)
def test_a_pod_that_needs_nothing_is_never_refused(supplies):
    assert short_supply(supplies, {"rack": 1e9}, 0.0) is None


@pytest.mark.parametrize("watts", [math.inf, 1e300])
def test_a_pod_of_impossible_watts_is_refused_where_figures_are_known(watts):
    assert not short_supply([SupplyFigure("rack", 1e6)], {}, watts).ok
    assert short_supply([SupplyFigure("rack", None)], {}, watts) is None


def test_a_name_that_is_none_leaves_one_line():
    judged = short_supply([SupplyFigure("a\nb\x1b[31m", 0.0)], {}, 1.0)
    assert judged.message.isprintable()


def test_points_are_lost_by_what_the_tightest_domain_has_left_of_the_highest_power():
    assert points() == points(500.0) == points(900.0, 500.0) == 0.0
    assert points(900.0, 125.0) == pytest.approx(0.75 * SUPPLY_POINTS)
    assert points(250.0, assumed_watts=125.0) == pytest.approx(0.75 * SUPPLY_POINTS)
    assert points(0.0) == points(900.0, 0.0) == SUPPLY_POINTS


def test_unknown_loses_as_much_as_nothing_left_and_known_ones_with_any_lose_less():
    assert points(None) == points(900.0, None) == SUPPLY_POINTS > points(1.0)
    assert points(1.0, tdp=None) == 0.0
    assert points(0.0, tdp=None) == SUPPLY_POINTS


def test_a_twin_that_cannot_be_believed_loses_nothing():
    assert supply_points(NodeSituation(twin(0.0), POWER, stale=True)) == 0.0
    assert supply_points(NodeSituation(None, POWER)) == 0.0


@pytest.mark.parametrize("policy", SCORE_POLICIES.values(), ids=SCORE_POLICIES)
@given(
    st.lists(st.none() | WATTS, max_size=3),
    st.sampled_from(WorkloadClass),
    st.floats(0, 64),
    st.floats(0, 900),
)
def test_rows_and_explained_scores_agree(policy, watts, workload_class, cores, measured):
    node = NodeSituation(twin(*watts, measured_watts=measured, cooling_stress_pct=0.0), POWER)
    demand, terms = PodDemand(cores, workload_class=workload_class), ClusterTerms()
    row = row_with_supply(policy.row(node, workload_class, terms.trend_scale), node)
    explained = explain_with_supply(policy, node, demand, terms)
    assert row.score(policy.size(demand), terms.perf_pressure) == pytest.approx(explained.score, abs=1e-6)


@pytest.mark.parametrize("policy", SCORE_POLICIES.values(), ids=SCORE_POLICIES)
def test_without_domains_the_policy_answers_alone(policy):
    node, demand, terms = NodeSituation(twin(), POWER), PodDemand(4.0), ClusterTerms()
    row = policy.row(node, demand.workload_class, terms.trend_scale)
    assert row_with_supply(row, node) is row
    assert explain_with_supply(policy, node, demand, terms) == policy.explain(node, demand, terms)


@given(WATTS, WATTS)
def test_more_that_is_available_is_never_worse(low, high):
    assume(low <= high)
    assert points(high) <= points(low)
