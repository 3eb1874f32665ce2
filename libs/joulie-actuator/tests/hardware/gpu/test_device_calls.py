"""Devices in memory that hang one by one, behind deadlines in real time; every wait is for a condition."""

import threading
import time

import pytest

from joulie_actuator.hardware.gpu.device_calls import GpuDeadlines
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason
from joulie_testing.agent.fake_gpu import FakeGpu, FakeGpuLibrary, power_mw

#: Well above the time that a loaded machine takes to start the thread of a GPU that answers.
SHORT_S = 0.2
LONG_S = 20.0


def timed_out(answer):
    return isinstance(answer, HardwareFailure) and answer.reason is Reason.TIMEOUT


def wait_until(condition):
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def library():
    library = FakeGpuLibrary([FakeGpu(f"GPU-{name}") for name in "abc"])
    yield library
    library.answering.set()
    for gpu in library.gpus:
        gpu.answering.set()


@pytest.fixture
def driver(library):
    driver = LibraryDriver(library, deadlines=GpuDeadlines(open_wait_s=LONG_S, device_open_s=SHORT_S, call_s=SHORT_S))
    yield driver
    driver.close()


def test_a_hung_gpu_is_refused_and_the_others_are_read_and_set(driver, library):
    driver.devices()
    library.gpus[0].answering.clear()
    assert timed_out(power_mw(driver, "GPU-a"))
    assert "has not returned for" in power_mw(driver, "GPU-a").message
    for uuid in ("GPU-b", "GPU-c"):
        assert power_mw(driver, uuid) == 90_000
        assert driver.power_limit(uuid).write(400_000) == 400_000
    described = driver.devices()
    assert [(info.uuid, info.failure and info.failure.reason) for info in described] == [
        ("GPU-a", Reason.TIMEOUT),
        ("GPU-b", None),
        ("GPU-c", None),
    ]


def test_a_gpu_that_returns_answers_again(driver, library):
    knob = driver.power_limit("GPU-a")
    library.gpus[0].answering.clear()
    assert timed_out(knob.write(400_000))
    library.gpus[0].answering.set()
    wait_until(lambda: knob.read() == 400_000)


def test_a_gpu_that_hangs_while_the_driver_is_opened_leaves_the_others_and_is_found_when_it_returns(driver, library):
    library.gpus[0].answering.clear()
    assert [(info.index, info.uuid) for info in driver.devices()] == [(0, ""), (1, "GPU-b"), (2, "GPU-c")]
    assert driver.power_limit("GPU-b").write(400_000) == 400_000
    library.gpus[0].answering.set()
    wait_until(lambda: power_mw(driver, "GPU-a") == 90_000)
    assert (library.opened, driver.generation) == (1, 1)


def test_a_hung_call_takes_one_thread_however_often_it_is_repeated(driver, library):

    driver.devices()
    before = threading.active_count()
    library.gpus[0].answering.clear()
    for _ in range(50):
        assert timed_out(power_mw(driver, "GPU-a"))
        assert power_mw(driver, "GPU-b") == 90_000
    assert threading.active_count() == before


def test_where_all_gpus_hang_only_the_first_is_waited_for_in_full(library):
    """The others get the short deadline: one full deadline for each would outlast the time that is left at the end."""
    deadlines = GpuDeadlines(open_wait_s=LONG_S, call_s=1.0, crowded_call_s=SHORT_S)
    driver = LibraryDriver(library, deadlines=deadlines)
    driver.devices()
    library.answering.clear()
    messages = [power_mw(driver, uuid).message for uuid in ("GPU-a", "GPU-b", "GPU-c")]
    assert [message.rpartition("within ")[2] for message in messages] == ["1 s", "0.2 s", "0.2 s"]


def test_while_a_driver_is_being_opened_calls_fail_at_once(library):
    driver = LibraryDriver(library, deadlines=GpuDeadlines(open_wait_s=SHORT_S))
    library.answering.clear()
    for _ in range(3):
        answer = driver.devices()
        assert timed_out(answer)
        assert "is being opened" in answer.message
    library.answering.set()
    wait_until(lambda: not isinstance(driver.devices(), HardwareFailure))
    assert (library.opened, driver.generation) == (1, 1), "what was found late is not looked for again"


def test_a_driver_that_fails_to_open_late_is_tried_again(library):
    driver = LibraryDriver(library, deadlines=GpuDeadlines(open_wait_s=SHORT_S))
    library.answering.clear()
    assert timed_out(driver.devices())
    library.loaded = False
    library.answering.set()
    wait_until(lambda: not timed_out(driver.devices()))
    assert driver.devices().reason is Reason.NO_INTERFACE
    library.loaded = True
    assert power_mw(driver, "GPU-a") == 90_000


def test_a_library_is_not_closed_during_a_call_that_hangs_and_is_opened_again_afterwards(driver, library):
    driver.devices()
    library.gpus[0].answering.clear()
    assert timed_out(power_mw(driver, "GPU-a"))
    driver.close()
    assert library.connected, "the hung call is still inside"
    assert timed_out(power_mw(driver, "GPU-b"))
    library.gpus[0].answering.set()
    wait_until(lambda: power_mw(driver, "GPU-b") == 90_000)
    assert library.opened == 2


def test_one_library_hangs_and_the_other_goes_on(driver, library):
    well = LibraryDriver(FakeGpuLibrary([FakeGpu("GPU-x")]))
    driver.devices()
    library.answering.clear()
    assert timed_out(driver.devices()[0].failure)
    assert power_mw(well, "GPU-x") == 90_000


def test_a_closed_driver_opens_again_at_the_next_call(driver, library):
    assert power_mw(driver, "GPU-a") == 90_000
    driver.close()
    assert power_mw(driver, "GPU-a") == 90_000
    assert (library.opened, driver.generation) == (2, 2)
