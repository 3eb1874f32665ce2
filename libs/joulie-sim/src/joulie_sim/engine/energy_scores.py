"""The scores of `energy_v1` for all nodes, from twins that are computed for all of them at once.

The numbers are those of `EnergyScore.row` for every node: a test compares them. Tables of costs and rows are
`joulie_core`'s own, one for each kind of hardware and caps.
"""

from bisect import bisect_right

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.energy_v1 import EnergyTable, energy_row, energy_table, watt_shares
from joulie_core.scoring.prepared import AffineRow
from joulie_core.twin import PowerBudget
from joulie_sim.engine.arrays import Floats, Ints
from joulie_sim.engine.control_plane import PublishedNode
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_scores import NodeScores, ScoreSettings, rounded_scores

_CLASSES = tuple(WorkloadClass)


class EnergyRows(NodeScores):
    """Scores of all nodes for any pod from a row of each node, by class; what a row is made of is the score's."""

    def __init__(self, machines: Machines, settings: ScoreSettings, interval_s: float) -> None:
        nodes = len(machines)
        #: Tenth of the CPU load that each row is of; -1 before there is one.
        self._tenths: Ints = np.full(nodes, -1, dtype=np.int64)
        #: By class: base, points per share of CPUs and of GPUs.
        self._rows_by_class: Floats = np.zeros((len(_CLASSES), 3, nodes))
        super().__init__(machines, settings, interval_s)

    def scores(self, nodes: Ints, demand: PodDemand) -> Floats:
        """Return the extender's answer for the candidates: whole numbers from 0 to SCORE_MAX."""
        cpu, gpu = watt_shares(demand)
        base, cpu_points, gpu_points = self._rows_by_class[_CLASSES.index(demand.workload_class)]
        few = 2 * len(nodes) < len(base)
        if few:
            base, cpu_points, gpu_points = (array.take(nodes) for array in (base, cpu_points, gpu_points))
        points: Floats = cpu_points * cpu
        np.subtract(base, points, out=points)
        if gpu:
            points -= gpu_points * gpu
        if not few and len(nodes) < len(points):
            points = points.take(nodes)
        points *= self._factor
        return rounded_scores(points, self._settings.score_max)

    def row(self, node: int, workload_class: WorkloadClass, trend_scale: float) -> AffineRow:  # noqa: ARG002
        """Return the row of one node, for comparison with that of the policy."""
        base, cpu_points, gpu_points = self._rows_by_class[_CLASSES.index(workload_class), :, node]
        return AffineRow(float(base), float(cpu_points), float(gpu_points), 0.0)

    def _set_row(self, place: int, node: int, row: AffineRow) -> None:
        self._rows_by_class[place, :, node] = row.base, row.cpu_points, row.gpu_points


class EnergyScores(EnergyRows):
    """Scores of all nodes for any pod, as the extender has them between two reports; arguments as in `NodeScores`."""

    def __init__(self, machines: Machines, settings: ScoreSettings, interval_s: float) -> None:
        self._tables: list[EnergyTable] = []
        self._table_numbers: dict[tuple[int, PowerBudget], int] = {}
        nodes = len(machines)
        self._table_of: Ints = np.full(nodes, -1, dtype=np.int64)
        super().__init__(machines, settings, interval_s)

    def publish(self, node: int, published: PublishedNode) -> None:
        """Take the class and the caps of a node."""
        self._table_of[node] = self._table_number(node, published.budget)
        super().publish(node, published)

    def _table_number(self, node: int, budget: PowerBudget) -> int:
        group = int(self._machines.group[node])
        number = self._table_numbers.get((group, budget))
        if number is None:
            curves = self._machines.groups[group].power.curves
            assert curves is not None, "machines have known CPUs"
            number = self._table_numbers[group, budget] = len(self._tables)
            self._tables.append(energy_table(curves, budget.cpu_pct / 100.0, budget.gpu_pct / 100.0))
        return number

    def _refresh(self, node: int) -> None:
        published = self._published[node]
        if published is None:
            return
        table = self._tables[int(self._table_of[node])]
        watts = self._measured.item(node) + self._assumed_watts.item(node)
        tenth = self._tenths[node] = bisect_right(table.begins_watts, watts)
        cpu = table.cpu[tenth] if table.measurable else table.cpu_unknown_load
        power = self._machines.groups[int(self._machines.group[node])].power
        for place, workload_class in enumerate(_CLASSES):
            row = energy_row(cpu, table.gpu, published.schedulable_class, power, workload_class)
            self._set_row(place, node, row)

    def _refresh_all(self) -> None:
        # A node's row changes only where its load is measured, which few reports move by a tenth.
        watts = self._measured + self._assumed_watts
        for number, table in enumerate(self._tables):
            if not table.measurable:
                continue
            members = np.flatnonzero(self._table_of == number)
            tenths = np.searchsorted(np.array(table.begins_watts), watts[members], side="right")
            for node in members[tenths != self._tenths[members]]:
                self._refresh(int(node))
