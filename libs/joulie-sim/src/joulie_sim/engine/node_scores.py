"""The extender's scores of all nodes, from twins that are computed for all of them at once.

The numbers are those of `joulie_core.twin.build_twin` on measured power, read by `joulie_core.scoring.state.node_state`
and scored by `joulie_core.scoring.prepared`: a test compares all of them, node by node. Weights and terms that do not
change with power are `joulie_core`'s own: `prepare_row` is called for every kind of node and state, pods in flight are
kept by `AssumedPods`, and pressure and trend scale are `ClusterTerms`.
"""

from dataclasses import dataclass, field
from math import fsum
from typing import Final

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.powerest.assumed import AssumedPods
from joulie_core.powerest.marginal import Coefficients, marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring import formula
from joulie_core.scoring.prepared import AffineRow, prepare_row
from joulie_core.scoring.registry import DEFAULT_SCORE
from joulie_core.scoring.state import (
    BURST_TREND_SCALE,
    HIGHEST_CONGESTION_PCT,
    STEADY_TREND_SCALE,
    ClusterTerms,
    NodeSituation,
    TwinSnapshot,
    congestion_pct,
    pressure,
)
from joulie_core.twin import PowerBudget
from joulie_core.twin.trend import LEAST_SPAN_S, WINDOW_S
from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.control_plane import PublishedNode
from joulie_sim.engine.machines import Machines

_SECONDS_PER_MINUTE: Final = 60.0
_CLASSES: Final = tuple(WorkloadClass)
_SCALES: Final = (STEADY_TREND_SCALE, BURST_TREND_SCALE)
#: Sums over nodes are of whole millionths, as `ClusterSums` adds them: exact in any order.
_UNITS: Final = 1_000_000.0
_KEPT_WATTS: Final = 100_000


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """Settings of the extender."""

    policy: str = DEFAULT_SCORE.name
    score_max: int = 100
    coefficients: Coefficients = field(default_factory=Coefficients)
    #: Whether pods count that are not in the measurement yet.
    count_in_flight: bool = True


class NodeTrends:
    """Trend of the power of each node over the reports of the last five minutes, in watts per minute."""

    def __init__(self, nodes: int, interval_s: float) -> None:
        self._interval_s = interval_s
        #: Reports within the window; the oldest must be younger than it.
        self._most = max(1, -int(-WINDOW_S // interval_s))
        self._watts: list[Floats] = []
        self._nodes = nodes

    def add(self, watts: Floats) -> Floats:
        """Take a report; return the least-squares slopes, 0 where the reports do not span enough time yet."""
        self._watts = [*self._watts[-(self._most - 1) :], watts.copy()] if self._most > 1 else [watts.copy()]
        count = len(self._watts)
        if (count - 1) * self._interval_s < LEAST_SPAN_S:
            return np.zeros(self._nodes)
        offsets = [(index - (count - 1) / 2) * self._interval_s for index in range(count)]
        variance = fsum(offset * offset for offset in offsets)
        # Added up row by row: a matrix product's order of additions is not defined.
        slope = np.zeros(self._nodes)
        for offset, row in zip(offsets, self._watts, strict=True):
            slope += (offset / variance * _SECONDS_PER_MINUTE) * row
        return _tenths(slope)


class NodeScores:
    """Scores of all nodes for any pod, as the extender has them between two reports.

    Args:
        machines: the nodes.
        settings: settings of the extender.
        interval_s: time between two reports.
    """

    def __init__(self, machines: Machines, settings: ScoreSettings, interval_s: float) -> None:
        nodes = len(machines)
        self._machines = machines
        self._settings = settings
        self._factor = settings.score_max / formula.MAX_SCORE
        self._index = {name: index for index, name in enumerate(machines.names)}
        self._trends = NodeTrends(nodes, interval_s)
        self._assumed = AssumedPods(interval_s, 0.0)
        self._assumed_nodes: set[int] = set()
        self._now_s = 0.0
        self._published: list[PublishedNode | None] = [None] * nodes
        self._capped: Floats = np.ones(nodes)
        self._tdp: Floats = np.ones(nodes)
        self._measured: Floats = np.zeros(nodes)
        self._cooling: Floats = np.zeros(nodes)
        self._trend: Floats = np.zeros(nodes)
        self._assumed_watts: Floats = np.zeros(nodes)
        self._supplies: Bools = np.zeros(nodes, dtype=np.bool_)
        self._supplying = 0
        #: One row per class: points per core, per GPU and per percent of pressure, and of the profile.
        self._cpu_points: Floats = np.zeros((len(_CLASSES), nodes))
        self._gpu_points: Floats = np.zeros((len(_CLASSES), nodes))
        self._pressure_points: Floats = np.zeros((len(_CLASSES), nodes))
        self._profile_points: Floats = np.zeros((len(_CLASSES), nodes))
        #: By class and trend scale: the points without pod and pressure.
        self._base: Floats = np.zeros((len(_CLASSES), len(_SCALES), nodes))
        self._congestion: Ints = np.zeros(nodes, dtype=np.int64)
        self._congestion_sum = 0
        self._trend_sum = 0
        self._rows: dict[tuple[int, SchedulableClass, PowerBudget], tuple[AffineRow, ...]] = {}
        #: What a pod adds to a node of a group, for pods that were seen.
        self._watts_of: dict[tuple[int, PodDemand], float] = {}
        self.terms = ClusterTerms()

    def publish(self, node: int, published: PublishedNode) -> None:
        """Take the class and the caps of a node."""
        self._published[node] = published
        budget = published.budget
        self._capped[node] = round(budget.capped_watts, 1)
        self._tdp[node] = budget.tdp_watts
        supplies = published.schedulable_class is SchedulableClass.PERFORMANCE
        self._supplying += supplies - bool(self._supplies[node])
        self._supplies[node] = supplies
        for place, row in enumerate(self._rows_of(node, published)):
            self._cpu_points[place, node] = row.cpu_points
            self._gpu_points[place, node] = row.gpu_points
            self._pressure_points[place, node] = row.pressure_weight
            self._profile_points[place, node] = formula.profile_points(
                TwinSnapshot(published.schedulable_class), _CLASSES[place]
            )
        self._refresh(node)

    def report(self, watts: Floats, now_s: float) -> None:
        """Take the measured watts of all nodes."""
        self._now_s = now_s
        self._measured = _tenths(watts)
        self._cooling = _tenths(np.clip(watts / self._tdp * 100.0, 0.0, 100.0))
        self._trend = self._trends.add(watts)
        for node in sorted(self._assumed_nodes):
            if self._assumed.measure(self._machines.names[node], now_s):
                self._assume(node)
        self._refresh_all()

    def bound(self, job: int, node: int, demand: PodDemand, now_s: float) -> None:
        """Count a pod that was bound and is not in the measurement yet."""
        if self._settings.count_in_flight:
            self._assumed.bind(str(job), self._machines.names[node], demand, now_s)
            self._assumed_nodes.add(node)
            self._assume(node)
            self._refresh(node)

    def ended(self, job: int) -> None:
        """Count a pod no longer that has ended."""
        for name in self._assumed.forget(str(job)):
            node = self._index[name]
            self._assume(node)
            self._refresh(node)

    def scores(self, nodes: Ints, demand: PodDemand) -> Floats:
        """Return the extender's answer for the candidates: whole numbers from 0 to SCORE_MAX."""
        place = _CLASSES.index(demand.workload_class)
        scale = _SCALES.index(self.terms.trend_scale)
        base, cpu, gpu = self._base[place, scale], self._cpu_points[place], self._gpu_points[place]
        congested = self._pressure_points[place]
        few = 2 * len(nodes) < len(base)
        if few:
            base, cpu, gpu, congested = (array.take(nodes) for array in (base, cpu, gpu, congested))
        points: Floats = cpu * demand.cpu_cores
        np.subtract(base, points, out=points)
        if demand.gpus:
            points -= gpu * demand.gpus
        if demand.workload_class is WorkloadClass.STANDARD and self.terms.perf_pressure:
            points -= congested * self.terms.perf_pressure
        if not few and len(nodes) < len(points):
            points = points.take(nodes)
        if self._factor != 1.0:
            points *= self._factor
        return rounded_scores(points, self._settings.score_max)

    def row(self, node: int, workload_class: WorkloadClass, trend_scale: float) -> AffineRow:
        """Return the row of one node, for comparison with `prepare_row`."""
        place, scale = _CLASSES.index(workload_class), _SCALES.index(trend_scale)
        return AffineRow(
            float(self._base[place, scale, node]),
            float(self._cpu_points[place, node]),
            float(self._gpu_points[place, node]),
            float(self._pressure_points[place, node]),
        )

    def _rows_of(self, node: int, published: PublishedNode) -> tuple[AffineRow, ...]:
        """Return a row per class of a node that draws nothing: for all that does not depend on power."""
        group = int(self._machines.group[node])
        key = (group, published.schedulable_class, published.budget)
        rows = self._rows.get(key)
        if rows is None:
            idle = TwinSnapshot(
                published.schedulable_class, measured_watts=0.0, capped_watts=round(published.budget.capped_watts, 1)
            )
            situation = NodeSituation(idle, self._machines.groups[group].power, self._settings.coefficients)
            rows = self._rows[key] = tuple(prepare_row(situation, each, STEADY_TREND_SCALE) for each in _CLASSES)
        return rows

    def _assume(self, node: int) -> None:
        demands = self._assumed.demands(self._machines.names[node])
        group = self._machines.group.item(node)
        self._assumed_watts[node] = fsum(self._added_watts(group, demand) for demand in demands)
        if not demands:
            self._assumed_nodes.discard(node)

    def _added_watts(self, group: int, demand: PodDemand) -> float:
        """Return what a pod adds to a node of a hardware group."""
        watts = self._watts_of.get((group, demand))
        if watts is None:
            if len(self._watts_of) >= _KEPT_WATTS:
                self._watts_of.clear()
            added = marginal_watts(demand, self._machines.groups[group].power, self._settings.coefficients)
            watts = self._watts_of[group, demand] = added.total_watts
        return watts

    def _refresh(self, node: int) -> None:
        """Compute the points of one node anew, and the cluster's terms."""
        capped = self._capped.item(node)
        headroom = (capped - self._measured.item(node) - self._assumed_watts.item(node)) / capped * 100.0
        common = headroom * formula.HEADROOM_WEIGHT + (100.0 - self._cooling.item(node)) * formula.COOLING_WEIGHT
        for scale, trend_scale in enumerate(_SCALES):
            trend = self._trend.item(node) / trend_scale
            without_trend = common - min(formula.MAX_TREND_POINTS, max(-formula.MAX_TREND_POINTS, trend))
            for place in range(len(_CLASSES)):
                self._base[place, scale, node] = without_trend + self._profile_points.item(place, node)
        congestion = round(congestion_pct(headroom) * _UNITS) if self._supplies.item(node) else 0
        self._congestion_sum += congestion - self._congestion.item(node)
        self._congestion[node] = congestion
        self._set_terms()

    def _refresh_all(self) -> None:
        headroom = (self._capped - self._measured - self._assumed_watts) / self._capped * 100.0
        common = headroom * formula.HEADROOM_WEIGHT + (100.0 - self._cooling) * formula.COOLING_WEIGHT
        limit = formula.MAX_TREND_POINTS
        for scale, trend_scale in enumerate(_SCALES):
            without_trend = common - np.clip(self._trend / trend_scale, -limit, limit)
            self._base[:, scale] = without_trend + self._profile_points
        congestion = np.where(
            self._supplies, np.rint(np.minimum(HIGHEST_CONGESTION_PCT, 100.0 - headroom) * _UNITS), 0.0
        )
        self._congestion = congestion.astype(np.int64)
        self._congestion_sum = int(self._congestion.sum())
        self._trend_sum = int(np.rint(self._trend * _UNITS).astype(np.int64).sum())
        self._set_terms()

    def _set_terms(self) -> None:
        congestion = self._congestion_sum / _UNITS / self._supplying if self._supplying else 0.0
        self.terms = ClusterTerms(self._trend_sum / _UNITS, pressure(congestion))


def rounded_scores(points: Floats, score_max: float) -> Floats:
    """Return points as the extender answers them, in the same array: halves rounded up, from 0 to the maximum."""
    points += 0.5
    np.floor(points, out=points)
    np.maximum(points, 0.0, out=points)
    np.minimum(points, score_max, out=points)
    return points


def _tenths(values: Floats) -> Floats:
    tenths: Floats = np.rint(values * 10.0) / 10.0
    return tenths
