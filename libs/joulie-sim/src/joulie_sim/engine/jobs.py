"""The jobs of a simulation as arrays, in order of arrival.

One element is one pod. A million jobs take 60 MB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.power.draw import WorkKind
from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.workload.item import WorkItem

_MIB: Final = 1024 * 1024
_KINDS: Final = tuple(WorkKind)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Jobs:
    """Arrays of equal length; `arrives_s` rises. Fields as in `WorkItem`."""

    arrives_s: Floats
    performance: Bools
    cpu_milli: Ints
    memory_bytes: Ints
    gpus: Ints
    #: Index in `gpu_resources`.
    gpu_resource: Ints
    work_s: Floats
    #: Index in `tuple(WorkKind)`.
    kind: Ints
    cpu_utilization: Floats
    gpu_utilization: Floats
    gpu_resources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what the simulation relies on.

        Raises:
            ValueError: lengths differ, arrivals fall, or a value is out of range.
        """
        columns = (
            self.performance,
            self.cpu_milli,
            self.memory_bytes,
            self.gpus,
            self.gpu_resource,
            self.work_s,
            self.kind,
        )
        if {len(column) for column in (*columns, self.cpu_utilization, self.gpu_utilization)} - {len(self)}:
            raise ValueError("the arrays of jobs differ in length")
        if np.any(np.diff(self.arrives_s) < 0):
            raise ValueError("jobs are not in order of arrival")
        if np.any(self.cpu_milli <= 0) or np.any(self.memory_bytes < 0) or np.any(self.gpus < 0):
            raise ValueError("a job requests no CPU, or a negative amount of memory or GPUs")
        if not np.all(self.work_s > 0):
            raise ValueError("a job has no work")
        shares = (self.cpu_utilization, self.gpu_utilization)
        if any(np.any(share < 0) or np.any(share > 1) for share in shares):
            raise ValueError("a utilization is outside of 0 to 1")

    def __len__(self) -> int:
        return len(self.arrives_s)

    @staticmethod
    def of(items: Sequence[WorkItem]) -> "Jobs":
        """Return the jobs of a workload."""
        ordered = sorted(items, key=lambda item: item.arrives_s)
        resources = tuple(sorted({item.gpu_resource for item in ordered if item.gpus}))
        return Jobs(
            arrives_s=np.array([item.arrives_s for item in ordered], dtype=np.float64),
            performance=np.array(
                [item.workload_class is WorkloadClass.PERFORMANCE for item in ordered], dtype=np.bool_
            ),
            cpu_milli=np.array([item.cpu_milli for item in ordered], dtype=np.int64),
            memory_bytes=np.array([item.memory_mib * _MIB for item in ordered], dtype=np.int64),
            gpus=np.array([item.gpus for item in ordered], dtype=np.int64),
            gpu_resource=np.array(
                [resources.index(item.gpu_resource) if item.gpus else 0 for item in ordered], dtype=np.int64
            ),
            work_s=np.array([item.work_s for item in ordered], dtype=np.float64),
            kind=np.array([_KINDS.index(item.kind) for item in ordered], dtype=np.int64),
            cpu_utilization=np.array([item.cpu_utilization for item in ordered], dtype=np.float64),
            gpu_utilization=np.array([item.gpu_utilization if item.gpus else 0.0 for item in ordered]),
            gpu_resources=resources,
        )
