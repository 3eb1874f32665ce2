"""AMD's driver with the real amdsmi, over a libamd_smi.so compiled here."""

import threading
import time
from contextlib import redirect_stdout

import pytest

from joulie_actuator.hardware.gpu import amdsmi
from joulie_actuator.reasons import Reason

FIRST = "e1ff74a1-0000-1000-8011-a1b2c3d4e501"
SECOND = "e1ff74a1-0000-1000-8011-a1b2c3d4e502"
THIRD = "e1ff74a1-0000-1000-8011-a1b2c3d4e503"
MI300X = {"min_mw": 0, "max_mw": 750_000, "default_mw": 750_000, "limit_mw": 750_000, "power_mw": 141_000}


@pytest.fixture
def state(hardware):
    hardware.state.add(FIRST, "AMD Instinct MI300X OAM", can_be_partitioned=1, **MI300X)
    hardware.state.add(SECOND, "AMD Instinct MI210", max_mw=300_000, default_mw=300_000, limit_mw=280_000)
    return hardware.state


@pytest.fixture
def drive(start_driver, amdsmi_folder, state):
    return start_driver("amdsmi", amdsmi_folder)


def test_every_gpu_is_described_with_the_limits_of_its_own(drive):
    first, second = drive("devices")
    assert first == {
        "uuid": FIRST,
        "index": 0,
        "vendor": "AMD",
        "model": "AMD Instinct MI300X OAM",
        "min_mw": 0,
        "max_mw": 750_000,
        "default_mw": 750_000,
        "current_mw": 750_000,
        "enforced_mw": 750_000,
        "lowest_mhz": 210,
        "highest_mhz": 1980,
        "partitioned": False,
        "partition_modes": ["SPX"],
        "pci_address": "",
        "minor": None,
        "partition_uuids": [],
        "partition_names": [],
        "failure": None,
    }
    assert (second["uuid"], second["max_mw"], second["current_mw"]) == (SECOND, 300_000, 280_000)
    assert (second["partitioned"], second["partition_modes"]) == (None, [])


def test_a_partitioned_gpu_has_the_mode(drive, state):
    state.gpus[0].partitioned = 1
    first = drive("devices")[0]
    assert (first["partitioned"], first["partition_modes"]) == (True, ["CPX"])


def test_partitions_that_share_a_uuid_are_one_gpu(drive, state):
    state.add(FIRST, "AMD Instinct MI300X OAM", no_power_limit=1)
    assert [each["uuid"] for each in drive("devices")] == [FIRST, SECOND]
    assert drive("write", FIRST, value=500_000) == 500_000


def test_a_cap_is_written_in_microwatts_and_read_back_in_milliwatts(drive, state):
    assert drive("write", FIRST, value=500_000) == 500_000
    assert drive("read", FIRST) == 500_000
    assert drive("enforced", FIRST) == 500_000
    assert state.gpus[0].limit_mw == 500_000


def test_amdgpu_keeps_whole_watts_and_the_knob_returns_what_it_kept(drive):
    assert drive("write", FIRST, value=450_700) == 450_000


def test_without_a_minimum_the_lowest_cap_is_a_quarter_of_the_highest(drive):
    assert drive("knob", FIRST)["low"] == 187_500


def test_power_is_in_whole_watts_and_absent_on_the_secondary_die_of_a_package(drive, state):
    assert drive("power", FIRST) == 141_000
    state.gpus[1].power_mw = 0
    assert drive.reason("power", SECOND) == Reason.NO_READING


def test_energy_is_in_millijoules_and_none_where_the_device_has_no_counter(drive, state):
    state.gpus[0].energy_low, state.gpus[0].energy_high = 10_000_000, 2
    assert drive("energy", FIRST) == ((2 << 32) + 10_000_000) * 153 // 10_000
    state.gpus[1].no_energy = 1
    assert drive("energy", SECOND) is None


def test_a_device_without_a_range_has_no_knob(drive, state):
    """As behind SR-IOV, where the library fills both ends with ones."""
    state.gpus[1].max_mw = 0
    second = drive("devices")[1]
    assert (second["min_mw"], second["max_mw"]) == (None, None)
    assert drive.reason("write", SECOND, value=250_000) == Reason.NO_INTERFACE


def test_a_device_without_a_power_cap_has_no_knob(drive, state):
    state.gpus[1].no_power_limit = 1
    assert drive("devices")[1]["max_mw"] is None
    assert drive.reason("read", SECOND) == Reason.NO_INTERFACE


def test_without_permission_reading_works_and_writing_is_refused(drive, state):
    state.may_set = 0
    assert drive.reason("write", FIRST, value=500_000) == Reason.NOT_PERMITTED
    assert drive("read", FIRST) == 750_000


def test_a_value_outside_the_range_is_refused_by_the_library(drive):
    assert drive.reason("write", SECOND, value=900_000) == Reason.OUT_OF_RANGE


def test_a_clock_limit_is_read_back_and_its_end_leaves_the_clocks_to_the_driver(drive, state):
    drive("devices")
    assert drive("limit_clock", FIRST, value=1200) == 1200
    assert drive("clock", FIRST) == state.gpus[0].lock_mhz == 1200
    assert drive("limit_clock", FIRST, value=1980) == 1980
    assert state.gpus[0].lock_mhz == 0


def test_clocks_in_a_performance_level_of_an_external_writer_are_not_free(drive, state):
    drive("devices")
    assert drive("clock_is_free", FIRST) is None
    state.gpus[0].lock_mhz = 1500
    assert drive.reason("clock_is_free", FIRST) == Reason.REFUSED


def test_a_lost_gpu_is_refused_and_its_neighbour_goes_on(drive, state):
    drive("devices")
    state.gpus[0].lost = 1
    assert drive.reason("write", FIRST, value=500_000) == Reason.DEVICE_LOST
    assert drive("write", SECOND, value=250_000) == 250_000
    lost, well = drive("devices")
    assert (lost["uuid"], lost["failure"]["reason"], well["failure"]) == (FIRST, Reason.DEVICE_LOST, None)


def test_a_driver_reload_is_survived_within_the_call(drive, state):
    assert drive("write", SECOND, value=250_000) == 250_000
    state.reload_driver()
    assert drive("read", SECOND) == 300_000
    assert drive("generation") == 2
    assert drive("write", SECOND, value=250_000) == 250_000


def test_while_the_driver_is_unloaded_calls_are_refused_and_afterwards_the_same_knob_works(drive, state):
    assert drive("write", FIRST, value=500_000) == 500_000
    state.loaded = 0
    assert drive.reason("read", FIRST) == Reason.NO_INTERFACE
    assert drive.reason("devices") == Reason.NO_INTERFACE
    state.reload_driver()
    state.loaded = 1
    assert drive("write", FIRST, value=500_000) == 500_000


def test_an_external_change_shows_in_the_next_read(drive, start_driver, amdsmi_folder):
    assert drive("write", FIRST, value=500_000) == 500_000
    assert start_driver("amdsmi", amdsmi_folder)("write", FIRST, value=600_000) == 600_000
    assert drive("read", FIRST) == 600_000


def test_a_hung_library_is_refused_in_time_and_answers_again_when_it_returns(start_driver, amdsmi_folder, state):
    drive = start_driver("amdsmi", amdsmi_folder, deadline_s=0.3)
    assert drive("read", FIRST) == 750_000
    state.hang = 1
    assert drive.reason("read", FIRST) == Reason.TIMEOUT
    assert "has not returned for" in drive("read", FIRST)["message"]
    state.hang = 0
    deadline = time.monotonic() + 20
    while drive("read", FIRST) != 750_000:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_machine_without_the_library_fails_without_importing_the_package(start_driver):
    drive = start_driver("amdsmi")
    answer = drive("devices")
    assert answer["reason"] == Reason.NO_INTERFACE
    assert "libamd_smi.so" in answer["message"]
    assert "amdsmi" not in drive("modules")


def test_a_library_of_another_version_is_refused_for_good_with_what_it_lacks(start_driver, old_amdsmi_folder, state):
    drive = start_driver("amdsmi", old_amdsmi_folder)
    for _ in range(2):
        answer = drive("devices")
        assert answer["reason"] == Reason.NO_INTERFACE
        assert "undefined symbol" in answer["message"]


def test_a_library_whose_structures_are_of_another_major_version_is_refused_for_good_with_both_versions(drive, state):
    """The functions are all there, and would fill structures of another shape."""
    state.lib_major, state.lib_minor = 27, 1
    for _ in range(2):
        answer = drive("devices")
        assert answer["reason"] == Reason.NO_INTERFACE
        assert "27.1" in answer["message"]
        assert "26" in answer["message"]
        assert "7.0.2" in answer["message"]
    assert (state.inits, state.shutdowns) == (1, 1), "and is shut down"


def test_a_library_of_a_later_minor_version_is_used(drive, state):
    state.lib_minor = 3
    assert drive("write", FIRST, value=500_000) == 500_000


def test_a_library_of_rocm_is_found_without_the_linker_knowing_it(start_driver, amdsmi_folder, state, tmp_path):
    (tmp_path / "rocm").mkdir()
    (tmp_path / "rocm/lib").symlink_to(amdsmi_folder)
    drive = start_driver("amdsmi", rocm=tmp_path / "rocm")
    assert drive("read", FIRST) == 750_000


def test_driving_gpus_takes_the_standard_library_and_the_vendors_package_only(drive):
    drive("devices")
    modules = set(drive("modules"))
    assert "amdsmi" in modules
    assert not modules & {"pydantic", "aiohttp", "structlog", "pynvml", "joulie_core", "joulie_api"}


def test_what_other_threads_log_while_the_package_is_imported_is_not_lost(capsys):
    output = amdsmi._ThreadOutput()
    with redirect_stdout(output):
        print("a warning of the package")
        other = threading.Thread(target=print, args=("a line of the log",))
        other.start()
        other.join()
    assert output.printed.getvalue() == "a warning of the package\n"
    assert capsys.readouterr().out == "a line of the log\n"


def test_the_reason_for_the_clock_is_what_has_risen_since_the_last_reading(drive, state):
    gpu = state.gpus[0]
    gpu.activity_pct, gpu.readings = 95, 1000
    assert drive("clock_bound", FIRST) == "unknown", "one reading tells nothing"
    gpu.readings = 1100
    assert drive("clock_bound", FIRST) == "none"
    gpu.readings, gpu.power_readings = 1200, 60
    assert drive("clock_bound", FIRST) == "power-limit"
    gpu.readings, gpu.thermal_readings = 1300, 7
    assert drive("clock_bound", FIRST) == "thermal"
    assert drive("clock_bound", FIRST) == "unknown", "the firmware has not read since"
    gpu.activity_pct, gpu.readings = 0, 1400
    assert drive("clock_bound", FIRST) == "idle"


@pytest.mark.parametrize(("throttled", "bound"), [(0, "none"), (1, "unknown")])
def test_an_older_gpu_tells_whether_it_is_throttled_and_not_why(throttled, bound, drive, state):
    state.gpus[1].activity_pct, state.gpus[1].power_readings = 95, throttled
    assert drive("clock_bound", SECOND) == bound


def test_a_clock_at_its_limit_is_bound_by_it(drive, state):
    state.gpus[1].activity_pct = 95
    assert drive("devices")
    drive("limit_clock", SECOND, value=1200)
    assert drive("clock_bound", SECOND, value=1980) == "clock-limit"
    state.gpus[1].clock_mhz = 1100
    assert drive("clock_bound", SECOND, value=1980) == "none"


def test_a_gpu_that_reports_no_metrics_has_an_unknown_bound(drive, state):
    state.gpus[0].no_clock_reasons = 1
    assert drive("clock_bound", FIRST) == "unknown"


def test_processes_are_listed_but_the_one_that_asks(drive, state):
    assert drive("processes", SECOND) == []
    state.gpus[1].use(compute=[4000, drive.process.pid, 17])
    assert drive("processes", SECOND) == [17, 4000]


def test_a_device_that_lists_no_processes_is_a_failure_and_not_unused(drive, state):
    state.gpus[1].no_processes = 1
    assert drive.reason("processes", SECOND) == Reason.NO_INTERFACE


@pytest.mark.parametrize("uuid", [FIRST, THIRD], ids=["one UUID", "UUIDs of their own"])
@pytest.mark.parametrize("in_first", [[], [17]], ids=["the first unused", "the first used"])
def test_the_processes_of_a_partitioned_gpu_are_not_known_by_those_of_its_first_partition(uuid, in_first, drive, state):
    state.gpus[0].use(compute=in_first)
    assert drive("processes", FIRST) == in_first
    state.gpus[0].bus, state.gpus[0].partitioned = 0x0C, 1
    second = state.add(uuid, "AMD Instinct MI300X OAM", can_be_partitioned=1, partitioned=1, bus=0x0C, partition=1)
    # The library lists this one for the second partition alone.
    second.use(compute=[18])
    assert drive.reason("processes", FIRST) == Reason.NO_READING


def test_the_partitions_of_a_gpu_differ_in_the_function_of_their_address(drive, state):
    state.gpus[0].bus, state.gpus[0].partitioned = 0x0C, 1
    state.add(THIRD, "AMD Instinct MI300X OAM", can_be_partitioned=1, partitioned=1, bus=0x0C, partition=1)
    assert [each["pci_address"] for each in drive("devices")] == ["0000:0c:00.0", "", "0000:0c:00.1"]


def test_a_process_whose_name_the_package_cannot_decode_is_a_failure(drive, state):
    state.gpus[1].use(compute=[17], draw=[1])
    assert drive.reason("processes", SECOND) == Reason.NO_READING
