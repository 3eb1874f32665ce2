"""GPUs in a file, which stub libraries of the vendors' drivers are compiled over: `struct stub_state` of gpu_state.h.

The one mirror of that layout; a test of the actuator's GPUs changes the file while the process under test runs.
"""

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HANG_NEVER, HANG_ALWAYS, HANG_ON_SET = range(3)


class StubGpu(ctypes.Structure):
    """`struct stub_gpu` of gpu_state.h."""

    _fields_ = (
        ("uuid", ctypes.c_char * 80),
        ("name", ctypes.c_char * 96),
        ("min_mw", ctypes.c_uint32),
        ("max_mw", ctypes.c_uint32),
        ("default_mw", ctypes.c_uint32),
        ("limit_mw", ctypes.c_uint32),
        ("power_mw", ctypes.c_uint32),
        ("imposed_mw", ctypes.c_uint32),
        ("no_power_limit", ctypes.c_uint32),
        ("can_be_partitioned", ctypes.c_uint32),
        ("partitioned", ctypes.c_uint32),
        ("lost", ctypes.c_uint32),
        ("hang", ctypes.c_uint32),
        ("lowest_mhz", ctypes.c_uint32),
        ("highest_mhz", ctypes.c_uint32),
        ("lock_mhz", ctypes.c_uint32),
        ("no_lock", ctypes.c_uint32),
        ("clock_mhz", ctypes.c_uint32),
        ("clock_reasons", ctypes.c_uint32),
        ("no_clock_reasons", ctypes.c_uint32),
        ("readings", ctypes.c_uint32),
        ("power_readings", ctypes.c_uint32),
        ("thermal_readings", ctypes.c_uint32),
        ("activity_pct", ctypes.c_uint32),
        ("energy_low", ctypes.c_uint32),
        ("energy_high", ctypes.c_uint32),
        ("no_energy", ctypes.c_uint32),
        ("computes", ctypes.c_uint32),
        ("draws", ctypes.c_uint32),
        ("compute_pids", ctypes.c_uint32 * 8),
        ("draw_pids", ctypes.c_uint32 * 8),
        ("no_processes", ctypes.c_uint32),
        ("manual", ctypes.c_uint32),
        ("set_us", ctypes.c_uint32),
        ("releases", ctypes.c_uint32),
        ("bus", ctypes.c_uint32),
        ("partition", ctypes.c_uint32),
    )

    def use(self, *, compute: Sequence[int] = (), draw: Sequence[int] = ()) -> None:
        """Let these processes use it, by their number."""
        self.compute_pids[: len(compute)], self.computes = list(compute), len(compute)
        self.draw_pids[: len(draw)], self.draws = list(draw), len(draw)


class StubState(ctypes.Structure):
    """`struct stub_state` of gpu_state.h."""

    _fields_ = (
        ("count", ctypes.c_uint32),
        ("loaded", ctypes.c_uint32),
        ("epoch", ctypes.c_uint32),
        ("may_set", ctypes.c_uint32),
        ("hang", ctypes.c_uint32),
        ("version_mismatch", ctypes.c_uint32),
        ("lib_major", ctypes.c_uint32),
        ("lib_minor", ctypes.c_uint32),
        ("inits", ctypes.c_uint32),
        ("shutdowns", ctypes.c_uint32),
        ("sets", ctypes.c_uint32),
        ("gpus", StubGpu * 80),
    )

    def add(self, uuid: str, name: str, **figures: int) -> StubGpu:
        """Plug in a GPU."""
        gpu: StubGpu = self.gpus[self.count]
        gpu.uuid, gpu.name = uuid.encode(), name.encode()
        values = {"min_mw": 200_000, "max_mw": 700_000, "default_mw": 700_000, "limit_mw": 700_000, "power_mw": 90_000}
        values |= {"lowest_mhz": 210, "highest_mhz": 1980}
        for field, value in {**values, **figures}.items():
            setattr(gpu, field, value)
        self.count += 1
        return gpu

    def reload_driver(self) -> None:
        """Unload and load the kernel's driver: limits are the defaults, and every client must begin anew."""
        for index in range(self.count):
            self.gpus[index].limit_mw = self.gpus[index].default_mw
            self.gpus[index].lost = 0
            self.gpus[index].lock_mhz = self.gpus[index].manual = 0
        self.epoch += 1


@dataclass(frozen=True, slots=True)
class StubHardware:
    """The file that the GPUs live in."""

    path: Path
    state: StubState


def stub_hardware(path: Path) -> StubHardware:
    """Make the file of a machine without GPUs, the driver loaded, whose users are root."""
    path.write_bytes(bytes(ctypes.sizeof(StubState)))
    with path.open("r+b") as file:
        state = StubState.from_buffer(mmap.mmap(file.fileno(), 0))  # unmapped with the last reference to it
    state.loaded = state.may_set = 1
    state.lib_major = 26
    return StubHardware(path, state)
