"""The GPU drivers of this machine: NVIDIA's and AMD's, with a thread for each device."""

from functools import partial

from joulie_actuator.hardware.gpu.amdsmi import AmdSmiLibrary
from joulie_actuator.hardware.gpu.device_calls import OPEN_WAIT_S, GpuDeadlines
from joulie_actuator.hardware.gpu.kfd import partition_names
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.gpu.nvml import NvmlLibrary
from joulie_actuator.hardware.sysfs import SysfsTree


def host_gpu_drivers(sys_root: str, *, open_wait_s: float = OPEN_WAIT_S) -> tuple[LibraryDriver, ...]:
    """Return both, unopened: a vendor's package is imported at the first call of its driver, if the library is present.

    Args:
        sys_root: a mounted sysfs; it has the names of AMD's partitions.
        open_wait_s: how long the first call waits for a driver to open before it fails.
    """
    deadlines = GpuDeadlines(open_wait_s=open_wait_s)
    # Without the watch of the subsystem's thread: the threads of the devices read it, under deadlines of their own.
    amd = AmdSmiLibrary(partial(partition_names, SysfsTree(sys_root)))
    return tuple(LibraryDriver(library, deadlines=deadlines) for library in (NvmlLibrary(), amd))
