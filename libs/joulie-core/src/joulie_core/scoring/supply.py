"""Power that the domains above a node have left: a reason to refuse it, and points of every score policy.

A performance pod is refused where a domain cannot supply its watts: it would run slower than it asks for, since a limit
in force takes no more. Standard pods are not refused, as they can be slowed. Unknown is not zero: where it is not known
what a domain has left, no pod is refused, since one node that cannot be read makes that unknown for all domains above
it and would close the cluster; but such a node loses as many points as one without any, so that it is never preferred
to one that has some. Source: docs/decisions/0060-placement-by-power-budgets.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from joulie_core.plausible import HIGHEST_VALUE
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.filter import FilterReason, FilterResult
from joulie_core.scoring.formula import within_range
from joulie_core.scoring.policy import ExplainedScore, ScorePolicy
from joulie_core.scoring.prepared import AffineRow
from joulie_core.scoring.state import ClusterTerms, NodeSituation, SupplyFigure
from joulie_core.text import printable

#: Points that a node without available power loses; none are lost from the node's highest power on.
SUPPLY_POINTS: Final = 20.0
_TERM: Final = "supply"
_MOST_NAME: Final = 253


def short_supply(supplies: Iterable[SupplyFigure], in_flight: Mapping[str, float], watts: float) -> FilterResult | None:
    """Return the refusal of a performance pod; None where all domains can supply it, or that is not known.

    Args:
        supplies: of the domains above the node.
        in_flight: watts by domain of pods that are placed and in no figure yet.
        watts: of the pod on this node.
    """
    for domain, available_watts in supplies:
        if available_watts is None:
            continue
        left_watts = max(0.0, available_watts - in_flight.get(domain, 0.0))
        if watts > left_watts:
            name = printable(domain, _MOST_NAME)
            needed = ceil(min(watts, HIGHEST_VALUE))
            message = f"joulie: power domain {name} can supply {floor(left_watts)} W more, the pod needs {needed} W"
            return FilterResult(False, FilterReason.POWER_DOMAIN, message)
    return None


def supply_points(node: NodeSituation) -> float:
    """Return the points that a node loses, from 0 to `SUPPLY_POINTS`; 0 without a twin that can be believed."""
    twin = node.fresh
    if twin is None or not twin.supplies:
        return 0.0
    least = min(0.0 if each.available_watts is None else each.available_watts for each in twin.supplies)
    if twin.tdp_watts is None:
        return 0.0 if least > 0 else SUPPLY_POINTS
    return SUPPLY_POINTS * (1.0 - min(1.0, max(0.0, least - twin.assumed_watts) / twin.tdp_watts))


def row_with_supply(row: AffineRow, node: NodeSituation) -> AffineRow:
    """Return the row of a node by a policy, with what its domains can supply."""
    points = supply_points(node)
    return row._replace(base=row.base - points) if points else row


@dataclass(frozen=True, slots=True)
class SuppliedTerms:
    """A score by a policy, and the points that are lost for the supply."""

    own: ExplainedScore
    lost_points: float

    @property
    def score(self) -> float:
        """The score within 0..100."""
        own = self.own
        points = own.score if own.neutral is not None else sum(own.by_name.values())
        return within_range(points - self.lost_points)

    @property
    def by_name(self) -> Mapping[str, float]:
        """The terms by name, in points."""
        return {**self.own.by_name, _TERM: -self.lost_points}

    @property
    def headroom_pct(self) -> float | None:
        """As of the policy."""
        return self.own.headroom_pct

    @property
    def neutral(self) -> str | None:
        """As of the policy."""
        return self.own.neutral


def explain_with_supply(
    policy: ScorePolicy, node: NodeSituation, demand: PodDemand, cluster: ClusterTerms
) -> ExplainedScore:
    """Return a score by the plain form of a policy, with what the domains above the node can supply."""
    own, twin = policy.explain(node, demand, cluster), node.fresh
    return SuppliedTerms(own, supply_points(node)) if twin is not None and twin.supplies else own
