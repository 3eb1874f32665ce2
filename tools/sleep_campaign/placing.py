"""Where kube-scheduler places a pod: written from Kubernetes' rules, not from what Joulie takes them for.

Source: the Kubernetes documentation on taints and tolerations, on assigning pods to nodes, and on local volumes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.sleep_campaign.pods import CampaignPod

_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
_MOST_PODS: Final = 110


@dataclass(frozen=True, slots=True)
class PlacingNode:
    """A Node as kube-scheduler sees it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str], ...]
    unschedulable: bool
    cpu: float

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> "PlacingNode":
        """Read a Node."""
        spec = obj.get("spec", {})
        return cls(
            name=obj["metadata"]["name"],
            labels=obj["metadata"].get("labels") or {},
            taints=tuple((each["key"], each["effect"]) for each in spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            cpu=float(obj["status"]["allocatable"]["cpu"]),
        )


def takes(pod: CampaignPod, node: PlacingNode, on_it: Iterable[CampaignPod], everywhere: Iterable[CampaignPod]) -> bool:
    """Return whether a node takes a pod.

    Args:
        pod: the pod.
        node: the node.
        on_it: the pods that are bound to it and have not ended.
        everywhere: the pods of the pod's workload that are bound to any node.
    """
    template = pod.template
    if not template.tolerates_all and (node.unschedulable or any(effect in _KEEPS_AWAY for _, effect in node.taints)):
        return False
    if template.pool and node.labels.get("pool") != template.pool:
        return False
    if template.volume_node and node.name != template.volume_node:
        return False
    there = list(on_it)
    if len(there) >= _MOST_PODS or sum(each.template.cpu for each in there) + template.cpu > node.cpu:
        return False
    of_app = [each for each in there if each.template.app == template.app]
    if template.apart and of_app:
        return False
    # The first of them goes anywhere.
    return not template.together or bool(of_app) or not list(everywhere)
