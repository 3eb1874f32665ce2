"""What AMD SMI is asked and how its answers are understood, with a package in place of AMD's that records the calls.

The pinned package is older than AMD SMI 26.2, which tells the sensors of power caps; its own tests are in
test_amdsmi.py.
"""

import ctypes
import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest

from joulie_actuator.hardware.gpu import amdsmi as under_test
from joulie_actuator.hardware.gpu.amdsmi import AmdSmiLibrary
from joulie_actuator.hardware.gpu.clock_state import ClockBound, ClockState
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.gpu.library import Extent, LibraryError
from joulie_actuator.reasons import Reason

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 10, 31
GPU = "handle 0"
PPT0, PPT1 = 0, 1
#: What the library has in place of a figure.
ONES = (1 << 32) - 1
#: 15.3 as a float of 32 bits, which the library has as its resolution.
FLOAT_15_3 = 15.300000190734863
AUTO = "AMDSMI_DEV_PERF_LEVEL_AUTO"


class PackageError(Exception):
    """As AmdSmiException."""


class CodeError(PackageError):
    """As AmdSmiLibraryException: the code of the library."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code

    def get_error_code(self):
        return self.code

    def get_error_info(self):
        return f"code {self.code}"


class Package(ModuleType):
    """amdsmi: answers by the name of the function, which fails with an exception or the code of an error."""

    AmdSmiException = PackageError
    AmdSmiLibraryException = CodeError
    AmdSmiInitFlags = SimpleNamespace(INIT_AMD_GPUS="GPUs")
    AmdSmiClkType = SimpleNamespace(GFX="graphics")
    AmdSmiDevPerfLevel = SimpleNamespace(AUTO="auto")
    __version__ = "7.0.2"

    def __init__(self):
        super().__init__("amdsmi")
        self.calls = []
        self.failures = {}
        self.answers = {
            "amdsmi_init": None,
            "amdsmi_shut_down": None,
            "amdsmi_get_lib_version": {"major": 26, "minor": 0},
            "amdsmi_get_processor_handles": ("handle 0", "handle 1"),
            "amdsmi_get_gpu_device_uuid": "e1ff",
            "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X"},
            "amdsmi_get_power_cap_info": {
                "min_power_cap": 200_000_000,
                "max_power_cap": 750_000_000,
                "default_power_cap": 700_000_000,
                "power_cap": 600_000_999,
            },
            "amdsmi_get_power_info": {
                "socket_power": 141,
                "current_socket_power": 142,
                "average_socket_power": 143,
            },
            "amdsmi_get_energy_count": {
                "energy_accumulator": 10_000_000,
                "counter_resolution": FLOAT_15_3,
                "timestamp": 1,
            },
            "amdsmi_get_clock_info": {"clk": 1900, "min_clk": 132, "max_clk": 2100},
            "amdsmi_get_gpu_metrics_info": {"average_gfx_activity": 0},
            "amdsmi_get_gpu_compute_partition": "SPX",
            "amdsmi_get_gpu_device_bdf": "0000:05:00.0",
            "amdsmi_get_gpu_perf_level": AUTO,
            "amdsmi_set_power_cap": None,
            "amdsmi_set_gpu_clk_limit": None,
            "amdsmi_set_gpu_perf_level": None,
        }

    def __getattr__(self, name):
        if name not in self.answers:
            raise AttributeError(name)

        def call(*arguments):
            self.calls.append((name.removeprefix("amdsmi_"), *arguments))
            failure = self.failures.get(name.removeprefix("amdsmi_"))
            if failure is not None:
                raise CodeError(failure) if isinstance(failure, int) else failure
            return self.answers[name]

        return call

    def answer(self, name, **fields):
        """Change fields of an answer."""
        self.answers[f"amdsmi_{name}"] = self.answers[f"amdsmi_{name}"] | fields


@pytest.fixture
def released(monkeypatch):
    """How often free memory was returned to the system."""
    times = []
    monkeypatch.setattr(under_test, "release_unused_memory", lambda: times.append(True))
    return times


@pytest.fixture
def package(monkeypatch, released):
    package = Package()
    monkeypatch.setitem(sys.modules, "amdsmi", package)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(name=name))
    return package


@pytest.fixture
def library(package):
    library = AmdSmiLibrary()
    library.open()
    package.calls.clear()
    return library


def failure_of(act):
    with pytest.raises(LibraryError) as caught:
        act()
    return caught.value


def described(library):
    return library.describe(GPU, "e1ff", 3)


def test_it_is_named_for_its_vendor():
    assert (AmdSmiLibrary().name, AmdSmiLibrary().vendor) == ("amdsmi", Vendor.AMD)


def test_opening_initialises_the_gpus_only_and_imports_once(package, released, monkeypatch):
    library = AmdSmiLibrary()
    library.open()
    monkeypatch.setattr(under_test, "_import_amdsmi", lambda: pytest.fail("imported twice"))
    library.open()
    assert package.calls == [("init", "GPUs"), ("get_lib_version",)] * 2
    assert released == [True]


def searched(monkeypatch, environment, *folders):
    """The files that are tried in vain, and the failure."""
    for name in ("ROCM_PATH", "ROCM_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tried = []

    def missing(name):
        tried.append(name)
        raise OSError(name)

    asked = []
    spec = SimpleNamespace(submodule_search_locations=list(folders)) if folders else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: asked.append(name) or spec)
    monkeypatch.setattr(ctypes, "CDLL", missing)
    error = failure_of(AmdSmiLibrary().open)
    assert asked == ["amdsmi"]
    return tried, error


@pytest.mark.parametrize(
    ("environment", "folders"),
    [
        ({}, ["/opt/rocm/lib", "/opt/rocm/lib"]),
        ({"ROCM_PATH": "/rocm"}, ["/rocm/lib", "/rocm/lib"]),
        ({"ROCM_HOME": "/home"}, ["/home/lib", "/opt/rocm/lib"]),
        ({"ROCM_HOME": "/home", "ROCM_PATH": "/rocm"}, ["/home/lib", "/rocm/lib"]),
    ],
)
def test_the_library_is_searched_where_the_package_looks_for_it(environment, folders, released, monkeypatch):
    tried, error = searched(monkeypatch, environment, "/site/amdsmi")
    assert tried == ["libamd_smi.so", *(f"{folder}/libamd_smi.so" for folder in (*folders, "/site/amdsmi"))]
    assert (error.failure.reason, error.extent) == (Reason.NO_INTERFACE, Extent.CALL)
    assert error.failure.message == "no AMD SMI: libamd_smi.so is not found"
    assert not released, "nothing was imported"


def test_without_the_package_the_library_is_searched_in_the_folders_of_rocm(monkeypatch):
    assert searched(monkeypatch, {})[0] == ["libamd_smi.so"] + ["/opt/rocm/lib/libamd_smi.so"] * 2


def test_a_library_that_was_not_there_is_used_once_it_is(package, monkeypatch):
    library = AmdSmiLibrary()
    with monkeypatch.context() as without:
        without.setattr(under_test, "_loads", lambda _name: False)
        failure_of(library.open)
    library.open()
    assert library.count() == 2


@pytest.fixture
def broken(monkeypatch, tmp_path, released):
    """Have the package print and fail as it is imported."""

    def make(text):
        (tmp_path / "amdsmi.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
        monkeypatch.setattr(under_test, "_library_is_there", lambda: True)

    return make


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print('no symbol')\nprint('more')\nraise KeyError('x')", "no symbol"),
        ("raise AttributeError('undefined symbol: a')", "undefined symbol: a"),
        ("raise ImportError('no module')", "no module"),
        ("raise OSError('cannot open')", "cannot open"),
    ],
)
def test_a_package_that_cannot_be_imported_is_unusable_for_good_and_the_reason_is_told(
    text, why, broken, released, capsys
):
    broken(text)
    library = AmdSmiLibrary()
    error = failure_of(library.open)
    assert error.failure.message == f"the amdsmi package cannot use libamd_smi.so: {why}"
    assert (error.failure.reason, error.extent) == (Reason.NO_INTERFACE, Extent.CALL)
    assert failure_of(library.open) is error
    assert released == [True], "it is imported once"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("major", [25, 27])
def test_a_library_of_another_major_version_is_shut_down_and_unusable_for_good(major, package):
    package.answer("get_lib_version", major=major, minor=3)
    library = AmdSmiLibrary()
    error = failure_of(library.open)
    assert (error.failure.reason, error.extent) == (Reason.NO_INTERFACE, Extent.CALL)
    assert error.failure.message == (
        f"libamd_smi.so is version {major}.3, and the package amdsmi 7.0.2 has the structures of version 26"
    )
    assert package.calls == [("init", "GPUs"), ("get_lib_version",), ("shut_down",)]
    assert failure_of(library.open) is error
    assert len(package.calls) == 3, "and is not asked again"


def test_a_library_that_does_not_tell_its_version_is_shut_down_and_asked_again(package):
    package.failures["get_lib_version"] = NOT_SUPPORTED
    library = AmdSmiLibrary()
    assert failure_of(library.open).failure.message == "AMD SMI: code 2"
    assert package.calls[-1] == ("shut_down",)
    package.failures.clear()
    library.open()


def test_closing_shuts_down_and_a_failure_of_it_means_that_nothing_is_open(library, package):
    library.close()
    package.failures["shut_down"] = 32
    library.close()
    assert package.calls == [("shut_down",)] * 2


def test_without_an_open_library_the_driver_is_gone():
    error = failure_of(AmdSmiLibrary().count)
    assert (error.failure.reason, error.extent) == (Reason.NO_INTERFACE, Extent.DRIVER)
    assert error.failure.message == "AMD SMI is not open"


def test_devices_are_counted_and_each_has_the_handle_of_its_index(library, package):
    assert library.count() == 2
    assert [library.handle(index) for index in range(2)] == ["handle 0", "handle 1"]
    assert package.calls == [("get_processor_handles",)]


def test_a_uuid_is_that_of_the_device(library, package):
    assert library.uuid(GPU) == "e1ff"
    assert package.calls == [("get_gpu_device_uuid", GPU)]


def test_a_device_is_described_by_its_own_figures_in_milliwatts(library, package):
    assert described(library) == GpuDeviceInfo(
        uuid="e1ff",
        index=3,
        vendor=Vendor.AMD,
        model="AMD Instinct MI300X",
        min_mw=200_000,
        max_mw=750_000,
        default_mw=700_000,
        current_mw=600_000,
        enforced_mw=600_000,
        lowest_mhz=132,
        highest_mhz=2100,
        partitioned=False,
        partition_modes=("SPX",),
        pci_address="0000:05:00.0",
    )
    assert package.calls == [
        ("get_gpu_asic_info", GPU),
        ("get_power_cap_info", GPU),
        ("get_gpu_compute_partition", GPU),
        ("get_clock_info", GPU, "graphics"),
        ("get_gpu_device_bdf", GPU),
    ]


@pytest.mark.parametrize(
    ("mode", "partitioned", "modes"),
    [("spx", False, ("spx",)), ("CPX", True, ("CPX",)), ("", None, ())],
)
def test_a_device_is_partitioned_in_every_mode_but_one(mode, partitioned, modes, library, package):
    package.answers["amdsmi_get_gpu_compute_partition"] = mode
    found = described(library)
    assert (found.partitioned, found.partition_modes) == (partitioned, modes)


@pytest.mark.parametrize(("mode", "names"), [("CPX", ("amdgpu_xcp_1",)), ("SPX", ()), ("", ())])
def test_a_partitioned_device_has_the_names_of_its_partitions(mode, names, package):
    library = AmdSmiLibrary(lambda: {"0000:05:00.0": ("amdgpu_xcp_1",), "0000:06:00.0": ("amdgpu_xcp_2",)})
    library.open()
    package.answers["amdsmi_get_gpu_compute_partition"] = mode
    assert described(library).partition_names == names


@pytest.mark.parametrize(("address", "names"), [("0000:C1:00.0", ("amdgpu_xcp_1",)), ("0000:06:00.0", ())])
def test_names_of_partitions_go_by_the_pci_address_in_any_case(address, names, package):
    library = AmdSmiLibrary(lambda: {"0000:c1:00.0": ("amdgpu_xcp_1",)})
    library.open()
    package.answers |= {"amdsmi_get_gpu_compute_partition": "CPX", "amdsmi_get_gpu_device_bdf": address}
    assert described(library).partition_names == names


FIELDS = {
    "get_power_cap_info": {"min_mw", "max_mw", "default_mw", "current_mw", "enforced_mw"},
    "get_clock_info": {"lowest_mhz", "highest_mhz"},
    "get_gpu_compute_partition": {"partitioned", "partition_modes"},
    "get_gpu_device_bdf": {"pci_address"},
}


@pytest.mark.parametrize("function", FIELDS)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_what_a_device_or_a_guest_does_not_have_is_unknown(code, function, library, package):
    complete = described(library)
    package.failures[function] = code
    found = described(library)
    for field in GpuDeviceInfo.__dataclass_fields__:
        expected = {"partition_modes": (), "pci_address": ""}.get(field)
        assert getattr(found, field) == (expected if field in FIELDS[function] else getattr(complete, field))


@pytest.mark.parametrize("function", [*FIELDS, "get_gpu_asic_info"])
@pytest.mark.parametrize(
    ("code", "failure"),
    [(12, (Reason.IO_ERROR, Extent.CALL)), (32, (Reason.NO_INTERFACE, Extent.DRIVER))],
)
def test_any_other_error_fails_the_description(code, failure, function, library, package):
    package.failures[function] = code
    error = failure_of(lambda: described(library))
    assert (error.failure.reason, error.extent) == failure


@pytest.mark.parametrize(
    ("caps", "expected"),
    [
        ({"max_power_cap": 0, "default_power_cap": 0, "min_power_cap": 0}, (0, None, None)),
        ({"max_power_cap": None, "default_power_cap": None, "min_power_cap": None}, (None, None, None)),
        ({"max_power_cap": 99_999_999_999, "default_power_cap": 999, "min_power_cap": 1000}, (1, 99_999_999, None)),
        (
            {"max_power_cap": 100_000_000_000, "default_power_cap": ONES * 1000, "min_power_cap": ONES * 1000},
            (None,) * 3,
        ),
    ],
)
def test_a_cap_that_the_library_does_not_have_is_unknown_and_the_lowest_one_may_be_zero(
    caps, expected, library, package
):
    package.answer("get_power_cap_info", **caps)
    found = described(library)
    assert (found.min_mw, found.max_mw, found.default_mw) == expected


@pytest.mark.parametrize("absent", [0, -1, "N/A", None])
def test_a_clock_that_the_package_has_no_figure_of_is_unknown(absent, library, package):
    package.answer("get_clock_info", min_clk=absent, max_clk=absent)
    found = described(library)
    assert (found.lowest_mhz, found.highest_mhz) == (None, None)
    error = failure_of(lambda: library.clock_limit_mhz(GPU))
    assert (error.failure.reason, error.extent) == (Reason.NO_READING, Extent.CALL)
    assert error.failure.message == "AMD SMI: the device reports no graphics clock"


def test_a_clock_of_one_megahertz_is_a_figure(library, package):
    package.answer("get_clock_info", min_clk=1, max_clk=2)
    assert (described(library).lowest_mhz, library.clock_limit_mhz(GPU)) == (1, 2)


@pytest.mark.parametrize(
    ("figures", "power_mw"),
    [
        ((141, 142, 143), 141_000),
        (("N/A", 142, 143), 142_000),
        ((0, "N/A", 143), 143_000),
        ((-1, 0, 1), 1_000),
        ((65_535 * 1000, 142, 143), 142_000),
        ((99_999, 142, 143), 99_999_000),
        ((100_000, 142, 143), 142_000),
    ],
)
def test_power_is_the_first_figure_that_the_device_has(figures, power_mw, library, package):
    names = ("socket_power", "current_socket_power", "average_socket_power")
    package.answer("get_power_info", **dict(zip(names, figures, strict=True)))
    assert library.power_mw(GPU) == power_mw
    assert package.calls == [("get_power_info", GPU)]


def test_energy_is_the_count_times_the_resolution_in_microjoules(library, package):
    assert library.energy_mj(GPU) == 153_000
    assert package.calls == [("get_energy_count", GPU)]
    package.answer("get_energy_count", energy_accumulator=(1 << 62) + 1000)
    assert library.energy_mj(GPU) == ((1 << 62) + 1000) * 153 // 10_000


@pytest.mark.parametrize(
    "fields",
    [
        {"energy_accumulator": (1 << 64) - 1},
        {"energy_accumulator": "N/A"},
        {"counter_resolution": 0.0},
        {"counter_resolution": float("nan")},
        {"counter_resolution": float("inf")},
        {"counter_resolution": "N/A"},
    ],
)
def test_a_count_or_a_resolution_that_is_missing_is_no_energy_and_not_zero(fields, library, package):
    package.answer("get_energy_count", **fields)
    assert library.energy_mj(GPU) is None


@pytest.mark.parametrize(("code", "reason"), [(2, None), (10, None), (31, Reason.DEVICE_LOST)])
def test_a_device_without_an_energy_count_has_none_and_a_lost_one_fails(code, reason, library, package):
    package.failures["get_energy_count"] = code
    if reason is None:
        assert library.energy_mj(GPU) is None
    else:
        assert failure_of(lambda: library.energy_mj(GPU)).failure.reason is reason


def test_a_device_without_a_figure_of_power_has_no_reading(library, package):
    package.answer("get_power_info", socket_power=0, current_socket_power="N/A", average_socket_power=ONES)
    error = failure_of(lambda: library.power_mw(GPU))
    assert (error.failure.reason, error.extent) == (Reason.NO_READING, Extent.CALL)
    assert error.failure.message == "AMD SMI: the device reports no power, as the secondary die of a package"


def test_the_limit_set_and_the_one_in_force_are_the_cap(library, package):
    assert (library.limit_mw(GPU), library.enforced_mw(GPU)) == (600_000, 600_000)
    assert package.calls == [("get_power_cap_info", GPU)] * 2
    package.answer("get_power_cap_info", power_cap=ONES * 1000)
    error = failure_of(lambda: library.limit_mw(GPU))
    assert (error.failure.reason, error.failure.message) == (
        Reason.NO_READING,
        "AMD SMI: the device reports no power cap",
    )


@pytest.mark.parametrize(
    ("act", "calls"),
    [
        (lambda library: library.set_limit_mw(GPU, 500_000), [("set_power_cap", GPU, 0, 500_000_000)]),
        (lambda library: library.limit_clock(GPU, 132, 1500), [("set_gpu_clk_limit", GPU, "sclk", "max", 1500)]),
        (
            lambda library: library.release_clock(GPU, 2100),
            [("set_gpu_clk_limit", GPU, "sclk", "max", 2100), ("set_gpu_perf_level", GPU, "auto")],
        ),
        (lambda library: library.check_clock_is_free(GPU), [("get_gpu_perf_level", GPU)]),
        (lambda library: library.clock_limit_mhz(GPU), [("get_clock_info", GPU, "graphics")]),
    ],
    ids=["cap", "limit the clock", "release the clock", "is the clock free", "read the clock"],
)
def test_each_call_asks_the_library_for_this_and_no_more(act, calls, library, package):
    act(library)
    assert package.calls == calls
    package.failures[calls[0][0]] = NO_PERMISSION
    assert failure_of(lambda: act(library)).failure.reason is Reason.NOT_PERMITTED


def test_clocks_in_another_performance_level_are_not_free(library, package):
    package.answers["amdsmi_get_gpu_perf_level"] = "AMDSMI_DEV_PERF_LEVEL_MANUAL"
    error = failure_of(lambda: library.check_clock_is_free(GPU))
    assert (error.failure.reason, error.extent) == (Reason.REFUSED, Extent.CALL)
    assert error.failure.message == "AMD SMI: an external writer has set AMDSMI_DEV_PERF_LEVEL_MANUAL"


@pytest.fixture
def offer(package):
    """Have the package tell the types of sensors, as packages from AMD SMI 26.2 on do."""

    def tell(types):
        package.answers["amdsmi_get_supported_power_cap"] = {
            "sensor_inds": list(types),
            "sensor_types": [str(kind) for kind in types.values()],
        }

    return tell


@pytest.mark.parametrize(("types", "sensor"), [({0: PPT0, 1: PPT1}, 0), ({0: PPT1, 1: PPT0}, 1), ({2: PPT0}, 2)])
def test_a_cap_is_that_on_filtered_power_wherever_the_device_has_it(types, sensor, offer, library, package):
    offer(types)
    library.set_limit_mw(GPU, 400_000)
    assert library.limit_mw(GPU) == 600_000
    asked = ("get_supported_power_cap", GPU)
    assert package.calls == [
        asked,
        ("set_power_cap", GPU, sensor, 400_000_000),
        asked,
        ("get_power_cap_info", GPU, sensor),
    ]


def test_a_device_that_has_only_the_limit_on_raw_power_is_not_capped(offer, library, package):
    offer({0: PPT1})
    error = failure_of(lambda: library.set_limit_mw(GPU, 400_000))
    assert (error.failure.reason, error.extent) == (Reason.NO_INTERFACE, Extent.CALL)
    assert error.failure.message == "AMD SMI: the device offers no cap on filtered package power (PPT0)"
    assert package.calls == [("get_supported_power_cap", GPU)]
    assert described(library).max_mw is None


@pytest.mark.parametrize(
    ("code", "reason", "extent"),
    [
        (1, Reason.OUT_OF_RANGE, Extent.CALL),
        (2, Reason.NO_INTERFACE, Extent.CALL),
        (3, Reason.NO_INTERFACE, Extent.CALL),
        (8, Reason.TIMEOUT, Extent.CALL),
        (10, Reason.NOT_PERMITTED, Extent.CALL),
        (12, Reason.IO_ERROR, Extent.CALL),
        (14, Reason.IO_ERROR, Extent.CALL),
        (17, Reason.OUT_OF_RANGE, Extent.CALL),
        (31, Reason.DEVICE_LOST, Extent.DEVICE),
        (32, Reason.NO_INTERFACE, Extent.DRIVER),
        (34, Reason.NO_INTERFACE, Extent.DRIVER),
        (40, Reason.NO_READING, Extent.CALL),
        (55, Reason.NO_INTERFACE, Extent.CALL),
        (999, Reason.BACKEND_FAILED, Extent.CALL),
    ],
)
def test_an_error_has_the_reason_and_the_extent_of_its_code(code, reason, extent, library, package):
    package.failures["get_power_info"] = code
    error = failure_of(lambda: library.power_mw(GPU))
    assert (error.failure.reason, error.extent) == (reason, extent)
    assert error.failure.message == f"AMD SMI: code {code}"


def test_an_error_of_the_package_itself_is_a_failure_of_the_backend(library, package):
    package.failures["get_power_info"] = PackageError("bad parameter")
    error = failure_of(lambda: library.power_mw(GPU))
    assert (error.failure.reason, error.extent) == (Reason.BACKEND_FAILED, Extent.CALL)
    assert error.failure.message == "AMD SMI: bad parameter"


def test_the_state_of_the_clock_is_the_graphics_clock_and_what_the_metrics_say(library, package):
    assert library.clock_state(GPU) == ClockState(1900, ClockBound.IDLE, 0)
    package.answers["amdsmi_get_clock_info"] = {"clk": "N/A"}
    assert library.clock_state(GPU).clock_mhz is None


def test_counters_are_compared_with_those_of_the_same_device_since_the_devices_were_counted(library, package):
    def seen(device, readings, power):
        package.answers["amdsmi_get_gpu_metrics_info"] = {
            "accumulation_counter": readings,
            "ppt_residency_acc": power,
            **dict.fromkeys(["prochot_residency_acc", "socket_thm_residency_acc"], 0),
            **dict.fromkeys(["vr_thm_residency_acc", "hbm_thm_residency_acc"], 0),
        }
        return library.clock_state(device).reported

    library.count()
    first, second = library.handle(0), library.handle(1)
    assert seen(first, 10, 5) is ClockBound.UNKNOWN
    assert seen(second, 20, 9) is ClockBound.UNKNOWN
    assert seen(first, 20, 6) is ClockBound.POWER_LIMIT
    assert seen(second, 30, 9) is ClockBound.NONE
    library.count()
    assert seen(first, 30, 7) is ClockBound.UNKNOWN


def test_a_device_or_a_guest_without_clocks_and_metrics_has_an_unknown_state(library, package):
    package.failures |= {"get_clock_info": NOT_SUPPORTED, "get_gpu_metrics_info": NO_PERMISSION}
    assert library.clock_state(GPU) == ClockState(None, ClockBound.UNKNOWN)
