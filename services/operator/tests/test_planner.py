"""The controller: plans, goals, announcements, recovery."""

import orjson
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from joulie_api.testing import make_node, make_pod
from joulie_api.wire import decode_node
from joulie_core import labels
from joulie_core.caps import CapSettings
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec, OnLostControl
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.names import NodeName
from joulie_core.policy import build_policy
from joulie_core.transition import NodeState
from joulie_operator.cluster import Cluster
from joulie_operator.planner import NodePlanner
from joulie_operator.published import PublishedTarget, decode_pod_summary

INVENTORY = Inventory.load()
N1 = NodeName("n1")
SETTLE_S = 1.0
PERF, DRAIN, ECO = NodeState.ACTIVE_PERFORMANCE, NodeState.DRAINING_PERFORMANCE, NodeState.ACTIVE_ECO
PERFORMANCE_POD = decode_pod_summary()(orjson.dumps(make_pod(node="n1", workload_class="performance")))


def node(**fields):
    return decode_node(orjson.dumps(make_node("n1", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256, **fields)))


class Share:
    """`static_partition` whose share a test can change."""

    def __init__(self, frac):
        self.name = "share"
        self.frac = frac

    def plan(self, context):
        return build_policy("static_partition", {"static_hp_frac": self.frac}).plan(context)


class World:
    """A controller and what surrounds it."""

    def __init__(self, *, frac=0.0, pods=0, found=None, **fields):
        self.cluster = Cluster(INVENTORY)
        self.cluster.on_node("n1", None, node(**fields))
        self.share = Share(frac)
        self.published = {} if found is None else {"n1": found}
        self.transitions = []
        self.held_up = []
        self.now = 100.0
        self.pods = 0
        self.readable = True
        for _ in range(pods):
            self.add_pod()
        self.restart()

    def restart(self):
        self.controller = NodePlanner(
            self.cluster,
            self.share,
            CapSettings(),
            reconcile_interval_s=60,
            settle_s=SETTLE_S,
            on_lost_control=OnLostControl.RESTORE,
            blocking_pods=lambda name: self.cluster.load(name).performance_pods if self.readable else None,
            published=self.published.get,
            on_transition=lambda name, transition: self.transitions.append(str(transition.result)),
            on_unknown=lambda name, state: self.held_up.append(str(state)),
        )

    def add_pod(self):
        self.cluster.on_pod(f"p{self.pods}", None, PERFORMANCE_POD)
        self.pods += 1

    def remove_pod(self):
        self.pods -= 1
        self.cluster.on_pod(f"p{self.pods}", PERFORMANCE_POD, None)

    def goal(self):
        return self.controller.goal(N1, self.now, wall=self.now)

    def look(self):
        """Plan, and publish what is to be published."""
        self.controller.plan(self.now)
        goal = self.goal()
        if goal is not None:
            self.publish(goal)
        return goal

    def publish(self, goal):
        published = {labels.POWER_PROFILE: str(goal.profile_label), labels.DRAINING: str(goal.draining).lower()}
        self.cluster.on_node("n1", self.cluster.nodes[N1], node(labels=published))
        if goal.announcing:
            self.controller.announced(N1, self.now)
        else:
            self.published["n1"] = PublishedTarget(goal.target, "")


def published(profile, *, draining=False, uid=""):
    return PublishedTarget(NodePowerProfileSpec(node_name="n1", profile=profile, draining=draining), uid)


def test_a_node_without_performance_pods_is_announced_and_capped_after_the_settling_time():
    world = World()
    first = world.look()
    assert (first.profile_label, first.schedulable_class, first.target) == (Profile.ECO, SchedulableClass.ECO, None)
    world.now += SETTLE_S / 2
    assert world.look().announcing
    world.now += SETTLE_S / 2
    assert world.look().target.cpu.package_power_cap_pct_of_max == 60
    assert world.transitions == ["allowed"]


def test_an_announcement_that_was_never_written_does_not_count():
    world = World()
    world.controller.plan(0)
    for _ in range(3):
        assert world.goal().announcing
        world.now += SETTLE_S


def test_a_pod_that_arrives_after_the_plan_holds_the_caps():
    world = World()
    world.look()
    world.now += SETTLE_S
    world.add_pod()
    goal = world.goal()
    assert (goal.state, goal.draining, goal.target.cpu.package_power_cap_pct_of_max) == (DRAIN, True, 100)
    assert world.transitions == ["deferred"]


def test_a_draining_node_goes_eco_without_another_announcement():
    world = World(pods=1)
    assert world.look().state is DRAIN
    world.remove_pod()
    assert world.look().state is ECO
    assert world.transitions == ["deferred", "unblocked"]


def test_a_plan_for_performance_takes_an_announcement_back():
    world = World()
    world.look()
    world.share.frac = 1
    goal = world.look()
    assert (goal.profile_label, goal.state) == (Profile.PERFORMANCE, PERF)
    assert world.transitions == []
    world.now += 10 * SETTLE_S
    world.share.frac = 0
    assert world.look().announcing, "a later announcement settles anew"


def test_unreadable_pods_change_nothing():
    world = World(pods=1)
    world.look()
    world.readable = False
    world.remove_pod()
    assert world.look().state is DRAIN
    world.look()
    assert world.held_up == ["DrainingPerformance"], "told once"
    world.readable = True
    assert world.look().state is ECO


def test_unreadable_pods_of_a_node_that_is_to_stay_as_it_is_hold_nothing_up():
    world = World(frac=1)
    world.look()
    world.readable = False
    world.look()
    assert world.held_up == []


@pytest.mark.parametrize(("profile", "draining", "state"), [("eco", True, DRAIN), ("eco", False, ECO)])
def test_a_restart_continues_from_the_published_target(profile, draining, state):
    world = World(pods=1, found=published(profile, draining=draining))
    assert world.look().state is state
    assert world.transitions == []


def test_a_target_of_an_earlier_node_of_that_name_is_not_the_state_of_this_one():
    world = World(pods=1, found=published("eco", uid="another"))
    world.cluster.on_node("n1", None, node())
    assert world.look().state in {DRAIN, ECO}
    assert world.transitions in (["deferred"], [])


def test_a_cordoned_node_that_was_never_published_gets_nothing():
    assert World(unschedulable=True).look() is None


def test_a_cordoned_node_keeps_its_profile_over_a_restart_and_drains_on():
    world = World(pods=1, found=published("eco", draining=True), unschedulable=True)
    assert world.look().state is DRAIN
    world.cluster.on_pod("p0", PERFORMANCE_POD, None)
    assert world.goal().state is ECO
    kept = World(found=published("performance"), unschedulable=True)
    assert kept.look().state is PERF


def test_a_plan_that_changes_nothing_concerns_no_node():
    world = World(frac=1)
    assert world.controller.plan(0) == [N1]
    world.goal()
    assert world.controller.plan(0) == []


class Operator(RuleBasedStateMachine):
    """Any plan, pods that come and go between looks, time, restarts, unreadable pods."""

    def __init__(self):
        super().__init__()
        self.world = World()
        #: Pods that arrived while the caps were eco already: nothing can be done for those.
        self.astray = 0

    @rule(frac=st.sampled_from([0, 1]))
    def plan(self, frac):
        self.world.share.frac = frac
        self.look()

    @rule()
    def look(self):
        before = self.caps()
        goal = self.world.look()
        if goal is not None and goal.target is not None and goal.target.cpu.package_power_cap_pct_of_max == 60:
            assert before == 60 or self.world.cluster.load(N1).performance_pods == 0
        if self.caps() == 100:
            self.astray = 0

    @rule(seconds=st.sampled_from([0.3, 1.0, 60.0]))
    def wait(self, seconds):
        self.world.now += seconds

    @rule()
    def pod_arrives(self):
        self.world.add_pod()
        self.astray += self.caps() == 60

    @rule()
    @precondition(lambda self: self.world.pods > 0)
    def pod_leaves(self):
        self.world.remove_pod()
        self.astray = min(self.astray, self.world.pods)

    @rule()
    def restart(self):
        self.world.restart()

    @rule(readable=st.booleans())
    def read(self, readable):
        self.world.readable = readable

    def caps(self):
        found = self.world.published.get("n1")
        return None if found is None else found.spec.cpu.package_power_cap_pct_of_max

    @invariant()
    def no_pod_that_came_under_performance_caps_runs_under_eco_caps(self):
        if self.caps() == 60:
            assert self.world.pods == self.astray

    @rule()
    def in_the_end_the_plan_is_reached(self):
        self.world.readable = True
        while self.world.pods:
            self.world.remove_pod()
        self.astray = 0
        self.look()
        self.world.now += SETTLE_S
        self.look()
        state = self.world.controller.state(N1)
        assert state is (PERF if self.world.share.frac == 1 else ECO)


TestOperator = Operator.TestCase
