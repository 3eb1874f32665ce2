"""The GPU drivers of this machine: NVIDIA's and AMD's, each with a thread of its own, so that each hangs alone."""

from joulie_agent.hardware.gpu.amdsmi import AmdSmiLibrary
from joulie_agent.hardware.gpu.bounded import BoundedGpuDriver
from joulie_agent.hardware.gpu.library_driver import LibraryDriver
from joulie_agent.hardware.gpu.nvml import NvmlLibrary


def host_gpu_drivers() -> tuple[BoundedGpuDriver, ...]:
    """Return both, unopened: a vendor's package is imported when its driver is first asked, if the library is there."""
    return tuple(BoundedGpuDriver(LibraryDriver(library)) for library in (NvmlLibrary(), AmdSmiLibrary()))
