"""Calls that hang: refused in time, then at once, and none of them begun too late."""

import threading
import time

import pytest

from joulie_actuator.hardware.deadline import DeadlineWorker
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason

SHORT_S = 0.05
LONG_S = 20.0


class Hang:
    """A call that hangs until it is released."""

    def __init__(self):
        self.begun = threading.Event()
        self.released = threading.Event()
        self.returned = threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.released.wait(LONG_S)
        self.returned.set()
        return "late"


@pytest.fixture
def hang():
    hang = Hang()
    yield hang
    hang.released.set()


@pytest.fixture
def worker():
    worker = DeadlineWorker("nvml")
    yield worker
    worker.stop()


def timed_out(answer):
    return isinstance(answer, HardwareFailure) and answer.reason is Reason.TIMEOUT


def wait_until(condition):
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_an_answer_is_returned(worker):
    assert worker.call(lambda: 42, LONG_S) == 42
    assert worker.hanging() is None


def test_what_a_call_raises_is_raised_in_the_caller_even_a_timeout_of_its_own(worker):
    for error in (ValueError("broken"), TimeoutError("its own")):

        def fail(error=error):
            raise error

        with pytest.raises(type(error), match=str(error)):
            worker.call(fail, LONG_S)


def test_all_calls_are_made_by_one_thread_that_does_not_hold_up_the_end_of_the_process(worker):
    threads = {worker.call(threading.current_thread, LONG_S) for _ in range(3)}
    (thread,) = threads
    assert thread is not threading.current_thread()
    assert (thread.daemon, thread.name) == (True, "nvml-calls")


def test_a_hung_call_is_refused_at_its_deadline_and_later_ones_at_once(worker, hang):
    answer = worker.call(hang, SHORT_S)
    assert answer == HardwareFailure(Reason.TIMEOUT, "nvml: a call did not return within 0.05 s")
    began = time.monotonic()
    later = worker.call(lambda: 42, LONG_S)
    assert time.monotonic() - began < LONG_S / 2
    assert timed_out(later)
    assert "has not returned for" in later.message


def test_the_age_of_a_hang_is_in_the_message():
    now = [100.0]
    worker, hang = DeadlineWorker("nvml", clock=lambda: now[0]), Hang()
    worker.call(hang, SHORT_S)
    now[0] += SHORT_S
    assert worker.hanging() is None, "its deadline ends only now"
    now[0] += 75
    answer = worker.hanging()
    hang.released.set()
    assert answer == HardwareFailure(Reason.TIMEOUT, "nvml: a call has not returned for 75 s")


def test_once_the_driver_returns_calls_are_made_again(worker, hang):
    worker.call(hang, SHORT_S)
    hang.released.set()
    wait_until(lambda: worker.hanging() is None)
    assert worker.call(lambda: 42, LONG_S) == 42


def test_a_call_that_could_not_begin_in_time_is_never_made(worker, hang):
    made = []
    first = threading.Thread(target=lambda: worker.call(hang, LONG_S))
    first.start()
    assert hang.begun.wait(LONG_S)
    answer = worker.call(lambda: made.append(1), SHORT_S)
    assert answer == HardwareFailure(Reason.TIMEOUT, "nvml: a call could not begin within 0.05 s")
    hang.released.set()
    first.join(LONG_S)
    assert worker.call(lambda: 42, LONG_S) == 42
    assert made == []


def test_a_stopped_worker_ends_its_thread_and_begins_another_at_the_next_call(worker):
    first = worker.call(threading.current_thread, LONG_S)
    worker.stop()
    first.join(LONG_S)
    assert not first.is_alive()
    assert worker.call(threading.current_thread, LONG_S) is not first
