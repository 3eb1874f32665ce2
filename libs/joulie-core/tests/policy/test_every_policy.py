"""Rules that hold for every registered policy, whatever its settings."""

import random
import sys
from dataclasses import replace
from typing import Annotated

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from joulie_core.kinds.base import Profile
from joulie_core.names import NodeName
from joulie_core.policy import POLICIES, Candidate, PolicyContext, build_policy
from joulie_core.policy.selection import plan_densest

EVERY = pytest.mark.parametrize("name", POLICIES)
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
contexts = st.builds(
    PolicyContext,
    candidates=candidates,
    performance_pods=st.integers(0, 500),
    now=st.floats(0, 1e9),
    reconcile_interval_s=st.just(60.0),
    planned=st.none() | st.integers(0, 60),
)


def any_policy(data, name):
    """Return the policy with any settings that its model allows."""
    fields = POLICIES[name].settings.model_fields.items()
    values = {key: data.draw(st.from_type(Annotated[each.annotation, *each.metadata]), key) for key, each in fields}
    try:
        return build_policy(name, values)
    except ValidationError:
        assume(False)


@EVERY
@given(st.data(), contexts)
def test_each_candidate_is_assigned_once_and_the_count_is_what_was_assigned(name, data, context):
    plan = any_policy(data, name).plan(context)
    assert set(plan.profiles) == set(plan.choices) == {each.name for each in context.candidates}
    assert plan.performance_count == sum(profile is Profile.PERFORMANCE for profile in plan.profiles.values())


@EVERY
@given(st.data(), contexts, st.integers())
def test_the_order_of_the_candidates_does_not_matter(name, data, context, seed):
    policy = any_policy(data, name)
    shuffled = random.Random(seed).sample(context.candidates, len(context.candidates))
    again = replace(context, candidates=shuffled)
    assert policy.plan(again) == policy.plan(context)


@EVERY
@given(st.data(), contexts, st.integers(0, 500), st.floats(0, 1e9))
def test_equal_keys_stand_for_equal_profiles_and_choices(name, data, context, pods, now):
    policy = any_policy(data, name)
    other = PolicyContext(context.candidates, pods, now, context.reconcile_interval_s)
    one, two = policy.plan(context), policy.plan(other)
    if policy.plan_key(context) == policy.plan_key(other):
        assert (one.profiles, one.choices) == (two.profiles, two.choices)


@given(candidates, st.integers(0, 40))
def test_the_family_floor_holds_whenever_the_count_allows_it(nodes, count):
    plan = plan_densest(nodes, count, "")
    families = {each.family for each in nodes}
    served = {each.family for each in nodes if plan.profiles[each.name] is Profile.PERFORMANCE}
    if plan.performance_count >= len(families):
        assert served == families


def test_the_registry_builds_each_policy_from_a_common_set_of_values():
    values = {"static_hp_frac": 0.25, "queue_hp_min": 2, "policy_type": "ignored"}
    assert [build_policy(name, values).name for name in POLICIES] == list(POLICIES)


def test_settings_of_different_policies_never_share_a_name():
    names = [field for entry in POLICIES.values() for field in entry.settings.model_fields]
    assert len(names) == len(set(names))


@EVERY
def test_a_policy_is_described_and_every_setting_of_it_too(name):
    entry = POLICIES[name]
    module = sys.modules[entry.settings.__module__]
    assert name == module.NAME
    assert f"`{name}`" in module.__doc__
    assert all(field.description for field in entry.settings.model_fields.values())
