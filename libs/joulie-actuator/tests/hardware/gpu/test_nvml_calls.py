"""What NVML is asked and how its answers are understood, with a package in place of NVIDIA's that records the calls."""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import pytest

from joulie_actuator.hardware.gpu import nvml as nvml_module
from joulie_actuator.hardware.gpu.clock_state import ClockBound, ClockState
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.gpu.library import Extent, LibraryError
from joulie_actuator.hardware.gpu.nvml import NvmlLibrary
from joulie_actuator.reasons import Reason

NOT_SUPPORTED, INVALID_ARGUMENT, NO_PERMISSION, NOT_FOUND = 3, 2, 4, 6
GPU = "handle 0"


class NvmlError(Exception):
    """As pynvml's: the code is in `value`."""

    def __init__(self, value):
        super().__init__(f"code {value}")
        self.value = value


class Package(ModuleType):
    """pynvml: answers by the name of the function; an integer below 0 is the error of that code."""

    NVMLError = NvmlError
    NVML_GPU_INSTANCE_PROFILE_COUNT = 4
    NVML_CLOCK_GRAPHICS = 0

    def __init__(self):
        super().__init__("pynvml")
        self.calls = []
        self.failures = {}
        self.answers = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": GPU,
            "nvmlDeviceGetUUID": "GPU-a",
            "nvmlDeviceGetName": "NVIDIA H100",
            "nvmlDeviceGetPowerManagementLimitConstraints": (200_000, 700_000),
            "nvmlDeviceGetPowerManagementDefaultLimit": 650_000,
            "nvmlDeviceGetPowerManagementLimit": 600_000,
            "nvmlDeviceGetEnforcedPowerLimit": 500_000,
            "nvmlDeviceGetPowerUsage": 123_456,
            "nvmlDeviceGetTotalEnergyConsumption": 7_000_000_000,
            "nvmlDeviceSetPowerManagementLimit": None,
            "nvmlDeviceSetGpuLockedClocks": None,
            "nvmlDeviceResetGpuLockedClocks": None,
            "nvmlDeviceGetSupportedMemoryClocks": [405, 2619, 1593],
            "nvmlDeviceGetSupportedGraphicsClocks": [1980, 210, 900],
            "nvmlDeviceGetMigMode": (0, 1),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:C1:00.0"),
            "nvmlDeviceGetMinorNumber": 5,
            "nvmlDeviceGetMaxMigDeviceCount": 3,
            "nvmlDeviceGetClockInfo": 1755,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x20,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=5),
        }
        #: By place: the handle of a MIG device, which is its UUID too, or an error.
        self.mig_devices = {0: "MIG-a", 1: NOT_FOUND, 2: "MIG-b"}
        self.profiles = {0: "MIG 1g.10gb", 1: INVALID_ARGUMENT, 2: NOT_SUPPORTED, 3: "MIG 7g.80gb"}

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments):
            self.calls.append((name, *arguments))
            if name in self.failures:
                raise NvmlError(self.failures[name])
            if name == "nvmlDeviceGetGpuInstanceProfileInfo":
                answer = self.profiles[arguments[1]]
                if isinstance(answer, int):
                    raise NvmlError(answer)
                return SimpleNamespace(name=answer)
            if name == "nvmlDeviceGetMigDeviceHandleByIndex":
                answer = self.mig_devices[arguments[1]]
                if isinstance(answer, int):
                    raise NvmlError(answer)
                return answer
            if name == "nvmlDeviceGetUUID" and arguments[0] in self.mig_devices.values():
                return arguments[0]
            return self.answers[name]

        return call


@pytest.fixture
def package(monkeypatch):
    package = Package()
    monkeypatch.setitem(sys.modules, "pynvml", package)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(name=name, malloc_trim=lambda _pad: 0))
    return package


@pytest.fixture
def library(package):
    library = NvmlLibrary()
    library.open()
    package.calls.clear()
    return library


def failure_of(act):
    with pytest.raises(LibraryError) as caught:
        act()
    return caught.value


def described(library):
    return library.describe(GPU, "GPU-a", 3)


def test_the_library_is_that_of_the_driver(monkeypatch):
    loaded = []

    def missing(name):
        loaded.append(name)
        raise OSError("cannot open")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    error = failure_of(NvmlLibrary().open)
    assert loaded == ["libnvidia-ml.so.1"]
    assert (error.failure.reason, error.extent) == (Reason.NO_INTERFACE, Extent.CALL)
    assert error.failure.message == "no NVIDIA driver: cannot open"


def test_it_is_named_for_its_vendor():
    assert (NvmlLibrary().name, NvmlLibrary().vendor) == ("nvml", Vendor.NVIDIA)


def test_opening_again_initialises_again_and_imports_once(package, monkeypatch):
    library = NvmlLibrary()
    library.open()
    monkeypatch.setattr(nvml_module, "_import_pynvml", lambda: pytest.fail("imported twice"))
    library.open()
    assert package.calls == [("nvmlInit",), ("nvmlInit",)]


def test_memory_that_the_import_leaves_is_returned(package, monkeypatch):
    released = []
    monkeypatch.setattr(nvml_module, "release_unused_memory", lambda: released.append(True))
    NvmlLibrary().open()
    assert released == [True]


def test_closing_shuts_down_and_a_failure_of_it_means_that_nothing_is_open(library, package):
    library.close()
    package.failures["nvmlShutdown"] = 1
    library.close()
    assert package.calls == [("nvmlShutdown",)] * 2


def test_without_an_open_library_the_driver_is_gone():
    error = failure_of(NvmlLibrary().count)
    assert (error.failure.reason, error.extent) == (Reason.NO_INTERFACE, Extent.DRIVER)
    assert "not open" in error.failure.message


def test_a_device_is_described_by_its_own_figures(library):
    assert described(library) == GpuDeviceInfo(
        uuid="GPU-a",
        index=3,
        vendor=Vendor.NVIDIA,
        model="NVIDIA H100",
        min_mw=200_000,
        max_mw=700_000,
        default_mw=650_000,
        current_mw=600_000,
        enforced_mw=500_000,
        lowest_mhz=210,
        highest_mhz=1980,
        partitioned=False,
        partition_modes=("1g.10gb", "7g.80gb"),
        pci_address="00000000:C1:00.0",
        minor=5,
    )


def test_mig_devices_are_named_and_an_empty_place_does_not_lose_the_gpu(library, package):
    package.answers["nvmlDeviceGetMigMode"] = (1, 1)

    assert described(library).partition_uuids == ("MIG-a", "MIG-b")


def test_an_error_of_a_mig_device_other_than_its_absence_is_the_gpus(library, package):
    package.answers["nvmlDeviceGetMigMode"] = (1, 1)
    package.mig_devices[1] = 15

    assert failure_of(lambda: described(library)).extent is Extent.DEVICE


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetPciInfo", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetMaxMigDeviceCount"]
)
def test_a_driver_without_an_address_or_mig_devices_describes_the_rest(function, library, package):
    package.answers["nvmlDeviceGetMigMode"] = (1, 1)
    package.failures[function] = NOT_SUPPORTED

    info = described(library)
    assert (info.pci_address, info.minor, info.partition_uuids) == (
        "" if function == "nvmlDeviceGetPciInfo" else "00000000:C1:00.0",
        None if function == "nvmlDeviceGetMinorNumber" else 5,
        () if function == "nvmlDeviceGetMaxMigDeviceCount" else ("MIG-a", "MIG-b"),
    )


@pytest.mark.parametrize(("mode", "partitioned"), [((0, 1), False), ((1, 0), True)])
def test_the_current_mig_mode_counts_and_not_the_one_after_a_reset(mode, partitioned, library, package):
    package.answers["nvmlDeviceGetMigMode"] = mode
    assert described(library).partitioned is partitioned


def test_profiles_that_a_gpu_does_not_have_are_left_out_and_each_name_is_listed_once(library, package):
    package.profiles = {0: INVALID_ARGUMENT, 1: "MIG 2g.20gb", 2: NOT_SUPPORTED, 3: "MIG 2g.20gb"}
    assert described(library).partition_modes == ("2g.20gb",)
    asked = [call for call in package.calls if call[0] == "nvmlDeviceGetGpuInstanceProfileInfo"]
    assert [call[1:] for call in asked] == [(GPU, each) for each in range(4)]


def test_a_gpu_without_mig_has_no_profiles_and_is_not_asked_for_them(library, package):
    package.failures["nvmlDeviceGetMigMode"] = NOT_SUPPORTED
    assert (described(library).partitioned, described(library).partition_modes) == (None, ())
    assert not [call for call in package.calls if call[0] == "nvmlDeviceGetGpuInstanceProfileInfo"]


def test_clocks_are_those_of_the_highest_memory_clock(library, package):
    described(library)
    assert ("nvmlDeviceGetSupportedGraphicsClocks", GPU, 2619) in package.calls


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetPowerManagementLimitConstraints", ("min_mw", "max_mw")),
        ("nvmlDeviceGetPowerManagementDefaultLimit", ("default_mw",)),
        ("nvmlDeviceGetPowerManagementLimit", ("current_mw",)),
        ("nvmlDeviceGetEnforcedPowerLimit", ("enforced_mw",)),
        ("nvmlDeviceGetSupportedMemoryClocks", ("lowest_mhz", "highest_mhz")),
        ("nvmlDeviceGetSupportedGraphicsClocks", ("lowest_mhz", "highest_mhz")),
    ],
)
@pytest.mark.parametrize("code", [3, 13])
def test_a_figure_that_a_gpu_or_an_older_driver_does_not_have_is_unknown(code, function, fields, library, package):
    complete = described(library)
    package.failures[function] = code
    found = described(library)
    for field in GpuDeviceInfo.__dataclass_fields__:
        assert getattr(found, field) == (None if field in fields else getattr(complete, field))


def test_without_any_supported_clock_there_is_no_range(library, package):
    package.answers["nvmlDeviceGetSupportedMemoryClocks"] = []
    package.answers["nvmlDeviceGetSupportedGraphicsClocks"] = []
    assert (described(library).lowest_mhz, described(library).highest_mhz) == (None, None)
    assert ("nvmlDeviceGetSupportedGraphicsClocks", GPU, 0) in package.calls


@pytest.mark.parametrize("function", ["nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetMigMode", "nvmlDeviceGetName"])
@pytest.mark.parametrize("code", [1, NO_PERMISSION, 15])
def test_any_other_error_fails_the_description(code, function, library, package):
    package.failures[function] = code
    assert failure_of(lambda: described(library)).failure.reason is not None


@pytest.mark.parametrize(
    ("act", "call", "answer"),
    [
        (lambda library: library.count(), ("nvmlDeviceGetCount",), 2),
        (lambda library: library.handle(1), ("nvmlDeviceGetHandleByIndex", 1), GPU),
        (lambda library: library.uuid(GPU), ("nvmlDeviceGetUUID", GPU), "GPU-a"),
        (lambda library: library.power_mw(GPU), ("nvmlDeviceGetPowerUsage", GPU), 123_456),
        (lambda library: library.energy_mj(GPU), ("nvmlDeviceGetTotalEnergyConsumption", GPU), 7_000_000_000),
        (lambda library: library.limit_mw(GPU), ("nvmlDeviceGetPowerManagementLimit", GPU), 600_000),
        (lambda library: library.enforced_mw(GPU), ("nvmlDeviceGetEnforcedPowerLimit", GPU), 500_000),
        (
            lambda library: library.set_limit_mw(GPU, 300_000),
            ("nvmlDeviceSetPowerManagementLimit", GPU, 300_000),
            None,
        ),
        (lambda library: library.release_clock(GPU, 1980), ("nvmlDeviceResetGpuLockedClocks", GPU), None),
    ],
)
def test_each_operation_is_one_call_for_the_device(act, call, answer, library, package):
    assert act(library) == answer
    assert package.calls == [call]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, 13])
def test_a_gpu_or_a_driver_without_an_energy_counter_has_none_and_not_zero(code, library, package):
    package.failures["nvmlDeviceGetTotalEnergyConsumption"] = code
    assert library.energy_mj(GPU) is None


def test_an_energy_counter_that_fails_is_a_failure(library, package):
    package.failures["nvmlDeviceGetTotalEnergyConsumption"] = 15
    assert failure_of(lambda: library.energy_mj(GPU)).failure.reason is Reason.DEVICE_LOST


def test_a_locked_clock_leaves_the_gpu_free_to_idle(library, package):
    library.limit_clock(GPU, 210, 1200)
    assert package.calls == [("nvmlDeviceSetGpuLockedClocks", GPU, 210, 1200)]


def test_what_nvml_does_not_report_of_clocks_is_unknown_and_no_failure(library, package):
    assert library.clock_limit_mhz(GPU) is None
    assert library.check_clock_is_free(GPU) is None
    assert package.calls == []


@pytest.mark.parametrize(
    ("code", "reason", "extent"),
    [
        (1, Reason.NO_INTERFACE, Extent.DRIVER),
        (2, Reason.OUT_OF_RANGE, Extent.CALL),
        (3, Reason.NO_INTERFACE, Extent.CALL),
        (4, Reason.NOT_PERMITTED, Extent.CALL),
        (6, Reason.DEVICE_LOST, Extent.DEVICE),
        (9, Reason.NO_INTERFACE, Extent.DRIVER),
        (10, Reason.TIMEOUT, Extent.CALL),
        (12, Reason.NO_INTERFACE, Extent.CALL),
        (13, Reason.NO_INTERFACE, Extent.CALL),
        (15, Reason.DEVICE_LOST, Extent.DEVICE),
        (16, Reason.DEVICE_LOST, Extent.DEVICE),
        (17, Reason.NOT_PERMITTED, Extent.CALL),
        (18, Reason.BACKEND_FAILED, Extent.DRIVER),
        (28, Reason.DEVICE_LOST, Extent.DEVICE),
        (999, Reason.BACKEND_FAILED, Extent.CALL),
    ],
)
def test_an_error_has_the_reason_and_the_extent_of_its_code(code, reason, extent, library, package):
    package.failures["nvmlDeviceGetPowerUsage"] = code
    error = failure_of(lambda: library.power_mw(GPU))
    assert (error.failure.reason, error.extent) == (reason, extent)
    assert error.failure.message.startswith(f"NVML: code {code}")


def test_a_driver_that_was_replaced_has_a_hint(library, package):
    package.failures["nvmlDeviceGetCount"] = 18
    message = failure_of(library.count).failure.message
    assert message == "NVML: code 18; the driver was replaced under this process: restart it"
    package.failures["nvmlDeviceGetCount"] = 4
    assert failure_of(library.count).failure.message == "NVML: code 4"


def test_the_state_of_the_clock_is_the_graphics_clock_and_the_reasons_by_their_present_name(library, package):
    assert library.clock_state(GPU) == ClockState(1755, ClockBound.POWER_LIMIT, 87)
    assert package.calls == [
        ("nvmlDeviceGetClockInfo", GPU, 0),
        ("nvmlDeviceGetCurrentClocksEventReasons", GPU),
        ("nvmlDeviceGetUtilizationRates", GPU),
    ]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, 13])
def test_what_a_gpu_or_an_older_driver_does_not_have_of_the_state_is_unknown(code, library, package):
    package.failures["nvmlDeviceGetCurrentClocksEventReasons"] = code
    assert library.clock_state(GPU) == ClockState(1755, ClockBound.THERMAL, 87), "by its older name"
    package.failures["nvmlDeviceGetCurrentClocksThrottleReasons"] = code
    assert library.clock_state(GPU) == ClockState(1755, ClockBound.UNKNOWN, 87)
    package.failures["nvmlDeviceGetClockInfo"] = code
    assert library.clock_state(GPU) == ClockState(None, ClockBound.UNKNOWN, 87)
    package.failures["nvmlDeviceGetUtilizationRates"] = code
    assert library.clock_state(GPU) == ClockState(None, ClockBound.UNKNOWN)


@pytest.mark.parametrize(("reported", "busy_pct"), [(0, 0), (100, 100), (101, None), (2**32 - 1, None)])
def test_a_busy_time_above_all_of_the_time_is_no_figure(reported, busy_pct, library, package):
    package.answers["nvmlDeviceGetUtilizationRates"] = SimpleNamespace(gpu=reported, memory=0)
    assert library.clock_state(GPU).busy_pct == busy_pct


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetUtilizationRates"],
)
def test_any_other_error_fails_the_state_of_the_clock(function, library, package):
    package.failures[function] = NO_PERMISSION
    assert failure_of(lambda: library.clock_state(GPU)).failure.reason is Reason.NOT_PERMITTED
