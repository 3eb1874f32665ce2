"""GPUs that live in a file, with a library of NVIDIA's driver compiled over it."""

import ctypes
import subprocess
from pathlib import Path

from joulie_testing.agent.stub_gpus import HANG_NEVER, HANG_ON_SET, StubGpu, StubState, stub_hardware

RESOURCE = "nvidia.com/gpu"
HIGHEST_MHZ = 1980
_STUB = Path(__file__).parents[4] / "libs/joulie-actuator/tests/stubs/nvml/nvml.c"


class StubGpus:
    """GPUs in a file, each at its highest clock under load."""

    def __init__(self, directory: Path, count: int, model: str = "NVIDIA H100 80GB HBM3") -> None:
        hardware = stub_hardware(directory / "gpus")
        self.path, self._state = hardware.path, hardware.state
        for index in range(count):
            figures = {"power_mw": 600_000, "highest_mhz": HIGHEST_MHZ, "clock_mhz": HIGHEST_MHZ, "activity_pct": 100}
            self._state.add(f"GPU-{index}", model, **figures)
        self.library = directory / "nvml"
        self.library.mkdir()
        argv = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self.library / "libnvidia-ml.so.1"), str(_STUB)]
        subprocess.run(argv, check=True, timeout=60)

    @staticmethod
    def lock_at(index: int) -> int:
        """Return where in the file the highest clock is that a GPU is held to, 0 for none."""
        return StubState.gpus.offset + index * ctypes.sizeof(StubGpu) + StubGpu.lock_mhz.offset

    @property
    def locks_mhz(self) -> list[int]:
        """Highest clocks that the GPUs are held to now, 0 for none."""
        return [gpu.lock_mhz for gpu in self._gpus]

    def hang(self, index: int, *, on_set: bool) -> None:
        """Let each call of the driver that sets something on a GPU hang, or none."""
        self._gpus[index].hang = HANG_ON_SET if on_set else HANG_NEVER

    @property
    def _gpus(self) -> list[StubGpu]:
        return self._state.gpus[: self._state.count]
