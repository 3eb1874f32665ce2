"""The scores of `energy_v2` for all nodes: rows of `joulie_core`, made when pods, caps or load of a node change."""

from typing import Final

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.energy_v1 import TENTHS, tenth_of
from joulie_core.scoring.energy_v2 import PackingScore
from joulie_core.scoring.state import STEADY_TREND_SCALE, NodeSituation, TwinSnapshot
from joulie_sim.engine.arrays import Ints
from joulie_sim.engine.control_plane import PublishedNode
from joulie_sim.engine.energy_scores import EnergyRows
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_scores import ScoreSettings

_CLASSES: Final = tuple(WorkloadClass)
POLICY: Final = PackingScore()


class PackingScores(EnergyRows):
    """Scores of all nodes for any pod, as the extender has them between two reports; arguments as in `NodeScores`."""

    def __init__(self, machines: Machines, settings: ScoreSettings, interval_s: float) -> None:
        nodes = len(machines)
        #: Of jobs on each node: cores in whole thousandths and GPUs, so that no sum drifts.
        self._held_milli: Ints = np.zeros(nodes, dtype=np.int64)
        self._held_gpus: Ints = np.zeros(nodes, dtype=np.int64)
        self._jobs: dict[int, tuple[int, PodDemand]] = {}
        super().__init__(machines, settings, interval_s)

    def bound(self, job: int, node: int, demand: PodDemand, now_s: float) -> None:
        """Count a pod that was bound."""
        self._jobs[job] = node, demand
        self._hold(node, demand, 1)
        super().bound(job, node, demand, now_s)
        if not self._settings.count_in_flight:
            self._refresh(node)

    def ended(self, job: int) -> None:
        """Count a pod no longer that has ended."""
        node, demand = self._jobs.pop(job)
        self._hold(node, demand, -1)
        super().ended(job)
        self._refresh(node)

    def snapshot(self, node: int, published: PublishedNode) -> TwinSnapshot:
        """Return what the row of a node is made of."""
        budget = published.budget
        return TwinSnapshot(
            published.schedulable_class,
            measured_watts=self._measured.item(node),
            cpu_cap_share=budget.cpu_pct / 100.0,
            gpu_cap_share=budget.gpu_pct / 100.0,
            assumed_watts=self._assumed_watts.item(node),
            held_cores=self._held_milli.item(node) / 1000.0,
            held_gpus=float(self._held_gpus.item(node)),
        )

    def situation(self, node: int) -> NodeSituation | None:
        """Return what the scores of a node are made of; None before it is published."""
        published = self._published[node]
        if published is None:
            return None
        return NodeSituation(
            self.snapshot(node, published), self._machines.groups[self._machines.group.item(node)].power
        )

    def _hold(self, node: int, demand: PodDemand, sign: int) -> None:
        self._held_milli[node] += sign * round(demand.cpu_cores * 1000.0)
        self._held_gpus[node] += sign * round(demand.gpus)

    def _refresh(self, node: int) -> None:
        situation = self.situation(node)
        if situation is None:
            return
        self._tenths[node] = self._tenth(node)
        for place, workload_class in enumerate(_CLASSES):
            self._set_row(place, node, POLICY.row(situation, workload_class, STEADY_TREND_SCALE))

    def _refresh_all(self) -> None:
        # A node's row changes with a report only where its load is measured, which few reports move by a tenth.
        for node, tenth in enumerate(self._tenths.tolist()):
            if self._tenth(node) != tenth:
                self._refresh(node)

    def _tenth(self, node: int) -> int:
        curves = self._machines.groups[self._machines.group.item(node)].power.curves
        if curves is None or curves.gpu is not None:
            return TENTHS
        return tenth_of(curves, self._measured.item(node) + self._assumed_watts.item(node))
