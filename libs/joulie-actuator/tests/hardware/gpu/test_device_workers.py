"""Which thread makes which call of a vendor's library, within which deadline, and what happens while one hangs.

Threads are replaced by workers that run a call at once or hang as told, so that nothing depends on time; what they do
with real threads is in test_device_calls.py.
"""

import pytest

from joulie_actuator.hardware.gpu import device_calls
from joulie_actuator.hardware.gpu.device_calls import DeviceCalls, GpuDeadlines, OpenGpu
from joulie_actuator.hardware.gpu.library import Extent, LibraryError
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason

DEADLINES = GpuDeadlines(open_wait_s=3.0, device_open_s=10.0, call_s=5.0, crowded_call_s=0.5)
HUNG = HardwareFailure(Reason.TIMEOUT, "nvml: a call has not returned for 7 s")
BUSY = LibraryError(Reason.IO_ERROR, "busy")


class Worker:
    """Runs a call at once; `hangs` makes it fail, as `late` does once, while the call itself is made."""

    def __init__(self, name):
        self.name = name
        self.deadlines_s = []
        self.hangs = self.late = False
        self.stops = 0

    def call(self, function, deadline_s):
        if self.hangs:
            return HUNG
        self.deadlines_s.append(deadline_s)
        answer = function()
        return HUNG if self.late else answer

    def hanging(self):
        return HUNG if self.hangs else None

    def stop(self):
        self.stops += 1


class Library:
    """Records the calls; `failures` has errors by call, or by call and index."""

    name = "nvml"

    def __init__(self):
        self.calls = []
        self.failures = {}

    def _note(self, *call):
        self.calls.append(call)
        for key in (call[0], call):
            if key in self.failures:
                raise self.failures[key]

    def open(self):
        self._note("open")

    def close(self):
        self._note("close")

    def count(self):
        self._note("count")
        return 2

    def handle(self, index):
        self._note("handle", index)
        return f"handle {index}"

    def uuid(self, handle):
        self._note("uuid", handle)
        return f"GPU of {handle}"


@pytest.fixture
def workers(monkeypatch):
    """The workers in the order they were made: the driver's, then one for each device."""
    made = []

    def make(name):
        made.append(Worker(name))
        return made[-1]

    monkeypatch.setattr(device_calls, "DeadlineWorker", make)
    return made


@pytest.fixture
def library():
    return Library()


@pytest.fixture
def calls(library, workers):
    return DeviceCalls(library, DEADLINES)


@pytest.fixture
def opened(calls, library, workers):
    calls.open()
    library.calls.clear()
    for worker in workers:
        worker.deadlines_s.clear()
    return calls


def failure_of(act):
    with pytest.raises(LibraryError) as caught:
        act()
    return caught.value.failure, caught.value.extent


FIRST = OpenGpu(0, "GPU of handle 0", "handle 0")
SECOND = OpenGpu(1, "GPU of handle 1", "handle 1")
OPENING = [("open",), ("count",), *(call for i in (0, 1) for call in (("handle", i), ("uuid", f"handle {i}")))]


def test_opening_identifies_each_device_in_its_own_thread(calls, library, workers):
    calls.open()
    assert library.calls == OPENING
    assert [worker.deadlines_s for worker in workers] == [[3.0], [10.0], [10.0]]
    assert {worker.name for worker in workers} == {"nvml"}
    assert (calls.count(), calls.device(0), calls.device(1)) == (2, FIRST, SECOND)
    assert not calls.hanging


def test_what_is_open_is_not_opened_again(opened, library):
    opened.open()
    assert library.calls == []


@pytest.mark.parametrize("act", [lambda calls: calls.count(), lambda calls: calls.device(0)])
def test_before_it_is_opened_nothing_is_found(act, calls):
    assert failure_of(lambda: act(calls)) == (HardwareFailure(Reason.NO_INTERFACE, "nvml is not open"), Extent.CALL)


def test_a_library_that_fails_to_open_is_told_and_tried_again(calls, library):
    library.failures["open"] = BUSY
    assert failure_of(calls.open)[0] == BUSY.failure
    assert library.calls == [("open",)]
    library.failures.clear()
    calls.open()
    assert calls.count() == 2


def test_a_library_that_cannot_count_its_devices_is_closed_again(calls, library):
    library.failures["count"] = BUSY
    assert failure_of(calls.open)[0] == BUSY.failure
    assert library.calls == [("open",), ("count",), ("close",)]


def test_while_it_opens_the_caller_is_told_and_what_it_finds_late_is_there(calls, library, workers):
    workers[0].late = True
    expected = HardwareFailure(Reason.TIMEOUT, f"the driver is being opened: {HUNG.message}")
    assert failure_of(calls.open) == (expected, Extent.CALL)
    workers[0].late, workers[0].hangs = False, True
    calls.open()
    assert calls.count() == 2
    assert library.calls.count(("open",)) == 1


def test_a_driver_that_hangs_is_not_asked_to_open_again(calls, library, workers):
    workers[0].hangs = True
    assert failure_of(calls.open)[0].message == f"the driver is being opened: {HUNG.message}"
    assert library.calls == []
    assert calls.hanging


def test_a_device_that_fails_is_found_as_failed_and_not_tried_again(calls, library):
    library.failures["uuid", "handle 0"] = BUSY
    calls.open()
    library.calls.clear()
    assert failure_of(lambda: calls.device(0))[0] == BUSY.failure
    assert calls.device(1) == SECOND
    assert library.calls == []


def test_a_device_that_was_late_is_tried_again_by_its_own_thread(calls, library, workers):
    library.failures["handle", 0] = LibraryError(Reason.TIMEOUT, "late")
    calls.open()
    assert failure_of(lambda: calls.device(0))[0] == HardwareFailure(Reason.TIMEOUT, "late")
    library.failures.clear()
    library.calls.clear()
    assert calls.device(0) == calls.device(0) == FIRST
    assert library.calls == [("handle", 0), ("uuid", "handle 0")], "once it has answered it is known"
    assert workers[1].deadlines_s == [10.0, 5.0, 5.0]


def test_a_device_whose_thread_is_late_is_tried_again(opened, workers):
    opened.close()
    workers[1].late = True
    opened.open()
    assert failure_of(lambda: opened.device(0)) == (HUNG, Extent.CALL)
    workers[1].late = False
    assert opened.device(0) == FIRST


def test_a_call_is_made_with_the_handle_in_the_devices_thread(opened, workers):
    assert opened.call(SECOND, lambda handle: (handle, "read")) == ("handle 1", "read")
    assert [worker.deadlines_s for worker in workers] == [[], [], [5.0]]
    workers[2].late = True
    assert failure_of(lambda: opened.call(SECOND, lambda _: None)) == (HUNG, Extent.CALL)


@pytest.mark.parametrize(
    ("deadlines", "expected"),
    [(DEADLINES, 0.5), (GpuDeadlines(call_s=0.2, crowded_call_s=0.5), 0.2)],
)
@pytest.mark.parametrize("hanging", [0, 1])
def test_while_another_thread_hangs_the_deadline_is_the_shorter_one(deadlines, expected, hanging, library, workers):
    calls = DeviceCalls(library, deadlines)
    calls.open()
    workers[hanging].hangs = True
    assert calls.hanging
    calls.call(SECOND, lambda _: None)
    assert workers[2].deadlines_s[-1] == expected


def test_closing_closes_in_the_drivers_thread_and_ends_all_threads(opened, library, workers):
    opened.close()
    assert library.calls == [("close",)]
    assert [(worker.deadlines_s, worker.stops) for worker in workers] == [([5.0], 1), ([], 1), ([], 1)]
    assert failure_of(opened.count)[0].reason is Reason.NO_INTERFACE


def test_a_library_in_which_a_call_hangs_is_closed_before_it_is_opened_again(opened, library, workers):
    workers[1].hangs = True
    opened.close()
    assert library.calls == [], "that would free what the call uses"
    expected = HardwareFailure(Reason.TIMEOUT, "nvml is opened again as soon as an earlier call has returned")
    assert failure_of(opened.open) == (expected, Extent.CALL)
    assert library.calls == []
    workers[1].hangs = False
    opened.open()
    assert library.calls == [("close",), *OPENING]
    opened.open()
    assert len(library.calls) == 1 + len(OPENING)


def test_what_was_closed_is_not_closed_once_more_before_it_is_opened(opened, library):
    opened.close()
    opened.open()
    assert library.calls == [("close",), *OPENING]


def test_deadlines_are_those_of_a_driver_that_another_process_holds_open():
    assert GpuDeadlines() == GpuDeadlines(open_wait_s=3.0, device_open_s=10.0, call_s=5.0, crowded_call_s=0.5)
    assert device_calls.PATIENT_OPEN_WAIT_S == 60.0
