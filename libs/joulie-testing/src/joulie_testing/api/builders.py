"""Builders of objects as the API server sends them: JSON dicts, of which a test sets only what it needs."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from joulie_core import labels as keys
from joulie_core.kinds.base import API_VERSION

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
    boot_id: str | None = None,
) -> dict[str, Any]:
    """Return a ready node.

    Args:
        name: name of the node; also its hostname label.
        labels: further labels; they override those of the other arguments.
        annotations: annotations.
        cpu: logical CPUs, capacity and allocatable.
        memory: as a quantity.
        gpus: whole GPUs as an extended resource.
        gpu_resource: the name of that resource.
        cpu_model: value of `joulie.io/hw.cpu-model`.
        cpu_sockets: value of `joulie.io/hw.cpu-sockets`.
        gpu_model: value of `joulie.io/hw.gpu-model`.
        managed: whether Joulie manages the node.
        unschedulable: cordoned.
        boot_id: boot of its machine; None: the kubelet has not reported it.
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
            **({} if boot_id is None else {"nodeInfo": {"bootID": boot_id}}),
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
    """Return a pod with one container.

    Args:
        name: name of the pod; None generates one.
        namespace: its namespace.
        node: the node it is bound to; None while it is pending.
        cpu: CPU request, cores or a quantity.
        memory: memory request as a quantity.
        gpu: whole GPUs, requested and limited.
        gpu_resource: the name of that resource.
        workload_class: value of the annotation `joulie.io/workload-class`.
        node_selector: nodeSelector.
        affinity: affinity.
        labels: labels.
        annotations: further annotations.
        phase: None is Running on a node and Pending without.
        limits: further limits of the container.
        deleting: whether the pod has a deletion timestamp.
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


def make_node_power_profile(
    name: str,
    profile: str = "eco",
    *,
    draining: bool = False,
    cpu: Mapping[str, Any] | None = None,
    gpu: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a target, as the operator writes it.

    Args:
        name: name of the node.
        profile: `performance` or `eco`.
        draining: `spec.draining`.
        cpu: `spec.cpu`, such as `{"packagePowerCapPctOfMax": 60}`.
        gpu: `spec.gpu.powerCap` without its scope, such as `{"capPctOfMax": 60}`.
        policy: `spec.policy`.
        status: the status.
    """
    spec = {
        "nodeName": name,
        "profile": profile,
        "draining": draining,
        "cpu": cpu,
        "gpu": None if gpu is None else {"powerCap": {"scope": "perGpu", **gpu}},
        "policy": policy or {"name": "static_partition"},
    }
    return _custom_object("NodePowerProfile", name, spec, status)


def make_node_twin(
    name: str,
    schedulable_class: str = "performance",
    *,
    measured_watts: float | None = None,
    capped_watts: float | None = None,
    tdp_watts: float | None = None,
    trend_watts_per_min: float | None = None,
    last_updated: str | None = None,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a twin, as the operator writes it.

    Args:
        name: name of the node.
        schedulable_class: `performance`, `eco`, `draining` or `unknown`.
        measured_watts: power of the node, as measured by its agent.
        capped_watts: sum of its caps; None for a twin without a power measurement.
        tdp_watts: maximum power of its hardware.
        trend_watts_per_min: power trend.
        last_updated: RFC 3339.
        status: further fields of the status; they override those of the other arguments.
    """
    power = {
        "source": "agent",
        "quality": "measured",
        "measuredNodePowerW": measured_watts,
        "nodeCappedPowerW": capped_watts,
        "nodeTdpW": tdp_watts,
        "powerTrendWPerMin": trend_watts_per_min,
    }
    fields = {
        "schedulableClass": schedulable_class,
        "powerMeasurement": None if capped_watts is None else _present(power),
        "lastUpdated": last_updated,
        **(status or {}),
    }
    return _custom_object("NodeTwin", name, {"nodeName": name}, _present(fields))


def make_node_bmc(
    name: str, *, spec: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a NodeBMC.

    Args:
        name: name of the node.
        spec: further fields of the spec; they override the protocol, the address and the Secret.
        status: the status.
    """
    reached = {"protocol": "redfish", "address": "https://192.0.2.1", "credentialsSecretRef": {"name": "bmc"}}
    return _custom_object("NodeBMC", name, {"nodeName": name, **reached, **(spec or {})}, dict(status or {}))


def make_node_hardware(
    name: str,
    *,
    cpu: Mapping[str, Any] | None = None,
    gpu: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the discovered hardware of a node, as its agent writes it.

    Args:
        name: name of the node.
        cpu: `status.cpu`.
        gpu: `status.gpu`.
        status: further fields of the status.
    """
    return _custom_object(
        "NodeHardware", name, {"nodeName": name}, _present({"cpu": cpu, "gpu": gpu, **(status or {})})
    )


def make_telemetry_profile(
    name: str,
    *,
    target: Mapping[str, Any] | None = None,
    sources: Mapping[str, Any] | None = None,
    controls: Mapping[str, Any] | None = None,
    control: Mapping[str, Any] | None = None,
    power: Mapping[str, Any] | None = None,
    devices: Sequence[Mapping[str, Any]] | None = None,
    energy: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a TelemetryProfile, with the agent's report.

    Args:
        name: name of the profile; that of a node holds the node's report.
        target: `spec.target`; None for the node of that name.
        sources: `spec.sources`.
        controls: `spec.controls`.
        control: the report of control, `status.control`.
        power: the report of power, `status.power`.
        devices: the holders of its GPUs, `status.devices`.
        energy: its energy by workload, `status.energy`.
        labels: labels.
    """
    spec = {"target": target or {"scope": "node", "nodeName": name}, "sources": sources, "controls": controls}
    made = _custom_object(
        "TelemetryProfile",
        name,
        spec,
        _present({"control": control, "power": power, "devices": devices, "energy": energy}),
    )
    if labels:
        made["metadata"]["labels"] = dict(labels)
    return made


def make_power_domain(
    name: str, *, status: Mapping[str, Any] | None = None, limit_watts: int = 10_000, **spec: Any
) -> dict[str, Any]:
    """Return a PowerDomain that keeps limits on lost control; further fields of its spec are as the API has them."""
    fields = {"limitWatts": limit_watts, "onLostControl": "KeepGuaranteed"}
    return _custom_object("PowerDomain", name, fields | spec, status)


def make_power_event(
    name: str, *, status: Mapping[str, Any] | None = None, domain: str = "row-1", **spec: Any
) -> dict[str, Any]:
    """Return a PowerEvent that stands until it is deleted; a field of its spec that is None is absent."""
    fields = {"domain": domain, "limitWatts": 1_000, "standing": True} | spec
    return _custom_object("PowerEvent", name, _present(fields), status)


def make_node_power_budget(
    name: str, *, status: Mapping[str, Any] | None = None, limit_watts: float | None = 400, **spec: Any
) -> dict[str, Any]:
    """Return a NodePowerBudget of term 1 and sequence 1; further fields of its spec are as the API has them."""
    fields = {
        "nodeName": name,
        "term": 1,
        "sequence": 1,
        "renewal": 1,
        "leaseSeconds": 300,
        "limitWatts": limit_watts,
        "onLostControl": "KeepGuaranteed",
    }
    return _custom_object("NodePowerBudget", name, fields | spec, status)


def _custom_object(kind: str, name: str, spec: Mapping[str, Any], status: Mapping[str, Any] | None) -> dict[str, Any]:
    made = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": _present(spec)}
    return made | ({"status": dict(status)} if status else {})


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
