"""Restarts, Nodes that are replaced under the same name, and cordoned nodes."""

import pytest
from services.operator.tests.planned_node import (
    DRAIN,
    ECO,
    N1,
    PERF,
    SETTLE_S,
    World,
    cpu_pct,
    target,
)

from joulie_core import labels
from joulie_core.kinds.base import Profile
from joulie_core.transition import GuardResult
from joulie_operator.published import PublishedTarget


@pytest.mark.parametrize(
    ("found", "state", "transitions"),
    [
        (target("eco", draining=True), DRAIN, []),
        (target("eco"), ECO, []),
        (target("eco", uid=""), ECO, []),
        (target("performance"), DRAIN, [GuardResult.DEFERRED]),
        (PublishedTarget(None, "uid-1"), DRAIN, [GuardResult.DEFERRED]),
        (None, DRAIN, [GuardResult.DEFERRED]),
    ],
    ids=["draining", "eco", "eco, made by hand", "performance", "unreadable", "none"],
)
def test_a_restart_continues_from_the_published_target(found, state, transitions):
    world = World(pods=1, target=found)
    assert world.plan_and_publish().state is state
    assert world.transitions == transitions


@pytest.mark.parametrize(
    ("found", "planned"),
    [
        (target("performance"), 1),
        (target("performance", draining=True), 0),
        (target("eco"), 0),
        (target("performance", uid="uid-0"), None),
        (None, None),
    ],
    ids=["performance", "draining", "eco", "of another node", "none"],
)
def test_the_first_plan_after_a_restart_knows_what_is_published(found, planned):
    world = World(target=found)
    world.plan()
    assert [context.planned for context in world.share.contexts] == [planned]


def test_a_target_of_an_earlier_node_of_that_name_is_not_the_state_of_this_one():
    world = World(pods=1, target=target("eco", uid="uid-0"))
    decision = world.plan_and_publish()
    assert (decision.state, cpu_pct(decision)) == (DRAIN, 100)
    assert world.transitions == [GuardResult.DEFERRED]


def test_a_draining_label_is_remembered_where_the_target_is_gone():
    world = World(labels={labels.POWER_PROFILE: "eco", labels.DRAINING: "true"})
    assert world.plan_and_publish().state is ECO
    assert world.transitions == [GuardResult.UNBLOCKED]


def test_a_new_node_of_the_same_name_does_not_inherit_the_state():
    world = World()
    world.plan_and_publish()
    world.now += SETTLE_S
    world.publish()
    world.set_node(uid="uid-2")
    world.add_pod()
    assert world.desired() is None, "it is not planned yet"
    world.notified.clear()
    assert world.plan() == [N1]
    assert world.publish().state is DRAIN
    assert world.transitions == [GuardResult.DEFERRED]


def test_a_decision_about_an_earlier_node_of_that_name_is_not_committed():
    world = World(pods=1)
    world.plan()
    decision = world.desired()
    world.set_node(uid="uid-2")
    world.plan()
    world.planner.commit(decision, world.now)
    assert world.planner.state(N1) is PERF


def test_a_cordoned_node_that_was_never_published_gets_nothing():
    assert World(unschedulable=True).plan_and_publish() is None


def test_a_cordoned_node_keeps_its_profile_over_a_restart_and_drains_on():
    world = World(pods=1, target=target("eco", draining=True), unschedulable=True)
    decision = world.plan_and_publish()
    assert (decision.state, decision.desired.target.policy.reason) == (DRAIN, "cordoned: keeps its last profile")
    assert world.planner.state(N1) is DRAIN
    world.remove_pod()
    assert world.publish().state is ECO
    assert world.publish().state is ECO, "whatever target was seen last"
    assert world.transitions == [GuardResult.UNBLOCKED]
    kept = World(target=target("performance"), unschedulable=True)
    assert kept.plan_and_publish().state is PERF


def test_a_node_that_is_cordoned_keeps_what_it_is_whatever_was_planned():
    world = World(frac=1)
    world.plan_and_publish()
    world.share.frac = 0
    world.plan()
    world.set_node(unschedulable=True)
    assert world.publish().desired.profile_label is Profile.PERFORMANCE


def test_a_node_that_is_uncordoned_waits_for_its_plan():
    world = World(target=target("eco"), unschedulable=True)
    world.publish()
    world.set_node()
    world.pod_watch.stale = True
    assert world.publish().state is ECO
    assert world.notified == []


def test_a_cordoned_node_with_a_target_of_an_earlier_node_gets_nothing():
    assert World(target=target("eco", uid="uid-0"), unschedulable=True).plan_and_publish() is None
