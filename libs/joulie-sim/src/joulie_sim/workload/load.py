"""Load that a workload offers to a cluster, and scaling of a workload to a given load."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_sim.workload.item import WorkItem

_BISECTIONS: Final = 60


@dataclass(frozen=True, slots=True)
class Capacity:
    """Allocatable resources of a cluster."""

    cpu_milli: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationBounds:
    """Shortest and longest work of one pod, in simulated seconds."""

    #: API server and scheduler take a second or two per pod: shorter work would measure only them.
    shortest_s: float = 5.0
    longest_s: float


def offered_load(items: Sequence[WorkItem], capacity: Capacity, window_s: float) -> float:
    """Return the share of the scarcer resource that the items occupy over `window_s`, at full speed."""
    cpu_milli_s = sum(item.cpu_milli * item.work_s for item in items)
    gpu_s = sum(item.gpus * item.work_s for item in items)
    cpu_share = cpu_milli_s / (capacity.cpu_milli * window_s)
    gpu_share = gpu_s / (capacity.gpus * window_s) if capacity.gpus else 0.0
    return max(cpu_share, gpu_share)


def fit_durations(
    items: Sequence[WorkItem], *, capacity: Capacity, window_s: float, load: float, bounds: DurationBounds
) -> tuple[WorkItem, ...]:
    """Multiply all work by one factor, within bounds, so that the items offer `load`.

    If the bounds prevent that, the nearest possible: never more than `load` unless every item is at its shortest.
    """

    def scaled(factor: float) -> tuple[WorkItem, ...]:
        return tuple(
            replace(item, work_s=min(bounds.longest_s, max(bounds.shortest_s, item.work_s * factor))) for item in items
        )

    # Bisection of the logarithm: work in a trace ranges from seconds to months.
    low, high = -16.0, 16.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if offered_load(scaled(10.0**middle), capacity, window_s) <= load:
            low = middle
        else:
            high = middle
    return scaled(10.0**low)
