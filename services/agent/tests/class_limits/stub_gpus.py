"""GPUs that live in a file, with a library of NVIDIA's driver compiled over it."""

import mmap
import struct
import subprocess
from pathlib import Path

RESOURCE = "nvidia.com/gpu"
HIGHEST_MHZ = 1980
_STUB = Path(__file__).parents[4] / "libs/joulie-actuator/tests/stubs/nvml/nvml.c"
#: As in gpu_state.h of the stubs: words before the GPUs, bytes of the names of a GPU, and its words.
_HEAD, _MOST_GPUS = struct.Struct("11I"), 80
_GPU = struct.Struct("80s96s44I")
_HANG_AT, _LOCK_AT = 80 + 96 + 10 * 4, 80 + 96 + 13 * 4
_HANG_ON_SET = 2


class StubGpus:
    """GPUs in a file, each at its highest clock under load."""

    def __init__(self, directory: Path, count: int, model: str = "NVIDIA H100 80GB HBM3") -> None:
        self.path = directory / "gpus"
        self.count = count
        #: min, max, default, limit and power in mW; lowest and highest clock in MHz; clock and load.
        watts = (200_000, 700_000, 700_000, 700_000, 600_000)
        figures = (*watts, *(0,) * 6, 210, HIGHEST_MHZ, 0, 0, HIGHEST_MHZ, *(0,) * 5, 100, *(0,) * 22)
        gpus = [_GPU.pack(f"GPU-{index}".encode(), model.encode(), *figures) for index in range(count)]
        empty = bytes(_GPU.size * (_MOST_GPUS - count))
        self.path.write_bytes(_HEAD.pack(count, 1, 0, 1, 0, 0, 26, 0, 0, 0, 0) + b"".join(gpus) + empty)
        with self.path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), 0)
        self.library = directory / "nvml"
        self.library.mkdir()
        argv = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self.library / "libnvidia-ml.so.1"), str(_STUB)]
        subprocess.run(argv, check=True, timeout=60)

    @staticmethod
    def lock_at(index: int) -> int:
        """Return where in the file the highest clock is that a GPU is held to, 0 for none."""
        return _HEAD.size + index * _GPU.size + _LOCK_AT

    @property
    def locks_mhz(self) -> list[int]:
        """Highest clocks that the GPUs are held to now, 0 for none."""
        return [struct.unpack_from("I", self._bytes, self.lock_at(index))[0] for index in range(self.count)]

    def hang(self, index: int, *, on_set: bool) -> None:
        """Let each call of the driver that sets something on a GPU hang, or none."""
        at = _HEAD.size + index * _GPU.size + _HANG_AT
        struct.pack_into("I", self._bytes, at, _HANG_ON_SET if on_set else 0)
