"""A cluster for the bench: what the API server holds, and what kube-scheduler would post about it.

Nodes are as large as real ones (about 9 KB: labels, annotations, managed fields, conditions, images), and bodies are
written as Go writes them: compact, capital keys, the unused side null.
"""

import json
import random
import time
from typing import Any

from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_node_hardware, make_node_twin

#: Different bodies of a case; more than the extender could remember.
BODIES = 24
#: Models whose power and work are known, so that every score has what it takes.
FAMILIES = (
    {"cpu": "AMD EPYC 7763", "cores": 128, "watts": 560, "gpu": "", "gpus": 0},
    {"cpu": "AMD EPYC 9654", "cores": 192, "watts": 720, "gpu": "NVIDIA A100 SXM4 80GB", "gpus": 8},
)


def node_names(count: int) -> list[str]:
    """Names as cloud providers give them."""
    return [
        f"ip-10-{number // 62_500}-{number // 250 % 250}-{number % 250}.eu-central-1.compute.internal"
        for number in range(count)
    ]


def twin(name: str, seed: int) -> dict[str, Any]:
    """Return a fresh NodeTwin with plausible figures."""
    dice = random.Random(seed)
    capped = dice.choice([700, 1_200, 3_600])
    return make_node_twin(
        name,
        dice.choice(["performance", "performance", "eco", "draining"]),
        measured_watts=round(dice.uniform(0.1, 0.9) * capped, 1),
        capped_watts=capped,
        tdp_watts=capped * 1.5,
        trend_watts_per_min=round(dice.uniform(-20, 20), 1),
        last_updated=rfc3339(time.time()),
        status={
            "predictedPowerHeadroomScore": 40,
            "predictedCoolingStressScore": round(dice.uniform(5, 60), 1),
            "effectiveCapState": dice.choice([{"cpuPct": 100, "gpuPct": 100}, {"cpuPct": 60, "gpuPct": 70}]),
        },
    )


def hardware(name: str, seed: int) -> dict[str, Any]:
    """Return a NodeHardware of one of two families."""
    family = FAMILIES[seed % len(FAMILIES)]
    return make_node_hardware(
        name,
        cpu={
            "model": family["cpu"],
            "sockets": 2,
            "totalCores": family["cores"],
            "capRange": {"minWattsPerSocket": 60, "maxWattsPerSocket": family["watts"] / 2},
        },
        gpu={
            "model": family["gpu"],
            "present": family["gpus"] > 0,
            "count": family["gpus"],
            "capRangePerGpu": {"minWatts": 100, "maxWatts": 400},
        },
    )


def full_node(name: str) -> dict[str, Any]:
    """Return a Node as kube-scheduler's cache holds it."""
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FLAG{number}": "true" for number in range(26)}
    labels |= {"kubernetes.io/hostname": name, "joulie.io/managed": "true", "joulie.io/power-profile": "performance"}
    fields: dict[str, Any] = {f"f:annotation.example/{number}": {} for number in range(90)}
    condition = {
        "status": "False",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "KubeletHasSufficientMemory",
        "message": "kubelet has sufficient memory available",
    }
    digest = "0123456789abcdef" * 4
    images = [
        {"names": [f"registry.example/{name}/image-{number}@sha256:{digest}"], "sizeBytes": 123456789}
        for number in range(20)
    ]
    resources = {"cpu": "128", "memory": "1056Gi", "pods": "110", "ephemeral-storage": "894Gi"}
    manager = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:metadata": fields}}
    return {
        "metadata": {
            "name": name,
            "uid": "00000000-0000-0000-0000-000000000000",
            "labels": labels,
            "annotations": {f"annotation.example/{number}": "x" * 40 for number in range(7)},
            "managedFields": [manager],
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud://zone/{name}"},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [
                {"type": kind, **condition}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkUnavailable")
            ],
            "images": images,
        },
    }


def pod(workload_class: str, number: int = 0, *, cpu: str = "4") -> dict[str, Any]:
    """Return a pod with a container and a sidecar, as kube-scheduler sends it; each number is another pod."""
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": cpu, "memory": "16Gi", "nvidia.com/gpu": "1"}}
    return {
        "metadata": {
            "name": "train-7d5b8c9f4-x2x7p",
            "namespace": "research",
            "uid": f"11111111-1111-1111-1111-{number:012}",
            "annotations": {"joulie.io/workload-class": workload_class},
        },
        "spec": {
            "initContainers": [
                {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
            ],
            "containers": [{"name": "main", "image": "registry.example/train:1", "resources": resources}],
            "schedulerName": "default-scheduler",
        },
        "status": {"phase": "Pending"},
    }


def names_bodies(names: list[str], workload_class: str, *, unlike: bool = False) -> list[bytes]:
    """Bodies of a scheduler whose extender is cache capable, each of another pod.

    kube-scheduler checks nodes in parallel, so their order differs every time. The pods have equal requests, as those
    of a burst do, or with `unlike` each requests another number of cores.
    """
    dice = random.Random(len(names))
    return [
        compact(
            {
                "Pod": pod(workload_class, number, cpu=f"{4000 + number}m" if unlike else "4"),
                "Nodes": None,
                "NodeNames": dice.sample(names, len(names)),
            }
        )
        for number in range(BODIES)
    ]


def nodes_body(nodes: list[bytes], workload_class: str) -> bytes:
    """Return the request body for nodeCacheCapable false; nodes are JSON, so that their bytes can be compared."""
    head = compact({"Pod": pod(workload_class)})[:-1]
    return head + b',"Nodes":{"metadata":{},"items":[' + b",".join(nodes) + b']},"NodeNames":null}'


def compact(value: Any) -> bytes:
    """JSON as Go writes it."""
    return json.dumps(value, separators=(",", ":")).encode()
