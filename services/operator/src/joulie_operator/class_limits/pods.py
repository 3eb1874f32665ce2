"""Pods without a node, as the decision to lift limits by class reads them.

Guarantees that a pod whose class is not known, and one of which it is not known which GPUs it requests, counts as a
performance pod that any node with GPUs could take.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.decoding import decode
from joulie_api.pod_reader import read_pod
from joulie_api.wire import decode_pod
from joulie_core.class_caps.waiting import GpuRequest
from joulie_core.demand import WorkloadClass
from joulie_core.pod import Pod, Term
from joulie_core.powerest.pod_demand import gpu_resources, requested
from joulie_operator.cluster import OWN_LABELS

#: Field selector of the pods that have no node and have not ended.
WITHOUT_NODE: Final = "spec.nodeName=,status.phase=Pending"
#: Requests that are kept, so that equal ones are one object; clusters have some hundred kinds of pods.
_KEPT: Final = 4096
_CLASSES: Final = (None, *WorkloadClass)


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node; `request` is None where nothing is to be lifted for it."""

    request: GpuRequest | None


_LIFTS_NOTHING: Final = WaitingPod(None)


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[msgspec.Raw] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec | None = None


_GATES: Final = msgspec.json.Decoder(_Pod)


class WaitingPodDecoder:
    """A decoder of pods without a node; `claimed_gpus` tells the GPUs of their claims."""

    def __init__(self, claimed_gpus: ClaimedGpus = no_claims) -> None:
        self._claimed_gpus = claimed_gpus

    def __call__(self, raw: bytes) -> WaitingPod:
        """Decode a pod.

        Raises:
            DecodeError: not a Pod, or one with more parts than are read.
            QuantityError: a quantity of it cannot be read.
        """
        found = read_pod(raw, self._claimed_gpus)
        known_standard = found.annotation in _CLASSES and found.demand.workload_class is WorkloadClass.STANDARD
        if found.node or known_standard or not found.demand.gpus:
            return _LIFTS_NOTHING
        pod, gates = decode_pod(raw), decode(_GATES.decode, raw, "Pod")
        # kube-scheduler does not look for a node for one with gates, and none is found for one that is deleted.
        if pod.deleting or (gates.spec and gates.spec.scheduling_gates):
            return _LIFTS_NOTHING
        return _kept(_request(pod, with_claims=found.with_claims))


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


@lru_cache(maxsize=_KEPT)
def _kept(request: GpuRequest) -> WaitingPod:
    return WaitingPod(request)
