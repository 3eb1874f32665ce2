"""`static_partition`: a fixed share of the nodes supplies performance, whatever the demand.

Choose it where the mix of work is steady, or where a predictable power budget matters more than following the queue:
the assignment changes only when nodes come, go, or turn out to have other hardware.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from joulie_core.policy.model import Plan, PolicyContext
from joulie_core.policy.selection import clamp, plan_densest
from joulie_core.rounding import round_half_away

NAME: Final = "static_partition"


class StaticPartitionSettings(BaseModel):
    """Settings of `static_partition`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    static_hp_frac: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Fraction of the eligible nodes that supplies performance, 0 to 1; half, so that neither class starves unasked."""


@dataclass(frozen=True, slots=True)
class StaticPartition:
    """The policy with its settings."""

    settings: StaticPartitionSettings
    name: str = NAME
    follows_demand: bool = False

    def performance_count(self, nodes: int) -> int:
        """Return the number of performance nodes among `nodes`, halves rounded up, in [0, nodes]."""
        return clamp(round_half_away(nodes * self.settings.static_hp_frac), 0, nodes)

    def plan_key(self, context: PolicyContext) -> int:
        """Return the number of performance nodes."""
        return self.performance_count(len(context.candidates))

    def plan(self, context: PolicyContext) -> Plan:
        """Assign performance to the share's worth of densest nodes."""
        nodes = len(context.candidates)
        count = self.performance_count(nodes)
        return plan_densest(
            context.candidates, count, f"{count} of {nodes} nodes at a share of {self.settings.static_hp_frac:g}"
        )
