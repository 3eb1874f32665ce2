"""`rule_swap_v1`: makes transitions happen, for debugging only.

In each reconcile interval one of the first two nodes (densest first) is planned eco and all others performance; which
of the two alternates with the wall clock. A single node alternates between the two profiles. It ignores demand and
families and is no policy for production.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from joulie_core.kinds.base import Profile
from joulie_core.policy.model import Plan, PolicyContext
from joulie_core.policy.selection import order_by_density

NAME: Final = "rule_swap_v1"
#: Nodes that take turns in eco.
ROTATION: Final = 2


class Turn(StrEnum):
    """Reason for a node's profile."""

    ITS = "its turn in the rotation"
    NOT_ITS = "not its turn in the rotation"


class RuleSwapSettings(BaseModel):
    """`rule_swap_v1` has no settings of its own; its period is RECONCILE_INTERVAL."""

    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True, slots=True)
class RuleSwap:
    """The policy with its settings."""

    settings: RuleSwapSettings
    name: str = NAME
    follows_demand: bool = False

    def plan_key(self, context: PolicyContext) -> int:
        """Return whose turn it is."""
        return math.floor(context.now / context.reconcile_interval_s) % ROTATION

    def plan(self, context: PolicyContext) -> Plan:
        """Assign eco to the node whose turn it is."""
        phase = self.plan_key(context)
        ordered = order_by_density(context.candidates)
        turn = ordered[phase].name if phase < len(ordered) else None
        return Plan(
            profiles={c.name: Profile.ECO if c.name == turn else Profile.PERFORMANCE for c in ordered},
            choices={c.name: Turn.ITS if c.name == turn else Turn.NOT_ITS for c in ordered},
            performance_count=len(ordered) - (turn is not None),
            reason=f"rotation phase {phase}",
        )
