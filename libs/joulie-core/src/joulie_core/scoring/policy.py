"""Score policies: each judges how well a node suits a pod, in points from 0 to 100.

A policy has a plain form, for people and as the reference, and a fast form: one affine row per node. It promises that
both give the same number, and that the number depends on its arguments only, not on other candidates.
"""

from collections.abc import Mapping
from typing import Protocol

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.prepared import AffineRow, PodSize
from joulie_core.scoring.state import ClusterTerms, NodeSituation


class ExplainedScore(Protocol):
    """A score and how it came about."""

    @property
    def score(self) -> float:
        """The score within 0..100."""

    @property
    def by_name(self) -> Mapping[str, float]:
        """The terms by name, in points."""

    @property
    def headroom_pct(self) -> float | None:
        """Headroom in percent of the cap with the pod in place; None where the policy takes none, or it is unknown."""

    @property
    def neutral(self) -> str | None:
        """Reason why the terms do not apply; None where they do."""


class ScorePolicy(Protocol):
    """A way to score nodes."""

    @property
    def name(self) -> str:
        """Name under which the policy is selected."""

    @property
    def unknown_row(self) -> AffineRow:
        """The row of a node without a twin that can be believed."""

    def size(self, demand: PodDemand) -> PodSize:
        """Return what the rows take of a pod."""

    def explain(self, node: NodeSituation, demand: PodDemand, cluster: ClusterTerms) -> ExplainedScore:
        """Return the score of one node for one pod by the plain form."""

    def row(self, node: NodeSituation, workload_class: WorkloadClass, trend_scale: float) -> AffineRow:
        """Return the row of one node for pods of a class at a trend scale."""
