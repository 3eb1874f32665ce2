"""A two-socket node with eight GPUs: a tree of files, NVIDIA's library compiled over a file, and a load that moves.

The energy counters advance a hundred times a second, so that a reading at any moment is within a percent of the load;
what the load draws stays below the caps, as on real hardware. Reading these files costs less than reading the kernel's.
"""

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joulie_testing.agent.fake_sysfs import FakeMachine, build
from joulie_testing.agent.machine_spec import MachineSpec
from joulie_testing.agent.stub_gpus import stub_hardware

STUBS = Path(__file__).parents[2] / "libs/joulie-actuator/tests/stubs"
GPUS = 8
GPU_MODEL = "NVIDIA H100 80GB HBM3"
CPU_MODEL = "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"
TICK_S = 0.01
#: How often the load changes by more than noise.
LOAD_CHANGES_S = 10.0
NOISE = 0.005


class Machine:
    """The node; `environment` is what an actuator needs to find it."""

    def __init__(self, directory: Path, cores_per_socket: int) -> None:
        self.spec = MachineSpec(sockets=2, cores=cores_per_socket, model_name=CPU_MODEL)
        self.host: FakeMachine = build(directory / "host", self.spec)
        self._zones = self.host.zones()
        for zone in self._zones:
            (self.host.sys / zone / "energy_uj").chmod(0o600)
        gpus = stub_hardware(directory / "gpus")
        self._gpus = gpus.state
        self._plug_in()
        library = directory / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, STUBS / "nvml/nvml.c"], check=True, timeout=60)
        self.environment = {
            "HOST_SYS_ROOT": str(self.host.sys),
            "HOST_PROC_ROOT": str(self.host.proc),
            "JOULIE_STUB_GPU_STATE": str(gpus.path),
            "LD_LIBRARY_PATH": str(directory),
        }

    def limits(self) -> tuple[float, float]:
        """Watts that the first package and the first GPU are limited to now."""
        return self.host.read(self.host.limits()[0]) / 1e6, self._gpus.gpus[0].limit_mw / 1e3

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Draw power until the block ends."""
        done = threading.Event()
        thread = threading.Thread(target=self._draw, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _plug_in(self) -> None:
        for index in range(GPUS):
            self._gpus.add(f"GPU-00000000-0000-0000-0000-{index:012}", GPU_MODEL)

    def _draw(self, done: threading.Event) -> None:
        dice = random.Random(3)
        last = change_at = second_at = time.monotonic()
        load, cpu_watts = 0.0, [0.0] * len(self._zones)
        while not done.wait(TICK_S):
            now = time.monotonic()
            if now >= change_at:
                change_at, load = now + LOAD_CHANGES_S, dice.uniform(0.5, 1.0)
            if now >= second_at:
                second_at = now + 1.0
                cpu_watts = [self._cpu_watts(path, load, dice) for path in self.host.limits()]
                for gpu in self._gpus.gpus[:GPUS]:
                    gpu.power_mw = round(min(load * 700_000, gpu.limit_mw) * dice.uniform(1 - NOISE, 1))
            for zone, watts in zip(self._zones, cpu_watts, strict=True):
                self.host.consume(zone, watts * (now - last))
            last = now

    def _cpu_watts(self, limit: str, load: float, dice: random.Random) -> float:
        return min(load * self.spec.max_watts, self.host.read(limit) / 1e6) * dice.uniform(1 - NOISE, 1)
