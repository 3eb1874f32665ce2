"""Spare nodes by what came into use, which the planner remembers by policy."""

from dataclasses import replace

import pytest
from services.operator.tests.sleep.planner.planning import NOW_S, node, policy, record

import joulie_operator.sleep.planner as planner_module
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec, SleepMode, SpareOf
from joulie_core.sleep import SleepSettings, SleepState
from joulie_operator.sleep.facts import SleepFacts

DAY_S = 86_400.0
CPU = frozenset()


def by(spare_of):
    return SleepSettings(min_awake=MinAwakeSpec(count=0, spare=2, spare_of=spare_of))


@pytest.fixture
def expectations(monkeypatch):
    """Record what is expected by the policy, in each decision."""
    seen = []

    def decided(cluster, _records, _now_s, _settings):
        seen.append(dict(cluster.expected))
        return {each.name: record(SleepState.AWAKE) for each in cluster.nodes}

    def emptied(cluster, _records, _now_s, _settings):
        seen.append(dict(cluster.expected))
        return []

    monkeypatch.setattr(planner_module, "decide", decided)
    monkeypatch.setattr(planner_module, "to_empty", emptied)
    return seen


def watch(planner, policies, begin_s, seconds, *, step_s=120.0):
    nodes = [node("a"), node("b")]
    for step in range(int(seconds / step_s)):
        now_s = begin_s + step * step_s
        seen = {each.name: replace(each, power=replace(each.power, sampled_at_s=now_s)) for each in nodes}
        planner.plan(SleepFacts(seen, ()), {each.name: record(SleepState.AWAKE) for each in nodes}, policies, now_s)


@pytest.mark.parametrize("mode", [SleepMode.ACT, SleepMode.RECOMMEND])
def test_what_came_is_unknown_for_a_day_and_then_expected(planner, expectations, mode):
    policies = [policy("p", "a", "b", mode=mode, settings=by(SpareOf.ARRIVALS))]
    watch(planner, policies, NOW_S, DAY_S - 3_600.0)
    assert not any(expectations)
    del expectations[:]
    watch(planner, policies, NOW_S + DAY_S - 3_600.0, 7_200.0)
    assert expectations[-1] == {CPU: 0}


def test_only_policies_by_arrivals_expect_anything(planner, expectations):
    policies = [policy("p", "a", settings=by(SpareOf.RESOURCES)), policy("q", "b", settings=by(SpareOf.FAMILY))]
    watch(planner, policies, NOW_S, DAY_S + 7_200.0)
    assert not any(expectations)


def test_a_policy_that_is_changed_or_gone_begins_anew(planner, expectations):
    arrivals = [policy("p", "a", "b", settings=by(SpareOf.ARRIVALS))]
    watch(planner, arrivals, NOW_S, DAY_S + 7_200.0)
    assert expectations[-1] == {CPU: 0}
    watch(planner, [policy("p", "a", "b", settings=by(SpareOf.RESOURCES))], NOW_S + DAY_S + 7_200.0, 120.0)
    watch(planner, arrivals, NOW_S + DAY_S + 7_320.0, 120.0)
    assert expectations[-1] == {}
