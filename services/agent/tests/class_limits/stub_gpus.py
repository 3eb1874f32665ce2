"""GPUs that live in a file, with the library of their vendor's driver compiled over it."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

from joulie_testing.agent.kfd_tree import KfdTree
from joulie_testing.agent.stub_gpus import HANG_NEVER, HANG_ON_SET, StubGpu, StubState, stub_hardware
from joulie_testing.agent.stub_libraries import compile_amdsmi, compile_nvml

RESOURCE = "nvidia.com/gpu"
HIGHEST_MHZ = 1980
_STUBS = Path(__file__).parents[4] / "libs/joulie-actuator/tests/stubs"


@dataclass(frozen=True, slots=True)
class StubVendor:
    """A vendor: its model, its resource, and its library."""

    model: str
    resource: str
    #: Of the library, which is found there by the name of the vendor.
    folder: str


NVIDIA = StubVendor("NVIDIA H100 80GB HBM3", RESOURCE, "nvml")
AMD = StubVendor("AMD Instinct MI300X", "amd.com/gpu", "amdsmi")
#: Of the PCI address of AMD's first GPU; NVML's have none.
AMD_BUS = 0x10


class StubGpus:
    """GPUs in a file, each at its highest clock under load."""

    def __init__(self, directory: Path, count: int, model: str = "", vendor: StubVendor = NVIDIA) -> None:
        hardware = stub_hardware(directory / "gpus")
        self.vendor = vendor
        self.path, self._state = hardware.path, hardware.state
        for index in range(count):
            figures = {"power_mw": 600_000, "highest_mhz": HIGHEST_MHZ, "clock_mhz": HIGHEST_MHZ, "activity_pct": 100}
            if vendor == AMD:
                figures |= {"can_be_partitioned": 1, "bus": AMD_BUS + index}
            self._state.add(f"GPU-{index}", model or vendor.model, **figures)
        self.library = directory / vendor.folder
        self.library.mkdir()
        compile_library = compile_nvml if vendor == NVIDIA else compile_amdsmi
        compile_library(_STUBS, self.library)

    @staticmethod
    def lock_at(index: int) -> int:
        """Return where in the file the highest clock is that a GPU is held to, 0 for none."""
        return StubState.gpus.offset + index * ctypes.sizeof(StubGpu) + StubGpu.lock_mhz.offset

    @property
    def locks_mhz(self) -> list[int]:
        """Highest clocks that the GPUs are held to now, 0 for none."""
        return [gpu.lock_mhz for gpu in self.gpus]

    def partition(self, index: int, sys: Path) -> None:
        """Cut a GPU of AMD into partitions, as a machine's /sys then has it; its second one is `amdgpu_xcp_<index>`."""
        self.gpus[index].partitioned = 1
        kfd, bus = KfdTree(sys), self.gpus[index].bus
        for part in range(2):
            number = 2 * index + part
            kfd.node(1 + number, drm_render_minor=128 + number, location_id=bus << 8 | part, domain=0)
        kfd.partition(index, 128 + 2 * index + 1)

    def hang(self, index: int, *, on_set: bool) -> None:
        """Let each call of the driver that sets something on a GPU hang, or none."""
        self.gpus[index].hang = HANG_ON_SET if on_set else HANG_NEVER

    @property
    def gpus(self) -> list[StubGpu]:
        """The GPUs, in the order of the driver."""
        return self._state.gpus[: self._state.count]
