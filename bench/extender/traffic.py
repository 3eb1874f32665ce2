"""Traffic that a scheduled pod causes: two requests of kube-scheduler, and the lines of the watches that report it.

Shapes and numbers are those of kube-scheduler on a real control plane with KWOK nodes, as recorded: requests of a pod
of about 3 KB with its managed fields and of the names of 420 of 1,000 nodes, in the order in which 16 threads found
them; in the watch of bound pods five events of 2 to 4 KB each.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster import compact, full_node, hardware, twin

from joulie_core.labels import POWER_PROFILE

#: Bound; running; to be deleted, with and without its grace period; gone.
POD_EVENTS: Final = ("ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED")
#: Samples of nodes that the requests take in turn: pods in a row get different ones.
_SAMPLES: Final = 64
_THREADS: Final = 16
#: A mix of equal pods, as workloads of many replicas are, each of its own kind: class, cores, GPUs.
_KINDS: Final = (
    *((("standard", cpu, 0)) for cpu in ("2", "4", "8", "500m", "250m")),
    *((("performance", cpu, 0)) for cpu in ("8", "16")),
    ("standard", "8", 1),
)
_SHARES: Final = (2, 2, 1, 1, 1, 1, 1, 1)
_NODE: Final = "node-of-the-pod"
_VERSION: Final = "version-of-the-pod"


def sample_size(nodes: int) -> int:
    """Return the feasible nodes at which kube-scheduler stops by default (`numFeasibleNodesToFind`)."""
    if nodes < 100:
        return nodes
    percentage = max(5, 50 - nodes // 125)
    return max(100, nodes * percentage // 100)


def samples(names: Sequence[str], size: int) -> list[bytes]:
    """Return JSON lists of names as kube-scheduler samples them: each goes on where the last one ended."""
    dice = random.Random(len(names))
    lists, first = [], 0
    for _ in range(_SAMPLES):
        chosen = [names[(first + number) % len(names)] for number in range(size)]
        first += size
        # Threads take chunks of consecutive nodes and append what they find as they go.
        order = sorted(range(size), key=lambda index: index + dice.uniform(0, 2 * _THREADS))
        lists.append(compact([chosen[index] for index in order]))
    return lists


@dataclass(frozen=True)
class PodTraffic:
    """Bytes about one pod; the node is not decided yet."""

    #: A body is head, names as a JSON list, and a closing brace.
    head: bytes
    #: By event: the parts between which the resourceVersion and the node's name stand.
    _events: tuple[tuple[tuple[bytes, ...], ...], ...]

    def body(self, names: bytes) -> bytes:
        """Return the body of a request about these candidates."""
        return b"%b%b}" % (self.head, names)

    def line(self, event: int, node: bytes, version: int) -> bytes:
        """Return a line of the watch, numbered as in `POD_EVENTS`."""
        before, between, after = self._events[event]
        return b"%b%d%b%b%b" % (before, version, between, node, after)


def pods(start: int, count: int, seed: int = 1) -> Iterator[PodTraffic]:
    """Yield pods of a mixed workload, numbered from `start` on."""
    dice = random.Random(seed + start)
    for number, kind in enumerate(dice.choices(_KINDS, _SHARES, k=count), start):
        yield _traffic(number, *kind)


def node_json(name: str, number: int) -> dict[str, Any]:
    """Return a Node as the API server has it, eco in a third of the cases."""
    node = full_node(name)
    node["metadata"]["labels"][POWER_PROFILE] = "eco" if number % 3 == 0 else "performance"
    return {"kind": "Node", "apiVersion": "v1", **node}


def twin_json(name: str, number: int) -> dict[str, Any]:
    """Return a NodeTwin as the API server has it."""
    made = twin(name, number)
    made["metadata"] |= {"managedFields": [_managed("joulie-operator")], "uid": f"33333333-3333-4333-8333-{number:012}"}
    return made


def cluster_objects(names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return what the API server holds at the start, by the plural of the resource."""
    return {
        "nodes": [node_json(name, number) for number, name in enumerate(names)],
        "nodetwins": [twin_json(name, number) for number, name in enumerate(names)],
        "nodehardwares": [hardware(name, number) for number, name in enumerate(names)],
        "pods": [],
    }


def watch_line(event: str, obj: dict[str, Any], version: int) -> bytes:
    """Return the line of a watch about an object."""
    obj["metadata"]["resourceVersion"] = str(version)
    return compact({"type": event, "object": obj})


def _traffic(number: int, workload_class: str, cpu: str, gpus: int) -> PodTraffic:
    pod = _pod(number, workload_class, cpu, gpus)
    unbound = compact({"Pod": pod, "Nodes": None, "NodeNames": ""})
    events = []
    for event, type_of in enumerate(POD_EVENTS):
        line = compact({"type": type_of, "object": _bound(pod, event)})
        before, _, rest = line.partition(_VERSION.encode())
        between, _, after = rest.partition(_NODE.encode())
        events.append((before, between, after))
    return PodTraffic(unbound.removesuffix(b'""}'), tuple(events))


def _pod(number: int, workload_class: str, cpu: str, gpus: int) -> dict[str, Any]:
    uid = f"11111111-1111-4111-8111-{number:012}"
    name = f"train-7d5b8c9f4-{number:05}"
    requests = {"cpu": cpu, "memory": "4Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    annotations = {"checksum/config": "0123456789abcdef" * 4}
    if workload_class == "performance":
        annotations["joulie.io/workload-class"] = workload_class
    mount = {"name": "kube-api-access-x2x7p", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/sa"}
    variables = [{"name": f"VARIABLE_{index}", "value": f"value of variable {index}"} for index in range(6)]
    return {
        "metadata": {
            "name": name,
            "generateName": "train-7d5b8c9f4-",
            "namespace": "research",
            "uid": uid,
            "resourceVersion": str(number),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [_managed("kube-controller-manager")],
            "labels": {"app.kubernetes.io/name": "train", "pod-template-hash": "7d5b8c9f4"},
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "train-7d5b8c9f4",
                    "uid": "22222222-2222-4222-8222-222222222222",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "volumes": [
                {
                    "name": "kube-api-access-x2x7p",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ],
                        "defaultMode": 420,
                    },
                }
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "args": ["--epochs=10", "--data=/data", "--checkpoint=/checkpoints"],
                    "env": variables,
                    "resources": {"requests": requests, "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
                    "volumeMounts": [mount],
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _bound(pod: dict[str, Any], event: int) -> dict[str, Any]:
    """Return the pod as the API server sends it, managed fields included, at one of its events."""
    metadata: dict[str, Any] = {
        **pod["metadata"],
        "managedFields": [_managed("kube-controller-manager"), _managed("kubelet")],
        "resourceVersion": _VERSION,
    }
    if event > 1:
        metadata |= {"deletionTimestamp": "2026-01-01T01:00:00Z", "deletionGracePeriodSeconds": 30}
    running = event > 0
    conditions = [
        {"type": kind, "status": "True" if running else "False", "lastTransitionTime": "2026-01-01T00:00:01Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {**pod["status"], "phase": "Running" if running else "Pending", "conditions": conditions}
    spec = {**pod["spec"], "nodeName": _NODE}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def _managed(manager: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {f"f:field-{index}": {} for index in range(30)}},
    }
