"""One arm of a comparison: how pods are scheduled, and what Joulie does."""

from dataclasses import dataclass, field
from typing import Final

from joulie_sim.engine.joulie_settings import JoulieSettings
from joulie_sim.engine.kube_scores import FitStrategy
from joulie_sim.engine.node_budgets import NodeBudgetSettings
from joulie_sim.engine.node_sleep_settings import NodeSleepSettings

#: Of the configuration that Joulie ships: every feasible node is scored.
ALL_NODES: Final = 100
#: No node is eco.
EVERY_NODE: Final = {"static_hp_frac": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One arm."""

    name: str
    summary: str
    strategy: FitStrategy = FitStrategy.LEAST_ALLOCATED
    #: `percentageOfNodesToScore`; 0 adapts to the size of the cluster, which is kube-scheduler's default.
    nodes_to_score_pct: int = 0
    joulie: JoulieSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepingArm(Arm):
    """An arm whose idle nodes sleep."""

    sleep: NodeSleepSettings = field(default_factory=NodeSleepSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetArm(Arm):
    """An arm whose nodes share a feed that cannot supply them all at full load."""

    budgets: NodeBudgetSettings
