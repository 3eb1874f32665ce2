"""NVIDIA's driver with the real pynvml, over a libnvidia-ml.so.1 compiled here."""

import time
from typing import Any

import pytest

from joulie_actuator.reasons import Reason

FIRST = "GPU-8f6d2c11-0b3e-4a57-9c1d-2f4e6a8b0c01"
SECOND = "GPU-8f6d2c11-0b3e-4a57-9c1d-2f4e6a8b0c02"
LIBRARY_GONE = "no NVIDIA driver"


@pytest.fixture
def state(hardware):
    hardware.state.add(FIRST, "NVIDIA H100 80GB HBM3", can_be_partitioned=1)
    hardware.state.add(SECOND, "NVIDIA L40S", min_mw=100_000, max_mw=350_000, default_mw=350_000, limit_mw=300_000)
    return hardware.state


@pytest.fixture
def drive(start_driver, nvml_folder, state):
    return start_driver("nvml", nvml_folder)


def test_every_gpu_is_described_with_the_limits_of_its_own(drive):
    first, second = drive("devices")
    assert first == {
        "uuid": FIRST,
        "index": 0,
        "vendor": "NVIDIA",
        "model": "NVIDIA H100 80GB HBM3",
        "min_mw": 200_000,
        "max_mw": 700_000,
        "default_mw": 700_000,
        "current_mw": 700_000,
        "enforced_mw": 700_000,
        "lowest_mhz": 210,
        "highest_mhz": 1980,
        "partitioned": False,
        "partition_modes": ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"],
        "pci_address": "",
        "minor": None,
        "partition_uuids": [],
        "partition_names": [],
        "failure": None,
    }
    assert (second["min_mw"], second["max_mw"], second["default_mw"]) == (100_000, 350_000, 350_000)
    assert (second["current_mw"], second["partitioned"], second["partition_modes"]) == (300_000, None, [])


def test_a_gpu_in_mig_mode_is_partitioned_and_still_capped_as_a_whole(drive, state):
    state.gpus[0].partitioned = 1
    assert drive("devices")[0]["partitioned"] is True
    assert drive("write", FIRST, value=400_000) == 400_000


def test_a_limit_is_written_and_read_back_in_milliwatts(drive, state):
    assert drive("knob", FIRST) == {
        "key": f"gpu/{FIRST}/power_limit_mw",
        "unit": "mW",
        "low": 200_000,
        "high": 700_000,
        "rounding": 0,
    }
    assert drive("read", FIRST) == 700_000
    assert drive("write", FIRST, value=450_000) == 450_000
    assert drive("read", FIRST) == 450_000
    assert (state.gpus[0].limit_mw, state.gpus[1].limit_mw) == (450_000, 300_000)


def test_the_limit_in_force_is_distinguished_from_the_one_that_was_set(drive, state):
    state.gpus[0].imposed_mw = 500_000
    assert drive("write", FIRST, value=650_000) == 650_000
    assert drive("enforced", FIRST) == 500_000
    assert drive("devices")[0]["enforced_mw"] == 500_000


def test_energy_is_the_boards_counter_of_64_bits_and_none_where_it_has_none(drive, state):
    state.gpus[0].energy_low, state.gpus[0].energy_high = 5, 1
    assert drive("energy", FIRST) == (1 << 32) + 5
    state.gpus[1].no_energy = 1
    assert drive("energy", SECOND) is None


def test_power_is_what_the_board_draws(drive, state):
    state.gpus[1].power_mw = 123_456
    assert drive("power", SECOND) == 123_456


def test_identity_is_the_uuid_when_indices_have_changed(drive, state, start_driver, nvml_folder):
    assert drive("write", SECOND, value=200_000) == 200_000
    drive("close")
    uuids = (bytes(state.gpus[0].uuid), bytes(state.gpus[1].uuid))
    state.gpus[1].uuid, state.gpus[0].uuid = uuids
    state.gpus[0].limit_mw = 300_000
    assert drive("write", SECOND, value=250_000) == 250_000
    assert state.gpus[0].limit_mw == 250_000


def test_a_value_outside_the_range_is_refused_by_the_driver(drive, state):
    assert drive.reason("write", FIRST, value=900_000) == Reason.OUT_OF_RANGE
    assert state.gpus[0].limit_mw == 700_000


def test_without_permission_reading_works_and_writing_is_refused(drive, state):
    state.may_set = 0
    assert drive("read", FIRST) == 700_000
    assert drive.reason("write", FIRST, value=400_000) == Reason.NOT_PERMITTED
    assert state.gpus[0].limit_mw == 700_000
    assert drive("power", FIRST) == 90_000


def test_a_lost_gpu_is_refused_and_its_neighbour_goes_on(drive, state):
    drive("devices")
    state.gpus[0].lost = 1
    assert drive.reason("read", FIRST) == Reason.DEVICE_LOST
    assert drive.reason("write", FIRST, value=400_000) == Reason.DEVICE_LOST
    assert drive("write", SECOND, value=200_000) == 200_000
    lost, well = drive("devices")
    assert (lost["uuid"], lost["model"], lost["failure"]["reason"]) == (FIRST, "NVIDIA H100 80GB HBM3", "DeviceLost")
    assert well["failure"] is None
    assert state.shutdowns == 0, "the neighbour's limit might not survive that"


def test_a_gpu_that_was_lost_before_the_start_is_listed_without_a_uuid(drive, state):
    state.gpus[0].lost = 1
    lost, well = drive("devices")
    assert (lost["uuid"], lost["index"], lost["failure"]["reason"]) == ("", 0, Reason.DEVICE_LOST)
    assert well["uuid"] == SECOND
    assert drive.reason("read", FIRST) == Reason.NO_DEVICE


def test_a_driver_reload_is_survived_within_the_call_and_leaves_its_default_to_be_seen(drive, state):
    assert drive("write", FIRST, value=400_000) == 400_000
    assert drive("generation") == 1
    state.reload_driver()
    assert drive("read", FIRST) == 700_000
    assert drive("generation") == 2
    assert drive("write", FIRST, value=400_000) == 400_000
    assert state.gpus[0].limit_mw == 400_000


def test_while_the_driver_is_unloaded_calls_are_refused_and_afterwards_the_same_knob_works(drive, state):
    assert drive("write", FIRST, value=400_000) == 400_000
    state.loaded = 0
    for operation in ("read", "write", "power", "devices"):
        assert drive.reason(operation, FIRST, value=400_000) == Reason.NO_INTERFACE
    state.reload_driver()
    state.loaded = 1
    assert drive("read", FIRST) == 700_000
    assert drive("write", FIRST, value=400_000) == 400_000


def test_a_driver_of_another_version_than_the_library_requires_a_restart(drive, state):
    state.version_mismatch = 1
    answer = drive("devices")
    assert answer["reason"] == Reason.BACKEND_FAILED
    assert "restart" in answer["message"]


def test_an_external_change_shows_in_the_next_read(drive, start_driver, nvml_folder):
    assert drive("write", FIRST, value=400_000) == 400_000
    other = start_driver("nvml", nvml_folder)
    assert other("write", FIRST, value=550_000) == 550_000
    assert drive("read", FIRST) == 550_000


def test_a_hung_driver_is_refused_in_time_then_at_once_and_answers_again_when_it_returns(
    start_driver, nvml_folder, state
):
    drive = start_driver("nvml", nvml_folder, deadline_s=0.3)
    assert drive("read", FIRST) == 700_000
    state.hang = 1
    began = time.monotonic()
    assert drive.reason("read", FIRST) == Reason.TIMEOUT
    assert time.monotonic() - began < 5
    assert "has not returned for" in drive("power", FIRST)["message"]
    state.hang = 0
    _wait_until(lambda: drive("read", FIRST) == 700_000)


def test_a_write_that_hangs_may_still_land_and_the_next_read_shows_it(start_driver, nvml_folder, state):
    drive = start_driver("nvml", nvml_folder, deadline_s=0.3)
    drive("read", FIRST)
    state.hang = 2
    assert drive.reason("write", FIRST, value=400_000) == Reason.TIMEOUT
    assert state.gpus[0].limit_mw == 700_000
    state.hang = 0
    _wait_until(lambda: drive("read", FIRST) == 400_000)


def test_a_process_ends_while_its_driver_hangs(start_driver, nvml_folder, state):
    drive = start_driver("nvml", nvml_folder, deadline_s=0.3)
    drive("read", FIRST)
    state.hang = 1
    assert drive.reason("read", FIRST) == Reason.TIMEOUT
    drive.process.stdin.close()
    assert drive.process.wait(timeout=20) == 0


def test_a_gpu_without_a_power_limit_has_no_knob_and_its_power_is_read(drive, state):
    state.gpus[1].no_power_limit = 1
    second = drive("devices")[1]
    assert (second["min_mw"], second["max_mw"], second["current_mw"], second["failure"]) == (None, None, None, None)
    assert drive.reason("read", SECOND) == Reason.NO_INTERFACE
    assert drive("power", SECOND) == 90_000


def test_an_older_driver_lacks_the_enforced_limit_and_nothing_else(start_driver, old_nvml_folder, state):
    drive = start_driver("nvml", old_nvml_folder)
    assert drive("devices")[0]["enforced_mw"] is None
    assert drive.reason("enforced", FIRST) == Reason.NO_INTERFACE
    assert drive("write", FIRST, value=400_000) == 400_000


def test_a_clock_is_locked_up_to_a_limit_and_unlocked_at_its_highest(drive, state):
    drive("devices")
    assert drive("clock", FIRST) == 1980
    assert drive("limit_clock", FIRST, value=1200) == 1200
    assert (state.gpus[0].lock_mhz, state.gpus[1].lock_mhz) == (1200, 0)
    assert drive("clock", FIRST) == 1200
    assert drive("limit_clock", FIRST, value=1980) == 1980
    assert state.gpus[0].lock_mhz == 0


def test_a_gpu_without_clocks_has_no_clock_knob_and_is_still_capped(drive, state):
    state.gpus[0].highest_mhz = 0
    assert drive("devices")[0]["highest_mhz"] is None
    assert drive.reason("limit_clock", FIRST, value=1200) == Reason.NO_INTERFACE
    assert drive("write", FIRST, value=400_000) == 400_000


def test_locking_a_clock_needs_permission_and_a_gpu_that_can(drive, state):
    drive("devices")
    state.gpus[1].no_lock = 1
    assert drive.reason("limit_clock", SECOND, value=1200) == Reason.NO_INTERFACE
    state.may_set = 0
    assert drive.reason("limit_clock", FIRST, value=1200) == Reason.NOT_PERMITTED


def test_a_machine_without_the_driver_fails_without_importing_the_package(start_driver):
    drive = start_driver("nvml")
    answer = drive("devices")
    assert answer["reason"] == Reason.NO_INTERFACE
    assert LIBRARY_GONE in answer["message"]
    assert "pynvml" not in drive("modules")


def test_driving_gpus_takes_the_standard_library_and_the_vendors_package_only(drive):
    drive("devices")
    modules = set(drive("modules"))
    assert "pynvml" in modules
    assert not modules & {"pydantic", "aiohttp", "structlog", "amdsmi", "joulie_core", "joulie_api"}


def test_a_closed_driver_is_opened_again_by_the_next_call(drive, state):
    drive("devices")
    drive("close")
    assert (state.inits, state.shutdowns) == (1, 1)
    assert drive("read", FIRST) == 700_000
    assert state.inits == 2


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("reasons", "bound"),
    [(0x0, "none"), (0x1, "idle"), (0x4, "power-limit"), (0x20, "thermal"), (0x48, "thermal"), (0x2, "unknown")],
)
def test_the_reason_for_the_clock_is_that_of_the_moment(reasons, bound, drive, state):
    state.gpus[1].clock_reasons = reasons
    assert drive("clock_bound", SECOND) == bound
    assert drive("clock_bound", FIRST) == "none"


def test_a_clock_at_its_limit_is_bound_by_it(drive, state):
    assert drive("devices")
    drive("limit_clock", FIRST, value=1200)
    assert drive("clock_bound", FIRST, value=1200) == "clock-limit"
    state.gpus[0].clock_mhz = 1100
    assert drive("clock_bound", FIRST, value=1200) == "none"
    state.gpus[0].clock_reasons = 0x4
    assert drive("clock_bound", FIRST, value=1200) == "power-limit"


def test_a_gpu_that_reports_no_reasons_has_an_unknown_bound(drive, state):
    state.gpus[0].no_clock_reasons = 1
    assert drive("clock_bound", FIRST) == "unknown"


def test_an_older_driver_knows_the_reasons_by_their_older_name(start_driver, old_nvml_folder, state):
    state.gpus[0].clock_reasons = 0x4
    assert start_driver("nvml", old_nvml_folder)("clock_bound", FIRST) == "power-limit"


def test_processes_that_compute_and_that_draw_are_listed_once(drive, state):
    assert drive("processes", FIRST) == []
    state.gpus[0].use(compute=[4000, 17, 4_000_000_000], draw=[17, 900])
    assert drive("processes", FIRST) == [17, 900, 4000, 4_000_000_000]
    assert drive("processes", SECOND) == []


def test_a_gpu_that_lists_no_processes_is_a_failure_and_not_unused(drive, state):
    state.gpus[0].no_processes = 1
    assert drive.reason("processes", FIRST) == Reason.NO_INTERFACE
    state.gpus[0].no_processes, state.gpus[0].lost = 0, 1
    assert drive.reason("processes", FIRST) == Reason.DEVICE_LOST


def test_an_old_driver_that_lists_no_processes_is_a_failure(start_driver, old_nvml_folder, state):
    assert start_driver("nvml", old_nvml_folder).reason("processes", FIRST) == Reason.NO_INTERFACE
