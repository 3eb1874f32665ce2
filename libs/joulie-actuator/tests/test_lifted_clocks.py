"""Limits on clocks that end: the answer does not wait for the journal, which has it at once after that."""

import mmap
import os
import signal
import threading
from dataclasses import dataclass, field

import pytest

from joulie_actuator.executor import RETRY_S, SubsystemExecutor
from joulie_actuator.gpus import GpuHandler
from joulie_actuator.hardware.journal import Journal, peek
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.protocol import SetGpuClassClocks, Subsystem
from joulie_testing.agent.fake_gpu import FakeGpu, FakeGpuLibrary, fake_gpu_driver

#: A caller that waits without end fails.
pytestmark = pytest.mark.timeout(60)
FREE = 1980
KEY = "gpu/a/graphics_clock_mhz"
_WAIT_S = 20.0
_LIFTED, _NOT_LIFTED, _NOT_ANSWERED = b"lifted", b"not lifted", 3


def by_class(**mhz):
    return SetGpuClassClocks(clocks_mhz=mhz, lease_s=600)


class LastingGpu(FakeGpu):
    """A GPU whose clock outlives the process that sets it."""

    __slots__ = ("_shared",)

    @property
    def clock_mhz(self):
        return int.from_bytes(self._shared[:8], "big")

    @clock_mhz.setter
    def clock_mhz(self, mhz):
        if not hasattr(self, "_shared"):
            self._shared = mmap.mmap(-1, 8)
        self._shared[:8] = mhz.to_bytes(8, "big")


@dataclass
class Disk:
    """The journal's disk, which takes nothing until it is told to; a `Watch` for a journal."""

    waiting: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def call(self, _path, function, *arguments):
        self.waiting.set()
        assert self.released.wait(_WAIT_S)
        return function(*arguments)


class Actuator:
    """The GPUs of one process of the actuator."""

    def __init__(self, state, gpus, events, *, reports_clock, **options):
        driver, self.library = fake_gpu_driver(*gpus)
        self.library.reports_clock = reports_clock
        self.journal = Journal.open(state)
        handler = GpuHandler(drivers=[driver], writer=JournaledWriter(self.journal), clock=lambda: 0.0)
        self.executor = SubsystemExecutor(Subsystem.GPU, handler, events, **options)

    def close(self):
        self.executor.close()
        self.journal.close()


@pytest.fixture(params=[False, True], ids=["remembered", "reported"])
def reports_clock(request):
    """Whether the driver tells a limit on the clock."""
    return request.param


@pytest.fixture
def state(tmp_path):
    return tmp_path / "gpu"


@pytest.fixture
def gpus():
    return [LastingGpu("a"), LastingGpu("b")]


@pytest.fixture
def start(state, gpus, events, reports_clock):
    """Start an actuator, after the one before has ended."""
    running = []

    def started(**options):
        if running:
            running.pop().close()
        running.append(Actuator(state, gpus, events, reports_clock=reports_clock, **options))
        return running[-1]

    yield started
    for each in running:
        each.executor.stop(0.0)
        each.close()


def full(_file):
    raise OSError(28, "No space left on device")


def test_the_answer_comes_while_the_disk_of_the_journal_does_not(start, state, gpus):
    actuator = start()
    actuator.executor.start()
    actuator.executor.execute(by_class(a=1200, b=900))
    actuator.journal.watch = disk = Disk()
    done = actuator.executor.execute(by_class(b=900))
    assert (done.limits_mhz, done.failures, gpus[0].clock_mhz) == ({"b": 900}, {}, FREE)
    assert disk.waiting.wait(_WAIT_S), "nothing is written after the answer"
    assert KEY in peek(state)
    disk.released.set()
    actuator.executor.check()  # after what the lease thread does now
    assert peek(state).keys() == {"gpu/b/graphics_clock_mhz"}


def test_an_original_that_is_back_when_the_actuator_is_killed_before_the_record_stays(start, state, gpus, clock):
    _kill_between_answer_and_record(start, gpus)
    assert (gpus[0].clock_mhz, peek(state)[KEY].written) == (FREE, 1200), "it is limited by the journal alone"
    following = start(clock=clock)
    assert following.executor.check() is None
    assert ([each.clock_mhz for each in gpus], peek(state)) == ([FREE, FREE], {})


def test_a_clock_that_an_administrator_sets_after_such_a_kill_stays_where_the_driver_tells_it(start, gpus, clock):
    _kill_between_answer_and_record(start, gpus)
    gpus[0].clock_mhz = 1500
    following = start(clock=clock)
    following.executor.check()
    assert gpus[0].clock_mhz == (1500 if following.library.reports_clock else FREE)
    assert not following.journal.entries


def _kill_between_answer_and_record(start, gpus):
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _lift_until_killed(start(), gpus[0], telling)
        finally:
            os._exit(1)
    os.close(telling)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), os.WEXITSTATUS(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert os.read(told, 100) == _LIFTED
    os.close(told)


def _lift_until_killed(actuator, gpu, telling):
    answered = threading.Event()

    class Death:
        """A disk at whose first call the process is killed; it ends by itself where there is no answer before."""

        def call(self, _path, _function, *_arguments):
            if not answered.wait(_WAIT_S):
                os._exit(_NOT_ANSWERED)
            os.kill(os.getpid(), signal.SIGKILL)

    actuator.executor.start()
    actuator.executor.execute(by_class(a=1200))
    assert gpu.clock_mhz == 1200
    actuator.journal.watch = Death()
    done = actuator.executor.execute(by_class())
    os.write(telling, _LIFTED if (done.limits_mhz, gpu.clock_mhz) == ({}, FREE) else _NOT_LIFTED)
    answered.set()
    signal.pause()


@pytest.mark.parametrize("lifted", [False, True], ids=["first", "after a lift that is not recorded"])
def test_a_limit_is_set_after_the_journal_has_its_original(start, state, clock, monkeypatch, lifted):
    actuator, seen = start(clock=clock), []
    limit_clock = FakeGpuLibrary.limit_clock

    def spy(library, gpu, lowest_mhz, limit_mhz):
        seen.append((peek(state)[KEY].original, peek(state)[KEY].pending, limit_mhz))
        limit_clock(library, gpu, lowest_mhz, limit_mhz)

    if lifted:
        actuator.executor.execute(by_class(a=1200))
        actuator.executor.execute(by_class())
        assert KEY in peek(state)
    monkeypatch.setattr(FakeGpuLibrary, "limit_clock", spy)
    actuator.executor.execute(by_class(a=900))
    assert seen == [(FREE, 900, 900)]
    assert (peek(state)[KEY].original, peek(state)[KEY].written) == (FREE, 900)


def execute_unrecorded(executor, request, monkeypatch):
    """Carry out a request, and try to record it, on a disk that is full."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        executor.execute(request)
        executor.check()


def test_a_record_that_fails_is_told_once_and_tried_again(start, state, clock, events, monkeypatch):
    executor = start(clock=clock).executor
    executor.execute(by_class(a=1200))
    monkeypatch.setattr(os, "fsync", full)
    assert executor.execute(by_class()).limits_mhz == {}
    assert executor.check() == RETRY_S
    clock.now += RETRY_S
    assert executor.check() == RETRY_S
    (told,) = events.named("journal not written, tried again")
    assert (told["subsystem"], "No space left" in told["error"]) == ("gpu", True)
    assert "No space left" in executor.health().degraded[0]
    monkeypatch.undo()
    clock.now += RETRY_S - 1
    assert (executor.check(), KEY in peek(state)) == (1.0, True)
    clock.now += 1
    assert (executor.check(), peek(state), executor.health().degraded) == (None, {}, ())


def test_the_record_after_one_that_failed_is_made_at_once(start, state, clock, events, monkeypatch):
    executor = start(clock=clock).executor
    executor.execute(by_class(a=1200))
    execute_unrecorded(executor, by_class(), monkeypatch)
    executor.execute(by_class(a=1200))  # is recorded, and so is all that was not
    executor.check()
    executor.execute(by_class())
    assert (executor.check(), peek(state)) == (None, {})
    execute_unrecorded(executor, by_class(a=900), monkeypatch)
    assert len(events.named("journal not written, tried again")) == 2


def test_what_is_not_recorded_is_when_the_actuator_stops(start, state, clock, monkeypatch):
    executor = start(clock=clock).executor
    executor.execute(by_class(a=1200))
    execute_unrecorded(executor, by_class(), monkeypatch)
    assert KEY in peek(state)
    assert executor.stop(clock.now)
    assert peek(state) == {}
