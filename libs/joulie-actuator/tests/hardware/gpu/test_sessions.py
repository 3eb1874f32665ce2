"""What a driver asks its library for over the life of a session: opening, losing, reopening, clocks and descriptions.

Deadlines are far longer than any call here, so that nothing depends on how busy the machine is.
"""

import pytest

from joulie_actuator.hardware.gpu.clock_state import ClockBound, ClockState
from joulie_actuator.hardware.gpu.device_calls import DeviceCalls, GpuDeadlines
from joulie_actuator.hardware.gpu.driver import DeviceReading, GpuDeviceInfo, JournaledClock, Vendor
from joulie_actuator.hardware.gpu.knobs import GpuClockLimit
from joulie_actuator.hardware.gpu.library import Extent, LibraryError
from joulie_actuator.hardware.gpu.library_driver import REOPEN_FOR_LOST_S, LibraryDriver
from joulie_actuator.hardware.knob import HardwareFailure, KnobLimits
from joulie_actuator.reasons import Reason

DEADLINES = GpuDeadlines(open_wait_s=100.0, device_open_s=100.0, call_s=100.0, crowded_call_s=100.0)
CLOCKS = KnobLimits(210, 1980)
GONE = LibraryError(Reason.DEVICE_LOST, "lost", Extent.DEVICE)
UNLOADED = LibraryError(Reason.NO_INTERFACE, "unloaded", Extent.DRIVER)
BUSY = LibraryError(Reason.IO_ERROR, "busy")


class Library:
    """Records the calls; `failures` has errors by call, or by call and GPU."""

    name = "nvml"
    vendor = Vendor.NVIDIA

    def __init__(self, *uuids):
        self.uuids = list(uuids)
        self.calls = []
        self.failures = {}
        self.figures = {"lowest_mhz": 210, "highest_mhz": 1980, "max_mw": 700_000, "min_mw": 200_000}
        self.clock_mhz = None
        self.state = ClockState(1980, ClockBound.NONE)

    def _answer(self, name, *arguments, answer=None):
        self.calls.append((name, *arguments))
        for key in (name, (name, *arguments[:1])):
            if key in self.failures:
                raise self.failures[key]
        return answer

    def open(self):
        self._answer("open")

    def close(self):
        self._answer("close")

    def count(self):
        return self._answer("count", answer=len(self.uuids))

    def handle(self, index):
        return self._answer("handle", index, answer=self.uuids[index])

    def uuid(self, handle):
        return self._answer("uuid", handle, answer=handle)

    def describe(self, handle, uuid, index):
        return self._answer(
            "describe", handle, uuid, index, answer=GpuDeviceInfo(uuid, index, self.vendor, **self.figures)
        )

    def power_mw(self, handle):
        return self._answer("power", handle, answer=90_000)

    def energy_mj(self, handle):
        return self._answer("energy", handle, answer=5_000_000)

    def limit_mw(self, handle):
        return self._answer("limit", handle, answer=600_000)

    def enforced_mw(self, handle):
        return self._answer("enforced", handle, answer=500_000)

    def clock_state(self, handle):
        return self._answer("clock state", handle, answer=self.state)

    def set_limit_mw(self, handle, limit_mw):
        self._answer("set limit", handle, limit_mw)

    def check_clock_is_free(self, handle):
        self._answer("is clock free", handle)

    def clock_limit_mhz(self, handle):
        return self._answer("clock", handle, answer=self.clock_mhz)

    def limit_clock(self, handle, lowest_mhz, limit_mhz):
        self._answer("limit clock", handle, lowest_mhz, limit_mhz)

    def release_clock(self, handle, highest_mhz):
        self._answer("release clock", handle, highest_mhz)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def library():
    return Library("a", "b")


@pytest.fixture
def driver(library, clock):
    """A driver that knows its GPUs; the calls of that are not among the library's."""
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    driver.devices()
    library.calls.clear()
    yield driver
    driver.close()


OPENING = [("open",), ("count",), ("handle", 0), ("uuid", "a"), ("handle", 1), ("uuid", "b")]


def test_a_driver_is_named_as_its_library_and_counts_its_openings(driver):
    assert (driver.name, driver.generation) == ("nvml", 1)
    driver.close()
    assert driver.generation == 1
    assert driver.open() is None
    assert driver.generation == 2


def test_opening_lists_the_gpus_once_and_closing_disconnects_once(library, clock):
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    driver.close()
    assert library.calls == []
    assert driver.open() is driver.open() is None
    assert library.calls == OPENING
    driver.close()
    driver.close()
    assert library.calls == [*OPENING, ("close",)]


def test_a_library_that_does_not_open_is_told_and_is_not_counted(library, clock):
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    library.failures["open"] = UNLOADED
    assert driver.open() == UNLOADED.failure
    assert driver.devices() == UNLOADED.failure
    assert driver.generation == 0
    assert library.calls.count(("open",)) == 2, "each call tries once"


def test_a_driver_that_is_gone_is_opened_once_more_and_the_call_repeated(driver, library):
    library.failures["power"] = UNLOADED
    assert driver.read("a") == UNLOADED.failure
    assert library.calls == [("power", "a"), ("close",), *OPENING, ("power", "a"), ("close",)]
    library.calls.clear()
    library.failures.clear()
    assert driver.read("a") == DeviceReading(90_000, 600_000, clock_bound=ClockBound.NONE, clock_mhz=1980)
    assert library.calls == [*OPENING, ("power", "a"), ("limit", "a"), ("clock state", "a")]


@pytest.mark.parametrize("call", ["handle", "uuid"])
def test_a_driver_that_goes_while_its_gpus_are_listed_is_opened_once_more(call, library, clock):
    library.failures[call, 1 if call == "handle" else "b"] = UNLOADED
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    assert driver.devices() == HardwareFailure(Reason.NO_INTERFACE, "unloaded")
    assert driver.generation == 0


def test_a_gpu_is_read_in_full_and_each_figure_fails_alone(driver, library):
    library.failures["power"] = BUSY
    busy = HardwareFailure(Reason.IO_ERROR, "busy")
    assert driver.read("b") == DeviceReading(busy, 600_000, clock_bound=ClockBound.NONE, clock_mhz=1980)
    assert library.calls == [("power", "b"), ("limit", "b"), ("clock state", "b")]
    library.failures = {"limit": BUSY}
    assert driver.read("b") == DeviceReading(90_000, busy, clock_bound=ClockBound.NONE, clock_mhz=1980)
    library.failures = {"clock state": BUSY}
    assert driver.read("b") == DeviceReading(90_000, 600_000, clock_bound=ClockBound.UNKNOWN)


def test_a_clock_limit_is_read_with_the_rest_where_one_is_journaled(driver, library):
    journaled = JournaledClock(1980, 1200)
    assert driver.read("a", journaled).clock_limit_mhz == 1200, "what was written last, as the journal has it"
    assert library.calls == [("power", "a"), ("limit", "a"), ("clock", "a"), ("clock state", "a")]
    library.clock_mhz = 900
    assert driver.read("a", journaled).clock_limit_mhz == 900
    library.failures["clock"] = BUSY
    assert driver.read("a", journaled).clock_limit_mhz == HardwareFailure(Reason.IO_ERROR, "busy")
    library.failures["clock"] = GONE
    assert driver.read("a", journaled) == HardwareFailure(Reason.DEVICE_LOST, "GPU 0: lost")


@pytest.mark.parametrize(
    ("act", "call", "answer"),
    [
        (lambda driver: driver.enforced_mw("b"), ("enforced", "b"), 500_000),
        (lambda driver: driver.limit_mw("b"), ("limit", "b"), 600_000),
        (lambda driver: driver.set_limit_mw("b", 400_000), ("set limit", "b", 400_000), None),
        (lambda driver: driver.check_clock_is_free("b"), ("is clock free", "b"), None),
        (lambda driver: driver.clock_limit_mhz("b"), ("clock", "b"), None),
    ],
    ids=["enforced", "limit", "set", "is free", "clock"],
)
def test_each_call_asks_the_library_once_and_its_error_names_the_gpu(act, call, answer, driver, library):
    assert act(driver) == answer
    assert library.calls == [call]
    library.failures[call[0]] = BUSY
    assert act(driver) == HardwareFailure(Reason.IO_ERROR, "GPU 1: busy")


@pytest.mark.parametrize(
    ("limit_mhz", "call"),
    [
        (1979, ("limit clock", "b", 210, 1979)),
        (1980, ("release clock", "b", 1980)),
        (2000, ("release clock", "b", 1980)),
    ],
    ids=["limited", "its highest", "more than its highest"],
)
def test_a_clock_limit_is_set_and_read_back_in_one_hand_over(limit_mhz, call, driver, library, monkeypatch):
    handed_over, run = [], DeviceCalls.call
    monkeypatch.setattr(DeviceCalls, "call", lambda *arguments: handed_over.append(arguments) or run(*arguments))
    for reported in (None, 900):
        library.clock_mhz, library.calls = reported, []
        assert driver.set_clock_mhz("b", CLOCKS, limit_mhz) == reported
        assert library.calls == [call, ("clock", "b")]
    assert len(handed_over) == 2
    assert driver.written_clock_mhz("b", 1500) == limit_mhz
    for failing in ("clock", call[0]):
        library.failures = {failing: BUSY}
        assert driver.set_clock_mhz("b", CLOCKS, limit_mhz) == HardwareFailure(Reason.IO_ERROR, "GPU 1: busy")


def test_the_clock_limit_written_last_is_remembered_for_each_gpu_alone(driver, library):
    driver.set_clock_mhz("a", CLOCKS, 1200)
    assert [driver.written_clock_mhz(uuid, 1500) for uuid in ("a", "b")] == [1200, 1500]
    library.failures["limit clock"] = BUSY
    driver.set_clock_mhz("a", CLOCKS, 900)
    assert driver.written_clock_mhz("a", 1500) == 1200, "nothing was written"


@pytest.mark.parametrize(("limit_mhz", "remembered"), [(900, 900), (1980, 1200)])
def test_a_clock_limit_that_timed_out_may_land_and_its_end_may_not_have(limit_mhz, remembered, driver, library):
    driver.set_clock_mhz("a", CLOCKS, 1200)
    late = LibraryError(Reason.TIMEOUT, "late")
    library.failures |= {"limit clock": late, "release clock": late}
    assert driver.set_clock_mhz("a", CLOCKS, limit_mhz).reason is Reason.TIMEOUT
    assert driver.written_clock_mhz("a", 1500) == remembered


def test_the_knob_of_a_power_limit_has_the_gpus_own_range(driver, library):
    knob = driver.power_limit("b")
    assert (knob.uuid, knob.limits, library.calls) == ("b", KnobLimits(200_000, 700_000), [])
    assert knob.write(400_000) == 600_000
    assert library.calls == [("set limit", "b", 400_000), ("limit", "b")]


def test_a_knob_of_a_gpu_that_is_not_known_yet_is_described_first(library, clock):
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    assert driver.power_limit("b").limits == KnobLimits(200_000, 700_000)
    assert driver.power_limit("c") == HardwareFailure(Reason.NO_DEVICE, "nvml lists no GPU c")
    driver.close()
    library.failures["open"] = UNLOADED
    assert driver.power_limit("c") == UNLOADED.failure


def test_without_a_range_there_is_no_power_limit(library, clock):
    library.figures |= {"max_mw": None, "model": "H100"}
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    assert driver.power_limit("a") == HardwareFailure(Reason.NO_INTERFACE, "nvml offers no power limit for H100 a")


def clock_knob(driver, journaled=None):
    knob = driver.clock_limit("a", journaled)
    assert isinstance(knob, GpuClockLimit)
    return knob.uuid, knob.limits, knob.remembered_mhz


def test_the_knob_of_a_clock_limit_has_the_gpus_own_range_and_remembers_its_highest_clock(driver, library):
    assert clock_knob(driver) == ("a", CLOCKS, 1980)
    assert clock_knob(driver, JournaledClock(1980, 1200)) == ("a", CLOCKS, 1200)
    assert library.calls == []


def test_the_highest_clock_is_the_highest_ever_seen_since_a_limit_may_hide_it(driver, library):
    assert clock_knob(driver, JournaledClock(2100, 1200)) == ("a", KnobLimits(210, 2100), 1200)
    assert clock_knob(driver) == ("a", KnobLimits(210, 2100), 2100), "and stays"
    library.figures["highest_mhz"] = 2200
    driver.devices()
    assert clock_knob(driver)[1] == KnobLimits(210, 2200)
    library.figures["highest_mhz"] = None
    driver.devices()
    assert clock_knob(driver)[1] == KnobLimits(210, 2200)


@pytest.mark.parametrize("figures", [{"lowest_mhz": None}, {"highest_mhz": None}])
def test_without_a_range_there_is_no_clock_limit(figures, library, clock):
    library.figures |= {"model": "H100"} | figures
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    assert driver.clock_limit("a") == HardwareFailure(Reason.NO_DEVICE, "nvml lists no GPU a"), "not described yet"
    driver.devices()
    assert driver.clock_limit("a") == HardwareFailure(Reason.NO_INTERFACE, "nvml offers no clock limit for H100 a")


def test_the_gpus_are_described_in_the_drivers_order_with_those_that_do_not_answer(library, clock):
    library.uuids = ["a", "b", "c"]
    library.failures["uuid", "a"] = BUSY
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    assert [(info.index, info.uuid, info.vendor, info.failure) for info in driver.devices()] == [
        (0, "", Vendor.NVIDIA, HardwareFailure(Reason.IO_ERROR, "GPU 0: busy")),
        (1, "b", Vendor.NVIDIA, None),
        (2, "c", Vendor.NVIDIA, None),
    ]
    assert [call for call in library.calls if call[0] == "describe"] == [
        ("describe", "b", "b", 1),
        ("describe", "c", "c", 2),
    ]


def test_a_gpu_that_cannot_be_described_has_its_last_description_or_none(library, clock):
    library.failures["describe", "b"] = BUSY
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    failure = HardwareFailure(Reason.IO_ERROR, "GPU 1: busy")
    assert driver.devices()[1] == GpuDeviceInfo("b", 1, Vendor.NVIDIA, failure=failure)
    library.failures.clear()
    driver.devices()
    library.failures["describe", "b"] = BUSY
    assert driver.devices()[1] == GpuDeviceInfo("b", 1, Vendor.NVIDIA, failure=failure, **library.figures)


def test_of_partitions_with_one_uuid_the_first_stands_for_all(library, clock):
    library.uuids = ["a", "a", "b"]
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    assert [(info.index, info.uuid) for info in driver.devices()] == [(0, "a"), (2, "b")]


def test_a_lost_gpu_is_not_asked_again_until_the_library_is_opened_again(driver, library, clock):
    library.failures["power", "a"] = GONE
    failure = HardwareFailure(Reason.DEVICE_LOST, "GPU 0: lost")
    assert driver.read("a") == failure
    library.calls.clear()
    assert driver.read("a") == driver.limit_mw("a") == failure
    assert library.calls == []
    assert driver.limit_mw("b") == 600_000, "its neighbour is asked without opening anything"
    assert library.calls == [("limit", "b")]
    library.failures.clear()
    library.calls.clear()
    clock.now += REOPEN_FOR_LOST_S - 0.001
    assert driver.limit_mw("a") == failure
    clock.now += 0.001
    assert driver.limit_mw("a") == 600_000
    assert library.calls == [("close",), *OPENING, ("limit", "a")]
    assert driver.generation == 2


def test_a_gpu_that_failed_while_the_library_was_opened_is_looked_for_again(library, clock):
    library.failures["handle", 1] = BUSY
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    driver.devices()
    library.failures.clear()
    clock.now += REOPEN_FOR_LOST_S
    assert [info.uuid for info in driver.devices()] == ["a", "b"]
    assert driver.generation == 2


def test_a_gpu_that_timed_out_while_the_library_was_opened_is_tried_by_every_call(library, clock):
    library.failures["handle", 1] = LibraryError(Reason.TIMEOUT, "late")
    driver = LibraryDriver(library, deadlines=DEADLINES, clock=clock)
    assert driver.devices()[1].failure == HardwareFailure(Reason.TIMEOUT, "GPU 1: late")
    clock.now += REOPEN_FOR_LOST_S
    library.calls.clear()
    driver.devices()
    assert ("open",) not in library.calls, "opening again does not bring it back"
    library.failures.clear()
    assert driver.limit_mw("b") == 600_000
    assert [info.uuid for info in driver.devices()] == ["a", "b"]
    assert driver.generation == 1


def test_a_gpu_that_is_no_longer_listed_is_lost_and_one_that_never_was_is_unknown(driver, library):
    driver.close()
    library.uuids = ["b"]
    assert driver.limit_mw("a") == HardwareFailure(Reason.DEVICE_LOST, "nvml no longer lists the GPU a")
    assert driver.limit_mw("c") == HardwareFailure(Reason.NO_DEVICE, "nvml lists no GPU c")


def test_a_gpu_that_is_not_there_when_it_is_read_with_a_clock_is_told(driver):
    failure = HardwareFailure(Reason.NO_DEVICE, "nvml lists no GPU c")
    assert driver.read("c", JournaledClock(1980, 1200)) == failure


def test_a_clock_at_the_managed_limit_is_bound_by_it_whether_the_library_reads_limits_or_not(driver, library):
    library.state = ClockState(1190, ClockBound.NONE)
    journaled = JournaledClock(1980, 1200)
    assert driver.read("a", journaled).clock_bound is ClockBound.CLOCK_LIMIT
    assert driver.read("a").clock_bound is ClockBound.NONE
    library.clock_mhz = 1500
    assert driver.read("a", journaled).clock_bound is ClockBound.NONE, "the limit is 1500 MHz now"
    library.failures["clock"] = BUSY
    assert driver.read("a", journaled).clock_bound is ClockBound.NONE, "the limit is not known"
