"""Fictional hardware for tests, with values that are easy to verify by hand.

Power is linear in load, and a cap at a quarter of the dynamic power halves the speed: the CPU packages (50 W idle,
250 W busy) at a cap of 100 W, the GPUs (40 W idle, 400 W busy) at 130 W.
"""

from typing import Final

from joulie_core.hardware.power_curve import CapResponse, PowerCurve
from joulie_sim.physics.parts import CpuPart, GpuPart, Hardware

CPU_CURVE: Final = PowerCurve((0.2, 1.0), CapResponse(None, 0.5, 0.0, "fictional"), "fictional")
GPU_CURVE: Final = PowerCurve((0.1, 1.0), CapResponse(None, 0.5, 0.0, "fictional"), "fictional")
#: Two packages of 8 cores with 16 threads each.
CPU_PART: Final = CpuPart(
    model="Test CPU",
    vendor="Intel",
    sockets=2,
    cores=32.0,
    physical_cores=16,
    max_watts=250.0,
    curve=CPU_CURVE,
    min_cap_watts=100.0,
    max_cap_watts=250.0,
)
#: Four GPUs.
GPU_PART: Final = GpuPart(
    model="Test GPU",
    vendor="NVIDIA",
    count=4,
    max_watts=400.0,
    curve=GPU_CURVE,
    min_cap_watts=100.0,
    max_cap_watts=400.0,
    default_cap_watts=400.0,
)
CPU_NODE: Final = Hardware(cpu=CPU_PART, gpu=None)
GPU_NODE: Final = Hardware(cpu=CPU_PART, gpu=GPU_PART)
