"""A thread that is in a call for too long is given up, and does nothing any more when the call returns."""

import errno
import os
import threading
from pathlib import Path

import pytest

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import OsCalls, SysfsTree
from joulie_actuator.hardware.watch import AbandonedCall, Watch, WatchedCalls
from joulie_actuator.reasons import Reason


class Blocking:
    """A call that returns when it is released."""

    def __init__(self):
        self.entered = threading.Event()
        self.returns = threading.Event()
        self.ended_as = None

    def __call__(self):
        self.entered.set()
        self.returns.wait()
        return "late"

    def run(self, watch, path):
        """Be a worker that makes this call in a thread of its own; returns the thread once it is in the call."""

        def work():
            watch.attach()
            try:
                self.ended_as = watch.call(path, self)
            except AbandonedCall as end:
                self.ended_as = end

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert self.entered.wait(10)
        return thread


@pytest.fixture
def clock():
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    return Clock()


def test_a_call_within_its_deadline_is_not_given_up(clock):
    watch, call = Watch(call_s=5, clock=clock), Blocking()
    thread = call.run(watch, "/sys/a")
    clock.now += 4
    assert watch.left_s() == 1
    assert watch.abandon_overdue() is None
    call.returns.set()
    thread.join(10)
    assert call.ended_as == "late"
    assert watch.blocked == {}


def test_a_thread_that_was_given_up_unwinds_and_frees_its_file(clock):
    watch, call = Watch(call_s=5, clock=clock), Blocking()
    thread = call.run(watch, "/sys/a")
    clock.now += 5
    assert watch.abandon_overdue() == "/sys/a"
    clock.now += 2
    assert watch.blocked == {"/sys/a": 7}
    watch.attach()
    with pytest.raises(TimeoutError) as raised:
        watch.call("/sys/a", lambda: 1)
    assert raised.value.strerror == "an earlier call has not returned for 7 s"
    assert watch.call("/sys/b", lambda: 2) == 2
    call.returns.set()
    thread.join(10)
    assert isinstance(call.ended_as, AbandonedCall)
    assert watch.call("/sys/a", lambda: 3) == 3


def test_a_thread_that_returns_before_another_is_hired_unwinds_too(clock):
    watch, call = Watch(call_s=5, clock=clock), Blocking()
    thread = call.run(watch, "/sys/a")
    clock.now += 5
    watch.abandon_overdue()
    call.returns.set()
    thread.join(10)
    assert isinstance(call.ended_as, AbandonedCall)


def test_the_deadline_shrinks_while_other_files_block(clock):
    watch, calls = Watch(call_s=5, clock=clock), []
    for number in range(9):
        call = Blocking()
        calls.append(call)
        call.run(watch, f"/sys/{number}")
        allowed_s = 5 if number == 0 else 0.5 if number < 8 else 0.05
        assert watch.left_s() == pytest.approx(allowed_s)
        clock.now += 5
        assert watch.abandon_overdue() == f"/sys/{number}"
    for call in calls:
        call.returns.set()


def test_a_deadline_that_is_short_already_does_not_grow_while_other_files_block(clock):
    watch, call = Watch(call_s=0.01, clock=clock), Blocking()
    call.run(watch, "/sys/a")
    clock.now += 1
    watch.abandon_overdue()
    watch.attach()
    assert watch.left_s() == 0.01
    call.returns.set()


def test_a_call_has_five_seconds_and_none_left_once_it_is_overdue(clock):
    watch, call = Watch(clock=clock), Blocking()
    watch.attach()
    assert watch.left_s() == 5
    thread = call.run(watch, "/sys/a")
    clock.now += 9
    assert watch.left_s() == 0
    call.returns.set()
    thread.join(10)
    assert watch.left_s() == 5


def test_no_more_threads_are_risked_than_a_limit(clock):
    watch, calls = Watch(call_s=5, clock=clock), [Blocking() for _ in range(256)]
    threads = []
    for number, call in enumerate(calls):
        watch.attach()
        watch.call("/sys/x", lambda: "tried")
        threads.append(call.run(watch, f"/sys/{number}"))
        clock.now += 5
        assert watch.abandon_overdue() == f"/sys/{number}"
    watch.attach()
    with pytest.raises(TimeoutError) as raised:
        watch.call("/sys/x", lambda: "tried")
    assert raised.value.strerror == "not tried, since 256 other files block"
    for call, thread in zip(calls, threads, strict=True):
        call.returns.set()
        thread.join(10)
    assert watch.call("/sys/x", lambda: "tried") == "tried"


def test_what_a_call_raises_is_raised(clock):
    watch = Watch(call_s=5, clock=clock)
    watch.attach()
    with pytest.raises(ZeroDivisionError):
        watch.call("/sys/a", lambda: 1 / 0)
    assert watch.left_s() == 5


def test_a_file_that_blocks_is_a_timeout_for_its_tree_and_leaves_no_handle_open(tmp_path, clock):
    (tmp_path / "a").write_text("5\n")
    os.mkfifo(tmp_path / "pipe")
    watch = Watch(call_s=5, clock=clock)
    tree = SysfsTree(tmp_path, WatchedCalls(OsCalls(), watch))
    entered = threading.Event()

    def work():
        watch.attach()
        entered.set()
        with pytest.raises(AbandonedCall):
            tree.read_int("pipe")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert entered.wait(10)
    while watch.left_s() == 5 and watch._call is None:
        pass  # until it has made its call
    clock.now += 5
    assert watch.abandon_overdue() == str(tmp_path / "pipe")
    watch.attach()
    for answer in (tree.read_int("pipe"), tree.write_int("pipe", 1), tree.probe_write("pipe")):
        assert isinstance(answer, HardwareFailure)
        assert answer.reason is Reason.TIMEOUT
        assert "has not returned" in answer.message
    assert tree.read_int("a") == 5
    handles = len(list(Path("/proc/self/fd").iterdir()))
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    os.close(writer)  # the abandoned call opens and reads: it ends with the file
    thread.join(10)
    assert not thread.is_alive()
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
    assert tree.write_int("a", 6) is None


def test_a_driver_that_gives_up_on_its_device_is_a_timeout(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("5\n")

    def fail(*_args):
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    monkeypatch.setattr(OsCalls, "read", fail)
    assert SysfsTree(tmp_path).read_int("a") == HardwareFailure(Reason.TIMEOUT, "a: Connection timed out")


def test_every_operation_of_a_tree_is_one_call_for_its_file(tmp_path):
    (tmp_path / "a").write_text("5\n")
    paths = []

    class Noting(Watch):
        def call(self, path, function, *args):
            paths.append(os.path.relpath(path, tmp_path))
            return super().call(path, function, *args)

    calls = WatchedCalls(OsCalls(), Noting())
    file = str(tmp_path / "a")
    assert calls.read(file) == b"5\n"
    calls.write(file, b"6\n")
    assert (calls.read(file), calls.check_writable(file)) == (b"6\n", None)
    assert (calls.entries(str(tmp_path)), calls.real(str(tmp_path / "b/../a"))) == (["a"], file)
    assert paths == ["a", "a", "a", "a", ".", "a"]


def test_the_path_of_a_file_that_blocks_stays_as_it_is(tmp_path, clock):
    watch, call = Watch(call_s=5, clock=clock), Blocking()
    path = f"{tmp_path}/b/../a"
    thread = call.run(watch, path)
    clock.now += 5
    watch.abandon_overdue()
    watch.attach()
    calls = WatchedCalls(OsCalls(), watch)
    assert calls.real(path) == path
    call.returns.set()
    thread.join(10)
    assert calls.real(path) == f"{tmp_path}/a"
