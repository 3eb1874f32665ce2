"""The event loop: arrivals, completions, reports and minutes of one arm.

Events of the same moment are handled in this order: completions, the report, the end of the minute, a decision about
sleeping nodes, one about power budgets, a plan that follows the demand, jobs whose back-off is over, arrivals, a look
of the estimate of savings, limits by class that are lifted or come back, and those that are set. See
docs/decisions/0018-simulator-engine.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum, inf
from typing import Final

from joulie_core.scoring import energy_v1, energy_v2, headroom_v1
from joulie_sim.engine.arm import Arm, BudgetArm, SleepingArm
from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.control_plane import ControlPlane
from joulie_sim.engine.device_limits import ClassCapSettings, ClassLimitSettings
from joulie_sim.engine.energy_scores import EnergyScores
from joulie_sim.engine.facility import FacilityModel, LinearFacility
from joulie_sim.engine.job_flow import JobFlow
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.joulie_settings import BoundedJoulieSettings, JoulieSettings, StatingJoulieSettings
from joulie_sim.engine.kube_scores import Balance
from joulie_sim.engine.limit_lifting import LimitLifting
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.minute_meter import MinuteMeter
from joulie_sim.engine.movable_jobs import MovableJobs
from joulie_sim.engine.node_budgets import SharedFeed
from joulie_sim.engine.node_scores import NodeScores
from joulie_sim.engine.node_sleep import NodeSleep
from joulie_sim.engine.node_sleep_settings import MovingSleepSettings
from joulie_sim.engine.packing_scores import PackingScores
from joulie_sim.engine.placement import KubeScheduler, PlacementRequests
from joulie_sim.engine.power_model import NodePowerModel
from joulie_sim.engine.records import MINUTE_S, SimulationResult
from joulie_sim.engine.running_nodes import RunningNodes, calibrated_models
from joulie_sim.engine.savings_probe import SavingsProbe
from joulie_sim.engine.stated_scores import StatedScores, stated_seconds

#: Events between two calls of the progress function.
_PROGRESS_EVENTS: Final = 20_000
#: By name of the score policy.
_SCORES: Final = {headroom_v1.NAME: NodeScores, energy_v1.NAME: EnergyScores, energy_v2.NAME: PackingScores}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """Settings that all arms of a comparison have in common, beside nodes and jobs."""

    seed: int = 0
    report_interval_s: float = 20.0
    #: A job that cannot be placed on arrival is dropped instead of waiting.
    drop_on_arrival: bool = False
    #: The simulation ends at this time whatever still runs; None: when all work is done.
    horizon_s: float | None = None
    facility: FacilityModel = field(default_factory=LinearFacility)
    #: Of kube-scheduler, by its release.
    balance: Balance = Balance.IMPROVEMENT


class Simulation:
    """One arm over one workload; `run` may be called once.

    Args:
        machines: the nodes.
        jobs: the workload.
        arm: scheduler and Joulie.
        settings: what the arms have in common.
        power_models: model of each hardware group.
        on_progress: called now and then with the simulated seconds and the number of jobs that are done.
        savings: estimates what the arm saves, from what the operator sees; None: nothing does.

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
        savings: SavingsProbe | None = None,
    ) -> None:
        self._savings = savings
        self._machines = machines
        self._settings = settings
        self._on_progress = on_progress
        joulie = arm.joulie
        limits: ClassCapSettings | ClassLimitSettings | None = joulie.class_caps if joulie is not None else None
        if isinstance(joulie, BoundedJoulieSettings):
            limits = joulie.class_limits
        self._nodes = RunningNodes(machines, power_models or calibrated_models(machines), limits)
        self._scores: NodeScores | None = None
        self._control: ControlPlane | None = None
        if joulie is not None:
            self._set_up_joulie(joulie, jobs)
        self._scheduler = KubeScheduler(
            machines,
            strategy=arm.strategy,
            nodes_to_score_pct=arm.nodes_to_score_pct,
            seed=settings.seed,
            extender=self._scores,
            extender_weight=joulie.extender_weight if joulie is not None else 1,
            balance=settings.balance,
        )
        movable: MovableJobs | None = None
        if isinstance(arm, SleepingArm) and isinstance(arm.sleep, MovingSleepSettings):
            movable = MovableJobs(jobs, arm.sleep.moving)
        self._lifting: LimitLifting | None = None
        if isinstance(limits, ClassLimitSettings) and limits.lift is not None:
            self._lifting = LimitLifting(machines, self._nodes, limits.lift)
        self._flow = JobFlow(
            jobs,
            PlacementRequests(jobs, machines.gpu_resources),
            self._nodes,
            self._scheduler,
            control=self._control,
            scores=self._scores,
            drop_on_arrival=settings.drop_on_arrival,
            limits=limits,
            observers=[each for each in (savings, movable, self._lifting) if each is not None],
        )
        self._sleep: NodeSleep | None = None
        if isinstance(arm, SleepingArm):
            self._sleep = NodeSleep(machines, arm.sleep, self._nodes, self._scheduler, self._flow, movable=movable)
        self._budgets = SharedFeed(machines, arm.budgets, self._nodes) if isinstance(arm, BudgetArm) else None
        if savings is not None:
            savings.watch(self._nodes, self._sleep)
        self._minutes = MinuteMeter(self._nodes, len(machines), settings.facility, self._control, self._sleep)
        self._now_s = 0.0
        self._next_report_s, self._next_minute_s = settings.report_interval_s, MINUTE_S
        self._events = 0
        #: What to do at the next event, by its kind; the order is that of events of the same moment.
        self._handlers: tuple[Callable[[float], None], ...] = (
            self._flow.complete,
            self._report_due,
            self._minute_due,
            self._sleep_due,
            self._limit,
            self._plan,
            self._flow.retry,
            self._flow.arrive,
            self._look,
            self._lift,
            self._flow.limit,
        )

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
            self._handlers[due_s.index(now_s)](now_s)
            self._flow.place_waiting(now_s)
            if self._lifting is not None:
                self._lifting.follow(self._flow.waiting_since(), now_s)
            if self._on_progress is not None and self._events % _PROGRESS_EVENTS == 0:
                self._on_progress(now_s, self._flow.done)
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
        return (
            self._nodes.next_completion_s(),
            self._next_report_s,
            self._next_minute_s,
            inf if self._sleep is None else self._sleep.due_s,
            inf if self._budgets is None else self._budgets.due_s,
            inf if self._control is None else self._control.plan_due_s,
            self._flow.next_retry_s(),
            self._flow.next_arrival_s(),
            inf if self._savings is None else self._savings.due_s,
            inf if self._lifting is None else self._lifting.due_s,
            self._flow.next_limit_s(),
        )

    def _set_up_joulie(self, joulie: JoulieSettings, jobs: Jobs) -> None:
        self._control = ControlPlane(
            self._machines,
            policy=joulie.policy,
            policy_values=joulie.policy_values,
            caps=joulie.caps,
            plan_debounce_s=joulie.plan_debounce_s,
            on_change=self._publish,
        )
        if joulie.score is not None:
            interval_s = self._settings.report_interval_s
            if isinstance(joulie, StatingJoulieSettings):
                stated_s = stated_seconds(jobs, self._machines, joulie.stated, self._settings.seed)
                self._scores = StatedScores(self._machines, joulie.score, interval_s, stated_s)
            else:
                self._scores = _SCORES[joulie.score.policy](self._machines, joulie.score, interval_s)

    def _start(self) -> None:
        for node in range(len(self._machines)):
            self._nodes.settle(node, 0.0)
        if self._control is not None:
            self._control.plan(0.0)
            for node in range(len(self._machines)):
                self._publish(node)
        self._report()
        self._flow.place_waiting(0.0)

    def _finished(self) -> bool:
        planned = self._control is None or self._control.plan_due_s == inf
        return (planned or not self._flow.waiting) and self._flow.finished()

    def _publish(self, node: int) -> None:
        """Put the state of a node in force."""
        assert self._control is not None
        published = self._control.published(node)
        self._scheduler.accepting[node] = not published.refused
        self._flow.opened(node)
        if self._scores is not None:
            self._scores.publish(node, published)
        runtime = self._nodes[node]
        if published.controls != runtime.controls:
            runtime.advance(self._now_s)
            runtime.controls = published.controls
            self._nodes.settle(node, self._now_s)

    def _report_due(self, _now_s: float) -> None:
        self._report()
        self._next_report_s += self._settings.report_interval_s

    def _minute_due(self, now_s: float) -> None:
        self._end_minute(MINUTE_S)
        self._next_minute_s += MINUTE_S
        self._plan(now_s)

    def _sleep_due(self, now_s: float) -> None:
        assert self._sleep is not None
        self._sleep.decide(now_s)

    def _limit(self, now_s: float) -> None:
        assert self._budgets is not None
        self._budgets.decide(now_s)

    def _look(self, now_s: float) -> None:
        assert self._savings is not None
        self._savings.look(now_s)

    def _lift(self, _now_s: float) -> None:
        """Do nothing: limits are lifted and come back after each event."""

    def _plan(self, now_s: float) -> None:
        if self._control is not None:
            self._control.plan(now_s)

    def _report(self) -> None:
        if self._scores is not None:
            self._scores.report(self._nodes.device_watts, self._now_s)

    def _end_minute(self, length_s: float) -> None:
        self._minutes.end(self._now_s, length_s, running=self._flow.running, waiting=self._flow.waiting)

    def _result(self, horizon_s: float) -> SimulationResult:
        if horizon_s < inf:
            self._now_s = horizon_s
        minute_s = self._next_minute_s - MINUTE_S
        if self._now_s > minute_s:
            self._end_minute(self._now_s - minute_s)
        joules = self._nodes.joules(self._now_s)
        return SimulationResult(
            jobs=self._flow.records(self._now_s),
            minutes=self._minutes.records,
            node_joules=joules,
            it_joules=fsum(joules),
            facility_joules=self._minutes.facility_joules,
            idle_watts=self._nodes.idle_watts(),
            idle_facility_watts=self._nodes.idle_facility_watts(self._settings.facility),
            end_s=self._now_s,
            events=self._events,
            dropped=self._flow.dropped,
            transitions=self._control.transitions if self._control is not None else 0,
            power_cycles=self._sleep.power_cycles if self._sleep is not None else 0,
            moved=self._flow.moved,
        )
