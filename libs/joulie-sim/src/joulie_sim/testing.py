"""Made-up hardware for tests: straight power curves whose figures are easy to check by hand."""

from dataclasses import dataclass
from typing import Final

from joulie_sim.physics.parts import CpuPart, GpuPart, Hardware


@dataclass(frozen=True, slots=True)
class StraightCurve:
    """A power curve that is a straight line from `idle_watts` to `peak_watts`."""

    idle_watts: float
    peak_watts: float

    def watts(self, utilization: float) -> float:
        """Watts at `utilization` in [0, 1]."""
        return self.idle_watts + (self.peak_watts - self.idle_watts) * utilization


#: Two packages of 16 cores, 50 W idle and 250 W busy each, cap 100 to 250 W.
CPU_PART: Final = CpuPart("Test CPU", "intel", 2, 32.0, StraightCurve(50.0, 250.0), 100.0, 250.0)
#: Four GPUs, 40 W idle and 400 W busy each, cap 100 to 400 W.
GPU_PART: Final = GpuPart("Test GPU", "nvidia", 4, StraightCurve(40.0, 400.0), 100.0, 400.0, 400.0)
CPU_NODE: Final = Hardware(cpu=CPU_PART, gpu=None)
GPU_NODE: Final = Hardware(cpu=CPU_PART, gpu=GPU_PART)
