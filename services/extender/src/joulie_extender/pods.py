"""Pods on their nodes, as the ledger of pods in flight needs them."""

from dataclasses import dataclass

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.errors import DecodeError
from joulie_api.pod_reader import read_pod
from joulie_core.names import NodeName
from joulie_core.powerest.pod_demand import PodDemand


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on its node, as far as the ledger of pods in flight needs it."""

    uid: str
    node: NodeName
    demand: PodDemand


def read_bound_pod(raw: bytes, claimed_gpus: ClaimedGpus = no_claims) -> BoundPod:
    """Read a pod that is on a node.

    Raises:
        DecodeError: not a pod, or not on a node.
        QuantityError: a quantity cannot be read.
    """
    pod = read_pod(raw, claimed_gpus)
    if pod.node is None:
        raise DecodeError("the pod is not bound")
    return BoundPod(pod.uid, NodeName(pod.node), pod.demand)
