"""The event loop: arrivals, completions, reports and minutes of one arm.

Events of the same moment are handled in this order: completions, the report, the end of the minute, a plan that follows
the demand, jobs whose back-off is over, arrivals. See docs/decisions/0018-simulator-engine.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum, inf
from typing import Final

import numpy as np

from joulie_core.power.draw import SENSITIVITY, WorkKind
from joulie_core.scoring import energy_v1, headroom_v1
from joulie_sim.engine.arms import Arm, JoulieSettings
from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.control_plane import ControlPlane
from joulie_sim.engine.energy_scores import EnergyScores
from joulie_sim.engine.facility import FacilityModel, LinearFacility
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.minute_meter import MinuteMeter
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.node_runtime import RunningJob
from joulie_sim.engine.node_scores import NodeScores
from joulie_sim.engine.placement import KubeScheduler, PlacementRequests
from joulie_sim.engine.power_model import NodePowerModel
from joulie_sim.engine.records import MINUTE_S, JobRecords, SimulationResult
from joulie_sim.engine.running_nodes import RunningNodes, calibrated_models
from joulie_sim.engine.waiting import BackOff, WaitingJobs

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
        class_caps = arm.joulie.class_caps if arm.joulie is not None else None
        self._limited = class_caps is not None
        self._nodes = RunningNodes(machines, power_models or calibrated_models(machines), class_caps)
        self._backoff = BackOff()
        self._records = JobRecords.empty(len(jobs))
        self._now_s = 0.0
        self._next_report_s, self._next_minute_s = settings.report_interval_s, MINUTE_S
        #: What to do at the next event, by its kind; the order is that of events of the same moment.
        self._handlers = (
            self._complete,
            self._report_due,
            self._minute_due,
            self._plan,
            self._retry,
            self._arrive,
        )
        self._running = self._done = self._dropped = self._events = self._next_job = 0
        #: Nodes that have room or a class since the last attempt to place waiting jobs.
        self._opened: dict[int, None] = {}
        self._scores: NodeScores | None = None
        self._control: ControlPlane | None = None
        self._set_up(arm)
        self._minutes = MinuteMeter(self._nodes, len(machines), settings.facility, self._control)

    def run(self) -> SimulationResult:
        """Run to the end and return what happened."""
        self._start()
        horizon_s = inf if self._settings.horizon_s is None else self._settings.horizon_s
        while not self._finished():
            due_s = self._due_s()
            now_s = min(due_s)
            if now_s >= horizon_s:
                break
            self._now_s = now_s
            self._events += 1
            self._handlers[due_s.index(now_s)]()
            if self._opened:
                self._place_waiting()
            if self._on_progress is not None and self._events % _PROGRESS_EVENTS == 0:
                self._on_progress(self._now_s, self._done)
        return self._result(horizon_s)

    def device_watts(self) -> Floats:
        """Return the present watts of each node's CPU packages and GPUs."""
        return self._nodes.device_watts.copy()

    @property
    def scores(self) -> NodeScores | None:
        """The extender's scores; None in an arm without them."""
        return self._scores

    @property
    def control_plane(self) -> ControlPlane | None:
        """Joulie's decisions; None in an arm without Joulie."""
        return self._control

    def _due_s(self) -> tuple[float, ...]:
        """Return when the next event of each kind is due, in the order of `_handlers`."""
        arrives_s, job = self._jobs.arrives_s, self._next_job
        return (
            self._nodes.next_completion_s(),
            self._next_report_s,
            self._next_minute_s,
            inf if self._control is None else self._control.plan_due_s,
            self._backoff.next_s(),
            arrives_s.item(job) if job < len(arrives_s) else inf,
        )

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
            plan_debounce_s=joulie.plan_debounce_s,
            on_change=self._publish,
        )
        if joulie.score is not None:
            scores = _SCORES[joulie.score.policy]
            self._scores = scores(self._machines, joulie.score, self._settings.report_interval_s)

    def _start(self) -> None:
        for node in range(len(self._machines)):
            self._nodes.settle(node, 0.0)
        if self._control is not None:
            self._control.plan(0.0)
            for node in range(len(self._machines)):
                self._publish(node)
        self._report()
        self._opened.clear()

    def _finished(self) -> bool:
        if self._running or self._next_job < len(self._jobs):
            return False
        if not self._waiting.jobs:
            return True
        planned = self._control is None or self._control.plan_due_s == inf
        return planned and not self._placeable()

    def _placeable(self) -> bool:
        """Return whether a job that waits could run on a node: while none runs nothing changes by itself."""
        requests = (self._requests.requests[line] for line in self._waiting.lines())
        return any(self._scheduler.allows(request).any() for request in requests)

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
            self._backoff.placed(line)
            self._bind(job, request, node)
            return True
        if refused and not self._settings.drop_on_arrival:
            self._backoff.refused(line, self._now_s)
        return False

    def _bind(self, job: int, request: PlacementRequest, node: int) -> None:
        self._scheduler.bind(request, node)
        runtime = self._nodes[node]
        runtime.advance(self._now_s)
        runtime.start(job, self._running_job(job, request), self._jobs.work_s.item(job))
        self._nodes.settle(node, self._now_s)
        self._records.started_s[job] = self._now_s
        self._records.node[job] = node
        self._running += 1
        if self._control is not None and request.performance:
            self._control.bound(node)
        if self._scores is not None:
            self._scores.bound(job, node, request.demand, self._now_s)

    def _complete(self) -> None:
        node = self._nodes.pop_completion()
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
        self._nodes.settle(node, self._now_s)
        self._opened[node] = None
        if self._control is not None:
            for _ in range(performance):
                self._control.ended(node, self._now_s)

    def _retry(self) -> None:
        line = self._backoff.pop()
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
            self._nodes.settle(node, self._now_s)

    def _report_due(self) -> None:
        self._report()
        self._next_report_s += self._settings.report_interval_s

    def _minute_due(self) -> None:
        self._end_minute(MINUTE_S)
        self._next_minute_s += MINUTE_S
        self._plan()

    def _plan(self) -> None:
        if self._control is not None:
            self._control.plan(self._now_s)

    def _report(self) -> None:
        if self._scores is not None:
            self._scores.report(self._nodes.device_watts, self._now_s)

    # --- records

    def _end_minute(self, length_s: float) -> None:
        self._minutes.end(self._now_s, length_s, running=self._running, waiting=self._waiting.jobs)

    def _result(self, horizon_s: float) -> SimulationResult:
        if horizon_s < inf:
            self._now_s = horizon_s
        minute_s = self._next_minute_s - MINUTE_S
        if self._now_s > minute_s:
            self._end_minute(self._now_s - minute_s)
        joules = self._nodes.joules(self._now_s)
        self._record_work_left()
        return SimulationResult(
            jobs=self._records,
            minutes=self._minutes.records,
            node_joules=joules,
            it_joules=fsum(joules),
            facility_joules=self._minutes.facility_joules,
            idle_watts=self._nodes.idle_watts(),
            idle_facility_watts=self._nodes.idle_facility_watts(self._settings.facility),
            end_s=self._now_s,
            events=self._events,
            dropped=self._dropped,
            transitions=self._control.transitions if self._control is not None else 0,
        )

    def _record_work_left(self) -> None:
        """Record the work that jobs have not received at the end."""
        left_s = np.where(np.isnan(self._records.ended_s), self._jobs.work_s, 0.0)
        self._nodes.record_work_left(left_s, self._now_s)
        self._records.left_s[:] = left_s
