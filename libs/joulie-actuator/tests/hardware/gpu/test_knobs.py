"""What the knobs of a GPU ask of the driver, and what they make of its answers."""

import pytest

from joulie_actuator.hardware.gpu.knobs import GpuClockLimit, GpuPowerLimit
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.reasons import Reason

POWER = KnobLimits(200_000, 700_000)
CLOCKS = KnobLimits(210, 1980)
NOT_PERMITTED = HardwareFailure(Reason.NOT_PERMITTED, "insufficient permissions")
LOST = HardwareFailure(Reason.DEVICE_LOST, "GPU is lost")


class Driver:
    """Records the calls; answers are set by a test."""

    def __init__(self):
        self.calls = []
        self.limit = 600_000
        self.clock = None
        self.refusal = self.taken = None

    def limit_mw(self, uuid):
        self.calls.append(("limit", uuid))
        return self.limit

    def set_limit_mw(self, uuid, limit_mw):
        self.calls.append(("set limit", uuid, limit_mw))
        return self.refusal

    def clock_limit_mhz(self, uuid):
        self.calls.append(("clock", uuid))
        return self.clock

    def written_clock_mhz(self, uuid, before):
        self.calls.append(("written", uuid, before))
        return before + 1

    def check_clock_is_free(self, uuid):
        self.calls.append(("is free", uuid))
        return self.taken

    def set_clock_mhz(self, uuid, limits, limit_mhz):
        self.calls.append(("set clock", uuid, limits, limit_mhz))
        return self.refusal or self.clock


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def power(driver):
    return GpuPowerLimit(driver, "GPU-a", POWER)


@pytest.fixture
def clock(driver):
    return GpuClockLimit(driver, "GPU-a", CLOCKS, 1200)


def test_knobs_are_limits_of_their_unit_and_known_by_the_uuid(power, clock):
    assert (power.key, power.unit, power.kind) == ("gpu/GPU-a/power_limit_mw", "mW", KnobKind.LIMIT)
    assert (clock.key, clock.unit, clock.kind) == ("gpu/GPU-a/graphics_clock_mhz", "MHz", KnobKind.LIMIT)


def test_a_power_limit_is_set_and_read_back(power, driver):
    assert power.write(500_000) == 600_000, "what the driver has kept"
    assert driver.calls == [("set limit", "GPU-a", 500_000), ("limit", "GPU-a")]


def test_a_power_limit_that_is_refused_is_not_read_back(power, driver):
    driver.refusal = NOT_PERMITTED
    assert power.write(500_000) is NOT_PERMITTED
    assert driver.calls == [("set limit", "GPU-a", 500_000)]


@pytest.mark.parametrize("answer", [600_000, LOST])
def test_a_power_limit_is_read_as_the_driver_answers(answer, power, driver):
    driver.limit = answer
    assert power.read() == answer
    assert driver.calls == [("limit", "GPU-a")]


@pytest.mark.parametrize(("answer", "remembered"), [(None, True), (1200, False), (LOST, False)])
def test_a_clock_limit_is_remembered_where_the_driver_does_not_report_it(answer, remembered, clock, driver):
    driver.clock = answer
    assert clock.is_remembered is remembered
    assert driver.calls == [("clock", "GPU-a")]


@pytest.mark.parametrize(
    ("taken", "between"), [(None, False), (HardwareFailure(Reason.REFUSED, "manual"), True), (LOST, False)]
)
def test_a_write_of_a_clock_limit_may_have_been_cut_off_where_the_clock_is_not_free(taken, between, clock, driver):
    driver.taken = taken
    assert clock.is_between() is between
    assert driver.calls == [("is free", "GPU-a")]


@pytest.mark.parametrize("answer", [900, LOST])
def test_a_clock_limit_that_the_driver_reports_is_read_from_it(answer, clock, driver):
    driver.clock = answer
    assert clock.read() == answer
    assert driver.calls == [("clock", "GPU-a")]


def test_a_clock_limit_that_the_driver_does_not_report_is_the_one_written_last(clock, driver):
    assert clock.read() == 1201
    assert driver.calls == [("clock", "GPU-a"), ("written", "GPU-a", 1200)]


@pytest.mark.parametrize("reported", [None, 885, 900, 925, LOST])
def test_a_clock_limit_is_set_and_read_back(reported, clock, driver):
    driver.clock = reported
    assert clock.write(900) == (900 if reported is None else reported)
    assert driver.calls == [("set clock", "GPU-a", CLOCKS, 900)]


def test_a_clock_limit_that_is_refused_is_not_tried_again(clock, driver):
    driver.refusal = NOT_PERMITTED
    assert clock.write(900) is NOT_PERMITTED
    assert driver.calls == [("set clock", "GPU-a", CLOCKS, 900)]


def test_a_clock_limit_that_the_driver_reports_too_high_is_reset_at_once(clock, driver):
    driver.clock = 926
    answer = clock.write(900)
    assert driver.calls == [
        ("set clock", "GPU-a", CLOCKS, 900),
        ("set clock", "GPU-a", CLOCKS, 1980),
    ]
    assert answer.reason is Reason.NO_INTERFACE
    assert answer.message == (
        "gpu/GPU-a/graphics_clock_mhz: reads 926 MHz where 900 MHz was written, and cannot be recognised"
    )
