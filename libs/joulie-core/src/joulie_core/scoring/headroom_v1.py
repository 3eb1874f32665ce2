"""`headroom_v1`: the more of its capped power a node has left, the better.

Points for headroom with the pod in place (70), for a cool node (15), for falling and against rising power (25), for a
standard pod on an eco node (10), and against a standard pod on a performance node while these are congested (30). A
node without a twin, or with a stale one, scores 50. It spreads watts. It does not know what a node draws for the same
work. Formula: `joulie_core.scoring.formula`; fast form: `joulie_core.scoring.prepared`.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.marginal import marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring import formula
from joulie_core.scoring.prepared import NEUTRAL_ROW, AffineRow, PodSize, prepare_row
from joulie_core.scoring.state import ClusterTerms, NodeSituation

NAME: Final = "headroom_v1"


@dataclass(frozen=True, slots=True)
class HeadroomScore:
    """The policy."""

    name: str = NAME
    unknown_row: AffineRow = NEUTRAL_ROW

    def size(self, demand: PodDemand) -> PodSize:
        """Return cores and GPUs."""
        return demand.cpu_cores, demand.gpus

    def explain(self, node: NodeSituation, demand: PodDemand, cluster: ClusterTerms) -> formula.ScoreTerms:
        """Return the points of headroom, cooling, trend, profile and pressure."""
        marginal = marginal_watts(demand, node.power, node.coefficients, node.pue)
        return formula.score(
            node.twin, stale=node.stale, marginal=marginal, workload_class=demand.workload_class, cluster=cluster
        )

    def row(self, node: NodeSituation, workload_class: WorkloadClass, trend_scale: float) -> AffineRow:
        """Return the points by cores, GPUs and pressure."""
        return prepare_row(node, workload_class, trend_scale)
