"""`family_partition`: a fixed share of the nodes of each hardware family supplies performance, whatever the demand.

Choose it on clusters of mixed hardware where GPUs are to be capped too: nodes with GPUs are the densest, so that
`static_partition` plans all of them in performance and only nodes without GPUs are eco. Here each family keeps its own
share, rounded up, so that no family is closed to performance pods. They have fewer GPUs to themselves and may wait
longer for them (experiments/README.md).
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from joulie_core.kinds.base import Profile
from joulie_core.policy.model import Candidate, Plan, PolicyContext
from joulie_core.policy.selection import order_by_density

NAME: Final = "family_partition"
#: Digits of a product of share and nodes: it is rounded up, and must not be for its last bits alone.
_DIGITS: Final = 9


class FamilyShare(StrEnum):
    """Reason for a node's profile."""

    WITHIN = "within the share of its hardware family"
    BEYOND = "beyond the share of its hardware family"


class FamilyPartitionSettings(BaseModel):
    """Settings of `family_partition`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    family_hp_frac: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Fraction of the eligible nodes of each hardware family that supplies performance, 0 to 1, rounded up."""


@dataclass(frozen=True, slots=True)
class FamilyPartition:
    """The policy with its settings."""

    settings: FamilyPartitionSettings
    name: str = NAME
    follows_demand: bool = False

    def performance_count(self, nodes: int) -> int:
        """Return the number of performance nodes among `nodes` of one family, in [0, nodes]."""
        return math.ceil(round(nodes * self.settings.family_hp_frac, _DIGITS))

    def plan_key(self, context: PolicyContext) -> None:
        """Return the same for every demand: the candidates decide alone."""

    def plan(self, context: PolicyContext) -> Plan:
        """Assign performance to the densest nodes of each family."""
        families: dict[str, list[Candidate]] = defaultdict(list)
        for candidate in order_by_density(context.candidates):
            families[candidate.family].append(candidate)
        supplying = {each.name for nodes in families.values() for each in nodes[: self.performance_count(len(nodes))]}
        names = [each.name for each in context.candidates]
        return Plan(
            profiles={name: Profile.PERFORMANCE if name in supplying else Profile.ECO for name in names},
            choices={name: FamilyShare.WITHIN if name in supplying else FamilyShare.BEYOND for name in names},
            performance_count=len(supplying),
            reason=f"{len(supplying)} of {len(names)} nodes at a share of {self.settings.family_hp_frac:g} "
            f"of each of {len(families)} families",
        )
