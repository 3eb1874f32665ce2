"""Watts above idle of a node by what its pods request, with the error of its model.

Idle power is not in it: it is the same wherever pods are. Devices are as `joulie_core.power` has them, used to the mean
extent that other estimates assume. Source: docs/models.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.hardware.power_curve import PowerCurve, interpolate
from joulie_core.hardware.view import HardwareView
from joulie_core.power.chassis import gpus_at_wall
from joulie_core.power.curves import node_curves
from joulie_core.powerest.marginal import CPU_USE, GPU_USE_STANDARD

#: Share of what is requested that is used: 0.6 to 1 around `CPU_USE`, as a share of that. Assumed.
USE_ERROR: Final = 0.25


@dataclass(frozen=True, slots=True)
class HeldLoad:
    """Hardware threads and GPUs that the pods of a node hold, in pods' requests."""

    cores: float = 0.0
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeLoadModel:
    """Model of one node; nodes of the same hardware share it."""

    #: Nodes of one family are wrong together.
    family: str
    #: Share of the watts above idle.
    error: float
    #: At the wall at CPU loads 0, 10, ... 100 %.
    wall_watts: tuple[float, ...]
    threads: float
    #: At the wall, of one busy GPU over an idle one; 0 without GPUs.
    watts_per_gpu: float = 0.0
    gpus: float = 0.0
    #: Work per second of a thread, and of a GPU, over those of the reference models; None where nothing is published.
    work_per_thread: float | None = None
    work_per_gpu: float | None = None

    def watts(self, load: HeldLoad) -> float:
        """Return the watts at the wall above idle."""
        used = interpolate(self.wall_watts, CPU_USE * load.cores / self.threads) - self.wall_watts[0]
        return used + self.watts_per_gpu * min(load.gpus, self.gpus)


def load_model(view: HardwareView, gpu_units: float = 1.0) -> NodeLoadModel | None:
    """Return the model of a node; None where its CPUs are unknown.

    Args:
        view: its hardware.
        gpu_units: units of pods' GPU demands that each GPU is handed out in.
    """
    curves, cpu, gpu = node_curves(view), view.cpu, view.gpu
    if curves is None or cpu is None:
        return None
    watts_per_gpu = 0.0
    if gpu is not None:
        watts_per_gpu = _added_watts(gpu.spec.curve, gpu.max_watts) / gpu_units
    return NodeLoadModel(
        family=view.family,
        error=curves.error,
        wall_watts=curves.wall_watts,
        threads=curves.threads,
        watts_per_gpu=watts_per_gpu,
        gpus=gpu.count * gpu_units if gpu is not None else 0.0,
        work_per_thread=curves.work_per_thread,
        work_per_gpu=curves.gpu.work_per_gpu if curves.gpu is not None else None,
    )


def _added_watts(curve: PowerCurve, max_watts: float) -> float:
    """Return the watts at the wall of a busy GPU over those of an idle one."""
    added = curve.watts(GPU_USE_STANDARD, max_watts) - curve.watts(0.0, max_watts)
    return gpus_at_wall(added, 0.0)
