"""The score formula: how well a node suits a pod.

Returns a score in 0..100 with all its terms. It depends on its arguments only, not on the order of nodes nor on the
other candidates. `joulie_core.scoring.prepared` computes the same score faster. The formula is in
docs/decisions/0013-conventions.md, Extender.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.powerest.marginal import Marginal
from joulie_core.scoring.state import ClusterTerms, TwinSnapshot

MAX_SCORE: Final = 100.0
NEUTRAL_SCORE: Final = 50.0
HEADROOM_WEIGHT: Final = 0.7
COOLING_WEIGHT: Final = 0.15
MAX_TREND_POINTS: Final = 25.0
ECO_BONUS: Final = 10.0
PRESSURE_WEIGHT: Final = 0.3


class NeutralReason(StrEnum):
    """Reason for a node's neutral score."""

    NO_TWIN = "NoTwin"
    STALE_TWIN = "StaleTwin"
    NO_HEADROOM = "NoHeadroom"


@dataclass(frozen=True, slots=True)
class ScoreTerms:
    """Points of one node for one pod. Every field `NAME_points` is a term of the score."""

    #: Headroom in percent of the cap with the pod in place; None if unknown.
    headroom_pct: float | None = None
    headroom_points: float = 0.0
    cooling_points: float = 0.0
    trend_points: float = 0.0
    profile_points: float = 0.0
    #: Never positive.
    pressure_points: float = 0.0
    #: Set where the terms do not apply.
    neutral: NeutralReason | None = None

    @property
    def by_name(self) -> Mapping[str, float]:
        """The terms by name, such as `headroom`."""
        return {name.removesuffix(_POINTS): getattr(self, name) for name in _TERMS}

    @property
    def points(self) -> float:
        """The sum of all terms, or the neutral score."""
        if self.neutral is not None:
            return NEUTRAL_SCORE
        points: float = sum(getattr(self, name) for name in _TERMS)
        return points

    @property
    def score(self) -> float:
        """The points within 0..100."""
        return within_range(self.points)


_POINTS: Final = "_points"
_TERMS: Final = tuple(each.name for each in fields(ScoreTerms) if each.name.endswith(_POINTS))


def score(
    node: TwinSnapshot | None,
    *,
    stale: bool,
    marginal: Marginal,
    workload_class: WorkloadClass,
    cluster: ClusterTerms,
) -> ScoreTerms:
    """Score one node for one pod.

    Args:
        node: the twin; None where the node has none.
        stale: whether the twin is too old, or the whole view of the cluster is.
        marginal: watts that the pod adds to this node.
        workload_class: how the pod is to be treated.
        cluster: what the cluster contributes.
    """
    if node is None:
        return ScoreTerms(neutral=NeutralReason.NO_TWIN)
    if stale:
        return ScoreTerms(neutral=NeutralReason.STALE_TWIN)
    headroom_pct = node.headroom_pct(marginal.total_watts)
    if headroom_pct is None:
        return ScoreTerms(neutral=NeutralReason.NO_HEADROOM)
    return score_terms(
        node,
        headroom_pct,
        workload_class=workload_class,
        trend_scale=cluster.trend_scale,
        perf_pressure=cluster.perf_pressure,
    )


def score_terms(
    node: TwinSnapshot, headroom_pct: float, *, workload_class: WorkloadClass, trend_scale: float, perf_pressure: float
) -> ScoreTerms:
    """Return the terms of a node whose headroom is known; arguments as in `ScoreTerms` and `ClusterTerms`."""
    return ScoreTerms(
        headroom_pct=headroom_pct,
        headroom_points=headroom_pct * HEADROOM_WEIGHT,
        cooling_points=cooling_points(node),
        trend_points=trend_points(node, trend_scale),
        profile_points=profile_points(node, workload_class),
        pressure_points=-pressure_weight(node, workload_class) * perf_pressure,
    )


def within_range(points: float) -> float:
    """Return the score of a sum of points."""
    return min(MAX_SCORE, max(0.0, points))


def cooling_points(node: TwinSnapshot) -> float:
    """Return up to 15 points for a cool node; none where the cooling is unknown."""
    stress_pct = 100.0 if node.cooling_stress_pct is None else min(100.0, node.cooling_stress_pct)
    return (100 - stress_pct) * COOLING_WEIGHT


def trend_points(node: TwinSnapshot, trend_scale: float) -> float:
    """Return up to 25 points for falling power, as many against rising power."""
    return -min(MAX_TREND_POINTS, max(-MAX_TREND_POINTS, node.trend_w_per_min / trend_scale))


def profile_points(node: TwinSnapshot, workload_class: WorkloadClass) -> float:
    """Return the bonus that steers standard pods to eco nodes."""
    wanted = workload_class is WorkloadClass.STANDARD and node.schedulable_class is SchedulableClass.ECO
    return ECO_BONUS if wanted else 0.0


def pressure_weight(node: TwinSnapshot, workload_class: WorkloadClass) -> float:
    """Return the points that a standard pod loses on a performance node per percent of congestion there."""
    competing = workload_class is WorkloadClass.STANDARD and node.schedulable_class is SchedulableClass.PERFORMANCE
    return PRESSURE_WEIGHT if competing else 0.0
