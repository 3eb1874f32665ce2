"""The GPUs of one pod that is about to start a container.

Guarantees that no GPU of the pod is missing in an answer: where it is not certain which it has, there is no answer.
Source: docs/decisions/0059-limits-lifted-before-start.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from joulie_core.holders.devices import GpuIndex, OfGpu, OfSomeGpu
from joulie_core.holders.held import NodePods, lacking, traced_devices
from joulie_core.holders.records import DeviceListing, NodeGpu, NodePod, NoListing


@dataclass(frozen=True, slots=True)
class StartingPod:
    """A pod whose container is about to be created, as the container runtime has it."""

    namespace: str
    name: str
    #: Of a static pod it is the one that the kubelet gave it.
    uid: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def requests_no_gpu(pod: StartingPod, pods: NodePods | None) -> bool:
    """Return whether it is certain that a pod requests no GPU."""
    known = _known(pod, pods)
    return known is not None and not known.may_have_gpus


def gpus_of_pod(
    pod: StartingPod, listing: DeviceListing | NoListing, pods: NodePods | None, gpus: Sequence[NodeGpu]
) -> frozenset[str] | None:
    """Return the UUIDs of the GPUs that a pod has; None where they are not certain.

    Args:
        pod: the pod; the kubelet has accepted it.
        listing: an answer of the kubelet to a question that was asked after that, or why there is none.
        pods: what the API server has of the node; None before it was read.
        gpus: the physical GPUs of the node.
    """
    known = _known(pod, pods)
    if known is None or pods is None or isinstance(listing, NoListing):
        return None
    entries = [each for each in listing.pods if each.key == pod.key]
    containers = [container for each in entries for container in each.containers]
    # Of two pods with one name, one is an earlier one that has not ended.
    if len(entries) > 1 or lacking(known, containers):
        return None
    index = GpuIndex(gpus, pods.slices)
    found: set[str] = set()
    for container in containers:
        for _, traced in traced_devices(container, index):
            match traced:
                case OfGpu(uuid=uuid):
                    found.add(uuid)
                case OfSomeGpu():
                    return None
                case None:
                    pass
    return frozenset(found)


def _known(pod: StartingPod, pods: NodePods | None) -> NodePod | None:
    """Return the pod as the API server has it; None where that is another one of the name, or not seen yet."""
    known = None if pods is None else pods.pods.get(pod.key)
    return known if known is not None and pod.uid in (known.uid, known.cgroup_uid) else None
