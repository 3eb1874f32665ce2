"""AMD's GPUs through AMD SMI; the only module that imports amdsmi.

The package binds 184 functions of libamd_smi.so while it is imported, and prints and fails where it does not find the
library or one of them. So it is imported once the library is known to be there, with its output caught. A library
that lacks a function, or whose major version is not the package's, is a failure that stays: a process cannot load it
twice. The second would be the worse one, since structures of another shape make wrong figures. The import costs 10 MiB
of resident memory and 0.2 s, of which 4 MiB stay once the C library has returned what it does not use (amdsmi 7.0.2,
CPython 3.11, x86-64). A machine without AMD SMI has no such cost.

A power cap is what `amd-smi set --power-cap` sets. Devices that have two take it on PPT0, the lower limit on filtered
power; PPT1, the higher one on raw power, stays as found. Packages before AMD SMI 26.2 offer sensor 0 only, which is
PPT0. Setting it needs root and is refused inside virtual machines; amdgpu keeps whole watts and forgets the cap when it
is reloaded or the GPU reset.
Secondary dies of MI250 and MI250X have neither a power cap nor a reading: the primary die's are those of both.
Source: AMD, AMD SMI documentation; ROCm/amdsmi issue 139; ROCm/rocm_smi_lib issue 160.
"""

import ctypes
import importlib.util
import io
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from joulie_actuator.hardware.gpu.clock_state import ClockState, Residency, bound_of_metrics, busy_pct_of_metrics
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.gpu.library import Extent, Handle, LibraryError, release_unused_memory
from joulie_actuator.reasons import Reason

T = TypeVar("T")

_LIBRARY: Final = "libamd_smi.so"
_UW_PER_MW: Final = 1000
_MW_PER_WATT: Final = 1000
_UJ_PER_MJ: Final = 1000
#: PPT0, as sensor and as type of sensor (`amdsmi_power_cap_type_t`).
_PPT0: Final = 0
#: Major version of the library whose structures the package has: 26 is that of ROCm 7, 25 of ROCm 6.4.
_LIBRARY_MAJOR: Final = 26
#: More than any device draws or takes: the library fills a figure it does not have with ones.
_NO_FIGURE_MW: Final = 100_000_000
#: All ones, as for a figure that the device does not have.
_NO_COUNT: Final = (1 << 64) - 1
#: The level in which the driver itself chooses the clocks.
_LEVEL_AUTO: Final = "AMDSMI_DEV_PERF_LEVEL_AUTO"
#: The whole device, not partitioned.
_UNPARTITIONED: Final = "SPX"

# Codes are the library's own, amdsmi_status_t.
_NOT_SUPPORTED: Final = 2
_REASONS: Final = {
    1: Reason.OUT_OF_RANGE,  # INVAL
    _NOT_SUPPORTED: Reason.NO_INTERFACE,
    3: Reason.NO_INTERFACE,  # NOT_YET_IMPLEMENTED
    8: Reason.TIMEOUT,  # TIMEOUT
    10: Reason.NOT_PERMITTED,  # NO_PERM
    12: Reason.IO_ERROR,  # IO
    14: Reason.IO_ERROR,  # FILE_ERROR
    17: Reason.OUT_OF_RANGE,  # INPUT_OUT_OF_BOUNDS
    31: Reason.DEVICE_LOST,  # NOT_FOUND
    32: Reason.NO_INTERFACE,  # NOT_INIT
    34: Reason.NO_INTERFACE,  # DRIVER_NOT_LOADED
    40: Reason.NO_READING,  # NO_DATA
    55: Reason.NO_INTERFACE,  # SETTING_UNAVAILABLE
}
_EXTENTS: Final = {31: Extent.DEVICE, 32: Extent.DRIVER, 34: Extent.DRIVER}


class AmdSmiLibrary:
    """The part of AMD SMI that power needs.

    Args:
        partition_names: returns the names that other programs have for partitions, by the PCI address of the GPU.
    """

    name = "amdsmi"
    vendor = Vendor.AMD

    def __init__(self, partition_names: Callable[[], Mapping[str, tuple[str, ...]]] = dict) -> None:
        self._partition_names = partition_names
        self._amdsmi: ModuleType | None = None
        #: Why the package cannot be used in this process.
        self._unusable: LibraryError | None = None
        self._handles: list[Handle] = []
        #: By the identity of the handles above, which the package has not made hashable.
        self._residency: dict[int, Residency] = {}

    def open(self) -> None:
        """Load amdsmi and initialise the library, which finds the GPUs."""
        if self._unusable is not None:
            raise self._unusable
        if self._amdsmi is None:
            self._amdsmi = self._load()
        with self._calls() as smi:
            smi.amdsmi_init(smi.AmdSmiInitFlags.INIT_AMD_GPUS)
        try:
            self._check_version()
        except LibraryError:
            self.close()
            raise

    def close(self) -> None:
        """Shut the library down."""
        with suppress(LibraryError), self._calls() as smi:
            smi.amdsmi_shut_down()

    def count(self) -> int:
        """Return how many devices there are; partitions and the dies of a package are devices of their own."""
        with self._calls() as smi:
            self._handles = list(smi.amdsmi_get_processor_handles())
        self._residency.clear()
        return len(self._handles)

    def handle(self, index: int) -> Handle:
        """Return a device's handle; the library writer out all of them at once."""
        return self._handles[index]

    def uuid(self, handle: Handle) -> str:
        """Return the UUID, five groups of hexadecimal digits."""
        with self._calls() as smi:
            return str(smi.amdsmi_get_gpu_device_uuid(handle))

    def describe(self, handle: Handle, uuid: str, index: int) -> GpuDeviceInfo:
        """Return what the library reports about a GPU."""
        with self._calls() as smi:
            asic: dict[str, Any] = smi.amdsmi_get_gpu_asic_info(handle)
        caps = self._optional(self._caps, handle) or {}
        partition = self._optional(self._compute_partition, handle)
        partitioned = partition.upper() != _UNPARTITIONED if partition else None
        clocks = self._optional(self._graphics_clock, handle) or {}
        address = self._optional(self._pci_address, handle) or ""
        return GpuDeviceInfo(
            uuid=uuid,
            index=index,
            vendor=self.vendor,
            model=str(asic["market_name"]),
            min_mw=_from_uw(caps.get("min_power_cap")),
            max_mw=_from_uw(caps.get("max_power_cap")) or None,
            default_mw=_from_uw(caps.get("default_power_cap")) or None,
            current_mw=_from_uw(caps.get("power_cap")),
            enforced_mw=_from_uw(caps.get("power_cap")),
            lowest_mhz=_figure_of(clocks.get("min_clk")),
            highest_mhz=_figure_of(clocks.get("max_clk")),
            partitioned=partitioned,
            partition_modes=(partition,) if partition else (),
            partition_names=self._partition_names().get(address.lower(), ()) if partitioned else (),
            pci_address=address,
        )

    def power_mw(self, handle: Handle) -> int:
        """Return the draw of the package, in whole watts: the current one from MI300 on, an average before."""
        with self._calls() as smi:
            info: dict[str, Any] = smi.amdsmi_get_power_info(handle)
        for name in ("socket_power", "current_socket_power", "average_socket_power"):
            watts = info[name]
            if isinstance(watts, int) and 0 < watts * _MW_PER_WATT < _NO_FIGURE_MW:
                return watts * _MW_PER_WATT
        raise LibraryError(Reason.NO_READING, "AMD SMI: the device reports no power, as the secondary die of a package")

    def energy_mj(self, handle: Handle) -> int | None:
        """Return the counter times its resolution; None where either is missing."""
        found = self._optional(self._energy_count, handle) or {}
        count, resolution_uj = found.get("energy_accumulator"), found.get("counter_resolution")
        if not isinstance(count, int) or not isinstance(resolution_uj, float) or not 0.0 < resolution_uj < math.inf:
            return None
        # The resolution is a float of 32 bits, of which two decimals are meant: 15.3. A product of floats would jump.
        hundredths = round(resolution_uj * 100)
        return None if count == _NO_COUNT else count * hundredths // (100 * _UJ_PER_MJ)

    def process_ids(self, handle: Handle) -> tuple[int, ...]:
        """Return the processes that have the device open, but this one; the package decodes their names too."""
        partition = self._optional(self._compute_partition, handle)
        if partition and partition.upper() != _UNPARTITIONED:
            raise LibraryError(Reason.NO_READING, "AMD SMI: the processes of one partition only are told")
        try:
            with self._calls() as smi:
                found = [int(process["pid"]) for process in smi.amdsmi_get_gpu_process_list(handle)]
        except UnicodeDecodeError as error:
            raise LibraryError(Reason.NO_READING, "AMD SMI: the name of a process is no UTF-8") from error
        return tuple(sorted({*found} - {os.getpid()}))

    def limit_mw(self, handle: Handle) -> int:
        """Return the power cap."""
        limit_mw = _from_uw(self._caps(handle)["power_cap"])
        if limit_mw is None:
            raise LibraryError(Reason.NO_READING, "AMD SMI: the device reports no power cap")
        return limit_mw

    def enforced_mw(self, handle: Handle) -> int:
        """Return the power cap; AMD SMI does not report the limits that the hardware imposes itself."""
        return self.limit_mw(handle)

    def clock_state(self, handle: Handle) -> ClockState:
        """Return the graphics clock, the busy time, and what AMD's counters say since the last call."""
        clock = self._optional(self._graphics_clock, handle) or {}
        metrics = self._optional(self._metrics, handle) or {}
        key = id(handle)
        before, self._residency[key] = self._residency.get(key), Residency.of(metrics)
        bound = bound_of_metrics(metrics, before)
        return ClockState(_figure_of(clock.get("clk")), bound, busy_pct_of_metrics(metrics))

    def set_limit_mw(self, handle: Handle, limit_mw: int) -> None:
        """Set the power cap."""
        with self._calls() as smi:
            smi.amdsmi_set_power_cap(handle, _power_sensor(smi, handle), limit_mw * _UW_PER_MW)

    def check_clock_is_free(self, handle: Handle) -> None:
        """Raise where the performance level is not the driver's own choice: an external writer controls the clocks."""
        with self._calls() as smi:
            level = str(smi.amdsmi_get_gpu_perf_level(handle))
        if level != _LEVEL_AUTO:
            raise LibraryError(Reason.REFUSED, f"AMD SMI: an external writer has set {level}")

    def clock_limit_mhz(self, handle: Handle) -> int | None:
        """Return the upper end of the range that the graphics clock may use."""
        limit_mhz = _figure_of(self._graphics_clock(handle)["max_clk"])
        if limit_mhz is None:
            raise LibraryError(Reason.NO_READING, "AMD SMI: the device reports no graphics clock")
        return limit_mhz

    def limit_clock(self, handle: Handle, lowest_mhz: int, limit_mhz: int) -> None:  # noqa: ARG002 - the lower end stays
        """Set the upper end, which puts the device in the performance level `manual`."""
        with self._calls() as smi:
            smi.amdsmi_set_gpu_clk_limit(handle, "sclk", "max", limit_mhz)

    def release_clock(self, handle: Handle, highest_mhz: int) -> None:
        """Set the upper end back, and leave the clocks to the driver again."""
        with self._calls() as smi:
            smi.amdsmi_set_gpu_clk_limit(handle, "sclk", "max", highest_mhz)
            smi.amdsmi_set_gpu_perf_level(handle, smi.AmdSmiDevPerfLevel.AUTO)

    def _energy_count(self, handle: Handle) -> dict[str, Any]:
        with self._calls() as smi:
            return dict(smi.amdsmi_get_energy_count(handle))

    def _metrics(self, handle: Handle) -> dict[str, Any]:
        with self._calls() as smi:
            return dict(smi.amdsmi_get_gpu_metrics_info(handle))

    def _graphics_clock(self, handle: Handle) -> dict[str, Any]:
        with self._calls() as smi:
            return dict(smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX))

    def _caps(self, handle: Handle) -> dict[str, Any]:
        with self._calls() as smi:
            if not _tells_sensors(smi):
                return dict(smi.amdsmi_get_power_cap_info(handle))
            return dict(smi.amdsmi_get_power_cap_info(handle, _power_sensor(smi, handle)))

    def _pci_address(self, handle: Handle) -> str:
        with self._calls() as smi:
            return str(smi.amdsmi_get_gpu_device_bdf(handle))

    def _compute_partition(self, handle: Handle) -> str:
        with self._calls() as smi:
            return str(smi.amdsmi_get_gpu_compute_partition(handle))

    def _check_version(self) -> None:
        with self._calls() as smi:
            version = smi.amdsmi_get_lib_version()
        if version["major"] != _LIBRARY_MAJOR:
            message = (
                f"{_LIBRARY} is version {version['major']}.{version['minor']}, and the package "
                f"amdsmi {smi.__version__} has the structures of version {_LIBRARY_MAJOR}"
            )
            self._unusable = LibraryError(Reason.NO_INTERFACE, message)
            raise self._unusable

    def _load(self) -> ModuleType:
        if not _library_is_there():
            raise LibraryError(Reason.NO_INTERFACE, f"no AMD SMI: {_LIBRARY} is not found")
        try:
            return _import_amdsmi()
        except LibraryError as error:
            self._unusable = error
            raise
        finally:
            release_unused_memory()

    def _optional(self, call: Callable[[Handle], T], handle: Handle) -> T | None:
        """Call what a device, or a guest, may not have."""
        try:
            return call(handle)
        except LibraryError as error:
            if error.extent is Extent.CALL and error.failure.reason in {Reason.NO_INTERFACE, Reason.NOT_PERMITTED}:
                return None
            raise

    @contextmanager
    def _calls(self) -> Iterator[ModuleType]:
        if self._amdsmi is None:
            raise LibraryError(Reason.NO_INTERFACE, "AMD SMI is not open", Extent.DRIVER)
        try:
            yield self._amdsmi
        except self._amdsmi.AmdSmiLibraryException as error:
            raise _translated(error.get_error_code(), error.get_error_info()) from error
        except self._amdsmi.AmdSmiException as error:
            raise LibraryError(Reason.BACKEND_FAILED, f"AMD SMI: {error}") from error


def _tells_sensors(smi: ModuleType) -> bool:
    return hasattr(smi, "amdsmi_get_supported_power_cap")


def _power_sensor(smi: ModuleType, handle: Handle) -> int:
    """Return the sensor that takes the cap."""
    if not _tells_sensors(smi):
        return _PPT0
    offered = smi.amdsmi_get_supported_power_cap(handle)
    for sensor, kind in zip(offered["sensor_inds"], offered["sensor_types"], strict=True):
        if int(kind) == _PPT0:
            return int(sensor)
    raise LibraryError(Reason.NO_INTERFACE, "AMD SMI: the device offers no cap on filtered package power (PPT0)")


def _library_is_there() -> bool:
    """Return whether the library is where the package looks for it."""
    rocm = os.getenv("ROCM_PATH", "/opt/rocm")
    package = importlib.util.find_spec("amdsmi")
    folders = [os.getenv("ROCM_HOME", rocm) + "/lib", rocm + "/lib"]
    folders += package.submodule_search_locations or () if package else ()
    return any(_loads(name) for name in (_LIBRARY, *(str(Path(folder, _LIBRARY)) for folder in folders)))


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


class _ThreadOutput(io.TextIOBase):
    """Keeps what this thread prints, and passes on what other threads log meanwhile."""

    def __init__(self) -> None:
        self.printed = io.StringIO()
        self._stdout = sys.stdout
        self._thread = threading.get_ident()

    def write(self, text: str, /) -> int:
        """Write to the stream of the thread."""
        return (self.printed if threading.get_ident() == self._thread else self._stdout).write(text)

    def flush(self) -> None:
        """Flush standard output."""
        self._stdout.flush()


def _import_amdsmi() -> ModuleType:
    output = _ThreadOutput()
    try:
        with redirect_stdout(output):
            import amdsmi  # noqa: PLC0415 - see the module's docstring
    except (ImportError, KeyError, AttributeError, OSError) as error:
        why = output.printed.getvalue().partition("\n")[0] or str(error)
        message = f"the amdsmi package cannot use {_LIBRARY}: {why}"
        raise LibraryError(Reason.NO_INTERFACE, message) from error
    assert isinstance(amdsmi, ModuleType)
    return amdsmi


def _translated(code: int, text: str) -> LibraryError:
    return LibraryError(_REASONS.get(code, Reason.BACKEND_FAILED), f"AMD SMI: {text}", _EXTENTS.get(code, Extent.CALL))


def _figure_of(value: object) -> int | None:
    """Return a value; the package has a word for an absent one."""
    return value if isinstance(value, int) and value > 0 else None


def _from_uw(uw: int | None) -> int | None:
    if uw is None or uw // _UW_PER_MW >= _NO_FIGURE_MW:
        return None
    return uw // _UW_PER_MW
