"""Every policy by name; adding one touches its own module and this one.

The settings models have disjoint field names, so that a service can read all of them from one environment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from joulie_core.policy import family_partition, queue_aware_v1, queue_lead_v1, rule_swap_v1, static_partition
from joulie_core.policy.model import Policy


@dataclass(frozen=True, slots=True)
class RegisteredPolicy:
    """One policy: its settings model and what makes the policy of them."""

    settings: type[BaseModel]
    factory: Callable[[Any], Policy]


POLICIES: Final[Mapping[str, RegisteredPolicy]] = {
    static_partition.NAME: RegisteredPolicy(static_partition.StaticPartitionSettings, static_partition.StaticPartition),
    family_partition.NAME: RegisteredPolicy(family_partition.FamilyPartitionSettings, family_partition.FamilyPartition),
    queue_aware_v1.NAME: RegisteredPolicy(queue_aware_v1.QueueAwareSettings, queue_aware_v1.QueueAware),
    queue_lead_v1.NAME: RegisteredPolicy(queue_lead_v1.QueueLeadSettings, queue_lead_v1.QueueLead),
    rule_swap_v1.NAME: RegisteredPolicy(rule_swap_v1.RuleSwapSettings, rule_swap_v1.RuleSwap),
}


def build_policy(name: str, values: Mapping[str, Any]) -> Policy:
    """Return the policy `name` with its settings taken from `values` (field name to value, others ignored).

    Raises:
        KeyError: no such policy.
        pydantic.ValidationError: a value is out of range.

    """
    entry = POLICIES[name]
    chosen = {field: values[field] for field in entry.settings.model_fields if field in values}
    return entry.factory(entry.settings.model_validate(chosen))
