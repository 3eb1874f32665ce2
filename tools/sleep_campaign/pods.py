"""The pods of the campaign: what they ask for, where they run, and how they are written."""

from dataclasses import dataclass
from typing import Any, Final

from joulie_testing.api import make_pod

#: Label that budgets and affinities select.
APP: Final = "app"
_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """Properties that pods of one workload have in common."""

    app: str
    #: Kind of the controller; empty for bare pods.
    owner: str
    cpu: float
    tolerates_all: bool = False
    pool: str = ""
    #: Node of its local volume; empty without one.
    volume_node: str = ""
    #: No two of the workload are on one node, or all are on one.
    apart: bool = False
    together: bool = False
    #: Pods of the workload that a budget keeps running.
    min_available: int = 0


@dataclass(slots=True)
class CampaignPod:
    """One pod as it is, whatever Joulie believes."""

    name: str
    template: PodTemplate
    made_at_s: float
    #: Seconds that it runs; infinite for those of controllers that keep it running.
    runs_s: float = float("inf")
    node: str = ""
    bound_at_s: float = 0.0
    #: Whether a person named its node.
    by_hand: bool = False
    #: Whether Joulie's taint was on the node when it was bound.
    past_taint: bool = False
    #: The boot that it runs in; 0 while it does not run.
    boot: int = 0
    started_at_s: float = 0.0
    finished: bool = False
    ending: bool = False
    #: Whether kube-scheduler has said that no node takes it.
    unschedulable: bool = False
    #: Since when a sleeping node could have taken it.
    waits_since_s: float | None = None
    reported: bool = False

    @property
    def is_of_node(self) -> bool:
        """Whether it ends with its node, as pods of DaemonSets do."""
        return self.template.owner == "DaemonSet"

    @property
    def counts(self) -> bool:
        """Whether it would be lost with its node."""
        return not self.finished and not self.is_of_node


def manifest(pod: CampaignPod) -> dict[str, Any]:
    """Return the object of a pod that was just made."""
    template = pod.template
    affinity: dict[str, Any] = {}
    term = {"labelSelector": {"matchLabels": {APP: template.app}}, "topologyKey": _HOSTNAME}
    if template.apart:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if template.together:
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    made = make_pod(
        pod.name,
        node=pod.node or None,
        cpu=template.cpu,
        memory="256Mi",
        labels={APP: template.app},
        node_selector={"pool": template.pool} if template.pool else None,
        affinity=affinity or None,
        phase="Pending",
    )
    made["spec"]["schedulerName"] = "default-scheduler"
    if template.tolerates_all or pod.is_of_node:
        made["spec"]["tolerations"] = [{"operator": "Exists"}]
    if template.volume_node:
        claim = {"persistentVolumeClaim": {"claimName": claim_of(template)}}
        made["spec"]["volumes"] = [{"name": "data", **claim}]
    if template.owner:
        api = {"ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}
        owner = {"apiVersion": api[template.owner], "kind": template.owner, "name": template.app, "controller": True}
        made["metadata"]["ownerReferences"] = [{**owner, "uid": f"uid-{template.app}"}]
    return made


def claim_of(template: PodTemplate) -> str:
    """Return the name of the claim of a local volume."""
    return f"{template.app}-data"


def volume_objects(template: PodTemplate) -> list[dict[str, Any]]:
    """Return the claim and the local volume of a workload."""
    name = claim_of(template)
    on_node = {"key": _HOSTNAME, "operator": "In", "values": [template.volume_node]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumeName": name},
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "local": {"path": "/data"},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
            },
            "status": {"phase": "Bound"},
        },
    ]
