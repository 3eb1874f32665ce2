"""The lease's rules without I/O, and two candidates that never both lead."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from joulie_api.errors import DecodeError
from joulie_api.lease import Lease, LeaseCandidate, LeaseSpec, StandBy, Write, decode_lease

DURATION, DEADLINE = 15.0, 10.0


def candidate(identity="a"):
    return LeaseCandidate(identity, lease_duration_s=DURATION, renew_deadline_s=DEADLINE)


def lease(holder, version="1", duration=15, transitions=0):
    raw = (
        f'{{"metadata":{{"resourceVersion":"{version}"}},"spec":{{"holderIdentity":"{holder}",'
        f'"leaseDurationSeconds":{duration},"leaseTransitions":{transitions},"acquireTime":"then"}}}}'
    )
    return decode_lease(raw.encode())


def take(replica, write, version, *, started, now):
    metadata = lease("x", version).metadata
    replica.on_written(Lease(metadata, write.spec), started, now)


def test_without_a_lease_one_is_created():
    replica = candidate()
    write = replica.attempt(0.0, "now")
    assert write.resource_version is None
    assert (write.spec.holder_identity, write.spec.lease_duration_seconds) == ("a", 15)
    assert (write.spec.acquire_time, write.spec.renew_time, write.spec.lease_transitions) == ("now", "now", 0)
    assert not replica.is_leading(0.0)


def test_leading_ends_the_renew_deadline_after_the_write_was_sent():
    replica = candidate()
    take(replica, replica.attempt(0.0, "now"), "1", started=100.0, now=101.0)
    assert replica.is_leading(109.9)
    assert not replica.is_leading(110.0)


def test_another_holders_lease_is_waited_for_from_when_it_was_first_seen_whatever_the_wall_clocks_show():
    replica = candidate()
    replica.on_read(lease("b"), 1000.0)
    assert replica.attempt(1000.0, "now") == StandBy(15.0)
    replica.on_read(lease("b"), 1014.0)
    assert replica.attempt(1014.0, "now") == StandBy(1.0)
    replica.on_read(lease("b", version="2"), 1014.5)
    assert replica.attempt(1015.0, "now") == StandBy(14.5)


def test_a_lease_that_did_not_change_for_its_duration_is_taken_over():
    replica = candidate()
    replica.on_read(lease("b", version="7", transitions=4), 0.0)
    write = replica.attempt(15.0, "now")
    assert write.resource_version == "7"
    assert (write.spec.holder_identity, write.spec.lease_transitions, write.spec.acquire_time) == ("a", 5, "now")


def test_the_number_of_transitions_is_that_of_the_lease_that_is_held():
    replica = candidate()
    assert replica.transitions(-1) is None
    replica.on_read(lease("b", transitions=4), 0.0)
    assert replica.transitions(-1) is None
    take(replica, replica.attempt(15.0, "now"), "2", started=15.0, now=15.0)
    assert (replica.transitions(-1), replica.transitions(4)) == (5, 5)


def test_a_lease_that_counts_from_zero_again_is_renewed_with_more_transitions():
    replica = candidate()
    take(replica, replica.attempt(0.0, "now"), "1", started=0.0, now=0.0)
    assert replica.transitions(-1) == 0
    assert replica.transitions(7) is None
    renewal = replica.attempt(2.0, "now")
    assert (renewal.resource_version, renewal.spec.lease_transitions) == ("1", 8)
    take(replica, renewal, "2", started=2.0, now=2.0)
    assert replica.transitions(7) == 8
    # One that is lost meanwhile is not counted on.
    replica.on_read(lease("b", version="3", transitions=9), 3.0)
    assert replica.transitions(7) is None


def test_the_holders_own_duration_counts():
    replica = candidate()
    replica.on_read(lease("b", duration=60), 0.0)
    assert replica.attempt(15.0, "now") == StandBy(45.0)


def test_a_released_lease_is_taken_at_once():
    replica = candidate()
    replica.on_read(lease("", version="7", transitions=4), 0.0)
    assert replica.attempt(0.0, "now").spec.lease_transitions == 5


def test_a_renewal_keeps_the_time_and_number_of_the_acquisition():
    replica = candidate()
    replica.on_read(lease("a", version="7", transitions=4), 0.0)
    write = replica.attempt(0.0, "now")
    assert (write.spec.acquire_time, write.spec.renew_time, write.spec.lease_transitions) == ("then", "now", 4)
    assert not replica.is_leading(0.0), "reading our own name is not yet a lease of known length"


@pytest.mark.parametrize("seen", [None, lease("b", version="2")], ids=["deleted", "taken"])
def test_a_lease_deleted_or_taken_ends_leading_at_once(seen):
    replica = candidate()
    take(replica, replica.attempt(0.0, "now"), "1", started=0.0, now=0.0)
    replica.on_read(seen, 1.0)
    assert not replica.is_leading(1.0)
    assert not replica.holding
    assert replica.release("now") is None


def test_a_release_clears_the_holder_and_keeps_the_count():
    replica = candidate()
    replica.on_read(lease("b", version="3", transitions=1), 0.0)
    take(replica, replica.attempt(15.0, "now"), "4", started=15.0, now=15.0)
    write = replica.release("later")
    assert write.resource_version == "4"
    assert (write.spec.holder_identity, write.spec.lease_transitions) == ("", 2)
    assert not replica.is_leading(15.0)


def test_an_invalid_lease_is_refused():
    with pytest.raises(DecodeError):
        decode_lease(b'{"metadata":{}}')
    assert decode_lease(b'{"metadata":{"resourceVersion":"1"}}').spec == LeaseSpec()


class Replica:
    def __init__(self, identity, offset, rate):
        self.identity, self.offset, self.rate = identity, offset, rate
        self.candidate = candidate(identity)
        #: What it wants written and when it decided so; on its way to the server until delivered or lost.
        self.write = None
        self.read_pending = None
        self.answer = None

    def clock(self, true_time):
        return self.offset + true_time * self.rate


class TwoCandidates(RuleBasedStateMachine):
    """Requests are delayed, lost or answered late at random; clocks differ at random, and in rate by up to 10 %."""

    @initialize(offsets=st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), rates=st.tuples(*[st.floats(0.95, 1.05)] * 2))
    def begin(self, offsets, rates):
        self.time = 0.0
        self.stored = None
        self.version = 0
        self.replicas = [
            Replica(name, *made) for name, made in zip("ab", zip(offsets, rates, strict=True), strict=True)
        ]

    @rule(seconds=st.one_of(st.floats(0, 3), st.sampled_from([5.0, 9.0, 11.0, 14.0, 15.0, 16.0, 30.0])))
    def let_time_pass(self, seconds):
        self.time += seconds

    @rule(which=st.integers(0, 1))
    def read(self, which):
        replica = self.replicas[which]
        if replica.write is None:
            replica.candidate.on_read(self.stored, replica.clock(self.time))

    @rule(which=st.integers(0, 1))
    def read_but_get_the_answer_late(self, which):
        replica = self.replicas[which]
        if replica.write is None and replica.read_pending is None:
            replica.read_pending = [self.stored]

    @precondition(lambda self: any(replica.read_pending for replica in self.replicas))
    @rule()
    def get_the_late_answer(self):
        for replica in self.replicas:
            if replica.read_pending:
                replica.candidate.on_read(replica.read_pending[0], replica.clock(self.time))
                replica.read_pending = None

    @rule(which=st.integers(0, 1))
    def send(self, which):
        replica = self.replicas[which]
        if replica.write is None and replica.read_pending is None:
            now = replica.clock(self.time)
            attempt = replica.candidate.attempt(now, "wall")
            if isinstance(attempt, Write):
                replica.write = (attempt, now)

    @rule(which=st.integers(0, 1), answered=st.booleans())
    def deliver(self, which, answered):
        replica = self.replicas[which]
        if replica.write is None:
            return
        (write, started_at), replica.write = replica.write, None
        current = None if self.stored is None else self.stored.metadata.resource_version
        if write.resource_version != current:
            return
        self.version += 1
        self.stored = Lease(lease("x", str(self.version)).metadata, write.spec)
        if answered and started_at is not None:
            replica.candidate.on_written(self.stored, started_at, replica.clock(self.time))

    @rule(which=st.integers(0, 1))
    def lose(self, which):
        self.replicas[which].write = None

    @rule(which=st.integers(0, 1))
    def release(self, which):
        replica = self.replicas[which]
        if replica.write is None and replica.candidate.holding:
            replica.write = (replica.candidate.release("wall"), None)

    @rule(which=st.integers(0, 1))
    def restart(self, which):
        old = self.replicas[which]
        self.replicas[which] = Replica(f"{old.identity}'", old.offset, old.rate)

    @rule(which=st.integers(0, 1), times=st.integers(1, 12))
    def take_part_alone(self, which, times):
        """Run one candidate normally, every 2 s, while the other does nothing: it is slow, cut off, or paused."""
        for _ in range(times):
            self.read(which)
            self.send(which)
            self.deliver(which, answered=True)
            self.never_two_leaders()
            self.time += 2

    @invariant()
    def never_two_leaders(self):
        leaders = [replica for replica in self.replicas if replica.candidate.is_leading(replica.clock(self.time))]
        assert len(leaders) <= 1


TwoCandidates.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestTwoCandidates = TwoCandidates.TestCase


@pytest.mark.parametrize("field", ["leaseDurationSeconds", "leaseTransitions"])
@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 10**400])
def test_a_number_that_no_api_server_stores_is_no_lease(field, number):
    raw = b'{"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":"b","%b":%d}}' % (field.encode(), number)
    with pytest.raises(DecodeError):
        decode_lease(raw)


def test_a_lease_that_has_changed_hands_as_often_as_can_be_counted_is_taken_all_the_same():
    candidate = LeaseCandidate("a", lease_duration_s=15, renew_deadline_s=10)
    spec = b'{"leaseTransitions":2147483647}'
    candidate.on_read(decode_lease(b'{"metadata":{"resourceVersion":"1"},"spec":%b}' % spec), 0.0)
    decision = candidate.attempt(0.0, "2026-01-01T00:00:00.000000Z")
    assert decision.spec.lease_transitions == 2**31 - 1
