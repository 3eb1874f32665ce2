"""`family_partition`: a share of each hardware family, rounded up."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from joulie_core.kinds.base import Profile
from joulie_core.names import NodeName
from joulie_core.policy import Candidate, PolicyContext, build_policy
from joulie_core.policy.family_partition import FamilyPartition, FamilyPartitionSettings, FamilyShare


def partition(frac):
    return FamilyPartition(FamilyPartitionSettings(family_hp_frac=frac))


def context_of(nodes):
    return PolicyContext(nodes, performance_pods=0, now=0.0, reconcile_interval_s=60.0)


@pytest.mark.parametrize(
    ("nodes", "frac", "expected"),
    [(2, 0.5, 1), (5, 0.5, 3), (1, 0.01, 1), (100, 0.07, 7), (10, 0.3, 3), (4, 0, 0), (4, 1, 4), (0, 0.5, 0)],
)
def test_the_share_of_a_family_is_rounded_up(nodes, frac, expected):
    assert partition(frac).performance_count(nodes) == expected


families = st.sampled_from(["cpu", "h100", "l40s"])
nodes_of = st.lists(st.tuples(families, st.sampled_from([0.0, 1.0, 7.5])), max_size=30).map(
    lambda found: [Candidate(NodeName(f"n{i}"), density, family) for i, (family, density) in enumerate(found)]
)


@given(nodes_of, st.floats(0.01, 1))
def test_each_family_has_its_share_and_no_eco_node_is_denser_than_one_of_it(nodes, frac):
    plan = partition(frac).plan(context_of(nodes))
    supplying = Counter(each.family for each in nodes if plan.profiles[each.name] is Profile.PERFORMANCE)
    for family, count in Counter(each.family for each in nodes).items():
        assert max(1, count * frac - 1e-6) <= supplying[family] < count * frac + 1
        of = {Profile.ECO: [-math.inf], Profile.PERFORMANCE: []}
        for each in nodes:
            if each.family == family:
                of[plan.profiles[each.name]].append(each.density)
        assert max(of[Profile.ECO]) <= min(of[Profile.PERFORMANCE])


def test_a_node_says_whether_it_is_within_the_share():
    nodes = [Candidate(NodeName("a"), 1.0, "cpu"), Candidate(NodeName("b"), 2.0, "cpu")]
    assert partition(0.5).plan(context_of(nodes)).choices == {"a": FamilyShare.BEYOND, "b": FamilyShare.WITHIN}


@pytest.mark.parametrize("frac", [1.1, -0.1, "nan"])
def test_a_share_out_of_range_is_refused_by_name(frac):
    with pytest.raises(ValidationError, match="family_hp_frac"):
        build_policy("family_partition", {"family_hp_frac": frac})
