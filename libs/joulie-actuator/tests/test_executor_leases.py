"""Two clients of one subsystem with a lease each, the end of an executor, and what it tells of itself."""

import threading
from dataclasses import dataclass, field

import pytest

from joulie_actuator import executor as module
from joulie_actuator import results
from joulie_actuator.executor import OVERDUE_S, RETRY_S, SubsystemExecutor
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.watch import AbandonedCall, Watch
from joulie_actuator.log import Level
from joulie_actuator.protocol import LeaseKind, ReadCpu, Restore, SetCpuCap, SetCpuClasses, Subsystem, lease_of
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply, RestoreReport, SubsystemHealth

#: A caller that waits without end fails.
pytestmark = pytest.mark.timeout(60)
RESTORE = Restore(subsystem=Subsystem.CPU)


@dataclass
class Limit:
    key: str
    value: int = 200
    #: How many writes fail before one succeeds.
    failing: int = 0
    kind: KnobKind = KnobKind.LIMIT
    unit: str = "W"
    limits: KnobLimits = field(default_factory=lambda: KnobLimits(50, 300))

    def read(self):
        return self.value

    def write(self, value):
        if self.failing:
            self.failing -= 1
            return HardwareFailure(Reason.IO_ERROR, "stuck")
        self.value = value
        return value


@dataclass
class Handler:
    """Sets one limit for the controller and one for the resource manager."""

    writer: JournaledWriter | HardwareFailure
    limits: dict[LeaseKind, Limit] = field(
        default_factory=lambda: {kind: Limit(kind) for kind in (LeaseKind.POWER, LeaseKind.CLASSES)}
    )
    attempts: int = 0
    #: Attempts to restore wait for it.
    released: threading.Event = field(default_factory=threading.Event)
    attempted: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self):
        self.released.set()

    def execute(self, request):
        if not isinstance(request, ReadCpu):
            self.writer.set(self.limits[lease_of(request)], 100)
        return RestoreReport(knobs=())

    def restore(self, keys):
        self.attempts += 1
        self.attempted.set()
        self.released.wait()
        return RestoreReport(
            knobs=results.restore(self.writer, keys, {each.key: each for each in self.limits.values()})
        )

    def keep(self, leases):
        return self.restore(frozenset(limit.key for kind, limit in self.limits.items() if kind not in leases))

    @property
    def values(self):
        return [limit.value for limit in self.limits.values()]


@pytest.fixture
def handler(writer):
    return Handler(writer)


@pytest.fixture
def executor(handler, events, clock):
    made = SubsystemExecutor(Subsystem.CPU, handler, events, clock=clock)
    yield made
    handler.released.set()
    made.stop(0)
    made.close()


def cap(lease_s=60.0):
    return SetCpuCap(cap_watts_per_package=90, lease_s=lease_s)


def classes(lease_s=60.0):
    return SetCpuClasses(classes={}, lease_s=lease_s)


def test_what_one_client_holds_stays_when_the_lease_of_the_other_expires(executor, handler, clock, events):
    executor.execute(cap(60))
    executor.execute(classes(100))
    clock.now += 59
    assert executor.check() == 1
    assert handler.values == [100, 100]
    clock.now += 1
    assert executor.check() == 40
    assert handler.values == [200, 100]
    clock.now += 40
    assert executor.check() is None
    assert handler.values == [200, 200]
    assert [line["cause"] for line in events.named("restored")] == ["lease expired"] * 2


def test_a_client_that_renews_too_late_ends_the_lease_of_the_other_and_keeps_its_own(executor, handler, clock):
    executor.execute(cap(60))
    executor.execute(classes(60))
    clock.now += 60
    executor.execute(classes(60))
    assert handler.values == [200, 100]
    assert executor.check() == 60


def test_a_reading_ends_leases_that_have_expired_where_others_stay(executor, handler, clock):
    executor.execute(cap(60))
    executor.execute(classes(100))
    clock.now += 60
    executor.execute(ReadCpu())
    assert handler.values == [200, 100]


def test_a_restore_that_keeps_classes_restores_the_rest(executor, handler, events):
    executor.execute(cap())
    executor.execute(classes())
    report = executor.execute(Restore(subsystem=Subsystem.CPU, keep_classes=True))
    assert [knob.key for knob in report.knobs] == [LeaseKind.POWER]
    assert handler.values == [200, 100]
    assert executor.check() == 60
    assert [line["cause"] for line in events.named("restored")] == ["requested"]


def test_a_restore_that_keeps_classes_restores_everything_where_none_is_held(executor, handler):
    executor.execute(cap())
    report = executor.execute(Restore(subsystem=Subsystem.CPU, keep_classes=True))
    assert [knob.key for knob in report.knobs] == [LeaseKind.POWER]
    assert executor.check() is None


def test_a_restore_of_everything_ends_all_leases(executor, handler):
    executor.execute(cap())
    executor.execute(classes())
    assert len(executor.execute(RESTORE).knobs) == 2
    assert handler.values == [200, 200]
    assert executor.check() is None


def test_what_a_restore_has_left_is_tried_again_at_the_next_look_and_then_every_15_s(executor, handler, clock, events):
    executor.execute(cap())
    handler.limits[LeaseKind.POWER].failing = 3
    (left,) = executor.execute(RESTORE).left
    assert (left.reason, left.message) == (Reason.IO_ERROR, "stuck")
    assert executor.check() == RETRY_S
    clock.now += RETRY_S - 1
    assert executor.check() == 1
    assert handler.attempts == 2
    clock.now += 1
    assert executor.check() == RETRY_S
    clock.now += RETRY_S
    assert executor.check() is None
    assert handler.attempts == 4
    (first,) = events.named("restore incomplete")
    assert first["left"] == {"power": "IoError: stuck"}
    (restored,) = events.named("restored")
    assert (restored["restored"], restored["left"], restored["subsystem"]) == (1, {}, Subsystem.CPU)
    assert [(event, level) for event, level, _ in events.lines] == [
        ("restore incomplete", Level.WARNING),
        ("restored", Level.INFO),
    ]


def test_an_external_value_that_was_left_in_place_is_named(executor, handler, clock, events):
    executor.execute(cap())
    handler.limits[LeaseKind.POWER].value = 70
    clock.now += 60
    assert executor.check() is None
    (line,) = events.named("restored")
    assert (line["kept"], line["restored"]) == (["power"], 0)
    assert handler.values == [70, 200]


def test_nothing_is_logged_where_nothing_was_to_be_restored(executor, events):
    executor.execute(RESTORE)
    assert events.lines == []


def test_stopping_tries_again_until_its_deadline(executor, handler, clock, monkeypatch, events):
    monkeypatch.setattr(module, "RETRY_AT_END_S", 0.01)
    executor.execute(cap())
    handler.limits[LeaseKind.POWER].failing = 2
    assert executor.stop(clock.now + 10) is True
    assert (handler.values, handler.attempts) == ([200, 200], 3)
    assert events.named("restored")[0]["cause"] == "stopping"
    assert executor.execute(cap()) == ErrorReply(message="the actuator is stopping and restores everything")


def test_stopping_tries_once_where_its_deadline_has_passed(executor, handler, clock):
    executor.execute(cap())
    handler.limits[LeaseKind.POWER].failing = 1
    assert executor.stop(clock.now) is False
    assert handler.attempts == 1


def test_an_executor_that_was_not_started_enforces_no_lease(executor):
    assert executor.health() == SubsystemHealth(problem="the lease thread has ended")


def test_a_lease_thread_that_hangs_for_more_than_a_minute_is_a_problem(executor, handler, clock):
    handler.released.clear()
    handler.writer.set(handler.limits[LeaseKind.POWER], 100)
    executor.start()
    assert handler.attempted.wait(30)
    clock.now += OVERDUE_S
    assert executor.health() == SubsystemHealth(problem=None)
    clock.now += 1
    assert executor.health() == SubsystemHealth(problem="the lease thread is 61 s late")


def test_a_journal_that_cannot_be_used_is_told(executor, handler):
    handler.writer = HardwareFailure(Reason.NO_JOURNAL, "damaged")
    assert executor.health().degraded == ("damaged",)


def test_files_that_block_are_told_with_their_time(handler, events, clock):
    watch, blocked, released = Watch(clock=clock), threading.Event(), threading.Event()

    def block():
        blocked.set()
        released.wait()

    def call():
        watch.attach()
        with pytest.raises(AbandonedCall):
            watch.call("/sys/a", block)

    caller = threading.Thread(target=call)
    caller.start()
    assert blocked.wait(30)
    clock.now += 20
    assert watch.abandon_overdue() == "/sys/a"
    executor = SubsystemExecutor(Subsystem.CPU, handler, events, clock=clock, watch=watch)
    assert executor.health().degraded == ("/sys/a has blocked for 20 s",)
    released.set()
    caller.join()
