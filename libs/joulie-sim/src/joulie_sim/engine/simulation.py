"""The event loop: arrivals, completions, reports and minutes of one arm.

Events of the same moment are handled in this order: completions, the report, the end of the minute, jobs whose back-off
is over, arrivals. See docs/decisions/0018-simulator-engine.md.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum, inf
from typing import Final

import numpy as np

from joulie_core.class_caps import ClassCapSettings, DeviceHolder, DeviceLimits, limits_of
from joulie_core.power.draw import SENSITIVITY, WorkKind
from joulie_core.scoring import energy_v1, headroom_v1
from joulie_core.transition import NodeState
from joulie_sim.engine.arms import Arm, JoulieSettings
from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.control_plane import ControlPlane
from joulie_sim.engine.energy_scores import EnergyScores
from joulie_sim.engine.facility import FacilityModel, LinearFacility, PoweredNodes, idle_watts
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import HardwareGroup, Machines
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.node_runtime import NodeRuntime, RunningJob
from joulie_sim.engine.node_scores import NodeScores
from joulie_sim.engine.placement import KubeScheduler, PlacementRequests
from joulie_sim.engine.power_model import CalibratedPowerModel, NodePowerModel, full_load_watts
from joulie_sim.engine.records import MINUTE_S, JobRecords, MinuteRecords, SimulationResult
from joulie_sim.engine.waiting import WaitingJobs

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
_FIRST_BACKOFF_S: Final = 1.0
_LONGEST_BACKOFF_S: Final = 10.0
#: Events between two calls of the progress function.
_PROGRESS_EVENTS: Final = 20_000
_MILLI: Final = 1000.0
#: By name of the score policy.
_SCORES: Final = {headroom_v1.NAME: NodeScores, energy_v1.NAME: EnergyScores}
_SENSITIVITIES: Final = tuple(SENSITIVITY[kind].value for kind in WorkKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """What all arms of a comparison have in common, beside nodes and jobs."""

    seed: int = 0
    report_interval_s: float = 20.0
    #: A job that cannot be placed on arrival is dropped instead of waiting.
    drop_on_arrival: bool = False
    #: The simulation ends at this time whatever still runs; None: when all work is done.
    horizon_s: float | None = None
    facility: FacilityModel = field(default_factory=LinearFacility)


def calibrated_models(machines: Machines) -> list[NodePowerModel]:
    """Return the model of each hardware group."""
    return [CalibratedPowerModel(group) for group in machines.groups]


def _limits(group: HardwareGroup, settings: ClassCapSettings | None) -> DeviceLimits:
    """Return the limits of devices that standard jobs hold; in the engine no device is shared by two jobs."""
    return DeviceLimits() if settings is None else limits_of(DeviceHolder.STANDARD, group.view.gpu, settings)


class Simulation:
    """One arm over one workload; `run` may be called once.

    Args:
        machines: the nodes.
        jobs: the workload.
        arm: scheduler and Joulie.
        settings: what the arms have in common.
        power_models: model of each hardware group.
        on_progress: called now and then with the simulated seconds and the number of jobs that are done.

    Raises:
        KeyError: the arm's policy does not exist.
        ValueError: a job requests a GPU that no node offers.
    """

    def __init__(
        self,
        machines: Machines,
        jobs: Jobs,
        arm: Arm,
        settings: SimulationSettings,
        *,
        power_models: list[NodePowerModel] | None = None,
        on_progress: Callable[[float, int], None] | None = None,
    ) -> None:
        self._machines = machines
        self._jobs = jobs
        self._settings = settings
        self._on_progress = on_progress
        self._requests = PlacementRequests(jobs, machines.gpu_resources)
        self._waiting = WaitingJobs(self._requests.requests)
        models = power_models or calibrated_models(machines)
        class_caps = arm.joulie.class_caps if arm.joulie is not None else None
        self._limited = class_caps is not None
        limits = [_limits(group, class_caps) for group in machines.groups]
        self._nodes = [
            NodeRuntime(machines.groups[group].hardware, models[group], limits[group]) for group in machines.group
        ]
        #: By node: energy up to the moment of its last change, that moment, and the watts since.
        self._joules: Floats = np.zeros(len(machines))
        self._changed_s: Floats = np.zeros(len(machines))
        self._watts: Floats = np.array([node.watts for node in self._nodes])
        #: What agents measure.
        self._device_watts: Floats = np.array([node.device_watts for node in self._nodes])
        self._idle_watts: Floats = self._watts.copy()
        full_watts = [full_load_watts(group.hardware, models[index]) for index, group in enumerate(machines.groups)]
        self._full_watts = fsum(full_watts[group] for group in machines.group)
        self._tdp: Floats = np.array([machines.groups[group].view.tdp_watts for group in machines.group])
        #: Planned completions (time, node, version); a node's earlier plans are void.
        self._agenda: list[tuple[float, int, int]] = []
        self._versions = [0] * len(machines)
        #: (time, line) at which the first of a line of waiting jobs is tried again, at most one for each line.
        self._retries: list[tuple[float, int]] = []
        #: Failed attempts of the first of a line, for the back-off.
        self._attempts: dict[int, int] = {}
        self._in_backoff: set[int] = set()
        self._records = JobRecords.empty(len(jobs))
        self._minutes = MinuteRecords()
        self._minute_joules: Floats = np.zeros(len(machines))
        self._facility_joules = 0.0
        self._now_s = 0.0
        self._running = self._done = self._dropped = self._events = self._next_job = 0
        #: Nodes that have room or a class since the last attempt to place waiting jobs.
        self._opened: dict[int, None] = {}
        self._scores: NodeScores | None = None
        self._control: ControlPlane | None = None
        self._set_up(arm)

    def run(self) -> SimulationResult:
        """Run to the end and return what happened."""
        self._start()
        next_report_s, next_minute_s = self._settings.report_interval_s, MINUTE_S
        horizon_s = inf if self._settings.horizon_s is None else self._settings.horizon_s
        while not self._finished():
            completion_s = self._next_completion_s()
            retry_s = self._retries[0][0] if self._retries else inf
            arrival_s = self._next_arrival_s()
            now_s = min(completion_s, next_report_s, next_minute_s, retry_s, arrival_s)
            if now_s >= horizon_s:
                break
            self._now_s = now_s
            self._events += 1
            if completion_s == now_s:
                self._complete()
            elif next_report_s == now_s:
                self._report()
                next_report_s += self._settings.report_interval_s
            elif next_minute_s == now_s:
                self._end_minute(MINUTE_S)
                next_minute_s += MINUTE_S
                if self._control is not None:
                    self._control.plan(self._now_s)
            elif retry_s == now_s:
                self._retry()
            else:
                self._arrive()
            if self._opened:
                self._place_waiting()
            if self._on_progress is not None and self._events % _PROGRESS_EVENTS == 0:
                self._on_progress(self._now_s, self._done)
        return self._result(next_minute_s - MINUTE_S, horizon_s)

    def device_watts(self) -> Floats:
        """Return the present watts of each node's CPU packages and GPUs."""
        return self._device_watts.copy()

    @property
    def scores(self) -> NodeScores | None:
        """The extender's scores; None in an arm without them."""
        return self._scores

    @property
    def control_plane(self) -> ControlPlane | None:
        """Joulie's decisions; None in an arm without Joulie."""
        return self._control

    def _set_up(self, arm: Arm) -> None:
        joulie = arm.joulie
        if joulie is not None:
            self._set_up_joulie(joulie)
        self._scheduler = KubeScheduler(
            self._machines,
            strategy=arm.strategy,
            nodes_to_score_pct=arm.nodes_to_score_pct,
            seed=self._settings.seed,
            extender=self._scores,
            extender_weight=joulie.extender_weight if joulie is not None else 1,
        )

    def _set_up_joulie(self, joulie: JoulieSettings) -> None:
        self._control = ControlPlane(
            self._machines,
            policy=joulie.policy,
            policy_values=joulie.policy_values,
            caps=joulie.caps,
            on_change=self._publish,
        )
        if joulie.score is not None:
            scores = _SCORES[joulie.score.policy]
            self._scores = scores(self._machines, joulie.score, self._settings.report_interval_s)

    def _start(self) -> None:
        for node, runtime in enumerate(self._nodes):
            self._settle(node, runtime)
        if self._control is not None:
            self._control.plan(0.0)
            for node in range(len(self._machines)):
                self._publish(node)
        self._report()
        self._opened.clear()

    def _finished(self) -> bool:
        if self._running or self._next_job < len(self._jobs):
            return False
        return not self._waiting.jobs or not self._placeable()

    def _placeable(self) -> bool:
        """Return whether a job that waits could run on a node: while none runs nothing changes by itself."""
        requests = (self._requests.requests[line] for line in self._waiting.lines())
        return any(self._scheduler.allows(request).any() for request in requests)

    def _next_arrival_s(self) -> float:
        return self._jobs.arrives_s.item(self._next_job) if self._next_job < len(self._jobs) else inf

    def _next_completion_s(self) -> float:
        agenda, versions = self._agenda, self._versions
        while agenda:
            at_s, node, version = agenda[0]
            if versions[node] == version:
                return at_s
            heapq.heappop(agenda)
        return inf

    def _request(self, job: int) -> PlacementRequest:
        return self._requests.requests[self._requests.of_job.item(job)]

    def _running_job(self, job: int, request: PlacementRequest) -> RunningJob:
        jobs = self._jobs
        return RunningJob(
            request.cpu_milli / _MILLI * jobs.cpu_utilization.item(job),
            request.gpus,
            jobs.gpu_utilization.item(job),
            _SENSITIVITIES[jobs.kind.item(job)],
            limited=self._limited and not request.performance,
        )

    # --- what happens

    def _arrive(self) -> None:
        job = self._next_job
        self._next_job += 1
        line = self._requests.of_job.item(job)
        request = self._requests.requests[line]
        if request.performance and self._control is not None:
            self._control.arrived(self._now_s)
        # What the first of the line does not get, no other of it gets.
        if self._waiting.first(line) is None and self._try(job, line):
            return
        if not self._settings.drop_on_arrival:
            self._waiting.add(line, job)
            return
        self._dropped += 1
        if request.performance and self._control is not None:
            self._control.dropped(self._now_s)

    def _try(self, job: int, line: int) -> bool:
        """Place a job if possible, else let a back-off begin where the filter was in its way."""
        request = self._requests.requests[line]
        node, refused = self._scheduler.choose(request)
        if node is not None:
            self._attempts.pop(line, None)
            self._bind(job, request, node)
            return True
        if refused and not self._settings.drop_on_arrival and line not in self._in_backoff:
            attempts = self._attempts[line] = self._attempts.get(line, 0) + 1
            wait_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(attempts - 1, 10))
            self._in_backoff.add(line)
            heapq.heappush(self._retries, (self._now_s + wait_s, line))
        return False

    def _bind(self, job: int, request: PlacementRequest, node: int) -> None:
        self._scheduler.bind(request, node)
        runtime = self._nodes[node]
        runtime.advance(self._now_s)
        runtime.start(job, self._running_job(job, request), self._jobs.work_s.item(job))
        self._settle(node, runtime)
        self._records.started_s[job] = self._now_s
        self._records.node[job] = node
        self._running += 1
        if self._control is not None and request.performance:
            self._control.bound(node)
        if self._scores is not None:
            self._scores.bound(job, node, request.demand, self._now_s)

    def _complete(self) -> None:
        _, node, _ = heapq.heappop(self._agenda)
        runtime = self._nodes[node]
        runtime.advance(self._now_s)
        performance = 0
        for job in runtime.complete():
            request = self._request(job)
            runtime.release(self._running_job(job, request))
            self._scheduler.free(request, node)
            self._records.ended_s[job] = self._now_s
            self._running -= 1
            self._done += 1
            performance += request.performance
            if self._scores is not None:
                self._scores.ended(job)
        self._settle(node, runtime)
        self._opened[node] = None
        if self._control is not None:
            for _ in range(performance):
                self._control.ended(node, self._now_s)

    def _retry(self) -> None:
        _, line = heapq.heappop(self._retries)
        self._in_backoff.discard(line)
        while (job := self._waiting.first(line)) is not None and self._try(job, line):
            self._waiting.pop(line)

    def _place_waiting(self) -> None:
        """Place waiting jobs on the nodes that have got room or a class, in order of arrival."""
        opened, self._opened = self._opened, {}
        for node in opened if self._waiting.jobs else ():
            for line in self._waiting.below(*self._scheduler.room(node)):
                request = self._requests.requests[line]
                while (job := self._waiting.first(line)) is not None and self._scheduler.fits_node(request, node):
                    if not self._try(job, line):
                        break
                    self._waiting.pop(line)

    def _publish(self, node: int) -> None:
        """Put the state of a node in force."""
        assert self._control is not None
        published = self._control.published(node)
        self._scheduler.accepting[node] = not published.refused
        self._opened[node] = None
        if self._scores is not None:
            self._scores.publish(node, published)
        runtime = self._nodes[node]
        if published.controls != runtime.controls:
            runtime.advance(self._now_s)
            runtime.controls = published.controls
            self._settle(node, runtime)

    def _settle(self, node: int, runtime: NodeRuntime) -> None:
        """Take up a node's new power and plan its next completion."""
        next_s = runtime.settle()
        self._versions[node] += 1
        if next_s < inf:
            heapq.heappush(self._agenda, (next_s, node, self._versions[node]))
        elapsed_s = self._now_s - self._changed_s.item(node)
        self._joules[node] += self._watts.item(node) * elapsed_s
        self._changed_s[node] = self._now_s
        self._watts[node] = runtime.watts
        self._device_watts[node] = runtime.device_watts

    def _report(self) -> None:
        if self._scores is not None:
            self._scores.report(self._device_watts, self._now_s)

    # --- records

    def _end_minute(self, length_s: float) -> None:
        joules = self._joules + self._watts * (self._now_s - self._changed_s)
        means = (joules - self._minute_joules) / length_s
        self._minute_joules = joules
        nodes = PoweredNodes(means, self._tdp, self._full_watts, self._now_s - length_s / 2.0)
        facility = self._settings.facility.watts(nodes)
        self._facility_joules += facility * length_s
        minutes, control = self._minutes, self._control
        minutes.ends_s.append(self._now_s)
        minutes.it_watts.append(fsum(means))
        minutes.facility_watts.append(facility)
        minutes.running_jobs.append(self._running)
        minutes.waiting_jobs.append(self._waiting.jobs)
        performance = control.count(NodeState.ACTIVE_PERFORMANCE) if control is not None else len(self._machines)
        minutes.performance_nodes.append(performance)
        minutes.draining_nodes.append(control.count(NodeState.DRAINING_PERFORMANCE) if control is not None else 0)

    def _result(self, minute_s: float, horizon_s: float) -> SimulationResult:
        if horizon_s < inf:
            self._now_s = horizon_s
        if self._now_s > minute_s:
            self._end_minute(self._now_s - minute_s)
        joules = self._joules + self._watts * (self._now_s - self._changed_s)
        self._record_work_left()
        return SimulationResult(
            jobs=self._records,
            minutes=self._minutes,
            node_joules=joules,
            it_joules=fsum(joules),
            facility_joules=self._facility_joules,
            idle_watts=fsum(self._idle_watts),
            idle_facility_watts=idle_watts(self._settings.facility, self._idle_watts, self._tdp, self._full_watts),
            end_s=self._now_s,
            events=self._events,
            dropped=self._dropped,
            transitions=self._control.transitions if self._control is not None else 0,
        )

    def _record_work_left(self) -> None:
        """Record the work that jobs have not received at the end."""
        left_s = np.where(np.isnan(self._records.ended_s), self._jobs.work_s, 0.0)
        for runtime in self._nodes:
            runtime.advance(self._now_s)
            for job, work_s in runtime.left():
                left_s[job] = work_s
        self._records.left_s[:] = left_s
