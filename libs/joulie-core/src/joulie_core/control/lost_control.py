"""Handling of a target that has not been refreshed for too long.

Guarantees that only subsystems which the target caps are touched, and that an unknown floor is not guessed: the
last cap stays. Restoring is the default, since nothing could lift the cap later.
"""

from dataclasses import dataclass

from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget, NodePowerProfileSpec, OnLostControl


@dataclass(frozen=True, slots=True)
class Floor:
    """Lowest caps of a node; None where they are not known."""

    cpu_watts_per_package: float | None
    watts_per_gpu: float | None


def target_out_of_reach(target: NodePowerProfileSpec, floor: Floor) -> NodePowerProfileSpec | None:
    """Return what to enforce in the place of a target that can no longer be read; None to restore."""
    match (target.policy and target.policy.on_lost_control) or OnLostControl.RESTORE:
        case OnLostControl.RESTORE:
            return None
        case OnLostControl.HOLD:
            return target
        case OnLostControl.FLOOR:
            return target.model_copy(
                update={"cpu": _cpu_floor(target.cpu, floor), "gpu": _gpu_floor(target.gpu, floor)}
            )


def _cpu_floor(cpu: CpuTarget | None, floor: Floor) -> CpuTarget | None:
    if cpu is None or not floor.cpu_watts_per_package:
        return cpu
    return CpuTarget(package_power_cap_watts=floor.cpu_watts_per_package)


def _gpu_floor(gpu: GpuTarget | None, floor: Floor) -> GpuTarget | None:
    if gpu is None or gpu.power_cap is None or not floor.watts_per_gpu:
        return gpu
    return GpuTarget(power_cap=GpuPowerCap(cap_watts_per_gpu=floor.watts_per_gpu))
