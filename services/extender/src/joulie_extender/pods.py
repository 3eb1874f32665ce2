"""Pods on their nodes, as the ledgers of pods in flight and of stated run times need them."""

from dataclasses import dataclass

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.errors import DecodeError
from joulie_api.pod_reader import read_pod
from joulie_api.stated_times import read_stated_time
from joulie_core.names import NodeName
from joulie_core.powerest.pod_demand import PodDemand


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on its node, as far as the ledgers need it."""

    uid: str
    node: NodeName
    demand: PodDemand
    #: Seconds that it is expected to keep its node on, from its start; None where it states none.
    expected_s: float | None = None
    #: Seconds since the epoch; None before the kubelet has taken a pod that states its run time, and for all others.
    started_s: float | None = None


def read_bound_pod(raw: bytes, claimed_gpus: ClaimedGpus = no_claims) -> BoundPod:
    """Read a pod that is on a node.

    Raises:
        DecodeError: not a pod, or not on a node.
        QuantityError: a quantity cannot be read.
    """
    pod = read_pod(raw, claimed_gpus)
    if pod.node is None:
        raise DecodeError("the pod is not bound")
    timed = read_stated_time(raw)
    if timed is None or timed.of_daemon_set or timed.stated.expected_s is None:
        return BoundPod(pod.uid, NodeName(pod.node), pod.demand)
    return BoundPod(pod.uid, NodeName(pod.node), pod.demand, timed.stated.expected_s, timed.started_s)
