"""The ledger of pods that are placed but not measured yet."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from joulie_core.names import NodeName
from joulie_core.powerest.assumed import AssumedPods
from joulie_core.powerest.demand import PodDemand

A, B = NodeName("a"), NodeName("b")
FOUR, EIGHT = PodDemand(4), PodDemand(8)
INTERVAL_S = 20.0


def test_a_bound_pod_counts_on_its_node_and_nowhere_else():
    ledger = AssumedPods(INTERVAL_S)
    assert ledger.bind("ns/p", A, FOUR, now_s=0) == {A}
    assert ledger.demands(A) == (FOUR,)
    assert ledger.demands(B) == ()


def test_a_measurement_that_may_be_older_than_the_pod_does_not_cover_it():
    ledger = AssumedPods(INTERVAL_S)
    ledger.bind("ns/p", A, FOUR, now_s=100)
    assert ledger.measure(A, now_s=119) == set()
    assert ledger.demands(A) == (FOUR,)


def test_a_measurement_one_interval_after_the_binding_covers_the_pod():
    ledger = AssumedPods(INTERVAL_S)
    ledger.bind("ns/p", A, FOUR, now_s=100)
    ledger.bind("ns/q", A, EIGHT, now_s=101)
    assert ledger.measure(A, now_s=120) == {A}
    assert ledger.demands(A) == (EIGHT,)


def test_a_measurement_of_another_node_covers_nothing():
    ledger = AssumedPods(INTERVAL_S)
    ledger.bind("ns/p", A, FOUR, now_s=0)
    assert ledger.measure(B, now_s=1000) == set()
    assert len(ledger) == 1


def test_a_pod_that_ended_is_forgotten():
    ledger = AssumedPods(INTERVAL_S)
    ledger.bind("ns/p", A, FOUR, now_s=0)
    assert ledger.forget("ns/p") == {A}
    assert ledger.forget("ns/p") == set()
    assert ledger.demands(A) == ()


def test_a_pod_recreated_under_its_name_moves_with_it():
    ledger = AssumedPods(INTERVAL_S)
    ledger.bind("ns/p", A, FOUR, now_s=0)
    assert ledger.bind("ns/p", B, EIGHT, now_s=1) == {A, B}
    assert (ledger.demands(A), ledger.demands(B)) == ((), (EIGHT,))


class Ledger(RuleBasedStateMachine):
    """The ledger against a plain list of bindings."""

    def __init__(self):
        super().__init__()
        self.ledger = AssumedPods(INTERVAL_S)
        self.model = {}
        self.now_s = 0.0

    @rule(seconds=st.floats(0, 30))
    def wait(self, seconds):
        self.now_s += seconds

    @rule(pod=st.sampled_from("pqrs"), node=st.sampled_from([A, B]), demand=st.sampled_from([FOUR, EIGHT]))
    def bind(self, pod, node, demand):
        before = {node} | ({self.model[pod][0]} if pod in self.model else set())
        self.model[pod] = (node, demand, self.now_s)
        assert self.ledger.bind(pod, node, demand, self.now_s) == before

    @rule(pod=st.sampled_from("pqrs"))
    def forget(self, pod):
        entry = self.model.pop(pod, None)
        assert self.ledger.forget(pod) == ({entry[0]} if entry else set())

    @rule(node=st.sampled_from([A, B]))
    def measure(self, node):
        covered = [pod for pod, (on, _, at) in self.model.items() if on == node and at + INTERVAL_S <= self.now_s]
        for pod in covered:
            del self.model[pod]
        assert self.ledger.measure(node, self.now_s) == ({node} if covered else set())

    @invariant()
    def agrees_with_the_model(self):
        self.ledger.check()
        for node in (A, B):
            expected = sorted(demand.cpu_cores for on, demand, _ in self.model.values() if on == node)
            assert sorted(demand.cpu_cores for demand in self.ledger.demands(node)) == expected


Ledger.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
test_any_sequence_of_events_leaves_exactly_the_uncovered_pods = Ledger.TestCase
