"""The next record of every node, policy by policy, with a decision that is given or recorded."""

import pytest
from prometheus_client import CollectorRegistry

import joulie_operator.sleep.planner as planner_module
from joulie_api.failures import Failures
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import SleepMode
from joulie_core.names import NodeName
from joulie_core.sleep import (
    NodePowerFacts,
    Shutdown,
    SleepNode,
    SleepPod,
    SleepReason,
    SleepRecord,
    SleepSettings,
    SleepState,
)
from joulie_operator.sleep.facts import SleepFacts
from joulie_operator.sleep.planner import SleepPlanner
from joulie_operator.sleep.policies import UsablePolicy

NOW_S = 1_800_000_000.0
GOING = [SleepState.CORDONED, SleepState.DRAINING, SleepState.POWERING_OFF, SleepState.ASLEEP]
PENDING = (SleepPod(requests={"cpu": 1.0}),)


def record(state, sleeps=0):
    return SleepRecord(state=state, since_s=NOW_S - 60, reason=SleepReason.IDLE, sleeps=sleeps)


def node(name, **changes):
    power = NodePowerFacts(
        state=PowerState.ON, sampled_at_s=NOW_S, reachable=True, wake_proven=True, off_allowed=True, boot_s=30.0
    )
    known = {"group": "g", "free": {}, "idle_watts": 100.0, "ready": True, "protected_pods": 0, "power": power}
    return SleepNode(name=NodeName(name), **(known | changes))


def policy(name, *nodes, mode=SleepMode.ACT, settings=None):
    return UsablePolicy(name, mode, settings or SleepSettings(), (), frozenset(map(NodeName, nodes)), {}, {})


class Decisions:
    """Records what is asked, and answers with `states` of the nodes of the group that is asked about."""

    def __init__(self):
        self.asked = []
        self.states = {}

    def __call__(self, cluster, records, now_s, settings):
        self.asked.append((cluster, dict(records), settings))
        assert now_s == NOW_S
        return {each.name: record(self.states.get(each.name, SleepState.AWAKE)) for each in cluster.nodes}


@pytest.fixture
def decisions(monkeypatch):
    found = Decisions()
    monkeypatch.setattr(planner_module, "decide", found)
    return found


@pytest.fixture
def planner():
    return SleepPlanner(Failures(CollectorRegistry()))


def plan(planner, nodes, policies, records=None):
    facts = SleepFacts({each.name: each for each in nodes}, PENDING)
    known = {each.name: record(SleepState.AWAKE) for each in nodes} | (records or {})
    return planner.plan(facts, known, policies, NOW_S)


def by_name(cluster):
    return {each.name: each for each in cluster.nodes}


# --- Act --------------------------------------------------------------------------------------------------------------


def test_only_the_nodes_of_a_policy_that_acts_get_a_record(planner, decisions):
    decisions.states = {"a": SleepState.CORDONED, "b": SleepState.CORDONED}
    settings = SleepSettings(min_awake=3)
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


def test_nodes_that_no_policy_acts_for_any_more_are_woken_together(planner, decisions):
    nodes = [node("a"), node("b", group="h"), node("c")]
    records = {"a": record(SleepState.ASLEEP), "b": record(SleepState.DRAINING)}
    decisions.states = {"a": SleepState.WAKING, "b": SleepState.AWAKE, "c": SleepState.WAKING}
    found = plan(planner, nodes, [policy("p", "a", "c", mode=SleepMode.OBSERVE)], records)
    assert found.records == {"a": record(SleepState.WAKING), "b": record(SleepState.AWAKE)}
    ((cluster, used, settings),) = decisions.asked
    assert (settings.min_awake, settings.spare) == (3, 0)
    assert settings.max_waking == planner.release.max_waking
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
        if settings.min_awake == 7:
            raise RuntimeError("defect")
        return answers(cluster, records, now_s, settings)

    monkeypatch.setattr(planner_module, "decide", decide)
    failing = policy("p", "a", mode=mode, settings=SleepSettings(min_awake=7))
    found = plan(SleepPlanner(Failures(registry)), [node("a"), node("b")], [failing, policy("q", "b", mode=mode)])
    if mode is SleepMode.ACT:
        assert found.records == {"b": record(SleepState.CORDONED)}
    else:
        assert found.recommended == {"q": frozenset({"b"})}
    labels = {"work": "decide about sleep of a policy"}
    assert registry.get_sample_value("joulie_internal_errors_total", labels) == 1


def test_nothing_is_decided_where_all_are_awake_and_no_policy_acts(planner, decisions):
    found = plan(planner, [node("a")], [policy("p", "a", mode=SleepMode.OBSERVE)])
    assert (found.records, found.recommended, decisions.asked) == ({}, {}, [])


# --- Recommend --------------------------------------------------------------------------------------------------------


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
