"""Annotations of pods that describe their work to the simulator."""

from typing import Final

#: Seconds of work on the reference model at full speed; a pod without it runs until it is deleted.
DURATION: Final = "sim.joulie.io/duration-seconds"
#: Busy share of the requested cores, in [0, 1].
CPU_UTILIZATION: Final = "sim.joulie.io/cpu-utilization"
#: Busy share of the requested GPUs, in [0, 1].
GPU_UTILIZATION: Final = "sim.joulie.io/gpu-utilization"
