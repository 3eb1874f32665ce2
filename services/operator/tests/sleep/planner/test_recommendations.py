"""What a policy in `Recommend` names, and what it remembers for the next time."""

import pytest
from services.operator.tests.sleep.planner.planning import (
    GOING,
    NOW_S,
    PENDING,
    by_name,
    node,
    plan,
    policy,
    record,
)

import joulie_operator.sleep.planner as planner_module
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import SleepMode
from joulie_core.sleep import (
    NodePowerFacts,
    SleepPod,
    SleepRecord,
    SleepSettings,
    SleepState,
)


def recommends(*nodes):
    return policy("r", *nodes, mode=SleepMode.RECOMMEND)


@pytest.mark.parametrize("state", SleepState)
def test_a_recommendation_names_the_nodes_that_would_be_on_the_way_to_sleep(planner, decisions, state):
    decisions.states = {"a": state, "b": state}
    found = plan(planner, [node("a"), node("b")], [recommends("a")])
    assert found.records == {}
    assert found.recommended == {"r": frozenset({"a"} if state in GOING else ())}


def test_nodes_are_imagined_with_a_proved_wake_path_and_as_recommended_before(planner, decisions):
    nodes = [node("a", power=None), node("b"), node("c", power=None)]
    decisions.states = {"a": SleepState.ASLEEP, "b": SleepState.CORDONED}
    plan(planner, nodes, [recommends("a", "b")])
    first = by_name(decisions.asked[0][0])
    expected = NodePowerFacts(
        state=PowerState.ON, sampled_at_s=NOW_S, reachable=True, wake_proven=True, off_allowed=True, boot_s=None
    )
    assert first["a"].power == expected
    assert first["b"].power.boot_s == 30.0
    assert (first["a"].ready, first["a"].cordoned) == (True, False)
    plan(planner, nodes, [recommends("a", "b")])
    cluster, used, _ = decisions.asked[1]
    second = by_name(cluster)
    assert (second["a"].power.state, second["a"].ready, second["a"].cordoned) == (PowerState.OFF, False, True)
    assert (second["b"].power.state, second["b"].ready, second["b"].cordoned) == (PowerState.ON, True, True)
    assert {name: each.state for name, each in used.items()} == {"a": SleepState.ASLEEP, "b": SleepState.CORDONED}
    assert second["c"].power is None


def crowded(name, **changes):
    """Return a node with a pod that can be moved, and without room for another."""
    return node(name, movable_pods=(SleepPod({"cpu": 1.0}),), free={"cpu": 0.5}, **changes)


def consolidates(mode, policy_mode, *nodes):
    settings = SleepSettings(min_awake={"count": 0, "spare": 0}, consolidation={"mode": mode, "below_percent": 100})
    return policy("p", *nodes, mode=policy_mode, settings=settings)


@pytest.mark.parametrize(
    ("mode", "policy_mode", "names"),
    [
        ("Recommend", SleepMode.RECOMMEND, ["a", "b"]),
        ("Recommend", SleepMode.ACT, ["b"]),
        ("Recommend", SleepMode.OBSERVE, None),
        ("Act", SleepMode.RECOMMEND, None),
        ("Act", SleepMode.ACT, None),
        ("Off", SleepMode.RECOMMEND, None),
    ],
)
def test_consolidation_names_nodes_of_the_policy_and_changes_none(planner, mode, policy_mode, names):
    # `a` has no BMC: it sleeps only as it is imagined for a policy in Recommend.
    rest = [node(f"rest-{number}", protected_pods=1, free={"cpu": 4.0}) for number in range(4)]
    nodes = [crowded("a", power=None, idle_watts=300.0), crowded("b"), crowded("other"), *rest]
    found = plan(planner, nodes, [consolidates(mode, policy_mode, "a", "b")], {"b": record(SleepState.AWAKE)})
    emptied = found.to_empty.get("p")
    assert (emptied and [each.name for each in emptied]) == names
    if mode == "Recommend":
        assert {each.state for each in found.records.values()} <= {SleepState.AWAKE}
        assert not any(found.recommended.values())


def test_nodes_that_would_sleep_anyway_take_no_pods_of_those_that_consolidation_would_empty(planner):
    idle = SleepRecord(since_s=NOW_S - 7200, idle_since_s=NOW_S - 7200)
    pod = SleepPod({"example.org/device": 1.0})
    nodes = [node("a", movable_pods=(pod,)), node("empty", free={"example.org/device": 1.0})]
    nodes += [node(f"rest-{number}", protected_pods=1, free={"cpu": 4.0}) for number in range(4)]
    records = {each.name: idle for each in nodes}
    found = plan(planner, nodes, [consolidates("Recommend", SleepMode.ACT, "a", "empty")], records)
    assert found.records["empty"].state is SleepState.CORDONED
    assert found.to_empty == {"p": ()}


def test_what_each_policy_has_recommended_is_remembered_beside_the_others(planner, decisions):
    decisions.states = {"a": SleepState.ASLEEP, "b": SleepState.CORDONED}
    policies = [recommends("a"), policy("s", "b", mode=SleepMode.RECOMMEND)]
    for _ in range(2):
        found = plan(planner, [node("a"), node("b")], policies)
        assert found.recommended == {"r": frozenset({"a"}), "s": frozenset({"b"})}
    assert [used for _, used, _ in decisions.asked[2:]] == [
        {"a": record(SleepState.ASLEEP)},
        {"b": record(SleepState.CORDONED)},
    ]


def test_nodes_of_others_are_not_imagined(planner, decisions):
    plan(planner, [node("a"), node("b", cordoned=True, ready=None)], [recommends("a")])
    seen = by_name(decisions.asked[0][0])
    assert (seen["b"].cordoned, seen["b"].ready) == (True, None)


def test_a_server_that_must_stay_on_is_not_recommended_to_sleep(planner, decisions):
    power = NodePowerFacts(state=PowerState.ON, sampled_at_s=0, reachable=True, wake_proven=False, off_allowed=False)
    plan(planner, [node("a", power=power)], [recommends("a")])
    assert by_name(decisions.asked[0][0])["a"].power.off_allowed is False


@pytest.mark.parametrize("pods", [{"protected_pods": 1}, {"protected_pods": None}, {"movable_pods": PENDING}])
def test_pods_that_come_to_a_node_that_would_be_off_count_as_its_wake(planner, decisions, pods):
    decisions.states = {"a": SleepState.ASLEEP}
    plan(planner, [node("a")], [recommends("a")])
    plan(planner, [node("a", **pods)], [recommends("a")])
    cluster, used, _ = decisions.asked[1]
    assert used["a"] == SleepRecord(since_s=NOW_S)
    assert by_name(cluster)["a"].power.state is PowerState.ON


def test_the_number_of_sleeps_stays_where_pods_wake_a_node_that_is_imagined_to_sleep(planner, monkeypatch):
    asked = []

    def decide(cluster, records, now_s, settings):
        asked.append(dict(records))
        return {each.name: record(SleepState.ASLEEP, sleeps=3) for each in cluster.nodes}

    monkeypatch.setattr(planner_module, "decide", decide)
    plan(planner, [node("a")], [recommends("a")])
    plan(planner, [node("a", protected_pods=1)], [recommends("a")])
    assert asked[1]["a"] == SleepRecord(since_s=NOW_S, sleeps=3)


@pytest.mark.parametrize("unknown", ["way_off", "readable"])
def test_a_server_that_cannot_be_powered_off_is_not_imagined_to_be(planner, decisions, unknown):
    power = NodePowerFacts(
        state=PowerState.ON,
        sampled_at_s=NOW_S,
        reachable=True,
        wake_proven=True,
        off_allowed=True,
        **{unknown: False},
    )
    plan(planner, [node("a", power=power)], [recommends("a")])
    assert getattr(by_name(decisions.asked[0][0])["a"].power, unknown) is False


def test_what_was_recommended_is_forgotten_with_the_policy(planner, decisions):
    decisions.states = {"a": SleepState.ASLEEP}
    plan(planner, [node("a")], [recommends("a")])
    plan(planner, [node("a")], [])
    plan(planner, [node("a")], [recommends("a")])
    assert decisions.asked[-1][1] == {"a": record(SleepState.AWAKE)}
