"""NVIDIA's GPUs through NVML; the only module that imports pynvml.

pynvml is imported when the driver's own library is there, since it costs 17 MiB of resident memory and 0.1 s, of which
6 MiB stay once the C library has returned what it does not use (nvidia-ml-py 13.615, CPython 3.11, x86-64). A machine
without the NVIDIA driver has no such cost.

A power limit is what `nvidia-smi -pl` sets. It needs root and is forgotten when the driver deinitialises the GPU, which
without persistence mode happens whenever the last client leaves; this process is a client as long as it has the
library open, and so also prevents unloading the driver.

A clock limit is what `nvidia-smi -lgc` sets, from Volta on; NVML has no call that reads it.
Source: NVIDIA, NVML API Reference Guide; NVIDIA, Driver Persistence.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Final

from joulie_actuator.hardware.gpu.clock_state import MOST_PCT, ClockBound, ClockState, bound_of_event_reasons
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.gpu.library import Extent, Handle, LibraryError, release_unused_memory
from joulie_actuator.reasons import Reason

#: The name that pynvml loads.
_LIBRARY: Final = "libnvidia-ml.so.1"

# Codes are NVML's own, nvmlReturn_t.
_UNINITIALIZED: Final = 1
_NOT_FOUND: Final = 6
_DRIVER_NOT_LOADED: Final = 9
_LIBRARY_NOT_FOUND: Final = 12
_LIB_RM_VERSION_MISMATCH: Final = 18
_REASONS: Final = {
    _UNINITIALIZED: Reason.NO_INTERFACE,
    2: Reason.OUT_OF_RANGE,  # INVALID_ARGUMENT
    3: Reason.NO_INTERFACE,  # NOT_SUPPORTED
    4: Reason.NOT_PERMITTED,  # NO_PERMISSION
    _NOT_FOUND: Reason.DEVICE_LOST,
    _DRIVER_NOT_LOADED: Reason.NO_INTERFACE,
    10: Reason.TIMEOUT,  # TIMEOUT
    _LIBRARY_NOT_FOUND: Reason.NO_INTERFACE,
    13: Reason.NO_INTERFACE,  # FUNCTION_NOT_FOUND
    15: Reason.DEVICE_LOST,  # GPU_IS_LOST
    16: Reason.DEVICE_LOST,  # RESET_REQUIRED
    17: Reason.NOT_PERMITTED,  # OPERATING_SYSTEM: a device cgroup that keeps the GPU away
    _LIB_RM_VERSION_MISMATCH: Reason.BACKEND_FAILED,
    28: Reason.DEVICE_LOST,  # GPU_NOT_FOUND
}
_EXTENTS: Final = {
    _UNINITIALIZED: Extent.DRIVER,
    _DRIVER_NOT_LOADED: Extent.DRIVER,
    _LIB_RM_VERSION_MISMATCH: Extent.DRIVER,
    _NOT_FOUND: Extent.DEVICE,
    15: Extent.DEVICE,
    16: Extent.DEVICE,
    28: Extent.DEVICE,
}
_HINTS: Final = {
    _LIB_RM_VERSION_MISMATCH: "the driver was replaced under this process: restart it",
}


class NvmlLibrary:
    """The part of NVML that power needs."""

    name = "nvml"
    vendor = Vendor.NVIDIA

    def __init__(self) -> None:
        self._pynvml: ModuleType | None = None

    def open(self) -> None:
        """Load pynvml and initialise NVML, which finds the GPUs."""
        if self._pynvml is None:
            self._pynvml = _import_pynvml()
        with self._calls() as nvml:
            nvml.nvmlInit()

    def close(self) -> None:
        """Shut NVML down."""
        with suppress(LibraryError), self._calls() as nvml:
            nvml.nvmlShutdown()

    def count(self) -> int:
        """Return how many GPUs there are."""
        with self._calls() as nvml:
            return int(nvml.nvmlDeviceGetCount())

    def handle(self, index: int) -> Handle:
        """Return a GPU's handle; getting one initialises the GPU where no other client has."""
        with self._calls() as nvml:
            return nvml.nvmlDeviceGetHandleByIndex(index)

    def uuid(self, handle: Handle) -> str:
        """Return the UUID, `GPU-` and five groups of hexadecimal digits."""
        with self._calls() as nvml:
            return str(nvml.nvmlDeviceGetUUID(handle))

    def describe(self, handle: Handle, uuid: str, index: int) -> GpuDeviceInfo:
        """Return what NVML reports about a GPU."""
        with self._calls() as nvml:
            model = str(nvml.nvmlDeviceGetName(handle))
        low_mw: int | None = None
        high_mw: int | None = None
        with _optional(), self._calls() as nvml:
            low_mw, high_mw = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        partitioned = self._partitioned(handle)
        lowest_mhz, highest_mhz = self._graphics_clocks(handle)
        return GpuDeviceInfo(
            uuid=uuid,
            index=index,
            vendor=self.vendor,
            model=model,
            min_mw=low_mw,
            max_mw=high_mw,
            default_mw=self._figure("nvmlDeviceGetPowerManagementDefaultLimit", handle),
            current_mw=self._figure("nvmlDeviceGetPowerManagementLimit", handle),
            enforced_mw=self._figure("nvmlDeviceGetEnforcedPowerLimit", handle),
            lowest_mhz=lowest_mhz,
            highest_mhz=highest_mhz,
            partitioned=partitioned,
            partition_modes=() if partitioned is None else self._partition_modes(handle),
            partition_uuids=self._partition_uuids(handle) if partitioned else (),
            pci_address=self._pci_address(handle),
            minor=self._figure("nvmlDeviceGetMinorNumber", handle),
        )

    def power_mw(self, handle: Handle) -> int:
        """Return the draw of the whole board; an average over a second from Ampere on, save for A100."""
        with self._calls() as nvml:
            return int(nvml.nvmlDeviceGetPowerUsage(handle))

    def energy_mj(self, handle: Handle) -> int | None:
        """Return the energy of the whole board since the driver was loaded; from Volta on."""
        return self._figure("nvmlDeviceGetTotalEnergyConsumption", handle)

    def process_ids(self, handle: Handle) -> tuple[int, ...]:
        """Return the processes that compute or draw on the board, MIG devices included; clients of MPS are not told.

        The package refuses the functions without a version where it is of another version than the library.
        """
        with self._calls() as nvml:
            found = [*nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)]
            found += nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle)
        return tuple(sorted({int(process.pid) for process in found}))

    def limit_mw(self, handle: Handle) -> int:
        """Return the management limit."""
        with self._calls() as nvml:
            return int(nvml.nvmlDeviceGetPowerManagementLimit(handle))

    def enforced_mw(self, handle: Handle) -> int:
        """Return the lowest of all power limiters, the management limit being one."""
        with self._calls() as nvml:
            return int(nvml.nvmlDeviceGetEnforcedPowerLimit(handle))

    def clock_state(self, handle: Handle) -> ClockState:
        """Return the graphics clock, NVML's reasons, by the name that the driver knows them by, and the busy time."""
        clock_mhz: int | None = None
        with _optional(), self._calls() as nvml:
            clock_mhz = int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_GRAPHICS))
        reasons = self._figure("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:
            reasons = self._figure("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        bound = ClockBound.UNKNOWN if reasons is None else bound_of_event_reasons(reasons)
        return ClockState(clock_mhz, bound, self._busy_pct(handle))

    def set_limit_mw(self, handle: Handle, limit_mw: int) -> None:
        """Set the management limit."""
        with self._calls() as nvml:
            nvml.nvmlDeviceSetPowerManagementLimit(handle, limit_mw)

    def check_clock_is_free(self, handle: Handle) -> None:
        """Do nothing: NVML does not report it."""

    def clock_limit_mhz(self, handle: Handle) -> int | None:  # noqa: ARG002 - the protocol's signature
        """Return None: NVML cannot read it."""
        return None

    def limit_clock(self, handle: Handle, lowest_mhz: int, limit_mhz: int) -> None:
        """Lock the graphics clock to a range that leaves the GPU free to idle."""
        with self._calls() as nvml:
            nvml.nvmlDeviceSetGpuLockedClocks(handle, lowest_mhz, limit_mhz)

    def release_clock(self, handle: Handle, highest_mhz: int) -> None:  # noqa: ARG002 - the protocol's signature
        """Unlock the graphics clock."""
        with self._calls() as nvml:
            nvml.nvmlDeviceResetGpuLockedClocks(handle)

    def _graphics_clocks(self, handle: Handle) -> tuple[int | None, int | None]:
        """Return the lowest and the highest clock that goes with the highest memory clock."""
        with _optional(), self._calls() as nvml:
            memory_mhz = max(nvml.nvmlDeviceGetSupportedMemoryClocks(handle), default=0)
            clocks_mhz = nvml.nvmlDeviceGetSupportedGraphicsClocks(handle, memory_mhz)
            return min(clocks_mhz, default=None), max(clocks_mhz, default=None)
        return None, None

    def _figure(self, function: str, handle: Handle) -> int | None:
        with _optional(), self._calls() as nvml:
            return int(getattr(nvml, function)(handle))
        return None

    def _busy_pct(self, handle: Handle) -> int | None:
        with _optional(), self._calls() as nvml:
            pct = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            return pct if pct <= MOST_PCT else None
        return None

    def _partitioned(self, handle: Handle) -> bool | None:
        with _optional(), self._calls() as nvml:
            current, _pending = nvml.nvmlDeviceGetMigMode(handle)
            return bool(current)
        return None

    def _pci_address(self, handle: Handle) -> str:
        with _optional(), self._calls() as nvml:
            return str(nvml.nvmlDeviceGetPciInfo(handle).busId)
        return ""

    def _partition_uuids(self, handle: Handle) -> tuple[str, ...]:
        places = range(self._figure("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
        return tuple(uuid for each in places if (uuid := self._partition_uuid(handle, each)))

    def _partition_uuid(self, handle: Handle, place: int) -> str | None:
        with _optional(), self._calls() as nvml:
            try:
                return str(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)))
            except nvml.NVMLError as error:
                # Of a place without a MIG device, or one that was removed meanwhile; the GPU itself is there.
                if error.value != _NOT_FOUND:
                    raise
        return None

    def _partition_modes(self, handle: Handle) -> tuple[str, ...]:
        with self._calls() as nvml:
            profiles = range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
        return tuple(dict.fromkeys(name for each in profiles if (name := self._profile(handle, each))))

    def _profile(self, handle: Handle, profile: int) -> str | None:
        with _optional(Reason.OUT_OF_RANGE), self._calls() as nvml:
            return str(nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, profile).name).removeprefix("MIG ")
        return None

    @contextmanager
    def _calls(self) -> Iterator[ModuleType]:
        if self._pynvml is None:
            raise LibraryError(Reason.NO_INTERFACE, "NVML is not open", Extent.DRIVER)
        try:
            yield self._pynvml
        except self._pynvml.NVMLError as error:
            raise _translated(error.value, str(error)) from error


def _import_pynvml() -> ModuleType:
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise LibraryError(Reason.NO_INTERFACE, f"no NVIDIA driver: {error}") from error
    import pynvml  # noqa: PLC0415 - see the module's docstring

    release_unused_memory()
    assert isinstance(pynvml, ModuleType)
    return pynvml


def _translated(code: int, text: str) -> LibraryError:
    hint = _HINTS.get(code)
    message = f"NVML: {text}; {hint}" if hint else f"NVML: {text}"
    return LibraryError(_REASONS.get(code, Reason.BACKEND_FAILED), message, _EXTENTS.get(code, Extent.CALL))


@contextmanager
def _optional(*also: Reason) -> Iterator[None]:
    """Suppress the error for a value that a GPU, or an older driver, does not offer."""
    try:
        yield
    except LibraryError as error:
        if error.extent is not Extent.CALL or error.failure.reason not in {Reason.NO_INTERFACE, *also}:
            raise
