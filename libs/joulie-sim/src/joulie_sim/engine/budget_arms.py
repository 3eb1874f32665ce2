"""Arms whose nodes share a feed: what it supplies, as a share of what all nodes may draw at most."""

from typing import Final

from joulie_sim.engine.arm import BudgetArm
from joulie_sim.engine.node_budgets import HeldFirstBudgetSettings, NodeBudgetSettings

_SUPPLIED_PCT: Final = (80, 70, 60, 50)


def _even(pct: int) -> BudgetArm:
    return BudgetArm(
        name=f"budget_even_{pct}",
        summary=f"kube-scheduler's default scores; a feed with {pct} % of the highest power, in fixed parts",
        budgets=NodeBudgetSettings(supplied=pct / 100.0, by_demand=False),
    )


def _by_demand(pct: int) -> BudgetArm:
    return BudgetArm(
        name=f"budget_demand_{pct}",
        summary=f"kube-scheduler's default scores; a feed with {pct} % of the highest power, by demand",
        budgets=NodeBudgetSettings(supplied=pct / 100.0),
    )


def _held_first(pct: int) -> BudgetArm:
    return BudgetArm(
        name=f"budget_held_{pct}",
        summary=f"budget_demand_{pct}, where GPUs that jobs hold get their node's limit before the others",
        budgets=HeldFirstBudgetSettings(supplied=pct / 100.0),
    )


BUDGET_ARMS: Final = tuple(make(pct) for pct in _SUPPLIED_PCT for make in (_even, _by_demand, _held_first))
