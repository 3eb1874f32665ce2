"""Power that the demo's pods would have drawn without Joulie: the same pods in the discrete-event simulator.

The simulator gets the nodes of the demo, its pods with the times at which they were created, and the power model of the
demo's simulated machines: servers at the wall where nodes sleep, else CPU packages and GPUs. It runs them with both
strategies of kube-scheduler alone, and as in the demo. The last is there for the error: what the demo measured over
what the simulator makes of the same. Each is run with several seeds: what chance makes of kube-scheduler's choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.power.draw import Draw, limited_draw
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.demo.record import PodTrack
from joulie_sim.energy import kwh_until
from joulie_sim.engine.arm import Arm, SleepingArm
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import HardwareGroup, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.power_model import CalibratedPowerModel, LimitedGpuWork, NodePowerModel, ServerDraw, SlowedCores
from joulie_sim.engine.records import SimulationResult
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import SimulationSummary, summarize
from joulie_sim.physics.operation import effective_cpu_cap
from joulie_sim.physics.parts import Controls
from joulie_sim.pod_figures import WaitFigures, mean, wait
from joulie_sim.workload.item import WorkItem

_PERCENT: Final = 100.0
#: Of kube-scheduler's choice among equal nodes.
_SEEDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoArm:
    """One run of the demo's pods, or the means over several; energies up to the time at which the last one ended."""

    kwh: float
    #: Means.
    slowdowns: Mapping[WorkloadClass, float | None]
    #: For a node, in simulated seconds.
    waits: Mapping[WorkloadClass, WaitFigures]
    transitions: int
    power_offs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoComparison:
    """The demo beside what the simulator makes of its pods.

    Attributes:
        measured: the demo.
        simulated: the same in the simulator.
        without: kube-scheduler alone, with its default strategy.
        packing: kube-scheduler alone, with its strategy that fills nodes.
        savings_pct: what Joulie saves in the simulator of the energy of `without`, for each seed of the simulator.
        without_watts: the end of each minute, in simulated seconds, and its mean watts, of the first seed of `without`.
    """

    measured: DemoArm
    simulated: DemoArm
    without: DemoArm
    packing: DemoArm
    savings_pct: Sequence[float]
    without_watts: Sequence[tuple[float, float]] = ()

    @property
    def saved_pct(self) -> float:
        """Energy that Joulie saves in the simulator, in percent of the energy without it."""
        return fmean(self.savings_pct)

    @property
    def saved_of_better_pct(self) -> float:
        """Energy that Joulie saves in the simulator, in percent of the better of kube-scheduler's strategies."""
        return _PERCENT * (1.0 - self.simulated.kwh / min(self.without.kwh, self.packing.kwh))

    @property
    def error_pct(self) -> float:
        """Energy of the simulator over that of the demo, both with Joulie, minus 1, in percent."""
        return _PERCENT * (self.simulated.kwh / self.measured.kwh - 1.0)

    @property
    def range_pct(self) -> tuple[float, float]:
        """Lowest and highest saving: those of the seeds, farther apart by the error on both sides."""
        error = abs(self.error_pct)
        return min(self.savings_pct) - error, max(self.savings_pct) + error

    @property
    def conclusion(self) -> str:
        """Result of the runs: the saving, or that the simulator is too inexact to show one."""
        lowest, highest = self.range_pct
        error = f"the simulator's error of {abs(self.error_pct):.1f} % and chance"
        if lowest <= 0.0 <= highest:
            return (
                f"no saving shown: the difference of {self.saved_pct:+.1f} % is within {error} "
                f"({lowest:+.1f} to {highest:+.1f} %)"
            )
        verb, ends = ("saves", (lowest, highest)) if lowest > 0.0 else ("costs", (-highest, -lowest))
        return f"Joulie {verb} {abs(self.saved_pct):.1f} %, {ends[0]:.1f} to {ends[1]:.1f} % with {error}"


class PackagePowerModel:
    """The power of the demo's machines: CPU packages by the inventory's curve, and GPUs; nothing else draws power."""

    def __init__(self, group: HardwareGroup) -> None:
        self._cpu = group.hardware.cpu
        self._calibrated = CalibratedPowerModel(group)

    def server(self, busy_cores: float, controls: Controls, slowed: SlowedCores | None = None) -> ServerDraw:
        """Return the draw of the packages."""
        cpu = self._cpu
        assert cpu is not None, "machines have known CPUs"
        assert slowed is None, "Joulie limits no devices by class in the demo"
        utilization = min(1.0, busy_cores / cpu.cores)
        draw = limited_draw(
            cpu.curve.response,
            cpu.curve.watts(utilization, cpu.max_watts) * cpu.sockets,
            cpu.curve.watts(0.0, cpu.max_watts) * cpu.sockets,
            cap_watts=effective_cpu_cap(cpu, controls) * cpu.sockets,
            throttled_share=controls.throttle_pct / _PERCENT,
        )
        return ServerDraw(draw.watts, draw)

    def gpu(self, utilization: float, controls: Controls, clock: LimitedGpuWork | None = None) -> Draw:
        """Return the draw of one GPU."""
        return self._calibrated.gpu(utilization, controls, clock)

    def wall_watts(self, gpu_watts: float) -> float:
        """Return the GPUs' watts as they are."""
        return gpu_watts


def compare_without_joulie(
    classes: Sequence[NodeClass],
    items: Sequence[WorkItem],
    tracks: Mapping[str, PodTrack],
    *,
    arm: Arm,
    measured: DemoArm,
    duration_s: float,
    report_interval_s: float,
) -> DemoComparison:
    """Simulate the demo's pods with and without Joulie.

    Args:
        classes: the nodes. Where the arm lets them sleep, their power is that at the wall, else that of their devices.
        items: the pods.
        tracks: when each was created; all of them are required.
        arm: Joulie in the demo.
        measured: the demo.
        duration_s: its duration.
        report_interval_s: interval of the agents' reports.
    """
    machines = machines_of(nodes_of_classes(classes), Inventory.load())
    jobs = Jobs.of([replace(item, arrives_s=tracks[item.name].created_s) for item in items])
    models: list[NodePowerModel] | None = None
    if not isinstance(arm, SleepingArm):
        models = [PackagePowerModel(group) for group in machines.groups]

    def simulated(arm: Arm) -> list[_Simulated]:
        found = []
        for seed in range(_SEEDS):
            settings = SimulationSettings(report_interval_s=report_interval_s, seed=seed)
            result = Simulation(machines, jobs, arm, settings, power_models=models).run()
            watts = list(zip(result.minutes.ends_s, result.minutes.it_watts, strict=True))
            found.append(_Simulated(summarize(result, jobs, machines), _waits(result, jobs), watts))
        return found

    twins, without, packing = (simulated(each) for each in (arm, ARMS["kube_default"], ARMS["most_allocated"]))
    end_s = max(duration_s, *(found.summary.end_s for found in (*twins, *without, *packing)))
    return DemoComparison(
        # The demo's machines, too, are idle from the end of its last pod on.
        measured=replace(measured, kwh=kwh_until(end_s, measured.kwh, duration_s, idle_kw=twins[0].summary.idle_kw)),
        simulated=_arm(twins, end_s),
        without=_arm(without, end_s),
        packing=_arm(packing, end_s),
        savings_pct=[
            _PERCENT * (1.0 - twin.summary.it_kwh_until(end_s) / other.summary.it_kwh_until(end_s))
            for twin, other in zip(twins, without, strict=True)
        ],
        without_watts=without[0].watts,
    )


@dataclass(frozen=True, slots=True)
class _Simulated:
    """One simulation of the demo's pods."""

    summary: SimulationSummary
    waits_s: Mapping[WorkloadClass, Floats]
    watts: Sequence[tuple[float, float]]


def _waits(result: SimulationResult, jobs: Jobs) -> dict[WorkloadClass, Floats]:
    """Return the waits of the jobs that got a node."""
    waits_s = wait(jobs.arrives_s, result.jobs.started_s)
    started = ~np.isnan(waits_s)
    performance = {each: jobs.performance == (each is WorkloadClass.PERFORMANCE) for each in WorkloadClass}
    return {each: waits_s[members & started] for each, members in performance.items()}


def _arm(found: Sequence[_Simulated], end_s: float) -> DemoArm:
    """Return the means over simulations; the waits of all of them together."""
    summaries = [each.summary for each in found]
    slowdowns = {each: [summary.slowdown_mean(each) for summary in summaries] for each in WorkloadClass}
    return DemoArm(
        kwh=fmean(summary.it_kwh_until(end_s) for summary in summaries),
        slowdowns={each: mean([value for value in values if value is not None]) for each, values in slowdowns.items()},
        waits={
            each: WaitFigures.of(float(wait_s) for simulation in found for wait_s in simulation.waits_s[each])
            for each in WorkloadClass
        },
        transitions=round(fmean(summary.transitions for summary in summaries)),
        power_offs=round(fmean(summary.power_cycles for summary in summaries)),
    )
