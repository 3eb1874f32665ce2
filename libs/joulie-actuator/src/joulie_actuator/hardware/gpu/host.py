"""The GPU drivers of this machine: NVIDIA's and AMD's, with a thread for each device."""

from joulie_actuator.hardware.gpu.amdsmi import AmdSmiLibrary
from joulie_actuator.hardware.gpu.device_calls import OPEN_WAIT_S, GpuDeadlines
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.gpu.nvml import NvmlLibrary


def host_gpu_drivers(*, open_wait_s: float = OPEN_WAIT_S) -> tuple[LibraryDriver, ...]:
    """Return both, unopened: a vendor's package is imported at the first call of its driver, if the library is present.

    Args:
        open_wait_s: how long the first call waits for a driver to open before it fails.
    """
    deadlines = GpuDeadlines(open_wait_s=open_wait_s)
    return tuple(LibraryDriver(library, deadlines=deadlines) for library in (NvmlLibrary(), AmdSmiLibrary()))
