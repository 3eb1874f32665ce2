"""The course of the jobs: arrival, wait, choice of a node, completion.

A job that fits nowhere waits and is tried again when a node has got room or a class; one whose sampled nodes the filter
refused is tried again after kube-scheduler's back-off. See docs/decisions/0018-simulator-engine.md.
"""

from collections.abc import Sequence
from math import inf
from typing import Final, Protocol

import numpy as np

from joulie_core.power.draw import SENSITIVITY, WorkKind
from joulie_sim.engine.control_plane import ControlPlane
from joulie_sim.engine.device_limits import ClassCapSettings, ClassLimitSettings, LimitedBy
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.node_runtime import RunningJob
from joulie_sim.engine.node_scores import NodeScores
from joulie_sim.engine.placement import KubeScheduler, PlacementRequests
from joulie_sim.engine.records import JobRecords
from joulie_sim.engine.running_nodes import RunningNodes
from joulie_sim.engine.settling_jobs import SettlingJobs
from joulie_sim.engine.stated_scores import StatedScores
from joulie_sim.engine.waiting import BackOff, WaitingJobs

_MILLI: Final = 1000.0
_MEMORY: Final = tuple(WorkKind).index(WorkKind.MEMORY)
_SENSITIVITIES: Final = tuple(SENSITIVITY[kind].value for kind in WorkKind)


class JobObserver(Protocol):
    """Something that sees jobs start and end, as a watch of pods does."""

    def started(self, job: int, node: int, request: PlacementRequest) -> None:
        """Take a job that was bound to a node."""

    def ended(self, job: int) -> None:
        """Take a job that has ended."""


class JobFlow:
    """All jobs of a simulation. Times must not fall from call to call.

    Args:
        jobs: the workload.
        requests: its distinct requests.
        nodes: where jobs run.
        scheduler: the choice among the nodes.
        control: Joulie's decisions; None without Joulie.
        scores: the extender's scores; None without.
        drop_on_arrival: a job that cannot be placed on arrival is dropped instead of waiting.
        limits: of devices that standard jobs hold; None without.
        observers: see jobs start and end.
    """

    def __init__(
        self,
        jobs: Jobs,
        requests: PlacementRequests,
        nodes: RunningNodes,
        scheduler: KubeScheduler,
        *,
        control: ControlPlane | None,
        scores: NodeScores | None,
        drop_on_arrival: bool,
        limits: ClassCapSettings | ClassLimitSettings | None,
        observers: Sequence[JobObserver] = (),
    ) -> None:
        self._observers = observers
        #: Work that is left to jobs that were stopped.
        self._left_s: dict[int, float] = {}
        self._jobs = jobs
        self._requests = requests
        self._nodes = nodes
        self._scheduler = scheduler
        self._control = control
        self._scores = scores
        self._drop_on_arrival = drop_on_arrival
        self._limited = limits is not None
        # Limits at fixed shares, which no node sets, are in force at once.
        self._set_late = isinstance(limits, ClassLimitSettings)
        # Only limits on clocks make a difference between kinds of work on GPUs.
        self._by_kind = isinstance(limits, ClassLimitSettings) and limits.limited_by is LimitedBy.CLOCK
        self._lines = WaitingJobs(requests.requests)
        self._backoff = BackOff()
        self._settling = SettlingJobs()
        self._records = JobRecords.empty(len(jobs))
        self._next_job = 0
        #: Nodes that have room or a class since the last attempt to place waiting jobs.
        self._opened: dict[int, None] = {}
        self.running = self.done = self.dropped = self.moved = 0

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return self._lines.jobs

    def next_arrival_s(self) -> float:
        """Return when the next job arrives; infinity if none does."""
        arrives_s, job = self._jobs.arrives_s, self._next_job
        return arrives_s.item(job) if job < len(arrives_s) else inf

    def next_retry_s(self) -> float:
        """Return when the next back-off is over; infinity if there is none."""
        return self._backoff.next_s()

    def next_limit_s(self) -> float:
        """Return when the GPUs of a running job are limited next; infinity if none are."""
        return self._settling.next_s()

    def finished(self) -> bool:
        """Return whether nothing is left that could run, as long as no node changes by itself but to be powered."""
        if self.running or self._next_job < len(self._jobs):
            return False
        requests = (self._requests.requests[line] for line in self._lines.lines())
        return not any(self._scheduler.may_come_to_allow(request).any() for request in requests)

    def pending(self, most: int) -> list[PlacementRequest]:
        """Return the requests of that many jobs that wait, in order of arrival."""
        return [self._requests.requests[line] for line in self._lines.earliest(most)]

    def waiting_since(self) -> list[tuple[PlacementRequest, float]]:
        """Return the distinct requests of the jobs that wait, and when the first job of each has arrived."""
        lines = ((line, self._lines.first(line)) for line in self._lines.lines())
        return [
            (self._requests.requests[line], self._jobs.arrives_s.item(job)) for line, job in lines if job is not None
        ]

    def opened(self, node: int) -> None:
        """Note that a node has got room or a class, for `place_waiting`."""
        self._opened[node] = None

    def arrive(self, now_s: float) -> None:
        """Place the next job, or let it wait, or drop it."""
        job = self._next_job
        self._next_job += 1
        line = self._requests.of_job.item(job)
        request = self._requests.requests[line]
        if request.performance and self._control is not None:
            self._control.arrived(now_s)
        # What the first of the line does not get, no other of it gets.
        if self._lines.first(line) is None and self._try(job, line, now_s):
            return
        if not self._drop_on_arrival:
            self._lines.add(line, job)
            return
        self.dropped += 1
        if request.performance and self._control is not None:
            self._control.dropped(now_s)

    def retry(self, now_s: float) -> None:
        """Try the jobs of the line whose back-off is over."""
        line = self._backoff.pop()
        while (job := self._lines.first(line)) is not None and self._try(job, line, now_s):
            self._lines.pop(line)

    def place_waiting(self, now_s: float) -> None:
        """Place waiting jobs on the nodes that have got room or a class, in order of arrival."""
        if not self._opened:
            return
        opened, self._opened = self._opened, {}
        for node in opened if self._lines.jobs else ():
            for line in self._lines.below(*self._scheduler.room(node)):
                request = self._requests.requests[line]
                while (job := self._lines.first(line)) is not None and self._scheduler.fits_node(request, node):
                    if not self._try(job, line, now_s):
                        break
                    self._lines.pop(line)

    def complete(self, now_s: float) -> None:
        """End the jobs of the node whose completion is next."""
        node = self._nodes.pop_completion()
        runtime = self._nodes[node]
        runtime.advance(now_s)
        performance = 0
        for job in runtime.complete():
            request = self._requests.requests[self._requests.of_job.item(job)]
            self._leave(job, request, node)
            self._records.ended_s[job] = now_s
            self.done += 1
            performance += request.performance
        self._nodes.settle(node, now_s)
        self.opened(node)
        if self._control is not None:
            for _ in range(performance):
                self._control.ended(node, now_s)

    def limit(self, now_s: float) -> None:
        """Limit the GPUs of the job that is next."""
        job = self._settling.first()
        request = self._requests.requests[self._requests.of_job.item(job)]
        before = self._running_job(job, request)
        self._settling.ended(job)
        node = self._records.node.item(job)
        runtime = self._nodes[node]
        runtime.advance(now_s)
        runtime.change(job, before, self._running_job(job, request))
        self._nodes.settle(node, now_s)

    def move(self, job: int, now_s: float, *, lost_s: float) -> None:
        """Stop a standard job that runs, and start it anew or let it wait, with the work of so many seconds lost."""
        node, line = self._records.node.item(job), self._requests.of_job.item(job)
        runtime = self._nodes[node]
        runtime.advance(now_s)
        self._left_s[job] = min(self._jobs.work_s.item(job), runtime.stop(job) + lost_s)
        self._leave(job, self._requests.requests[line], node)
        self._nodes.settle(node, now_s)
        self.moved += 1
        if self._lines.first(line) is not None or not self._try(job, line, now_s):
            self._lines.add(line, job)

    def records(self, now_s: float) -> JobRecords:
        """Return what happened to each job until the end."""
        left_s = np.where(np.isnan(self._records.ended_s), self._jobs.work_s, 0.0)
        for job, work_s in self._left_s.items():
            left_s[job] = work_s
        self._nodes.record_work_left(left_s, now_s)
        self._records.left_s[:] = left_s
        return self._records

    def _try(self, job: int, line: int, now_s: float) -> bool:
        """Place a job if possible, else let a back-off begin where the filter was in its way."""
        request = self._requests.requests[line]
        scores = self._scores.for_job(job, now_s) if isinstance(self._scores, StatedScores) else None
        node, refused = self._scheduler.choose(request, scores)
        if node is not None:
            self._backoff.placed(line)
            self._bind(job, request, node, now_s)
            return True
        if refused and not self._drop_on_arrival:
            self._backoff.refused(line, now_s)
        return False

    def _bind(self, job: int, request: PlacementRequest, node: int, now_s: float) -> None:
        self._scheduler.bind(request, node)
        runtime = self._nodes[node]
        runtime.advance(now_s)
        moved_s = self._left_s.pop(job, None)
        if self._set_late and request.gpus and not request.performance:
            self._settling.started(job, now_s)
        runtime.start(job, self._running_job(job, request), self._jobs.work_s.item(job) if moved_s is None else moved_s)
        self._nodes.settle(node, now_s)
        if moved_s is None:
            self._records.started_s[job] = now_s
        self._records.node[job] = node
        self.running += 1
        if self._control is not None and request.performance:
            self._control.bound(node)
        if self._scores is not None:
            self._scores.bound(job, node, request.demand, now_s)
        for observer in self._observers:
            observer.started(job, node, request)

    def _leave(self, job: int, request: PlacementRequest, node: int) -> None:
        """Return what a job held that is no longer on its node; the node has to be settled."""
        self._nodes[node].release(self._running_job(job, request))
        self._settling.ended(job)
        self._scheduler.free(request, node)
        self.running -= 1
        if self._scores is not None:
            self._scores.ended(job)
        for observer in self._observers:
            observer.ended(job)

    def _running_job(self, job: int, request: PlacementRequest) -> RunningJob:
        jobs = self._jobs
        return RunningJob(
            request.cpu_milli / _MILLI * jobs.cpu_utilization.item(job),
            request.gpus,
            jobs.gpu_utilization.item(job),
            _SENSITIVITIES[jobs.kind.item(job)],
            limited=self._limited and not request.performance and job not in self._settling,
            memory_bound=self._by_kind and request.gpus > 0 and jobs.kind.item(job) == _MEMORY,
        )
