"""Arms of a comparison: how pods are scheduled, and what Joulie does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joulie_core.caps import CapSettings
from joulie_core.policy import queue_aware_v1, static_partition
from joulie_sim.engine.kube_scores import FitStrategy
from joulie_sim.engine.node_scores import ScoreSettings

#: Of the configuration that Joulie ships: every feasible node is scored.
_ALL_NODES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JoulieSettings:
    """What Joulie does in an arm."""

    policy: str
    #: Settings of the policy by field name; the others have their defaults.
    policy_values: Mapping[str, Any] = field(default_factory=dict)
    caps: CapSettings = field(default_factory=CapSettings)
    #: None: the extender filters and does not score.
    score: ScoreSettings | None = field(default_factory=ScoreSettings)
    #: Weight of the extender in kube-scheduler's configuration.
    extender_weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One arm."""

    name: str
    summary: str
    strategy: FitStrategy = FitStrategy.LEAST_ALLOCATED
    #: `percentageOfNodesToScore`; 0 adapts to the size of the cluster, which is kube-scheduler's default.
    nodes_to_score_pct: int = 0
    joulie: JoulieSettings | None = None


_EVERY_NODE: Final = {"static_hp_frac": 1.0}
_ARMS: Final = (
    Arm(name="kube_default", summary="kube-scheduler alone: LeastAllocated and BalancedAllocation"),
    Arm(
        name="most_allocated",
        summary="kube-scheduler alone: MostAllocated and BalancedAllocation",
        strategy=FitStrategy.MOST_ALLOCATED,
    ),
    Arm(
        name="joulie_scoring",
        summary="the extender's scores, no node ever capped",
        nodes_to_score_pct=_ALL_NODES,
        joulie=JoulieSettings(policy=static_partition.NAME, policy_values=_EVERY_NODE),
    ),
    Arm(
        name=static_partition.NAME,
        summary="Joulie as it ships: half of the nodes eco",
        nodes_to_score_pct=_ALL_NODES,
        joulie=JoulieSettings(policy=static_partition.NAME),
    ),
    Arm(
        name=queue_aware_v1.NAME,
        summary="Joulie with the policy that follows the number of performance pods",
        nodes_to_score_pct=_ALL_NODES,
        joulie=JoulieSettings(policy=queue_aware_v1.NAME),
    ),
)
#: By name, in the order in which tables show them.
ARMS: Final[Mapping[str, Arm]] = {arm.name: arm for arm in _ARMS}
