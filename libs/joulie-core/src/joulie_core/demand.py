"""Profile of node that a pod demands: the one classifier of all services.

A pod demands performance if its annotation requests it, or if its required scheduling constraints cannot be met by an
eco node; it demands eco if they cannot be met by a performance node. Everything else is general, including a pod that
neither kind of node can serve (it will never run on a managed node, so no node may be held for it).

Only `joulie.io/power-profile` and `joulie.io/draining` are evaluated: constraints on other keys, and matchFields, are
taken to be satisfiable on either kind of node. Preferred affinity and tolerations are no demand.
Source: docs/decisions/0013-conventions.md (demand of a pod).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from joulie_core.kinds.base import Profile, WorkloadClass
from joulie_core.labels import DRAINING, POWER_PROFILE, WORKLOAD_CLASS
from joulie_core.pod import Pod, Term

#: `WorkloadClass` is a part of resources, and used with the functions of this module.
__all__ = ["Demand", "WorkloadClass", "classify", "unknown_annotation", "workload_class"]


class Demand(StrEnum):
    """Profile of the nodes that a pod can run on."""

    PERFORMANCE = "performance"
    ECO = "eco"
    GENERAL = "general"


#: Label values of a managed node's draining label; None is a node that does not carry it (yet).
_DRAINING_VALUES: Final = (None, "false", "true")


def classify(pod: Pod) -> Demand:
    """Return the pod's demand class.

    The annotation can only raise the demand: `standard` does not overrule constraints that demand performance, and
    `performance` wins over constraints that only eco nodes meet (such a pod cannot be placed, and stays pending).
    """
    if pod.annotations.get(WORKLOAD_CLASS) == WorkloadClass.PERFORMANCE:
        return Demand.PERFORMANCE
    if not pod.node_selector and pod.required_terms is None:
        return Demand.GENERAL
    on_eco, on_performance = _admits(pod, Profile.ECO), _admits(pod, Profile.PERFORMANCE)
    if on_eco == on_performance:
        return Demand.GENERAL
    return Demand.ECO if on_eco else Demand.PERFORMANCE


def workload_class(pod: Pod) -> WorkloadClass:
    """Return how the scheduler treats the pod: performance if it demands performance, else standard."""
    return WorkloadClass.PERFORMANCE if classify(pod) is Demand.PERFORMANCE else WorkloadClass.STANDARD


def unknown_annotation(pod: Pod) -> str | None:
    """Return a workload-class annotation that is neither performance nor standard; it deserves one warning."""
    value = pod.annotations.get(WORKLOAD_CLASS)
    return None if value is None or value in tuple(WorkloadClass) else value


def _admits(pod: Pod, profile: Profile) -> bool:
    """Return whether some node of that profile, draining or not, can meet the pod's required constraints."""
    return any(_meets(pod, {POWER_PROFILE: profile, DRAINING: draining}) for draining in _DRAINING_VALUES)


def _meets(pod: Pod, labels: Mapping[str, str | None]) -> bool:
    selected = all(labels[key] == value for key, value in pod.node_selector.items() if key in labels)
    return selected and (pod.required_terms is None or any(_term_holds(term, labels) for term in pod.required_terms))


def _term_holds(term: Term, labels: Mapping[str, str | None]) -> bool:
    # Kubernetes: a term without any expression or field matches no node.
    if not term.expressions and not term.fields:
        return False
    return all(each.holds(labels[each.key]) for each in term.expressions if each.key in labels)
