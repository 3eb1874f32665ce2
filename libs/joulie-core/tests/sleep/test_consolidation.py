"""Nodes that are emptied by moving their pods: docs/decisions/0042-consolidation.md."""

from dataclasses import replace

import pytest

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.sleep import (
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
    to_empty,
)

NOW = 100_000.0
POD = SleepPod({"cpu": 1.0})


def settings(mode="Act", below_percent=50, **changes):
    consolidation = {"mode": mode, "below_percent": below_percent}
    unbounded = {"min_awake": {"count": 0, "spare": 0}, "max_asleep_percent": 90}
    return SleepSettings(consolidation=consolidation, **unbounded, **changes)


def node(name, pods=0, *, free=8.0, boot_s=300.0, **changes):
    power = NodePowerFacts(
        state=PowerState.ON, sampled_at_s=NOW, reachable=True, wake_proven=True, off_allowed=True, boot_s=boot_s
    )
    known = SleepNode(
        name=name, group="cpu", free={"cpu": free}, idle_watts=100.0, ready=True, protected_pods=0, power=power
    )
    return replace(known, **({"movable_pods": (POD,) * pods} | changes))


def full(name, free):
    """Return a node that stays, with room for that many cores."""
    return node(name, free=free, protected_pods=1)


def idle_for(seconds=3600.0):
    return SleepRecord(since_s=0.0, idle_since_s=NOW - seconds)


def cordoned(nodes, used, records=None):
    known = {each.name: idle_for() for each in nodes} | (records or {})
    decided = decide(SleepCluster(nodes=nodes, pending=()), known, NOW, used)
    return {name for name, each in decided.items() if each.state is SleepState.CORDONED}


def named(nodes, used, records=None):
    known = {each.name: SleepRecord(since_s=NOW) for each in nodes} | (records or {})
    return [each.name for each in to_empty(SleepCluster(nodes=nodes, pending=()), known, NOW, used)]


def test_only_consolidation_in_act_moves_pods():
    nodes = [node("a", pods=2), full("b", free=8.0)]
    assert cordoned(nodes, settings("Act")) == {"a"}
    assert cordoned(nodes, settings("Recommend")) == cordoned(nodes, settings("Off")) == set()
    assert SleepSettings().consolidation.mode == "Recommend"


def test_a_node_is_emptied_up_to_its_share_of_pods():
    # 4 of 8 cores, and 5 of 8.
    half, more = node("a", pods=4, free=4.0), node("a", pods=5, free=3.0)
    assert cordoned([half, full("b", free=8.0)], settings(below_percent=50)) == {"a"}
    assert cordoned([more, full("b", free=8.0)], settings(below_percent=50)) == set()


@pytest.mark.parametrize("free", [{"cpu": 0.0}, {"cpu": -3.0}, {}])
def test_a_resource_of_which_nothing_is_left_is_all_in_pods(free):
    nodes = [node("a", pods=1, idle_watts=300.0), full("b", free=8.0)]
    nodes[0] = replace(nodes[0], free=free)
    assert cordoned(nodes, settings(below_percent=99)) == set()
    assert cordoned(nodes, settings(below_percent=100)) == {"a"}


def test_pods_that_request_nothing_are_moved():
    nodes = [node("a", movable_pods=(SleepPod({}),)), full("b", free=8.0)]
    assert cordoned(nodes, settings(below_percent=1)) == {"a"}


@pytest.mark.parametrize(
    ("pods", "boot_s", "emptied"),
    # 300 s until it is off, 1.5 times the boot, and 60 s for each pod: 47 pods and 300 s make 3,570 s of an hour.
    [(47, 300.0, True), (48, 300.0, False), (25, 1_190.0, True), (26, 1_190.0, False)],
)
def test_what_an_hour_of_sleep_saves_must_outweigh_boot_and_restarts(pods, boot_s, emptied):
    nodes = [node("a", pods=pods, free=1_000.0, boot_s=boot_s), full("b", free=1_000.0)]
    used = settings(off_timeout_seconds=300)
    assert (cordoned(nodes, used) == {"a"}) is emptied
    assert (named(nodes, used) == ["a"]) is emptied


def test_a_boot_that_was_never_seen_takes_as_long_as_it_may():
    nodes = [node("a", pods=25, free=1_000.0, boot_s=None), full("b", free=1_000.0)]
    assert cordoned(nodes, settings(boot_timeout_seconds=1_200)) == set()
    assert cordoned(nodes, settings(boot_timeout_seconds=1_100)) == {"a"}


def test_one_node_is_emptied_at_a_time_beside_nodes_that_are_empty():
    # None of these three has room for a pod of another.
    nodes = [node("a", pods=1, free=0.5), node("b", pods=1, free=0.5), node("c", free=0.5), full("d", free=8.0)]
    assert cordoned(nodes, settings(below_percent=100)) == {"a", "c"}
    assert cordoned(nodes, settings(below_percent=100, rates={"emptying": 2})) == {"a", "b", "c"}
    draining = replace(nodes[1], cordoned=True)
    going = {"b": SleepRecord(state=SleepState.DRAINING, since_s=NOW - 10.0)}
    assert cordoned([nodes[0], draining, *nodes[2:]], settings(below_percent=100), going) == {"c"}


def test_a_node_that_is_to_take_pods_of_one_that_is_emptied_stays():
    nodes = [node("a", pods=1, idle_watts=300.0), node("b", free=8.0), full("c", free=0.5)]
    assert cordoned(nodes, settings()) == {"a"}
    draining = replace(nodes[0], cordoned=True)
    going = {"a": SleepRecord(state=SleepState.DRAINING, since_s=NOW - 10.0)}
    assert cordoned([draining, *nodes[1:]], settings(), going) == set()
    gone = replace(draining, movable_pods=())
    assert cordoned([gone, *nodes[1:]], settings(), going) == {"b"}


def test_recommended_are_the_nodes_that_would_be_emptied_one_after_the_other_whatever_they_did_lately():
    watts = {"a": 100.0, "b": 300.0, "c": 50.0}
    nodes = [node(name, pods=2, free=0.5, idle_watts=each) for name, each in watts.items()]
    # Room for five of six pods.
    nodes.append(full("d", free=5.0))
    used = settings("Recommend", below_percent=100, rates={"emptying": 1, "powering_off": 1})
    assert named(nodes, used) == ["b", "a"]


def test_nothing_is_recommended_of_nodes_with_pods_that_stay_or_that_are_not_awake():
    nodes = [node("a", pods=1, protected_pods=1), node("b", pods=1, protected_pods=None), full("c", free=8.0)]
    assert named(nodes, settings("Recommend")) == []
    nodes = [replace(node("a", pods=1), cordoned=True), full("c", free=8.0)]
    assert named(nodes, settings("Recommend"), {"a": SleepRecord(state=SleepState.CORDONED, since_s=NOW)}) == []
