"""Caps of devices by the class of the pods that hold them.

A node's profile slows every pod on it, so that half of the nodes are closed to performance pods. Which pod holds which
device is known on the node (the kubelet's pod-resources API, and the CPUs that a container is pinned to), and a device
can be capped alone: a GPU by its power limit, a core by its highest frequency. Here is the decision; nothing in Joulie
enforces it on real nodes yet (docs/decisions/0020-class-caps.md).

Guarantees that a device is slowed only where everything that holds it is a standard pod; a device that is free, shared
with a performance pod, or held by a pod whose class is not known is not. No GPU is capped below its knee, or
below three quarters of its natural power where the knee of its model was not measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.view import GpuView
from joulie_core.kinds.base import Pct

_PERCENT = 100.0


class DeviceHolder(StrEnum):
    """The holder of a device, as far as its cap depends on it."""

    FREE = "free"
    STANDARD = "standard"
    #: At least one performance pod, or one whose class is not known.
    PERFORMANCE = "performance"


class ClassCapSettings(BaseModel):
    """Limits of devices that standard pods hold."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    gpu_pct_of_natural: Pct = 75
    """Cap of a GPU in percent of the natural power of its model; never below the knee of a model on which that was
    measured, nor below 75 percent on another."""
    cpu_frequency_pct: Annotated[float, Field(ge=50, le=100)] = 90
    """Highest frequency of a core in percent of its full frequency."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Limits of the devices of one node by what holds them; None is no limit."""

    gpu_cap_watts: float | None = None
    cpu_frequency_share: float | None = None


def holder_of(classes: Iterable[WorkloadClass | None]) -> DeviceHolder:
    """Return what holds a device, of the classes of the pods that hold it; None is a class that is not known."""
    present = set(classes)
    if not present:
        return DeviceHolder.FREE
    return DeviceHolder.STANDARD if present == {WorkloadClass.STANDARD} else DeviceHolder.PERFORMANCE


def limits_of(holder: DeviceHolder, gpu: GpuView | None, settings: ClassCapSettings) -> DeviceLimits:
    """Return the limits of a device that is held so.

    Args:
        holder: what holds the device.
        gpu: the node's GPUs, which are alike; None where there is none or it is not known.
        settings: the limits of devices of standard pods.
    """
    if holder is not DeviceHolder.STANDARD:
        return DeviceLimits()
    frequency = settings.cpu_frequency_pct / _PERCENT
    return DeviceLimits(
        gpu_cap_watts=_gpu_cap(gpu, settings) if gpu is not None else None,
        cpu_frequency_share=frequency if frequency < 1.0 else None,
    )


def _gpu_cap(gpu: GpuView, settings: ClassCapSettings) -> float:
    wanted_watts = settings.gpu_pct_of_natural / _PERCENT * gpu.spec.natural_watts
    return min(max(wanted_watts, gpu.lowest_cap_watts), gpu.max_watts)
