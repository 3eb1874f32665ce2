"""`queue_aware_v1`: performance supply follows the number of active performance pods.

A base share is always there; above it one node is added for each `QUEUE_PERF_PER_HP_NODE` performance pods, pending
ones included, between a minimum and a maximum. The count depends on nothing but the number of nodes and of pods, and
never falls when pods are added.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from joulie_core.policy.model import Plan, PolicyContext
from joulie_core.policy.selection import clamp, plan_densest
from joulie_core.rounding import round_half_away

NAME: Final = "queue_aware_v1"


class QueueAwareSettings(BaseModel):
    """Settings of `queue_aware_v1`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    queue_hp_base_frac: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Fraction of the eligible nodes that supplies performance without any demand, 0 to 1."""
    queue_hp_min: Annotated[int, Field(ge=0)] = 1
    """Fewest performance nodes; one, so that the first performance pod finds a home at once."""
    queue_hp_max: Annotated[int, Field(ge=0)] = 1_000_000
    """Most performance nodes; the default stands for no limit."""
    queue_perf_per_hp_node: Annotated[int, Field(ge=1)] = 10
    """Performance pods that one performance node is expected to carry."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.queue_hp_min > self.queue_hp_max:
            raise ValueError(
                f"QUEUE_HP_MIN {self.queue_hp_min} is above QUEUE_HP_MAX {self.queue_hp_max}: "
                "lower the one or raise the other"
            )
        return self


@dataclass(frozen=True, slots=True)
class QueueAware:
    """The policy with its settings."""

    settings: QueueAwareSettings
    name: str = NAME
    follows_demand: bool = True

    def performance_count(self, nodes: int, performance_pods: int) -> int:
        """Return the number of performance nodes among `nodes` for that many pods, in [0, nodes]."""
        settings = self.settings
        base = round_half_away(nodes * settings.queue_hp_base_frac)
        need = -(-performance_pods // settings.queue_perf_per_hp_node)
        return clamp(clamp(max(base, need), settings.queue_hp_min, settings.queue_hp_max), 0, nodes)

    def plan_key(self, context: PolicyContext) -> int:
        """Return the number of performance nodes."""
        return self.performance_count(len(context.candidates), context.performance_pods)

    def plan(self, context: PolicyContext) -> Plan:
        """Assign performance to as many of the densest nodes as the demand needs."""
        nodes = len(context.candidates)
        count = self.performance_count(nodes, context.performance_pods)
        return plan_densest(
            context.candidates, count, f"{count} of {nodes} nodes for {context.performance_pods} performance pods"
        )
