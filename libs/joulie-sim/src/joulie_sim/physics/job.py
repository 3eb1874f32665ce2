"""A job: the work of a pod.

Guarantees that work is conserved: a job is complete exactly when it has received its work seconds, and never earlier.
"""

from dataclasses import dataclass

from joulie_sim.physics.operation import Load


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a pod brings to a node."""

    key: str
    cores: float
    gpus: int = 0
    #: Busy share of the cores and of the GPUs it holds, in [0, 1].
    cpu_utilization: float = 0.0
    gpu_utilization: float = 0.0
    #: Seconds it takes unhindered; None runs until the pod is deleted.
    work_s: float | None = None


@dataclass(slots=True)
class Job:
    """A job on a node; only its node changes it."""

    request: JobRequest
    load: Load
    started_s: float
    #: Work received so far, in seconds at full speed.
    done_s: float = 0.0
    #: Work per second at present, in [0, 1].
    speed: float = 1.0

    @property
    def remaining_s(self) -> float | None:
        """Work still to do, in seconds at full speed; None for a job without end."""
        if self.request.work_s is None:
            return None
        return max(0.0, self.request.work_s - self.done_s)

    @property
    def ends_in_s(self) -> float | None:
        """Seconds until it completes at its present speed; None when it never does."""
        remaining_s = self.remaining_s
        if remaining_s is None or self.speed <= 0.0:
            return None
        return remaining_s / self.speed


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
        """Time taken over the time it takes unhindered; 1 for a job without work."""
        return (self.completed_s - self.started_s) / self.work_s if self.work_s > 0.0 else 1.0
