"""Filter of the nodes that a pod may run on: the hard rules of the scheduler extender.

No pod goes to a node that is asleep or about to be, whatever it tolerates. Performance pods stay off eco and draining
nodes; everything else is allowed, with a reason either way. Messages never name the node: kube-scheduler counts equal
texts in its event.

A stale twin still counts here, though its numbers no longer count in scores: silence of the operator is no evidence
that a capped node was freed, so a node is refused if either the last known class or the label is a refused one. A
missing reading never makes a node freer.
Source: docs/decisions/0002-extender.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import POWER_PROFILE, SLEEP_STATE
from joulie_core.sleep_state import CLOSED_TO_PODS, labels_of


class FilterReason(StrEnum):
    """Reason for allowing or refusing a node."""

    STANDARD_POD = "StandardPod"
    PERFORMANCE_NODE = "PerformanceNode"
    UNKNOWN_NODE = "UnknownNode"
    ECO_NODE = "EcoNode"
    DRAINING_NODE = "DrainingNode"
    ECO_LABEL = "EcoLabel"
    SLEEPING_NODE = "SleepingNode"
    POWER_DOMAIN = "PowerDomain"


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Result of the filter: whether the node may be used, why, and a sentence for people."""

    ok: bool
    reason: FilterReason
    message: str


_STANDARD_POD: Final = FilterResult(True, FilterReason.STANDARD_POD, "standard pods run on every node")
_PERFORMANCE: Final = FilterResult(True, FilterReason.PERFORMANCE_NODE, "node supplies performance")
_UNKNOWN: Final = FilterResult(True, FilterReason.UNKNOWN_NODE, "the node's power profile is unknown")
_REFUSED: Final = {
    SchedulableClass.ECO: FilterResult(
        False, FilterReason.ECO_NODE, "joulie: node is eco, performance pods are kept off it"
    ),
    SchedulableClass.DRAINING: FilterResult(
        False, FilterReason.DRAINING_NODE, "joulie: node is draining towards eco, performance pods are kept off it"
    ),
}
_ECO_LABEL: Final = FilterResult(
    False, FilterReason.ECO_LABEL, "joulie: node is labelled eco, performance pods are kept off it"
)

_SLEEPING: Final = FilterResult(
    False,
    FilterReason.SLEEPING_NODE,
    "joulie: node is asleep, or about to be; it is woken where pods have no other room",
)
#: Values of the label. A node that wakes takes what tolerates its taint.
_CLOSED: Final = labels_of(CLOSED_TO_PODS)


def is_sleeping(labels: Mapping[str, str]) -> bool:
    """Return whether a node is asleep or about to be, by its labels."""
    return labels.get(SLEEP_STATE) in _CLOSED


def filter_node(
    workload_class: WorkloadClass,
    *,
    schedulable_class: SchedulableClass | None,
    stale: bool,
    labels: Mapping[str, str],
) -> FilterResult:
    """Judge one node for one pod.

    Args:
        workload_class: how the pod is to be treated.
        schedulable_class: the class in the node's twin, however old; None where the node has no twin.
        stale: whether the twin is too old to be trusted that the node is free.
        labels: the node's labels; they decide where no twin does.
    """
    if is_sleeping(labels):
        return _SLEEPING
    if workload_class is not WorkloadClass.PERFORMANCE:
        return _STANDARD_POD
    if schedulable_class in _REFUSED:
        return _REFUSED[schedulable_class]
    supplies_performance = schedulable_class is SchedulableClass.PERFORMANCE
    if labels.get(POWER_PROFILE) == Profile.ECO and (stale or not supplies_performance):
        return _ECO_LABEL
    return _PERFORMANCE if supplies_performance else _UNKNOWN
