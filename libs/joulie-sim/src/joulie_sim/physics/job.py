"""A job: the work of one pod on a node.

Work is conserved: a job completes exactly when it has received its work seconds, never earlier.
"""

from dataclasses import dataclass

from joulie_sim.physics.operation import Load
from joulie_sim.pod_figures import slowdown


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Resources and work of a job."""

    key: str
    cores: float
    gpus: int = 0
    #: Busy share of the cores and of the GPUs it holds, in [0, 1].
    cpu_utilization: float = 0.0
    gpu_utilization: float = 0.0
    #: Seconds it takes on the reference model at full speed; None runs until the pod is deleted.
    work_s: float | None = None


@dataclass(slots=True)
class Job:
    """A job on a node; modified only by its node."""

    request: JobRequest
    load: Load
    started_s: float
    #: Work received so far.
    done_s: float = 0.0
    #: Current work per second: that of the device's model, times the speed that limits leave.
    work_per_s: float = 1.0

    @property
    def remaining_s(self) -> float | None:
        """Remaining work; None for a job without end."""
        if self.request.work_s is None:
            return None
        return max(0.0, self.request.work_s - self.done_s)

    @property
    def ends_in_s(self) -> float | None:
        """Seconds until it completes at its current work per second; None if it never does."""
        remaining_s = self.remaining_s
        if remaining_s is None or self.work_per_s <= 0.0:
            return None
        return remaining_s / self.work_per_s


@dataclass(frozen=True, slots=True)
class Completion:
    """A job that has received all its work."""

    node: str
    key: str
    started_s: float
    completed_s: float
    work_s: float

    @property
    def slowdown(self) -> float:
        """Time taken over the work; 1 for a job without work."""
        return slowdown(self.started_s, self.completed_s, self.work_s) if self.work_s > 0.0 else 1.0
