"""Work of one subsystem in a thread that is replaced when a file blocks it."""

import errno
import threading

import pytest

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.watch import Watch
from joulie_actuator.reasons import Reason
from joulie_actuator.subsystem_thread import SubsystemThread

#: A caller that waits without end fails.
pytestmark = pytest.mark.timeout(20)
CALL_S = 0.05


class Files:
    """Files of which each read blocks until they are released, for longer than a call may take."""

    def __init__(self, watch, clock):
        self.watch, self.clock = watch, clock
        self.released = threading.Event()
        #: Threads that have begun to read a file.
        self.readers = []

    def read(self, path):
        return self.watch.call(path, self._block)

    def try_read(self, path):
        """Return what reading fails with."""
        try:
            return self.read(path)
        except OSError as error:
            return error.errno

    def _block(self):
        self.readers.append(threading.current_thread())
        self.clock.now += 2 * CALL_S
        self.released.wait()
        return "content"


@pytest.fixture
def watch(clock):
    return Watch(call_s=CALL_S, clock=clock)


@pytest.fixture
def thread(watch):
    made = SubsystemThread("cpu-work", watch)
    yield made
    made.stop()


@pytest.fixture
def files(watch, clock):
    made = Files(watch, clock)
    yield made
    made.released.set()


def test_work_runs_in_one_daemon_thread_of_that_name_and_its_result_is_returned(thread):
    first, second = thread.run(threading.current_thread), thread.run(threading.current_thread)
    assert first is second
    assert first is not threading.current_thread()
    assert (first.name, first.daemon) == ("cpu-work", True)


@pytest.mark.parametrize("error", [ZeroDivisionError("a defect"), KeyboardInterrupt()])
def test_what_work_raises_is_raised_in_the_caller_and_the_thread_goes_on(thread, error):
    def fail():
        raise error

    worker = thread.run(threading.current_thread)
    with pytest.raises(type(error)) as raised:
        thread.run(fail)
    assert raised.value is error
    assert thread.run(threading.current_thread) is worker


def test_work_that_takes_longer_than_a_file_may_is_waited_for(thread, clock):
    def work():
        clock.now += 2 * CALL_S
        return threading.Event().wait(2 * CALL_S)

    assert thread.run(work) is False


def test_a_file_that_blocks_costs_its_thread_and_the_work_is_repeated_without_it(thread, files):
    workers = []

    def work():
        workers.append(threading.current_thread())
        return files.try_read("/a"), files.try_read("/a")

    assert thread.run(work) == (errno.ETIMEDOUT, errno.ETIMEDOUT)
    assert len(set(workers)) == 2
    assert files.readers == workers[:1]


def test_a_thread_that_was_given_up_ends_when_its_file_returns_and_its_result_is_dropped(thread, files):
    after = []

    def work():
        content = files.try_read("/a")
        after.append(threading.current_thread())
        return content

    assert thread.run(work) == errno.ETIMEDOUT
    (given_up,) = files.readers
    files.released.set()
    given_up.join(10)
    assert not given_up.is_alive()
    assert given_up not in after
    assert thread.run(lambda: files.try_read("/a")) == "content"


def test_work_fails_as_a_whole_at_the_first_file_that_blocks_after_its_time(thread, files):
    begun = []

    def work():
        begun.append(1)
        return [files.try_read(f"/{number}") for number in range(100)]

    failure = thread.run(work, 0.0)
    assert failure == HardwareFailure(Reason.TIMEOUT, "/0 has blocked, as other files before")
    assert len(begun) == 1


def test_work_without_a_time_limit_is_done_however_many_files_block(thread, files):
    assert thread.run(lambda: [files.try_read(f"/{number}") for number in range(10)]) == [errno.ETIMEDOUT] * 10


def test_a_thread_that_was_stopped_has_ended_and_later_work_starts_another(thread):
    worker = thread.run(threading.current_thread)
    thread.stop()
    assert not worker.is_alive()
    again = thread.run(threading.current_thread)
    assert again is not worker


def test_a_thread_that_was_never_needed_can_be_stopped(thread):
    thread.stop()
    thread.stop()
    assert thread.run(lambda: 1) == 1


def test_without_a_thread_to_be_had_the_caller_does_the_work_and_the_next_work_gets_a_thread(thread, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert thread.run(threading.current_thread) is threading.current_thread()
    assert thread.run(threading.current_thread) is not threading.current_thread()


def test_a_caller_that_does_the_work_itself_may_do_so_after_a_thread_was_given_up(thread, files, monkeypatch):
    """The watch takes it for the worker: its calls do not end as those of an abandoned thread."""
    assert thread.run(lambda: files.try_read("/a"), 0.0).reason is Reason.TIMEOUT

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert thread.run(lambda: files.watch.call("/b", lambda: "content")) == "content"


def test_a_thread_without_a_watch_of_others_has_one_of_its_own():
    thread = SubsystemThread("gpu-work")
    assert thread.run(lambda: thread.watch.call("/a", lambda: "content")) == "content"
    assert thread.watch.blocked == {}
    thread.stop()
