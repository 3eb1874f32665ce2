"""`queue_lead_v1`: a reserve ahead of demand, and a supply that falls later than it rises."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from joulie_core.policy import build_policy

PODS = st.integers(0, 2_000)
NODES = st.integers(0, 300)
POLICY = build_policy("queue_lead_v1", {})


@given(NODES, PODS, st.none() | NODES)
def test_the_supply_carries_the_demand_as_far_as_there_are_nodes(nodes, pods, planned):
    count = POLICY.performance_count(nodes, pods, planned)
    assert min(nodes, 1) <= count <= nodes
    assert count == nodes or count * 10 >= pods


@given(NODES, PODS, st.none() | NODES)
def test_a_repeated_plan_changes_nothing(nodes, pods, planned):
    count = POLICY.performance_count(nodes, pods, planned)
    assert POLICY.performance_count(nodes, pods, count) == count


@given(NODES, PODS, NODES)
def test_the_supply_never_falls_while_demand_rises(nodes, pods, more):
    count = POLICY.performance_count(nodes, pods, None)
    assert POLICY.performance_count(nodes, pods + more, count) >= count


def test_it_rises_at_once_and_falls_only_beyond_the_slack():
    assert POLICY.performance_count(100, 160, None) == 20
    assert POLICY.performance_count(100, 168, 20) == 22
    assert POLICY.performance_count(100, 120, 22) == 22
    assert POLICY.performance_count(100, 100, 22) == 13


def test_demand_that_swings_within_the_slack_makes_no_transition(nodes, context):
    counts, planned = set(), None
    for pods in (80, 100, 85, 98, 82, 100) * 3:
        plan = POLICY.plan(replace(context(nodes(50), pods), planned=planned))
        planned = plan.performance_count
        counts.add(planned)
    assert counts == {10, 13}


def test_the_fewest_nodes_are_a_setting():
    policy = build_policy("queue_lead_v1", {"lead_min": 4})
    assert policy.performance_count(10, 0, None) == 4
    assert policy.performance_count(3, 0, None) == 3
