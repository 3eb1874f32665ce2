"""The calls of a vendor's library that power needs, and one exception for all its errors.

`LibraryDriver` makes a `GpuDriver` of it, and turns the exceptions into values.
"""

import ctypes
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from joulie_actuator.hardware.gpu.clock_state import ClockState
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason

#: The vendor package's own object for a device; good until the library is closed.
Handle: TypeAlias = Any


class Extent(StrEnum):
    """Extent of an error: what it affects."""

    #: This call only.
    CALL = "call"
    #: The device is gone, and its handle with it.
    DEVICE = "device"
    #: The driver is gone, and every handle with it: the library must be opened again.
    DRIVER = "driver"


class LibraryError(Exception):
    """A call failed."""

    def __init__(self, reason: Reason, message: str, extent: Extent = Extent.CALL) -> None:
        super().__init__(message)
        self.failure = HardwareFailure(reason, message)
        self.extent = extent


class GpuLibrary(Protocol):
    """Calls into one vendor's library. Each may raise `LibraryError`, `close` excepted."""

    @property
    def name(self) -> str:
        """`nvml` or `amdsmi`."""

    @property
    def vendor(self) -> Vendor:
        """The vendor of the GPUs."""

    def open(self) -> None:
        """Load the library and connect to the driver."""

    def close(self) -> None:
        """Disconnect; an error means that there is nothing to disconnect from."""

    def count(self) -> int:
        """Return how many devices there are, including those that do not answer."""

    def handle(self, index: int) -> Handle:
        """Return the handle of a device, by the driver's number; takes seconds where that initialises the device."""

    def uuid(self, handle: Handle) -> str:
        """Return what identifies the device over reboots."""

    def describe(self, handle: Handle, uuid: str, index: int) -> GpuDeviceInfo:
        """Return what is known of the device; what the driver does not offer is left out."""

    def power_mw(self, handle: Handle) -> int:
        """Return what the device draws."""

    def energy_mj(self, handle: Handle) -> int | None:
        """Return the device's energy counter in millijoules, from any start; None where the device has none."""

    def process_ids(self, handle: Handle) -> tuple[int, ...]:
        """Return the processes that use the device, in the caller's PID namespace."""

    def limit_mw(self, handle: Handle) -> int:
        """Return the limit that was set last."""

    def enforced_mw(self, handle: Handle) -> int:
        """Return the limit in force."""

    def clock_state(self, handle: Handle) -> ClockState:
        """Return the graphics clock, why it is no higher, and for how much of the time the device is busy."""

    def set_limit_mw(self, handle: Handle, limit_mw: int) -> None:
        """Set the power limit."""

    def check_clock_is_free(self, handle: Handle) -> None:
        """Raise where an external writer visibly controls the graphics clock."""

    def clock_limit_mhz(self, handle: Handle) -> int | None:
        """Return the highest graphics clock that is allowed; None where the vendor does not report it."""

    def limit_clock(self, handle: Handle, lowest_mhz: int, limit_mhz: int) -> None:
        """Keep the graphics clock between two ends, of which the lower is the device's own."""

    def release_clock(self, handle: Handle, highest_mhz: int) -> None:
        """End every limit on the graphics clock."""


def release_unused_memory() -> None:
    """Return the C library's free memory to the system.

    Importing a vendor's package allocates and frees more than ten megabytes, which glibc would keep.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
