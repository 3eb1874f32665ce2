"""Workload of a pod: the one that people know it by.

A ReplicaSet of a Deployment is named after it and the hash of the pod's template, which the pod has as a label; the
Deployment itself is not read. Source: Kubernetes, "Deployments", Pod-template-hash label.
"""

from collections.abc import Mapping
from typing import Final

from joulie_core.text import printable

_TEMPLATE_HASH: Final = "pod-template-hash"
#: Of Kubernetes: 253 characters of a name, and a kind before it.
_MOST_TEXT: Final = 320


def workload_of(pod: str, kind: str, controller: str, labels: Mapping[str, str]) -> str:
    """Return the workload, `KIND/NAME` with the kind in lower case.

    Args:
        pod: name of the pod.
        kind: kind of its controller; empty without one.
        controller: name of its controller.
        labels: of the pod.
    """
    if not kind or not controller:
        return printable(f"pod/{pod}", _MOST_TEXT)
    template = labels.get(_TEMPLATE_HASH)
    if kind == "ReplicaSet" and template and controller.endswith(f"-{template}"):
        kind, controller = "Deployment", controller.removesuffix(f"-{template}")
    # The controller of a static pod is its node, by whose name its own ends.
    if kind == "Node":
        kind, controller = "pod", pod.removesuffix(f"-{controller}")
    return printable(f"{kind.lower()}/{controller}", _MOST_TEXT)
