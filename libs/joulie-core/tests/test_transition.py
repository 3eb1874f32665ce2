"""The transition machine: docs/decisions/0013-conventions.md, Draining."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from joulie_core import labels
from joulie_core.kinds.base import Profile
from joulie_core.transition import GuardResult, NodeState, Transition, recover, step

PERF, DRAIN, ECO = NodeState.ACTIVE_PERFORMANCE, NodeState.DRAINING_PERFORMANCE, NodeState.ACTIVE_ECO


@pytest.mark.parametrize(
    ("state", "planned", "pods", "expected", "result"),
    [
        (PERF, Profile.ECO, 2, DRAIN, GuardResult.DEFERRED),
        (PERF, Profile.ECO, 0, ECO, GuardResult.ALLOWED),
        (PERF, Profile.PERFORMANCE, 0, PERF, GuardResult.UNCHANGED),
        (DRAIN, Profile.ECO, 1, DRAIN, GuardResult.STILL_BLOCKED),
        (DRAIN, Profile.ECO, 0, ECO, GuardResult.UNBLOCKED),
        (DRAIN, Profile.PERFORMANCE, 1, PERF, GuardResult.REPLANNED_PERFORMANCE),
        (DRAIN, Profile.PERFORMANCE, 0, PERF, GuardResult.REPLANNED_PERFORMANCE),
        (ECO, Profile.PERFORMANCE, 0, PERF, GuardResult.PLANNED_PERFORMANCE),
        (ECO, Profile.PERFORMANCE, 2, PERF, GuardResult.PLANNED_PERFORMANCE),
        (ECO, Profile.ECO, 0, ECO, GuardResult.UNCHANGED),
        # A performance pod that landed on an eco node anyway does not bring the node back.
        (ECO, Profile.ECO, 3, ECO, GuardResult.UNCHANGED),
    ],
)
def test_each_condition_of_the_diagram_leads_to_its_state(state, planned, pods, expected, result):
    outcome = step(state, planned, pods, now=7.0)
    assert (outcome.state, outcome.result) == (expected, result)
    moved = Transition(state, expected, result, 7.0) if expected is not state else None
    assert outcome.transition == moved


def test_states_and_results_have_the_names_that_metrics_and_events_show():
    assert (PERF, DRAIN, ECO) == ("ActivePerformance", "DrainingPerformance", "ActiveEco")
    assert set(GuardResult) == {
        "deferred",
        "allowed",
        "still_blocked",
        "unblocked",
        "replanned_performance",
        "planned_performance",
        "pods_unknown",
        "unchanged",
    }


@pytest.mark.parametrize("state", NodeState)
@pytest.mark.parametrize("planned", Profile)
def test_unknown_pods_keep_the_state(state, planned):
    outcome = step(state, planned, None, now=0)
    assert (outcome.state, outcome.result, outcome.transition) == (state, GuardResult.PODS_UNKNOWN, None)


@pytest.mark.parametrize("state", NodeState)
def test_a_published_target_is_recovered_as_the_state_that_published_it(state):
    contradicting = {labels.POWER_PROFILE: "performance", labels.DRAINING: "false"}
    assert recover((state.profile, state.draining), contradicting) is state


def test_a_published_performance_target_is_performance_whatever_it_says_of_draining():
    """Nothing lowers its caps; only a hand writes such a target."""
    assert recover((Profile.PERFORMANCE, True), {}) is PERF


@pytest.mark.parametrize(
    ("node_labels", "expected"),
    [
        ({}, PERF),
        ({labels.POWER_PROFILE: "performance"}, PERF),
        ({labels.POWER_PROFILE: "eco", labels.DRAINING: "true"}, DRAIN),
        ({labels.DRAINING: "true"}, PERF),
        ({labels.POWER_PROFILE: "performance", labels.DRAINING: "true"}, PERF),
        # Nothing caps a node without a target: the guard has to be asked again.
        ({labels.POWER_PROFILE: "eco", labels.DRAINING: "false"}, PERF),
    ],
)
def test_without_a_published_target_a_node_counts_as_performance_unless_it_drains(node_labels, expected):
    assert recover(None, node_labels) is expected


class Guard(RuleBasedStateMachine):
    """A node under an arbitrary plan, with pods that come and go, restarts, and failing pod reads."""

    @initialize(pods=st.integers(0, 3))
    def start(self, pods):
        self.state = recover(None, {})
        self.planned = Profile.PERFORMANCE
        self.pods = pods
        self.transitions = []

    def look(self, pods):
        before = self.state
        outcome = step(before, self.planned, pods, now=float(len(self.transitions)))
        self.state = outcome.state
        assert (outcome.transition is None) == (outcome.state is before)
        if outcome.transition is not None:
            self.transitions.append(outcome.transition)
            assert (outcome.transition.from_state, outcome.transition.to_state) == (before, outcome.state)
            if outcome.state is ECO:
                assert pods == 0, "went eco over running performance pods"

    @rule(planned=st.sampled_from(Profile))
    def plan(self, planned):
        self.planned = planned
        self.look(self.pods)

    @rule()
    def look_again(self):
        self.look(self.pods)

    @rule()
    def fail_to_read_pods(self):
        before = self.state
        self.look(None)
        assert self.state is before

    @rule()
    @precondition(lambda self: self.state is not ECO)
    def pod_arrives(self):
        self.pods += 1

    @rule()
    @precondition(lambda self: self.pods > 0)
    def pod_leaves(self):
        self.pods -= 1

    @rule()
    def operator_restarts(self):
        self.state = recover((self.state.profile, self.state.draining), {})

    @rule()
    def last_pods_leave_and_the_plan_is_reached_at_once(self):
        self.pods = 0
        self.look(0)
        assert self.state is (PERF if self.planned is Profile.PERFORMANCE else ECO)

    @invariant()
    def eco_is_never_entered_over_performance_pods(self):
        if self.state is ECO:
            assert self.pods == 0

    @invariant()
    def draining_is_published_exactly_while_draining(self):
        assert self.state.draining == (self.state is DRAIN)
        assert not (self.state.draining and self.state.profile is Profile.PERFORMANCE)


TestGuard = Guard.TestCase
