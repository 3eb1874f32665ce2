"""The slowdown that a pod allows on its cores: by its own annotations, and as the API server's objects say.

The resource manager reads annotations of pods at the container runtime; the node agent tells it what follows from the
pod, its Namespace, the cluster's default and the scheduling constraints at the API server. Guarantees that a pod which
either of them knows to allow less is not slowed by more, and that what only the node agent knows counts for a bounded
time. Source: docs/decisions/0067-class-limits-on-cores.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.class_caps.allowed_slowdown import PodSlowdown, SlowdownSource, slowdown_of
from joulie_core.class_caps.held_limit import HolderPods, is_consent, pod_slowdown
from joulie_core.demand import WorkloadClass
from joulie_core.holders.records import NodePod
from joulie_core.labels import WORKLOAD_CLASS

#: Time for which what the node agent has told counts, unless it is told again; of that, two may fail.
TOLD_FOR_S: Final = 30.0
TOLD_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class PodConsent:
    """The slowdown that a pod allows, and whether that is the word of its owner."""

    #: None where the class of the pod is not known.
    slowdown: PodSlowdown | None = None
    #: Whether the owner of the pod has consented; False where that is not known.
    consents: bool = False


UNKNOWN_CONSENT: Final = PodConsent()


def stated_consent(annotations: Mapping[str, str]) -> PodConsent:
    """Return what a pod allows by its own annotations.

    Args:
        annotations: of the pod; a class that they do not state may be performance by its scheduling constraints.
    """
    try:
        workload_class = WorkloadClass(annotations.get(WORKLOAD_CLASS, ""))
    except ValueError:
        return UNKNOWN_CONSENT
    slowdown = slowdown_of(workload_class, annotations, None)
    return PodConsent(slowdown, slowdown.source is SlowdownSource.POD)


def told_consent(pod: NodePod, pods: HolderPods) -> PodConsent:
    """Return what a pod allows as the API server has it.

    Args:
        pod: the pod.
        pods: its Namespace, and the default of the cluster.
    """
    if pod.workload_class is None:
        return UNKNOWN_CONSENT
    slowdown = pod_slowdown(pod, pod.workload_class, pods)
    return PodConsent(slowdown, is_consent(slowdown, pods))


def known_consent(stated: PodConsent, told: PodConsent | None, *, current: bool) -> PodConsent:
    """Return what a pod allows by what is known of it.

    Args:
        stated: by its own annotations.
        told: by the node agent, at any time; None where it has not told of the pod.
        current: whether that is recent.
    """
    if told is None:
        return stated
    if stated.slowdown is None or stated.slowdown.source is SlowdownSource.NAMESPACE:
        return told if current else stated
    if told.slowdown is None:
        return told
    # Also of long ago: a consent that was withdrawn does not come back because the node agent is gone.
    least = min(told.slowdown, stated.slowdown, key=lambda each: each.allowed.pct)
    return PodConsent(least, stated.consents and told.consents)
