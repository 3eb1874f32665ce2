"""The GPUs that a pod without a node waits for, as the decision to lift limits by class reads them.

Guarantees that a pod whose class is not known, and one of which it is not known which GPUs it requests, counts as a
performance pod that any node with GPUs could take.
"""

from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.pod_reader import DemandingPod
from joulie_api.wire import decode_pod
from joulie_core.class_caps.waiting import GpuRequest
from joulie_core.demand import WorkloadClass
from joulie_core.pod import Pod, Term
from joulie_core.powerest.pod_demand import gpu_resources, requested
from joulie_operator.cluster import OWN_LABELS

_CLASSES: Final = (None, *WorkloadClass)


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[msgspec.Raw] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec | None = None


_GATES: Final = msgspec.json.Decoder(_Pod)


def awaited_gpus(found: DemandingPod, raw: bytes) -> GpuRequest | None:
    """Return what a pod waits for that limits are lifted for; None where there is nothing.

    Args:
        found: the pod.
        raw: the same, as it was received.

    Raises:
        DecodeError: not a Pod, or one with more parts than are read.
        QuantityError: a quantity of it cannot be read.
    """
    known_standard = found.annotation in _CLASSES and found.demand.workload_class is WorkloadClass.STANDARD
    if found.node or known_standard or not found.demand.gpus:
        return None
    pod, gates = decode_pod(raw), decode(_GATES.decode, raw, "Pod")
    # kube-scheduler does not look for a node for one with gates, and none is found for one that is deleted.
    if pod.deleting or (gates.spec and gates.spec.scheduling_gates):
        return None
    return _request(pod, with_claims=found.with_claims)


def _request(pod: Pod, *, with_claims: bool) -> GpuRequest:
    gpus = None if with_claims else tuple((name, float(requested(pod, name))) for name in gpu_resources(pod))
    selector = tuple((key, value) for key, value in sorted(pod.node_selector.items()) if key not in OWN_LABELS)
    return GpuRequest(gpus, selector, _lasting(pod.required_terms))


def _lasting(terms: tuple[Term, ...] | None) -> tuple[Term, ...] | None:
    """Return terms without what they ask of labels that the operator itself changes: any node may come to meet that."""
    if terms is None:
        return None
    left = [Term(tuple(each for each in term.expressions if each.key not in OWN_LABELS), term.fields) for term in terms]
    asked_no_more = any(
        term.expressions and not (rest.expressions or rest.fields) for term, rest in zip(terms, left, strict=True)
    )
    return None if asked_no_more else tuple(left)
