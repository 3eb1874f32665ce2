"""The score formula as one affine row per node, for thousands of nodes in a millisecond.

For a fixed workload class and trend scale the unclamped score is affine in the pod's cores and GPUs and in the
pressure: `base - cpu_points*cores - gpu_points*gpus - pressure_weight*pressure`. A row changes only when its node does,
so a request costs three multiplications a node. `ClusterSums` keeps the cluster's terms up to date in the same way.

Guarantees the same number as `joulie_core.scoring.formula`, which is the reference; a property test holds the two
together. Does not clamp: the sum is clamped.
"""

from typing import Final, NamedTuple

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.powerest.marginal import marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring import formula
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot, congestion_pct, pressure

#: What a row takes of a pod: an amount of CPU and one of GPUs, in the units of its score.
PodSize = tuple[float, float]


class AffineRow(NamedTuple):
    """Score of one node before clamping, as a function of the pod and of the pressure on performance nodes."""

    base: float
    cpu_points: float
    gpu_points: float
    pressure_weight: float

    def score(self, size: PodSize, perf_pressure: float) -> float:
        """Return the score within 0..100 of a pod of that size, see `ScorePolicy.size`."""
        cpu, gpu = size
        points = self.base - self.cpu_points * cpu - self.gpu_points * gpu - self.pressure_weight * perf_pressure
        return formula.within_range(points)


NEUTRAL_ROW: Final = AffineRow(formula.NEUTRAL_SCORE, 0.0, 0.0, 0.0)


def prepare_row(node: NodeSituation, workload_class: WorkloadClass, trend_scale: float) -> AffineRow:
    """Return the row of one node for pods of a class, at a trend scale of `ClusterTerms`."""
    twin = node.fresh
    headroom_pct = twin.headroom_pct() if twin is not None else None
    if twin is None or headroom_pct is None:
        return NEUTRAL_ROW
    terms = formula.score_terms(
        twin, headroom_pct, workload_class=workload_class, trend_scale=trend_scale, perf_pressure=0.0
    )
    base = terms.points
    pressure_weight = formula.pressure_weight(twin, workload_class)
    if twin.capped_watts is None:
        return AffineRow(base, 0.0, 0.0, pressure_weight)
    one_of_each = PodDemand(cpu_cores=1.0, gpus=1.0, workload_class=workload_class)
    marginal = marginal_watts(one_of_each, node.power, node.coefficients, node.pue)
    points_per_watt = formula.HEADROOM_WEIGHT * 100 / twin.capped_watts
    return AffineRow(base, marginal.cpu_watts * points_per_watt, marginal.gpu_watts * points_per_watt, pressure_weight)


#: Watts a minute and percent are summed as whole millionths: exact, so that no order or history of changes shows.
_UNITS: Final = 1_000_000


class ClusterSums:
    """The cluster's terms, kept up to date node by node.

    Give it every twin that is not stale; take a twin out, as it was given, before it changes.
    """

    def __init__(self) -> None:
        self._trend = 0
        self._congestion = 0
        self._performance_nodes = 0

    def add(self, node: TwinSnapshot) -> None:
        """Count a node."""
        self._shift(node, 1)

    def remove(self, node: TwinSnapshot) -> None:
        """Count a node no longer."""
        self._shift(node, -1)

    @property
    def terms(self) -> ClusterTerms:
        """The terms of the nodes counted now."""
        congestion = self._congestion / _UNITS / self._performance_nodes if self._performance_nodes else 0.0
        return ClusterTerms(self._trend / _UNITS, pressure(congestion))

    def _shift(self, node: TwinSnapshot, sign: int) -> None:
        self._trend += sign * round(node.trend_w_per_min * _UNITS)
        headroom_pct = node.headroom_pct()
        if node.schedulable_class is SchedulableClass.PERFORMANCE and headroom_pct is not None:
            self._congestion += sign * round(congestion_pct(headroom_pct) * _UNITS)
            self._performance_nodes += sign
