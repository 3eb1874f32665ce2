"""Whatever happens in which order, the guard holds and the plan is published in the end."""

from contextlib import suppress
from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from services.operator.tests.one_node import ECO, N1, PERF, World

from joulie_api.errors import TransportError
from joulie_operator.notifications import TransitionMade


class AnyHistory(RuleBasedStateMachine):
    """Any plan, pods that come and go, time, restarts, watches that lag, pods that cannot be read, failing writes."""

    def __init__(self):
        super().__init__()
        self.world = World()
        #: Pods that arrived while the node was eco: nothing can be done for those.
        self.pods_on_eco = 0

    @rule(frac=st.sampled_from([0, 1]), faults=st.lists(st.sampled_from([None, None, "before", "after"]), max_size=6))
    def reconcile(self, frac, faults):
        world = self.world
        world.frac = frac
        world.server.faults = faults
        world.server.after_write = self.check_write
        with suppress(TransportError):
            world.reconcile()
        world.server.faults = []
        if world.planner.state(N1) is not ECO and world.caps != 60:
            self.pods_on_eco = 0

    def check_write(self):
        assert not (self.world.profile_label == "performance" and self.world.caps == 60), "offered under eco caps"

    @rule()
    def deliver(self):
        self.world.deliver()

    @rule(seconds=st.sampled_from([0.3, 1.0, 60.0]))
    def wait(self, seconds):
        self.world.now += seconds

    @rule()
    def pod_arrives(self):
        self.world.add_pod()
        self.pods_on_eco += self.world.caps == 60 or self.world.planner.state(N1) is ECO

    @rule()
    @precondition(lambda self: self.world.pods > 0)
    def pod_leaves(self):
        self.world.remove_pod()
        self.pods_on_eco = min(self.pods_on_eco, self.world.pods)

    @rule()
    def restart(self):
        self.world.restart()
        self.world.notified.clear()

    @rule(stale=st.booleans())
    def read_pods(self, stale):
        self.world.stale = stale

    @invariant()
    def no_pod_that_came_under_performance_caps_runs_under_eco_caps(self):
        if self.world.caps == 60:
            assert self.world.pods == self.pods_on_eco

    @invariant()
    def each_transition_is_notified_once(self):
        made = [each.transition for each in self.world.notified if isinstance(each, TransitionMade)]
        for before, after in pairwise(made):
            assert before.to_state is after.from_state
        if made:
            assert made[-1].to_state is self.world.planner.state(N1)

    @rule()
    def in_the_end_the_plan_is_published(self):
        world = self.world
        world.stale = False
        while world.pods:
            world.remove_pod()
        self.pods_on_eco = 0
        world.now += 60
        world.settle()
        world.deliver()
        profile, caps = ("performance", 100) if world.frac == 1 else ("eco", 60)
        assert (world.profile_label, world.caps) == (profile, caps)
        assert world.planner.state(N1) is (PERF if world.frac == 1 else ECO)


TestAnyHistory = AnyHistory.TestCase
