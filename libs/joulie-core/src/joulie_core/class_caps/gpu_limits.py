"""The limit of one GPU by the pods that hold it: clock, power and the reason.

Guarantees that a GPU is limited only where every pod that holds it allows a slowdown. A clock limit is not below the
held clock over 1 + the allowed slowdown, half of the highest clock, or the lowest useful clock of a model that was
swept. A power limit is a forecast: docs/decisions/0044-bounded-slowdown.md.
"""

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, smallest
from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_core.hardware.view import GpuView

_PERCENT: Final = 100
#: In percent of the highest clock. On V100 speed falls faster than the clock at 43 % of it, and does not at 51 %.
LOWEST_CLOCK_PCT: Final = 50
#: The highest of the exponents that contain all sweeps of power limits: the largest loss of speed (docs/models.md).
PESSIMISTIC_EXPONENT: Final = 0.31


class LimitReason(StrEnum):
    """Reason for the limit of a GPU, or for none."""

    #: The clock is limited.
    CLOCK_LIMITED = "ClockLimited"
    #: The power is limited, since the clock cannot be.
    POWER_LIMITED = "PowerLimited"
    #: No pod holds the GPU.
    FREE = "Free"
    #: A process outside of pods uses it.
    OUTSIDE_PROCESS = "OutsideProcess"
    #: What a pod that holds it allows is not known.
    HOLDER_UNKNOWN = "HolderUnknown"
    #: A pod that holds it allows no slowdown.
    NO_SLOWDOWN_ALLOWED = "NoSlowdownAllowed"
    #: Performance pods wait for GPUs of the node, or few GPUs of its model are free.
    GPUS_IN_DEMAND = "GpusInDemand"
    #: The clock that it holds under load was not measured yet.
    HELD_CLOCK_UNKNOWN = "HeldClockUnknown"
    #: It holds no higher clock, or draws no more, than the lowest limit that is of use.
    NOTHING_TO_GAIN = "NothingToGain"
    #: Its clock cannot be set, and its model is not known.
    MODEL_UNKNOWN = "ModelUnknown"


@dataclass(frozen=True, slots=True)
class GpuClocks:
    """Graphics clocks of a GPU whose highest clock can be limited."""

    highest_mhz: int
    #: Held under load without a limit; None where that was not measured.
    held_mhz: int | None
    #: Clocks that it supports, rising; empty where it takes every one.
    supported_mhz: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuLimit:
    """The limit of one GPU; None is none."""

    reason: LimitReason
    clock_mhz: int | None = None
    cap_watts: float | None = None


def gpu_limit(
    holders: Collection[AllowedSlowdown | None],
    gpu: GpuView | None,
    clocks: GpuClocks | None,
    *,
    waited_for: bool = False,
) -> GpuLimit:
    """Return the limit of a GPU.

    Args:
        holders: what each pod that holds it allows; None for one of which that is not known.
        gpu: its model; None where that is not known.
        clocks: its clocks; None where they cannot be limited.
        waited_for: performance pods wait for the GPU, or soon would.
    """
    if not holders:
        return GpuLimit(LimitReason.FREE)
    known = [each for each in holders if each is not None]
    if len(known) < len(holders):
        return GpuLimit(LimitReason.HOLDER_UNKNOWN)
    allowed = smallest(known)
    if allowed is AllowedSlowdown.NONE:
        return GpuLimit(LimitReason.NO_SLOWDOWN_ALLOWED)
    if waited_for:
        return GpuLimit(LimitReason.GPUS_IN_DEMAND)
    if clocks is not None:
        return _by_clock(allowed, gpu, clocks)
    return GpuLimit(LimitReason.MODEL_UNKNOWN) if gpu is None else _by_power(allowed, gpu)


def bounded_cap_watts(gpu: GpuView, share_of_natural: float) -> float:
    """Return a share of the natural power of a model, within what is worth its slowdown and what the GPU takes."""
    return min(max(share_of_natural * gpu.spec.natural_watts, gpu.lowest_cap_watts), gpu.max_watts)


def _by_clock(allowed: AllowedSlowdown, gpu: GpuView | None, clocks: GpuClocks) -> GpuLimit:
    if clocks.held_mhz is None:
        return GpuLimit(LimitReason.HELD_CLOCK_UNKNOWN)
    # Whole numbers, rounded up: no error of rounding makes a limit lower.
    within_mhz = -(-clocks.held_mhz * _PERCENT // (_PERCENT + allowed.pct))
    floor_mhz = -(-clocks.highest_mhz * _lowest_clock_pct(gpu) // _PERCENT)
    wanted_mhz = max(within_mhz, floor_mhz)
    if clocks.supported_mhz:
        place = bisect_left(clocks.supported_mhz, wanted_mhz)
        if place == len(clocks.supported_mhz):
            return GpuLimit(LimitReason.NOTHING_TO_GAIN)
        wanted_mhz = clocks.supported_mhz[place]
    if wanted_mhz >= clocks.held_mhz:
        return GpuLimit(LimitReason.NOTHING_TO_GAIN)
    return GpuLimit(LimitReason.CLOCK_LIMITED, clock_mhz=wanted_mhz)


def _lowest_clock_pct(gpu: GpuView | None) -> int:
    own = None if gpu is None else ClockSweeps.load().models.get(gpu.model)
    return LOWEST_CLOCK_PCT if own is None else max(LOWEST_CLOCK_PCT, own.lowest_useful_pct)


def _by_power(allowed: AllowedSlowdown, gpu: GpuView) -> GpuLimit:
    natural_watts = gpu.spec.natural_watts
    share = gpu.spec.curve.response.share_at(_PERCENT / (_PERCENT + allowed.pct), exponent=PESSIMISTIC_EXPONENT)
    cap_watts = bounded_cap_watts(gpu, share)
    if cap_watts >= natural_watts:
        return GpuLimit(LimitReason.NOTHING_TO_GAIN)
    return GpuLimit(LimitReason.POWER_LIMITED, cap_watts=cap_watts)
