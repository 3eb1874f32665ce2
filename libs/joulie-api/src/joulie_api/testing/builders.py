"""Nodes and pods as the API server would send them: JSON dicts in which a test states only what matters to it."""

import itertools
from collections.abc import Mapping
from typing import Any

from joulie_core import labels as keys

_created = itertools.count(1)


def make_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cpu: str | int = 32,
    memory: str = "128Gi",
    gpus: int = 0,
    gpu_resource: str = "nvidia.com/gpu",
    cpu_model: str | None = None,
    cpu_sockets: int | None = None,
    gpu_model: str | None = None,
    managed: bool = True,
    unschedulable: bool = False,
) -> dict[str, Any]:
    """A ready node.

    Args:
        name: of the node; also its hostname label.
        labels: further labels; they win over those made from the other arguments.
        annotations: annotations.
        cpu: logical CPUs, capacity and allocatable.
        memory: as a quantity.
        gpus: whole GPUs as an extended resource.
        gpu_resource: the name of that resource.
        cpu_model: value of `joulie.io/hw.cpu-model`.
        cpu_sockets: value of `joulie.io/hw.cpu-sockets`.
        gpu_model: value of `joulie.io/hw.gpu-model`.
        managed: whether the node is under Joulie's management.
        unschedulable: cordoned.
    """
    found = {
        "kubernetes.io/hostname": name,
        keys.MANAGED: "true" if managed else None,
        keys.HW_CPU_MODEL: cpu_model,
        keys.HW_CPU_SOCKETS: None if cpu_sockets is None else str(cpu_sockets),
        keys.HW_GPU_MODEL: gpu_model,
        keys.HW_GPU_COUNT: str(gpus) if gpus and gpu_model else None,
        **(labels or {}),
    }
    resources = {"cpu": str(cpu), "memory": memory, "pods": "110"}
    if gpus:
        resources[gpu_resource] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {key: value for key, value in found.items() if value is not None},
            "annotations": dict(annotations or {}),
        },
        "spec": {"unschedulable": True} if unschedulable else {},
        "status": {
            "capacity": resources,
            "allocatable": dict(resources),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def make_pod(
    name: str | None = None,
    namespace: str = "default",
    *,
    node: str | None = None,
    cpu: str | float | None = None,
    memory: str | None = None,
    gpu: int = 0,
    gpu_resource: str = "nvidia.com/gpu",
    workload_class: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str | None = None,
    limits: Mapping[str, str] | None = None,
    deleting: bool = False,
) -> dict[str, Any]:
    """A pod of one container.

    Args:
        name: of the pod; None makes one up.
        namespace: where it lives.
        node: the node it is bound to; None while it waits.
        cpu: CPU request, cores or a quantity.
        memory: memory request as a quantity.
        gpu: whole GPUs, requested and limited.
        gpu_resource: the name of that resource.
        workload_class: value of the annotation `joulie.io/workload-class`.
        node_selector: nodeSelector.
        affinity: the pod's whole affinity.
        labels: labels.
        annotations: further annotations.
        phase: None means Running on a node and Pending without.
        limits: further limits of the container.
        deleting: the pod has a deletion time.
    """
    requests = {"cpu": None if cpu is None else str(cpu), "memory": memory, gpu_resource: str(gpu) if gpu else None}
    gpu_limit = {gpu_resource: str(gpu)} if gpu else {}
    resources = {
        "requests": {key: value for key, value in requests.items() if value is not None},
        "limits": {**gpu_limit, **(limits or {})},
    }
    marks = {keys.WORKLOAD_CLASS: workload_class} if workload_class is not None else {}
    name = name or f"pod-{next(_created)}"
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels or {}),
        "annotations": {**marks, **(annotations or {})},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    resources = {key: value for key, value in resources.items() if value}
    spec = {
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
        "nodeName": node,
        "nodeSelector": node_selector,
        "affinity": affinity,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {key: value for key, value in spec.items() if value},
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }
