"""Planning policies: policy algorithms document and contracts, decision 7."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from joulie_core.kinds.base import Profile
from joulie_core.names import NodeName
from joulie_core.policy import POLICIES, Candidate, Choice, PolicyContext, build_policy
from joulie_core.policy.queue_aware_v1 import QueueAware, QueueAwareSettings
from joulie_core.policy.rule_swap_v1 import RuleSwap, RuleSwapSettings
from joulie_core.policy.static_partition import StaticPartition, StaticPartitionSettings

INTERVAL_S = 60.0


def node(name, density=1.0, family="cpu-a"):
    return Candidate(NodeName(name), density, family)


def context(candidates, pods=0, now=0.0):
    return PolicyContext(candidates=candidates, performance_pods=pods, now=now, reconcile_interval_s=INTERVAL_S)


def nodes(count):
    return [node(f"node-{index}", density=float(count - index)) for index in range(count)]


def performance(plan):
    return {name for name, profile in plan.profiles.items() if profile is Profile.PERFORMANCE}


def static(frac):
    return StaticPartition(StaticPartitionSettings(static_hp_frac=frac))


def queue(**settings):
    return QueueAware(QueueAwareSettings(**settings))


candidates = st.lists(
    st.builds(
        Candidate,
        name=st.integers(0, 400).map(lambda index: NodeName(f"node-{index}")),
        density=st.sampled_from([0.0, 0.5, 1.0, 1.5, 7.25]),
        family=st.sampled_from(["cpu-a", "cpu-b", "gpu-a", "gpu-b"]),
    ),
    max_size=40,
    unique_by=lambda candidate: candidate.name,
)
fractions = st.floats(0, 1)
policies = st.one_of(
    fractions.map(static),
    st.builds(
        lambda frac, low, extra, per: queue(
            queue_hp_base_frac=frac, queue_hp_min=low, queue_hp_max=low + extra, queue_perf_per_hp_node=per
        ),
        fractions,
        st.integers(0, 50),
        st.integers(0, 50),
        st.integers(1, 20),
    ),
    st.just(RuleSwap(RuleSwapSettings())),
)


@pytest.mark.parametrize(
    ("total", "frac", "expected"),
    [(12, 0.5, 6), (5, 0.5, 3), (3, 0.5, 2), (1, 0.5, 1), (4, 0.6, 2), (10, 0, 0), (10, 1, 10), (0, 0.5, 0)],
)
def test_static_partition_rounds_the_share_half_away_from_zero(total, frac, expected):
    plan = static(frac).plan(context(nodes(total)))
    assert plan.hp_count == expected == len(performance(plan))


@pytest.mark.parametrize(
    ("total", "pods", "expected"),
    [(10, 0, 6), (10, 60, 6), (10, 61, 7), (10, 100, 10), (10, 1000, 10), (0, 50, 0), (1, 0, 1)],
)
def test_queue_aware_takes_the_larger_of_base_and_need(total, pods, expected):
    assert queue().hp_count(total, pods) == expected


@pytest.mark.parametrize(
    ("low", "high", "pods", "expected"),
    [(3, 5, 0, 3), (3, 5, 45, 5), (3, 5, 1000, 5), (20, 30, 0, 10), (0, 0, 1000, 0)],
)
def test_queue_aware_clamps_to_its_bounds_and_then_to_the_nodes(low, high, pods, expected):
    policy = queue(queue_hp_base_frac=0, queue_hp_min=low, queue_hp_max=high)
    assert policy.hp_count(10, pods) == expected


def test_denser_nodes_supply_performance_first():
    plan = static(0.5).plan(context([node("a", 1), node("b", 4), node("c", 2), node("d", 3)]))
    assert performance(plan) == {"b", "d"}


def test_equal_density_is_decided_by_name():
    plan = static(0.5).plan(context([node("d"), node("b"), node("c"), node("a")]))
    assert performance(plan) == {"a", "b"}


def test_every_family_keeps_its_densest_node_where_the_count_has_room():
    mixed = [
        *(node(f"gpu-{index}", 10 - index / 10, "H100") for index in range(4)),
        *(node(f"new-{index}", 3 - index / 10, "EPYC") for index in range(4)),
        *(node(f"old-{index}", 1 - index / 10, "Xeon") for index in range(4)),
    ]
    plan = static(0.5).plan(context(mixed))
    assert performance(plan) == {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "new-0", "old-0"}
    assert plan.choices["old-0"] is Choice.FAMILY_FLOOR
    assert plan.choices["gpu-1"] is Choice.DENSITY
    assert plan.choices["old-1"] is Choice.SURPLUS


def test_a_count_below_the_number_of_families_is_filled_by_density_alone():
    mixed = [node("gpu-0", 10, "H100"), node("gpu-1", 9, "H100"), node("new-0", 3, "EPYC"), node("old-0", 1, "Xeon")]
    assert performance(static(0.5).plan(context(mixed))) == {"gpu-0", "gpu-1"}


def test_rule_swap_alternates_which_of_the_first_two_nodes_is_eco():
    def eco(now):
        plan = RuleSwap(RuleSwapSettings()).plan(context(nodes(4), now=now))
        return set(plan.profiles) - performance(plan)

    assert [eco(now) for now in (0, 59.9, 60, 119.9, 120)] == [
        {"node-0"},
        {"node-0"},
        {"node-1"},
        {"node-1"},
        {"node-0"},
    ]


def test_rule_swap_makes_a_single_node_change_its_profile():
    plans = [RuleSwap(RuleSwapSettings()).plan(context(nodes(1), now=now)) for now in (0, INTERVAL_S)]
    assert [plan.hp_count for plan in plans] == [0, 1]
    assert [plan.profiles["node-0"] for plan in plans] == [Profile.ECO, Profile.PERFORMANCE]


@given(policies, candidates, st.integers(0, 500), st.floats(0, 1e9))
def test_every_policy_assigns_each_candidate_once_and_counts_what_it_assigns(policy, nodes, pods, now):
    plan = policy.plan(context(nodes, pods, now))
    assert set(plan.profiles) == set(plan.choices) == {each.name for each in nodes}
    assert plan.hp_count == len(performance(plan))


@given(policies, candidates, st.integers(0, 500), st.floats(0, 1e9), st.randoms())
def test_no_policy_depends_on_the_order_of_its_input(policy, nodes, pods, now, random):
    shuffled = random.sample(nodes, len(nodes))
    assert policy.plan(context(shuffled, pods, now)) == policy.plan(context(nodes, pods, now))


@given(fractions, candidates)
def test_the_family_floor_holds_whenever_the_count_allows_it(frac, nodes):
    plan = static(frac).plan(context(nodes))
    families = {each.family for each in nodes}
    served = {each.family for each in nodes if plan.profiles[each.name] is Profile.PERFORMANCE}
    if plan.hp_count >= len(families):
        assert served == families


@given(candidates, st.integers(0, 500), st.integers(0, 500))
def test_queue_aware_never_shrinks_when_pods_are_added(nodes, pods, more):
    policy = queue(queue_hp_base_frac=0.2, queue_hp_max=30, queue_perf_per_hp_node=7)
    before, after = (policy.plan(context(nodes, count)) for count in (pods, pods + more))
    assert before.hp_count <= after.hp_count


@given(candidates, st.integers(0, 500), st.integers(0, 40), st.integers(0, 40))
def test_queue_aware_stays_between_its_bounds(nodes, pods, low, extra):
    policy = queue(queue_hp_min=low, queue_hp_max=low + extra)
    count = policy.plan(context(nodes, pods)).hp_count
    assert min(low, len(nodes)) <= count <= min(low + extra, len(nodes))


@pytest.mark.parametrize(
    ("name", "values", "field"),
    [
        ("static_partition", {"static_hp_frac": 1.1}, "static_hp_frac"),
        ("static_partition", {"static_hp_frac": -0.1}, "static_hp_frac"),
        ("static_partition", {"static_hp_frac": "nan"}, "static_hp_frac"),
        ("queue_aware_v1", {"queue_hp_base_frac": 2}, "queue_hp_base_frac"),
        ("queue_aware_v1", {"queue_hp_min": -1}, "queue_hp_min"),
        ("queue_aware_v1", {"queue_perf_per_hp_node": 0}, "queue_perf_per_hp_node"),
        ("queue_aware_v1", {"queue_hp_min": 5, "queue_hp_max": 4}, "QUEUE_HP_MIN 5 is above QUEUE_HP_MAX 4"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name, values, field):
    with pytest.raises(ValidationError, match=field):
        build_policy(name, values)


def test_the_registry_builds_each_policy_from_a_common_set_of_values():
    values = {"static_hp_frac": 0.25, "queue_hp_min": 2, "policy_type": "ignored"}
    built = {name: build_policy(name, values) for name in POLICIES}
    assert {policy.name for policy in built.values()} == set(POLICIES)
    assert built["static_partition"].plan(context(nodes(8))).hp_count == 2


def test_settings_of_different_policies_never_share_a_name():
    names = [field for entry in POLICIES.values() for field in entry.settings.model_fields]
    assert len(names) == len(set(names))
