"""The planner: plans, decisions and when they take effect, notifications of eco, recovery."""

from services.operator.tests.planned_node import DRAIN, ECO, N1, PERF, SETTLE_S, World, cpu_pct

from joulie_core import labels
from joulie_core.caps import CapSettings
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.names import NodeName
from joulie_core.policy import Plan
from joulie_core.transition import GuardResult
from joulie_operator.notifications import GpuCapNotListed, PodsUnreadable


def test_the_policy_gets_the_candidates_the_demand_and_the_times():
    world = World(frac=1, pods=2)
    assert world.planner.last_plan is None
    world.plan()
    [context] = world.share.contexts
    assert [candidate.name for candidate in context.candidates] == ["n1"]
    assert (context.performance_pods, context.now, context.reconcile_interval_s) == (2, 100.0, 60)
    assert world.planner.last_plan.profiles == {N1: Profile.PERFORMANCE}


def test_the_policy_gets_the_performance_nodes_of_the_last_plan():
    world = World(frac=1)
    for frac in (1, 0, 0):
        world.share.frac = frac
        world.plan()
    assert [context.planned for context in world.share.contexts] == [None, 1, 0]


def test_a_node_planned_performance_is_published_as_such():
    world = World(frac=1)
    decision = world.plan_and_publish()
    desired = decision.desired
    assert decision.node is world.cluster.nodes[N1]
    assert (decision.state, decision.requeue_after_s, decision.notifications) == (PERF, None, ())
    assert (desired.profile_label, desired.draining) == (Profile.PERFORMANCE, False)
    assert (desired.schedulable_class, desired.caps.cpu_pct) == (SchedulableClass.PERFORMANCE, 100)
    assert desired.target.dump() == {
        "nodeName": "n1",
        "profile": "performance",
        "draining": False,
        "cpu": {"packagePowerCapPctOfMax": 100},
        "policy": {"name": "share", "reason": "densest node of its hardware family", "onLostControl": "hold"},
    }
    assert world.planner.managed() == [N1]


def test_a_node_without_performance_pods_is_announced_and_capped_after_the_settling_time():
    world = World()
    first = world.plan_and_publish()
    assert (first.desired.profile_label, first.desired.draining) == (Profile.ECO, False)
    assert (first.desired.schedulable_class, first.desired.target) == (SchedulableClass.ECO, None)
    assert (first.state, first.desired.caps.cpu_pct, first.requeue_after_s) == (PERF, 100, SETTLE_S)
    assert first.notifications == ()
    world.now += SETTLE_S / 4
    second = world.publish()
    assert (second.desired.target, second.requeue_after_s) == (None, SETTLE_S * 3 / 4)
    world.now += SETTLE_S * 3 / 4
    third = world.publish()
    assert (third.state, cpu_pct(third), third.requeue_after_s) == (ECO, 60, None)
    assert (third.desired.profile_label, third.desired.schedulable_class) == (Profile.ECO, SchedulableClass.ECO)
    [made] = world.notified
    assert (made.node, made.performance_pods) == (world.cluster.nodes[N1], 0)
    assert (made.transition.from_state, made.transition.to_state) == (PERF, ECO)
    assert (made.transition.result, made.transition.at) == (GuardResult.ALLOWED, world.now + 1000)


def test_an_announcement_that_was_never_written_does_not_count():
    world = World()
    world.plan()
    for _ in range(3):
        assert world.desired().desired.target is None
        world.now += SETTLE_S


def test_a_decision_changes_nothing_until_it_is_committed():
    world = World(pods=1)
    world.plan()
    decisions = [world.desired() for _ in range(3)]
    assert {decision.state for decision in decisions} == {DRAIN}
    assert [len(decision.notifications) for decision in decisions] == [1, 1, 1]
    assert world.planner.state(N1) is PERF
    world.planner.commit(decisions[-1], world.now)
    assert world.planner.state(N1) is DRAIN
    assert world.desired().notifications == ()


def test_a_decision_that_was_not_written_in_time_is_replaced_by_the_next():
    world = World(pods=1)
    world.plan()
    assert world.desired().state is DRAIN
    world.remove_pod()
    decision = world.desired()
    assert (decision.desired.target, decision.notifications) == (None, ()), "eco is announced, nothing was deferred"


def test_a_pod_that_arrives_after_the_announcement_keeps_the_caps_at_performance():
    world = World()
    world.plan_and_publish()
    world.now += SETTLE_S
    world.add_pod()
    decision = world.publish()
    assert (decision.state, decision.desired.draining, cpu_pct(decision)) == (DRAIN, True, 100)
    assert decision.desired.target.draining
    assert decision.desired.schedulable_class is SchedulableClass.DRAINING
    assert world.transitions == [GuardResult.DEFERRED]
    assert world.notified[0].performance_pods == 1


def test_a_draining_node_goes_eco_without_another_announcement():
    world = World(pods=1)
    assert world.plan_and_publish().state is DRAIN
    world.remove_pod()
    assert world.publish().state is ECO
    assert world.transitions == [GuardResult.DEFERRED, GuardResult.UNBLOCKED]


def test_a_plan_for_performance_ends_an_announcement():
    world = World()
    world.plan_and_publish()
    world.share.frac = 1
    decision = world.plan_and_publish()
    assert (decision.desired.profile_label, decision.state) == (Profile.PERFORMANCE, PERF)
    assert world.transitions == []
    world.now += 10 * SETTLE_S
    world.share.frac = 0
    assert world.plan_and_publish().desired.target is None, "a later announcement settles anew"


def test_the_published_class_and_caps_are_those_that_were_committed():
    world = World()
    planner = world.planner
    assert planner.published_class(N1) is SchedulableClass.UNKNOWN
    assert planner.published_caps(NodeName("other")).cpu_pct == 100
    world.plan()
    assert planner.published_class(N1) is SchedulableClass.PERFORMANCE
    world.publish()
    assert (planner.published_class(N1), planner.published_caps(N1).cpu_pct) == (SchedulableClass.ECO, 100)
    world.now += SETTLE_S
    world.desired()
    assert planner.published_caps(N1).cpu_pct == 100
    world.publish()
    assert (planner.published_class(N1), planner.published_caps(N1).cpu_pct) == (SchedulableClass.ECO, 60)


def test_a_draining_node_is_published_as_draining_under_performance_caps():
    world = World(pods=1)
    world.plan_and_publish()
    assert world.planner.published_class(N1) is SchedulableClass.DRAINING
    assert world.planner.published_caps(N1).cpu_pct == 100


def test_unreadable_pods_change_nothing_and_are_notified_once():
    world = World(pods=1)
    world.plan_and_publish()
    world.notified.clear()
    world.pod_watch.stale = True
    world.remove_pod()
    assert world.publish().state is DRAIN
    world.publish()
    assert world.notified == [PodsUnreadable(world.cluster.nodes[N1], DRAIN)]
    world.pod_watch.stale = False
    assert world.publish().state is ECO
    assert world.transitions == [GuardResult.UNBLOCKED]


def test_pods_that_become_unreadable_again_are_notified_again():
    world = World()
    world.plan()
    for _ in range(2):
        world.pod_watch.stale = True
        world.publish()
        world.pod_watch.stale = False
        world.publish()
    assert world.notified == [PodsUnreadable(world.cluster.nodes[N1], PERF)] * 2


def test_unreadable_pods_of_a_node_that_is_to_stay_as_it_is_delay_nothing():
    world = World(frac=1)
    world.plan_and_publish()
    world.pod_watch.stale = True
    world.publish()
    assert world.notified == []


def test_nothing_is_decided_about_nodes_that_are_unknown_unmanaged_or_forgotten():
    world = World()
    assert world.planner.desired(NodeName("other"), 0, 0) is None
    world.plan_and_publish()
    world.set_node(labels={labels.RESERVED: "true"})
    assert world.desired() is None
    world.planner.forget(N1)
    assert (world.planner.state(N1), world.planner.managed()) == (None, [])
    world.planner.forget(N1)


def test_a_plan_that_changes_nothing_concerns_no_node():
    world = World(frac=1)
    assert world.plan() == [N1]
    world.publish()
    assert world.plan() == []
    world.share.frac = 0
    assert world.plan() == [N1]
    assert world.plan() == [N1], "not published yet"
    world.publish()
    world.now += SETTLE_S
    world.publish()
    assert world.plan() == []


def test_another_reason_for_the_same_profile_is_published():
    world = World(frac=1)
    world.plan_and_publish()
    world.share.plan = lambda _context: Plan({N1: Profile.PERFORMANCE}, {N1: "another reason"}, 1, "r")
    assert world.plan() == [N1]
    assert world.publish().desired.target.policy.reason == "another reason"


def test_other_hardware_changes_the_published_caps():
    world = World()
    world.plan_and_publish()
    world.now += SETTLE_S
    first = world.publish()
    assert first.desired.target.gpu is None
    assert world.desired().desired.target is first.desired.target, "the same target is not made twice"
    world.set_node(gpus=8, gpu_model="NVIDIA H100 80GB HBM3")
    assert world.desired().desired.target.gpu.power_cap.cap_pct_of_max == 60
    assert world.planner.published_caps(N1).gpu_pct == 60


def test_an_announced_node_of_gpus_keeps_their_performance_caps():
    world = World(gpus=8, gpu_model="NVIDIA H100 80GB HBM3")
    desired = world.plan_and_publish().desired
    assert (desired.target, desired.caps.gpu_pct) == (None, 100)


def test_a_gpu_model_without_an_absolute_cap_is_notified():
    settings = CapSettings(
        gpu_write_absolute_caps=True, gpu_model_caps_json={"L40S": {"performanceWatts": 300, "ecoWatts": 200}}
    )
    world = World(frac=1, settings=settings, gpus=8, gpu_model="NVIDIA H100 80GB HBM3")
    world.plan_and_publish()
    assert world.notified == [GpuCapNotListed(world.cluster.hardware(N1).view.gpu)]
    without_gpus = World(frac=1, settings=settings)
    without_gpus.plan_and_publish()
    assert without_gpus.notified == []


def test_the_target_says_that_limits_by_class_are_lifted_for_as_long_as_they_are():
    world = World(frac=1)
    assert "classLimits" not in world.plan_and_publish().desired.target.dump()
    world.lifted.add(N1)
    lifted = world.publish().desired.target
    assert lifted.dump()["classLimits"] == {"lifted": True, "reason": "GpusInDemand"}
    assert world.publish().desired.target is lifted
    world.lifted.clear()
    assert "classLimits" not in world.publish().desired.target.dump()
