"""Power that the demo's pods would have drawn without Joulie: the same pods in the discrete-event simulator.

The simulator gets the nodes of the demo, its pods with the times at which they were created, and the power model of the
demo's simulated machines: CPU packages and GPUs. It runs them twice, with kube-scheduler alone and with the demo's
policy. The second run is there for the error: what the demo measured over what the simulator makes of the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.power.draw import Draw, limited_draw
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.demo.record import PodTrack
from joulie_sim.energy import kwh_until
from joulie_sim.engine.arms import Arm, JoulieSettings
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import HardwareGroup, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.power_model import CalibratedPowerModel, NodePowerModel, ServerDraw, SlowedCores
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import SimulationSummary, summarize
from joulie_sim.physics.operation import effective_cpu_cap
from joulie_sim.physics.parts import Controls
from joulie_sim.workload.item import WorkItem

_ALL_NODES: Final = 100
_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoArm:
    """One run of the demo's pods; energies up to the time at which the last of the runs ended."""

    kwh: float
    #: Means.
    slowdowns: Mapping[WorkloadClass, float | None]
    transitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoComparison:
    """The demo beside what the simulator makes of its pods."""

    measured: DemoArm
    simulated: DemoArm
    without: DemoArm

    @property
    def saved_pct(self) -> float:
        """Energy that Joulie saves in the simulator, in percent of the energy without it."""
        return _PERCENT * (1.0 - self.simulated.kwh / self.without.kwh)

    @property
    def error_pct(self) -> float:
        """Energy of the simulator over that of the demo, both with Joulie, minus 1, in percent."""
        return _PERCENT * (self.simulated.kwh / self.measured.kwh - 1.0)

    @property
    def conclusion(self) -> str:
        """Result of the three runs: the saving, or that the simulator is too inexact to show one."""
        error = f"the simulator's error of {abs(self.error_pct):.1f} %"
        if abs(self.saved_pct) <= abs(self.error_pct):
            return f"no saving shown: the difference of {self.saved_pct:+.1f} % is within {error}"
        return f"Joulie {'saves' if self.saved_pct > 0.0 else 'costs'} {abs(self.saved_pct):.1f} %, beyond {error}"


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

    def gpu(self, utilization: float, controls: Controls) -> Draw:
        """Return the draw of one GPU."""
        return self._calibrated.gpu(utilization, controls)

    def wall_watts(self, gpu_watts: float) -> float:
        """Return the GPUs' watts as they are."""
        return gpu_watts


def compare_without_joulie(
    classes: Sequence[NodeClass],
    items: Sequence[WorkItem],
    tracks: Mapping[str, PodTrack],
    *,
    joulie: JoulieSettings,
    measured: DemoArm,
    duration_s: float,
    report_interval_s: float,
) -> DemoComparison:
    """Simulate the demo's pods with and without Joulie.

    Args:
        classes: the nodes.
        items: the pods.
        tracks: when each was created; all of them are required.
        joulie: what Joulie did in the demo.
        measured: the demo.
        duration_s: its duration.
        report_interval_s: interval of the agents' reports.
    """
    machines = machines_of(nodes_of_classes(classes), Inventory.load())
    jobs = Jobs.of([replace(item, arrives_s=tracks[item.name].created_s) for item in items])
    models: list[NodePowerModel] = [PackagePowerModel(group) for group in machines.groups]

    def simulated(arm: Arm) -> SimulationSummary:
        settings = SimulationSettings(report_interval_s=report_interval_s)
        return summarize(Simulation(machines, jobs, arm, settings, power_models=models).run(), jobs, machines)

    without = simulated(Arm(name="without", summary="kube-scheduler alone"))
    twin = simulated(Arm(name="with", summary="Joulie", nodes_to_score_pct=_ALL_NODES, joulie=joulie))
    end_s = max(duration_s, without.end_s, twin.end_s)
    return DemoComparison(
        # The demo's machines, too, are idle from the end of its last pod on.
        measured=replace(measured, kwh=kwh_until(end_s, measured.kwh, duration_s, idle_kw=without.idle_kw)),
        simulated=_arm(twin, end_s),
        without=_arm(without, end_s),
    )


def _arm(summary: SimulationSummary, end_s: float) -> DemoArm:
    return DemoArm(
        kwh=summary.it_kwh_until(end_s),
        slowdowns={each: summary.slowdown_mean(each) for each in WorkloadClass},
        transitions=summary.transitions,
    )
