"""A simulated node over time: jobs, controls and energy.

Guarantees exact integration: between two changes power and speeds are constant, and `advance` stops at every
completion, so energy and progress do not depend on how often it is called. Times are simulated seconds of the caller
and never decrease.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from joulie_sim.physics.job import Completion, Job, JobRequest
from joulie_sim.physics.operation import Load, OperatingPoint, job_speed, operate
from joulie_sim.physics.parts import Controls, Hardware


@dataclass(slots=True)
class Energy:
    """Joules drawn since the node was added."""

    cpu_joules: float = 0.0
    gpu_joules: float = 0.0

    @property
    def joules(self) -> float:
        """Joules of CPU and GPU together."""
        return self.cpu_joules + self.gpu_joules


class SimulatedNode:
    """One node. `now_s` must not be before that of the previous call."""

    def __init__(self, name: str, hardware: Hardware, *, now_s: float) -> None:
        self.name = name
        self.hardware = hardware
        self.controls = Controls()
        self.energy = Energy()
        self._jobs: dict[str, Job] = {}
        self._now_s = now_s
        #: Incremented with every change of the operating point, so that earlier planned completions are known as stale.
        self.version = 0
        self.point = OperatingPoint()
        self._settle()

    @property
    def now_s(self) -> float:
        """The time up to which energy and progress are integrated."""
        return self._now_s

    @property
    def jobs(self) -> Iterable[Job]:
        """The running jobs."""
        return self._jobs.values()

    def next_completion_s(self) -> float | None:
        """Return when the next job completes if nothing changes; None if none will."""
        ends = [end_s for job in self._jobs.values() if (end_s := job.ends_in_s) is not None]
        return self._now_s + min(ends) if ends else None

    def start(self, request: JobRequest, now_s: float) -> list[Completion]:
        """Start a job, unless its key is running; return the completions up to `now_s`."""
        completions = self.advance(now_s)
        if request.key not in self._jobs:
            load = Load(
                cores=request.cores,
                cpu_utilization=request.cpu_utilization,
                gpus=self._free_gpus(request.gpus),
                gpu_utilization=request.gpu_utilization,
            )
            self._jobs[request.key] = Job(request=request, load=load, started_s=self._now_s)
            self._settle()
        return completions

    def stop(self, key: str, now_s: float) -> list[Completion]:
        """Stop a job before its end; return the completions up to `now_s`, possibly that of this job."""
        completions = self.advance(now_s)
        if self._jobs.pop(key, None) is not None:
            self._settle()
        return completions

    def control(self, controls: Controls, now_s: float) -> list[Completion]:
        """Set caps and throttle; return the completions up to `now_s`."""
        completions = self.advance(now_s)
        if controls != self.controls:
            self.controls = controls
            self._settle()
        return completions

    def replace_hardware(self, hardware: Hardware, now_s: float) -> list[Completion]:
        """Replace the parts, keeping jobs and energy; return the completions up to `now_s`."""
        completions = self.advance(now_s)
        if hardware != self.hardware:
            self.hardware = hardware
            self._settle()
        return completions

    def advance(self, now_s: float) -> list[Completion]:
        """Integrate up to `now_s`; return the completions, in order."""
        completions: list[Completion] = []
        while True:
            end_s = self.next_completion_s()
            if end_s is None or end_s > now_s:
                break
            due = [
                job for job in self._jobs.values() if job.ends_in_s is not None and self._now_s + job.ends_in_s <= end_s
            ]
            self._pass_time(end_s)
            for job in due:
                del self._jobs[job.request.key]
                completions.append(
                    Completion(self.name, job.request.key, job.started_s, end_s, job.request.work_s or 0.0)
                )
            self._settle()
        self._pass_time(now_s)
        return completions

    def _pass_time(self, until_s: float) -> None:
        elapsed_s = until_s - self._now_s
        if elapsed_s <= 0.0:
            return
        self.energy.cpu_joules += self.point.cpu_watts * elapsed_s
        self.energy.gpu_joules += self.point.total_gpu_watts * elapsed_s
        for job in self._jobs.values():
            job.done_s += job.work_per_s * elapsed_s
        self._now_s = until_s

    def _settle(self) -> None:
        """Compute the operating point of the current jobs and controls."""
        self.version += 1
        self.point = operate(self.hardware, self.controls, [job.load for job in self._jobs.values()])
        for job in self._jobs.values():
            job.work_per_s = self.hardware.work_per_s(gpus=bool(job.load.gpus)) * job_speed(self.point, job.load)

    def _free_gpus(self, wanted: int) -> tuple[int, ...]:
        """Return the least used GPUs, lowest index first; shared if jobs hold more GPUs than there are."""
        count = self.hardware.gpu.count if self.hardware.gpu is not None else 0
        holders = [0] * count
        for job in self._jobs.values():
            for index in job.load.gpus:
                if index < count:
                    holders[index] += 1
        return tuple(sorted(sorted(range(count), key=lambda index: (holders[index], index))[:wanted]))
