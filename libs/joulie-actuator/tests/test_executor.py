import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.executor import RETRY_S, SubsystemExecutor
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import ReadCpu, Restore, SetCpuCap, SetThrottle, Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply, RestoreReport
from joulie_testing.agent.fake_sysfs import FileFault


def cap(watts, lease_s=60.0):
    return SetCpuCap(cap_watts_per_package=watts, lease_s=lease_s)


@pytest.fixture
def bench(cpu_bench):
    return cpu_bench()


@pytest.fixture
def executor(bench, events, clock):
    return SubsystemExecutor(Subsystem.CPU, bench.handler, events, clock=clock)


def test_what_is_in_force_is_restored_when_the_lease_expires(bench, executor, clock, events):
    executor.execute(cap(90))
    clock.now += 59
    assert executor.check() == 1
    assert bench.limits_watts == [90, 90]
    clock.now += 1
    assert executor.check() is None
    assert bench.limits_watts == [150, 150]
    assert events.named("restored")[0]["cause"] == "lease expired"


def test_asking_again_renews_and_reading_does_not(bench, executor, clock):
    executor.execute(cap(90))
    clock.now += 59
    executor.execute(cap(90))
    clock.now += 59
    executor.execute(ReadCpu())
    executor.check()
    assert bench.limits_watts == [90, 90]
    clock.now += 1
    executor.check()
    assert bench.limits_watts == [150, 150]


def test_a_cap_that_was_refused_renews_too_so_that_the_rest_stays(bench, executor, clock):
    executor.execute(SetThrottle(throttle_pct=100, lease_s=60))
    clock.now += 59
    bench.machine.faults |= {path: FileFault(write_errno=5) for path in bench.machine.limits()}
    executor.execute(cap(90))
    clock.now += 59
    executor.check()
    assert set(bench.policies_khz) == {1_500_000}


def test_what_a_predecessor_left_is_restored_before_the_first_request(bench, executor, events):
    bench.handler.execute(cap(90))
    executor.check()
    assert bench.limits_watts == [150, 150]
    assert events.named("restored")[0]["cause"] == "left by a predecessor"


def test_the_first_request_comes_after_the_restore_of_what_a_predecessor_left(bench, executor):
    bench.handler.execute(SetThrottle(throttle_pct=100, lease_s=60))
    executor.execute(cap(90))
    assert set(bench.policies_khz) == {3_900_000}
    assert bench.limits_watts == [90, 90]


def test_a_failed_restore_is_retried_while_other_knobs_are_leased(bench, executor, clock):
    bench.handler.execute(SetThrottle(throttle_pct=100, lease_s=60))
    stuck = bench.machine.policy_limits()[0]
    bench.machine.faults[stuck] = FileFault(write_errno=5)
    executor.check()
    assert bench.policies_khz.count(1_500_000) == 1
    executor.execute(cap(90, lease_s=3600))
    del bench.machine.faults[stuck]
    assert executor.check() == RETRY_S
    clock.now += RETRY_S
    executor.check()
    assert set(bench.policies_khz) == {3_900_000}
    assert bench.limits_watts == [90, 90]


def test_a_failed_restore_is_logged_once_and_not_at_every_attempt(bench, executor, clock, events):
    executor.execute(cap(90))
    for path in bench.machine.limits():
        bench.machine.faults[path] = FileFault(write_errno=5)
    for _ in range(5):
        clock.now += 60
        executor.check()
    assert len(events.named("restore incomplete")) == 1


def test_restoring_ends_the_lease(bench, executor):
    executor.execute(cap(90))
    report = executor.execute(Restore(subsystem=Subsystem.CPU))
    assert isinstance(report, RestoreReport)
    assert bench.limits_watts == [150, 150]
    assert executor.check() is None


def test_a_subsystem_without_a_journal_never_reports_that_nothing_is_left(bench, executor):
    bench.handler.writer = HardwareFailure(Reason.NO_JOURNAL, "damaged")
    assert executor.execute(Restore(subsystem=Subsystem.CPU)) == ErrorReply(message="damaged")
    assert executor.check() is None
    assert not executor.stop(0)


def test_ending_restores_and_takes_no_more_requests(bench, executor, clock):
    executor.execute(cap(90))
    assert executor.stop(clock.now + 10)
    assert bench.limits_watts == [150, 150]
    assert isinstance(executor.execute(cap(90)), ErrorReply)
    assert bench.limits_watts == [150, 150]


def test_stopping_reports_what_could_not_be_restored_in_time(bench, executor, clock):
    executor.execute(cap(90))
    bench.machine.faults[bench.machine.limits()[0]] = FileFault(write_errno=5)
    assert not executor.stop(clock.now)
    assert bench.limits_watts == [90, 150]


def test_the_lease_thread_restores_in_real_time_and_ends_with_the_executor(bench, events):
    restored = threading.Event()

    def log(event, /, **details):
        events(event, **details)
        if event == "restored":
            restored.set()

    executor = SubsystemExecutor(Subsystem.CPU, bench.handler, log)
    executor.start()
    executor.execute(cap(90, lease_s=0.05))
    assert restored.wait(10)
    assert bench.limits_watts == [150, 150]
    assert executor.stop(0)


@dataclass
class Watched:
    """The CPUs, with a count of the attempts to restore, so that a test waits for one instead of for time."""

    handler: CpuHandler
    #: Called before each attempt with how many there have been.
    before: Callable[[int], None] = lambda _attempts: None
    attempts: int = 0
    attempted: threading.Condition = field(default_factory=threading.Condition)

    @property
    def writer(self):
        return self.handler.writer

    def execute(self, request):
        return self.handler.execute(request)

    def restore(self, keys):
        self.before(self.attempts)
        report = self.handler.restore(keys)
        with self.attempted:
            self.attempts += 1
            self.attempted.notify_all()
        return report

    def keep(self, leases):
        return self.handler.keep(leases)

    def until(self, attempts):
        with self.attempted:
            assert self.attempted.wait_for(lambda: self.attempts >= attempts, 10), "no attempt was made"


@pytest.fixture
def watched(bench):
    return Watched(bench.handler)


@pytest.fixture
def watched_executor(watched, events, clock):
    executor = SubsystemExecutor(Subsystem.CPU, watched, events, clock=clock)
    yield executor
    executor.stop(0)


def start_and_sleep(executor, monkeypatch):
    """Start the lease thread and return once it sleeps: it holds the turn from its look at what is due until then."""
    looked, check = threading.Event(), executor.check

    def look():
        wait_s = check()
        looked.set()
        return wait_s

    monkeypatch.setattr(executor, "check", look)
    executor.start()
    assert looked.wait(10)


def test_what_a_failed_restore_left_is_retried_at_once(bench, watched, watched_executor, monkeypatch):
    stuck = bench.machine.policy_limits()[0]
    watched.before = lambda attempts: bench.machine.faults.pop(stuck) if attempts == 1 else None
    watched_executor.execute(SetThrottle(throttle_pct=100, lease_s=3600))
    start_and_sleep(watched_executor, monkeypatch)
    bench.machine.faults[stuck] = FileFault(write_errno=5)
    assert watched_executor.execute(Restore(subsystem=Subsystem.CPU)).left
    watched.until(2)
    assert set(bench.policies_khz) == {3_900_000}


def test_what_a_lifted_throttle_could_not_restore_is_tried_again_at_once(bench, watched, watched_executor, monkeypatch):
    stuck = bench.machine.policy_limits()[0]
    watched.before = lambda _: bench.machine.faults.clear()
    watched_executor.execute(SetThrottle(throttle_pct=100, lease_s=3600))
    start_and_sleep(watched_executor, monkeypatch)
    bench.machine.faults[stuck] = FileFault(write_errno=5)
    watched_executor.execute(SetThrottle(throttle_pct=0, lease_s=3600))
    watched.until(1)
    assert set(bench.policies_khz) == {3_900_000}


def test_a_failing_restore_is_retried_every_15_s_and_not_at_every_request(bench, watched, watched_executor, clock):
    watched_executor.execute(SetThrottle(throttle_pct=100, lease_s=3600))
    bench.machine.faults[bench.machine.policy_limits()[0]] = FileFault(write_errno=5)
    watched_executor.execute(Restore(subsystem=Subsystem.CPU))
    assert watched_executor.check() == RETRY_S
    assert watched.attempts == 2
    for _ in range(3):
        watched_executor.execute(ReadCpu())
        assert watched_executor.check() == RETRY_S
    assert watched.attempts == 2
    clock.now += RETRY_S
    watched_executor.check()
    assert watched.attempts == 3


def test_what_is_newly_left_is_tried_at_once_though_something_else_waits_for_its_next_attempt(bench, executor):
    executor.execute(SetThrottle(throttle_pct=100, lease_s=3600))
    first, second = bench.machine.policy_limits()[:2]
    bench.machine.faults[first] = FileFault(write_errno=5)
    executor.execute(Restore(subsystem=Subsystem.CPU))
    assert executor.check() == RETRY_S
    executor.execute(SetThrottle(throttle_pct=100, lease_s=3600))
    bench.machine.faults |= {second: FileFault(write_errno=5)}
    executor.execute(SetThrottle(throttle_pct=0, lease_s=3600))
    del bench.machine.faults[second]
    executor.check()
    assert bench.policies_khz.count(1_500_000) == 1


class Failing(Watched):
    def execute(self, request):
        super().execute(request)
        raise ZeroDivisionError


def test_an_exception_after_a_write_leaves_a_lease(bench, events, clock):
    executor = SubsystemExecutor(Subsystem.CPU, Failing(bench.handler), events, clock=clock)
    with pytest.raises(ZeroDivisionError):
        executor.execute(cap(90))
    assert bench.limits_watts == [90, 90]
    assert executor.check() == 60
    clock.now += 60
    assert executor.check() is None
    assert bench.limits_watts == [150, 150]
