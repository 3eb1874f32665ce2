"""Sessions and knobs over GPUs in memory: what happens between the calls, and after how long."""

import pytest

from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.gpu.library_driver import REOPEN_FOR_LOST_S, LibraryDriver
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, KnobLimits
from joulie_actuator.hardware.knob_results import RestoreOutcome, WrittenKnob
from joulie_actuator.reasons import Reason
from joulie_testing.agent.fake_gpu import FakeGpu, FakeGpuLibrary, fake_gpu_driver, power_mw


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def library():
    return FakeGpuLibrary([FakeGpu("GPU-a"), FakeGpu("GPU-b")])


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def driver(library, clock):
    return LibraryDriver(library, clock=clock)


def test_nothing_is_opened_before_the_first_call(driver, library):
    assert library.opened == driver.generation == 0
    assert power_mw(driver, "GPU-a") == 90_000
    assert library.opened == driver.generation == 1


def test_an_unknown_gpu_is_refused_by_name(driver):
    for answer in (power_mw(driver, "GPU-x"), driver.power_limit("GPU-x")):
        assert isinstance(answer, HardwareFailure)
        assert answer.reason is Reason.NO_DEVICE
        assert "GPU-x" in answer.message


def test_the_library_is_reopened_for_a_lost_gpu_but_not_often(driver, library, clock):
    driver.devices()
    library.gpus[0].lost = True
    assert isinstance(power_mw(driver, "GPU-a"), HardwareFailure)
    library.gpus[0].lost = False
    clock.now = REOPEN_FOR_LOST_S - 1
    assert isinstance(power_mw(driver, "GPU-a"), HardwareFailure)
    assert library.opened == 1
    clock.now = REOPEN_FOR_LOST_S
    assert power_mw(driver, "GPU-a") == 90_000
    assert library.opened == 2


def test_while_every_gpu_answers_the_library_stays_open(driver, library, clock):
    driver.devices()
    clock.now = 100 * REOPEN_FOR_LOST_S
    driver.devices()
    assert library.opened == 1


def test_a_gpu_that_came_back_under_another_index_is_the_same_gpu(driver, library):
    knob = driver.power_limit("GPU-a")
    library.gpus.reverse()
    library.reload()
    assert knob.write(300_000) == 300_000
    assert {gpu.uuid: gpu.limit_mw for gpu in library.gpus} == {"GPU-a": 300_000, "GPU-b": 700_000}


def test_a_gpu_that_is_gone_after_a_reload_is_lost_and_not_unknown(driver, library):
    driver.devices()
    del library.gpus[0]
    library.reload()
    answer = power_mw(driver, "GPU-a")
    assert isinstance(answer, HardwareFailure)
    assert answer.reason is Reason.DEVICE_LOST


def test_a_knob_without_a_range_is_refused(library, driver):
    library.gpus[0].max_mw = None
    answer = driver.power_limit("GPU-a")
    assert isinstance(answer, HardwareFailure)
    assert answer.reason is Reason.NO_INTERFACE


@pytest.mark.parametrize(
    ("low", "high", "limits"),
    [(200, 700, KnobLimits(200, 700)), (0, 700, KnobLimits(175, 700)), (None, 700, KnobLimits(175, 700))],
)
def test_limits_are_the_drivers_own_and_never_reach_down_to_zero(low, high, limits):
    assert GpuDeviceInfo("GPU-a", 0, Vendor.AMD, min_mw=low, max_mw=high).limits == limits


def test_no_maximum_means_no_limits():
    assert GpuDeviceInfo("GPU-a", 0, Vendor.AMD, min_mw=100).limits is None


def test_a_gpu_is_capped_and_restored(tmp_path):
    driver, library = fake_gpu_driver(FakeGpu("GPU-a", limit_mw=650_000))
    writer = JournaledWriter(Journal.open(tmp_path / "state", boot_id="boot"))
    knob = driver.power_limit("GPU-a")
    assert writer.set(knob, 400_000) == WrittenKnob(400_000, changed=True)
    assert [each.outcome for each in writer.restore([knob])] == [RestoreOutcome.RESTORED]
    assert library.gpus[0].limit_mw == 650_000


def test_a_cap_that_was_overwritten_is_set_again_and_counted(tmp_path):
    driver, library = fake_gpu_driver(FakeGpu("GPU-a"))
    writer = JournaledWriter(Journal.open(tmp_path / "state", boot_id="boot"))
    knob = driver.power_limit("GPU-a")
    writer.set(knob, 400_000)
    library.gpus[0].limit_mw = 550_000
    assert writer.set(knob, 400_000) == WrittenKnob(400_000, changed=True, overwrote=550_000)
    assert writer.overwritten[knob.key] == 1


def test_a_cap_is_set_again_after_a_driver_reload(tmp_path):
    driver, library = fake_gpu_driver(FakeGpu("GPU-a"))
    writer = JournaledWriter(Journal.open(tmp_path / "state", boot_id="boot"))
    knob = driver.power_limit("GPU-a")
    writer.set(knob, 400_000)
    library.reload()
    assert writer.set(knob, 400_000).changed
    assert library.gpus[0].limit_mw == 400_000
    assert driver.generation == 2


def test_a_limit_that_the_hardware_lowers_itself_is_not_an_external_value(tmp_path):
    driver, library = fake_gpu_driver(FakeGpu("GPU-a"))
    writer = JournaledWriter(Journal.open(tmp_path / "state", boot_id="boot"))
    knob = driver.power_limit("GPU-a")
    writer.set(knob, 600_000)
    library.gpus[0].imposed_mw = 450_000
    assert writer.set(knob, 600_000) == WrittenKnob(600_000, changed=False)
    assert driver.enforced_mw("GPU-a") == 450_000
