"""`queue_aware_v1`: docs/decisions/0013-conventions.md, Planning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from joulie_core.policy import build_policy
from joulie_core.policy.queue_aware_v1 import QueueAware, QueueAwareSettings

sizes, demands = st.integers(0, 60), st.integers(0, 500)


def queue(**settings):
    return QueueAware(QueueAwareSettings(**settings))


@pytest.mark.parametrize(
    ("total", "pods", "expected"),
    [(10, 0, 6), (10, 60, 6), (10, 61, 7), (10, 100, 10), (10, 1000, 10), (0, 50, 0), (1, 0, 1)],
)
def test_the_larger_of_base_and_need_is_taken(total, pods, expected):
    assert queue().performance_count(total, pods) == expected


@pytest.mark.parametrize(
    ("low", "high", "pods", "expected"),
    [(3, 5, 0, 3), (3, 5, 45, 5), (3, 5, 1000, 5), (20, 30, 0, 10), (0, 0, 1000, 0)],
)
def test_the_count_is_clamped_to_its_bounds_and_then_to_the_nodes(low, high, pods, expected):
    policy = queue(queue_hp_base_frac=0, queue_hp_min=low, queue_hp_max=high)
    assert policy.performance_count(10, pods) == expected


def test_the_plan_has_the_count(nodes, context, performance):
    plan = queue().plan(context(nodes(10), pods=65))
    assert plan.performance_count == len(performance(plan)) == 7


@given(sizes, demands, demands)
def test_the_supply_never_shrinks_when_pods_are_added(total, pods, more):
    policy = queue(queue_hp_base_frac=0.2, queue_hp_max=30, queue_perf_per_hp_node=7)
    assert policy.performance_count(total, pods) <= policy.performance_count(total, pods + more)


@given(sizes, demands, st.integers(0, 40), st.integers(0, 40))
def test_the_supply_stays_between_its_bounds(total, pods, low, extra):
    count = queue(queue_hp_min=low, queue_hp_max=low + extra).performance_count(total, pods)
    assert min(low, total) <= count <= min(low + extra, total)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"queue_hp_base_frac": 2}, "queue_hp_base_frac"),
        ({"queue_hp_min": -1}, "queue_hp_min"),
        ({"queue_perf_per_hp_node": 0}, "queue_perf_per_hp_node"),
        ({"queue_hp_min": 5, "queue_hp_max": 4}, "QUEUE_HP_MIN 5 is above QUEUE_HP_MAX 4"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(values, message):
    with pytest.raises(ValidationError, match=message):
        build_policy("queue_aware_v1", values)
