"""`queue_lead_v1`: performance supply keeps a reserve ahead of demand, and falls later than it rises.

Needed is one node for each `LEAD_PERF_PER_HP_NODE` active performance pods, pending ones included. The supply is the
need and `LEAD_RESERVE_FRAC` of it more, at least `LEAD_MIN` nodes; it rises to that at once, so that a pod seldom waits
for a node to become performance. It falls only when it exceeds the need and the reserve by `LEAD_SLACK_FRAC` of them
and by two nodes, and then to the need and the reserve; so demand that swings within the slack makes no transition.

Choose it where performance pods come and go by the hour. It depends on the supply that is planned already; after a
start of the operator that is what nodes are labelled.

It follows demand down to `LEAD_MIN` nodes, one by default, where `queue_aware_v1` keeps 60 % of all nodes: demand that
rises and falls once a day takes most nodes through two or three transitions, of which more slack saves few. Do not use
it as it is on small clusters with such demand, or with short bursts of performance pods. With `LEAD_MIN` at the number
of nodes that `queue_aware_v1` keeps, it makes no more transitions than that, and turns around less often.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from joulie_core.policy.model import Plan, PolicyContext
from joulie_core.policy.selection import clamp, plan_densest

NAME: Final = "queue_lead_v1"
_LEAST_SLACK_NODES: Final = 2


class QueueLeadSettings(BaseModel):
    """Settings of `queue_lead_v1`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    lead_perf_per_hp_node: Annotated[int, Field(ge=1)] = 10
    """Performance pods that one performance node is expected to carry."""
    lead_reserve_frac: Annotated[float, Field(ge=0, le=10)] = 0.25
    """Nodes beyond the need that are kept in performance, as a fraction of the need."""
    lead_slack_frac: Annotated[float, Field(ge=0, le=10)] = 0.5
    """How far the supply may exceed need and reserve before it falls, as a fraction of both; two nodes at least."""
    lead_min: Annotated[int, Field(ge=0)] = 1
    """Fewest performance nodes; one, so that the first performance pod finds a home at once."""


@dataclass(frozen=True, slots=True)
class QueueLead:
    """The policy with its settings."""

    settings: QueueLeadSettings
    name: str = NAME
    follows_demand: bool = True

    def performance_count(self, nodes: int, performance_pods: int, planned: int | None) -> int:
        """Return the number of performance nodes among `nodes`, in [0, nodes].

        Args:
            nodes: eligible nodes.
            performance_pods: active ones.
            planned: performance nodes of the last plan; None for the first one.
        """
        settings = self.settings
        need = -(-performance_pods // settings.lead_perf_per_hp_node)
        wanted = clamp(max(settings.lead_min, math.ceil(need * (1 + settings.lead_reserve_frac))), 0, nodes)
        if planned is None or planned <= wanted:
            return wanted
        slack = max(_LEAST_SLACK_NODES, math.ceil(wanted * settings.lead_slack_frac))
        return min(planned, nodes) if planned <= wanted + slack else wanted

    def plan_key(self, context: PolicyContext) -> int:
        """Return the number of performance nodes."""
        return self.performance_count(len(context.candidates), context.performance_pods, context.planned)

    def plan(self, context: PolicyContext) -> Plan:
        """Assign performance to as many of the densest nodes as need and reserve take."""
        nodes = len(context.candidates)
        count = self.performance_count(nodes, context.performance_pods, context.planned)
        return plan_densest(
            context.candidates, count, f"{count} of {nodes} nodes for {context.performance_pods} performance pods"
        )
