"""The next record of every node of the policies that act, and of the nodes of none."""

from zoneinfo import ZoneInfo

import pytest
from prometheus_client import CollectorRegistry
from services.operator.tests.sleep.planner.planning import (
    GOING,
    NOW_S,
    PENDING,
    Decisions,
    by_name,
    node,
    plan,
    policy,
    record,
)

import joulie_operator.sleep.planner as planner_module
from joulie_api.failures import Failures
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import SleepMode
from joulie_core.sleep import (
    AwakeWindow,
    NodePowerFacts,
    Shutdown,
    SleepSettings,
    SleepState,
)
from joulie_operator.sleep.planner import SleepPlanner


def test_only_the_nodes_of_a_policy_that_acts_get_a_record(planner, decisions):
    decisions.states = {"a": SleepState.CORDONED, "b": SleepState.CORDONED}
    settings = SleepSettings(min_awake={"count": 3})
    found = plan(planner, [node("a"), node("b")], [policy("p", "a", settings=settings)])
    assert found.records == {"a": record(SleepState.CORDONED)}
    ((cluster, _, used),) = decisions.asked
    assert used is settings
    assert cluster.pending == PENDING


def test_nodes_of_no_policy_are_only_counted(planner, decisions):
    nodes = [node("a"), node("b"), node("c", ready=False), node("d")]
    records = {"a": record(SleepState.DRAINING), "d": record(SleepState.WAKING)}
    plan(planner, nodes, [policy("p", "a"), policy("q", "d", mode=SleepMode.ACT)], records)
    cluster, used, _ = decisions.asked[0]
    seen = by_name(cluster)
    assert seen["a"] == nodes[0]
    assert {(seen[each].group == "g", seen[each].power) for each in ("b", "c", "d")} == {(False, None)}
    assert (seen["b"].ready, seen["c"].ready) == (True, False)
    assert used == {"a": records["a"], "d": records["d"]}, "one that wakes is capacity to come"


@pytest.mark.parametrize("state", SleepState)
def test_a_node_of_others_that_goes_to_sleep_counts_as_not_ready(planner, decisions, state):
    plan(planner, [node("a"), node("b")], [policy("p", "a"), policy("q", "b")], {"b": record(state)})
    assert by_name(decisions.asked[0][0])["b"].ready is (state not in GOING)


def test_a_policy_decides_on_what_those_before_it_have_decided(planner, decisions):
    decisions.states = {"a": SleepState.CORDONED}
    plan(planner, [node("a"), node("b")], [policy("p", "a"), policy("q", "b")])
    assert by_name(decisions.asked[1][0])["a"].ready is False


def test_the_plan_has_the_records_of_every_policy_that_acts_and_of_the_nodes_of_none(planner, decisions):
    decisions.states = {"a": SleepState.CORDONED, "b": SleepState.DRAINING, "c": SleepState.WAKING}
    found = plan(
        planner,
        [node("a"), node("b"), node("c")],
        [policy("p", "a"), policy("q", "b")],
        {"c": record(SleepState.ASLEEP)},
    )
    assert found.records == {
        "a": record(SleepState.CORDONED),
        "b": record(SleepState.DRAINING),
        "c": record(SleepState.WAKING),
    }


def test_every_policy_and_the_release_decide_on_the_records_of_all_nodes(planner, decisions):
    """Boots that no policy has asked for count in each of them, and what was decided before takes no pods."""
    decisions.states = {"a": SleepState.CORDONED, "b": SleepState.CORDONED, "w": SleepState.WAKING}
    records = {"a": record(SleepState.AWAKE), "b": record(SleepState.AWAKE), "w": record(SleepState.WAKING)}
    recommending = policy("r", "d", mode=SleepMode.RECOMMEND)
    plan(
        planner,
        [node(name) for name in "abdw"],
        [policy("p", "a"), policy("q", "b"), recommending],
        records,
    )
    first, second, release, recommended = decisions.asked
    waking = {"w": records["w"]}
    assert first[1] == {"a": records["a"], **waking}
    assert second[1] == {"b": records["b"], **waking}
    assert release[1] == waking
    assert recommended[1] == {"d": record(SleepState.AWAKE), **waking}
    ready = [{name: each.ready for name, each in by_name(asked[0]).items()} for asked in decisions.asked]
    assert ready == [
        {"a": True, "b": True, "d": True, "w": True},
        {"a": False, "b": True, "d": True, "w": True},
        {"a": False, "b": False, "d": True, "w": True},
        {"a": False, "b": False, "d": True, "w": True},
    ]


@pytest.mark.parametrize("mode", [SleepMode.ACT, SleepMode.RECOMMEND])
def test_windows_and_waiting_pods_are_those_of_the_policy_and_of_the_release(planner, decisions, mode):
    window = AwakeWindow(
        weekdays=frozenset({0}), from_minute=0, to_minute=60, time_zone=ZoneInfo("Europe/Rome"), min_awake=7
    )
    deciding = policy("p", "a", mode=mode, windows=(window,))
    plan(planner, [node("a"), node("b")], [deciding], {"b": record(SleepState.ASLEEP)})
    asked = sorted(decisions.asked, key=lambda each: len(each[0].windows))
    assert [cluster.windows for cluster, *_ in asked] == [(), (window,)]
    assert [cluster.pending for cluster, *_ in asked] == [PENDING, PENDING]


def test_nodes_that_no_policy_acts_for_any_more_are_woken_together(planner, decisions):
    nodes = [node("a"), node("b", group="h"), node("c")]
    records = {"a": record(SleepState.ASLEEP), "b": record(SleepState.DRAINING)}
    decisions.states = {"a": SleepState.WAKING, "b": SleepState.AWAKE, "c": SleepState.WAKING}
    found = plan(planner, nodes, [policy("p", "a", "c", mode=SleepMode.OBSERVE)], records)
    assert found.records == {"a": record(SleepState.WAKING), "b": record(SleepState.AWAKE)}
    ((cluster, used, settings),) = decisions.asked
    assert (settings.min_awake.count, settings.min_awake.spare) == (3, 0)
    assert settings.rates.waking == planner.release.rates.waking
    seen = by_name(cluster)
    assert (seen["a"].group, seen["b"].group) == ("", "")
    assert seen["c"].group not in {"", "g"}
    assert used == records


def test_a_node_that_is_awake_and_was_switched_off_is_decided_about_without_a_policy(planner, decisions):
    """Its server may still go off, whatever its record says."""
    power = NodePowerFacts(
        state=PowerState.ON,
        sampled_at_s=NOW_S,
        reachable=True,
        wake_proven=True,
        off_allowed=True,
        switched_off=Shutdown(NOW_S - 5),
    )
    found = plan(planner, [node("a", power=power), node("b"), node("c", power=None)], [])
    assert found.records == {"a": record(SleepState.AWAKE)}


def test_a_record_of_a_node_that_is_gone_is_no_reason_to_fail(planner, decisions):
    found = plan(planner, [node("a")], [], {"gone": record(SleepState.ASLEEP), "awake": record(SleepState.AWAKE)})
    assert found.records == {}


@pytest.mark.parametrize("mode", [SleepMode.ACT, SleepMode.RECOMMEND])
def test_what_fails_for_one_policy_is_counted_and_leaves_the_others(monkeypatch, mode):
    registry = CollectorRegistry()
    answers = Decisions()
    answers.states = {"b": SleepState.CORDONED}

    def decide(cluster, records, now_s, settings):
        if settings.min_awake.count == 7:
            raise RuntimeError("defect")
        return answers(cluster, records, now_s, settings)

    monkeypatch.setattr(planner_module, "decide", decide)
    failing = policy("p", "a", mode=mode, settings=SleepSettings(min_awake={"count": 7}))
    found = plan(SleepPlanner(Failures(registry)), [node("a"), node("b")], [failing, policy("q", "b", mode=mode)])
    if mode is SleepMode.ACT:
        assert found.records == {"b": record(SleepState.CORDONED)}
    else:
        assert found.recommended == {"q": frozenset({"b"})}
    labels = {"work": "decide about sleep of a policy"}
    assert registry.get_sample_value("joulie_internal_errors_total", labels) == 1


def test_what_fails_for_nodes_of_no_policy_is_counted_and_leaves_the_policies(monkeypatch):
    registry = CollectorRegistry()
    answers = Decisions()
    answers.states = {"b": SleepState.CORDONED, "c": SleepState.CORDONED}

    def decide(cluster, records, now_s, settings):
        if settings.min_awake.spare == 0:
            raise RuntimeError("defect")
        return answers(cluster, records, now_s, settings)

    monkeypatch.setattr(planner_module, "decide", decide)
    settings = SleepSettings(min_awake={"spare": 1})
    policies = [policy("p", "b", settings=settings), policy("q", "c", mode=SleepMode.RECOMMEND, settings=settings)]
    asleep = {"a": record(SleepState.ASLEEP)}
    found = plan(SleepPlanner(Failures(registry)), [node("a"), node("b"), node("c")], policies, asleep)
    assert found.records == {"b": record(SleepState.CORDONED)}
    assert found.recommended == {"q": frozenset({"c"})}
    labels = {"work": "decide about sleep of a policy"}
    assert registry.get_sample_value("joulie_internal_errors_total", labels) == 1


def test_nothing_is_decided_where_all_are_awake_and_no_policy_acts(planner, decisions):
    found = plan(planner, [node("a")], [policy("p", "a", mode=SleepMode.OBSERVE)])
    assert (found.records, found.recommended, decisions.asked) == ({}, {}, [])
