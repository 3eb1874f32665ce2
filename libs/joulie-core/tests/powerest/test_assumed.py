"""The ledger of pods that are placed but not measured yet."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from joulie_core.names import NodeName
from joulie_core.powerest.assumed import AssumedPods
from joulie_core.powerest.pod_demand import PodDemand

A, B = NodeName("a"), NodeName("b")
FOUR, EIGHT = PodDemand(4), PodDemand(8)
INTERVAL_S = 20.0
WINDOW_S = 2.0


@pytest.fixture
def ledger():
    return AssumedPods(INTERVAL_S, WINDOW_S)


def test_a_bound_pod_counts_on_its_node_and_nowhere_else(ledger):
    assert ledger.bind("p", A, FOUR, now_s=0) == {A}
    assert ledger.demands(A) == (FOUR,)
    assert ledger.demands(B) == ()


def test_a_measurement_that_may_be_older_than_the_pod_does_not_cover_it(ledger):
    ledger.bind("p", A, FOUR, now_s=100)
    assert ledger.measure(A, now_s=119) == set()
    assert ledger.demands(A) == (FOUR,)


def test_a_measurement_one_interval_after_the_binding_covers_the_pod(ledger):
    ledger.bind("p", A, FOUR, now_s=100)
    ledger.bind("q", A, EIGHT, now_s=101)
    assert ledger.measure(A, now_s=120) == {A}
    assert ledger.demands(A) == (EIGHT,)


def test_a_measurement_of_another_node_covers_nothing(ledger):
    ledger.bind("p", A, FOUR, now_s=0)
    assert ledger.measure(B, now_s=1000) == set()
    assert len(ledger) == 1


def test_a_pod_that_ended_is_forgotten(ledger):
    ledger.bind("p", A, FOUR, now_s=0)
    assert ledger.forget("p") == {A}
    assert ledger.forget("p") == set()
    assert ledger.demands(A) == ()


def test_a_pod_seen_elsewhere_moves(ledger):
    ledger.bind("p", A, FOUR, now_s=0)
    assert ledger.bind("p", B, EIGHT, now_s=1) == {A, B}
    assert (ledger.demands(A), ledger.demands(B)) == ((), (EIGHT,))


def test_an_expected_pod_counts_until_its_window_ends(ledger):
    assert ledger.expect("p", A, FOUR, now_s=0) == {A}
    assert ledger.expire(now_s=1.9) == set()
    assert ledger.demands(A) == (FOUR,)
    assert ledger.expire(now_s=2.0) == {A}
    assert ledger.demands(A) == ()


def test_a_binding_where_it_was_expected_changes_no_demand_and_outlives_the_window(ledger):
    ledger.expect("p", A, FOUR, now_s=0)
    assert ledger.bind("p", A, FOUR, now_s=1) == set()
    assert ledger.expire(now_s=3) == set()
    assert ledger.demands(A) == (FOUR,)


def test_pods_are_counted_by_demand_and_those_that_are_only_expected_apart(ledger):
    ledger.bind("p", A, FOUR, now_s=0)
    for uid, demand in {"q": FOUR, "r": EIGHT, "s": EIGHT}.items():
        ledger.expect(uid, A, demand, now_s=0)
    ledger.bind("s", A, EIGHT, now_s=1)
    assert (ledger.counts(A), ledger.expected(A)) == ({FOUR: 2, EIGHT: 2}, {FOUR: 1, EIGHT: 1})
    ledger.expire(now_s=2)
    assert (ledger.counts(A), ledger.expected(A)) == ({FOUR: 1, EIGHT: 1}, {})
    assert (ledger.counts(B), ledger.expected(B)) == ({}, {})


def test_a_binding_elsewhere_corrects_the_expectation(ledger):
    ledger.expect("p", A, FOUR, now_s=0)
    assert ledger.bind("p", B, FOUR, now_s=1) == {A, B}
    assert (ledger.demands(A), ledger.demands(B)) == ((), (FOUR,))


def test_an_expectation_of_a_bound_pod_is_idle(ledger):
    ledger.bind("p", A, FOUR, now_s=0)
    assert ledger.expect("p", B, FOUR, now_s=1) == set()
    assert ledger.demands(A) == (FOUR,)


def test_a_pod_that_is_scored_again_is_expected_once_and_anew(ledger):
    ledger.expect("p", A, FOUR, now_s=0)
    assert ledger.expect("p", B, FOUR, now_s=1) == {A, B}
    assert ledger.expire(now_s=2.5) == set()
    assert ledger.expire(now_s=3) == {B}


def test_a_measurement_does_not_cover_what_is_only_expected():
    ledger = AssumedPods(telemetry_interval_s=0, window_s=WINDOW_S)
    ledger.expect("p", A, FOUR, now_s=0)
    assert ledger.measure(A, now_s=1) == set()
    assert ledger.demands(A) == (FOUR,)


def test_a_window_of_zero_expects_nothing():
    ledger = AssumedPods(INTERVAL_S, window_s=0)
    assert ledger.expect("p", A, FOUR, now_s=0) == set()
    assert len(ledger) == 0


class Ledger(RuleBasedStateMachine):
    """The ledger against a plain list of what happened; answers must name exactly the nodes whose demands changed."""

    def __init__(self):
        super().__init__()
        self.ledger = AssumedPods(INTERVAL_S, WINDOW_S)
        self.model = {}
        self.now_s = 0.0

    def demands(self):
        return {
            node: sorted(demand.cpu_cores for on, demand, *_ in self.model.values() if on == node) for node in (A, B)
        }

    def enter(self, pod, node, demand, *, bound):
        old, self.model[pod] = self.model.get(pod), (node, demand, self.now_s, bound)
        if old is None:
            return {node}
        return set() if old[:2] == (node, demand) else {old[0], node}

    @rule(seconds=st.floats(0, 30))
    def wait(self, seconds):
        self.now_s += seconds

    @rule(seconds=st.floats(0, 2))
    def wait_a_little(self, seconds):
        self.now_s += seconds

    @rule(pod=st.sampled_from("pqrs"), node=st.sampled_from([A, B]), demand=st.sampled_from([FOUR, EIGHT]))
    def bind(self, pod, node, demand):
        expected = self.enter(pod, node, demand, bound=True)
        assert self.ledger.bind(pod, node, demand, self.now_s) == expected

    @rule(pod=st.sampled_from("pqrs"), node=st.sampled_from([A, B]), demand=st.sampled_from([FOUR, EIGHT]))
    def expect(self, pod, node, demand):
        settled = pod in self.model and self.model[pod][3]
        expected = set() if settled else self.enter(pod, node, demand, bound=False)
        assert self.ledger.expect(pod, node, demand, self.now_s) == expected

    @rule(pod=st.sampled_from("pqrs"))
    def forget(self, pod):
        entry = self.model.pop(pod, None)
        assert self.ledger.forget(pod) == ({entry[0]} if entry else set())

    @rule(node=st.sampled_from([A, B]))
    def measure(self, node):
        covered = self.drop(lambda on, _, at, bound: on == node and bound and at + INTERVAL_S <= self.now_s)
        assert self.ledger.measure(node, self.now_s) == covered

    @rule()
    def expire(self):
        overdue = self.drop(lambda _on, _demand, at, bound: not bound and at + WINDOW_S <= self.now_s)
        assert self.ledger.expire(self.now_s) == overdue

    def drop(self, condition):
        gone = {pod: entry[0] for pod, entry in self.model.items() if condition(*entry)}
        for pod in gone:
            del self.model[pod]
        return set(gone.values())

    @invariant()
    def agrees_with_the_model(self):
        self.ledger.check()
        assert len(self.ledger) == len(self.model)
        for node, cores in self.demands().items():
            assert sorted(demand.cpu_cores for demand in self.ledger.demands(node)) == cores


Ledger.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
test_any_sequence_of_events_leaves_exactly_the_pods_in_flight = Ledger.TestCase
