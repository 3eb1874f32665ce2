"""A cluster for the bench: nodes of three hardware families, what their agents report, and ten pods on each.

The densest tenth of the nodes carries most performance pods. One performance pod sits on each of `DRAINERS` nodes that
the policy will plan eco: those drain until it leaves.
"""

import time
from collections.abc import Iterator
from typing import Any

from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_node, make_node_hardware, make_pod, make_telemetry_profile

DRAINERS = 300
#: Share of all pods that ask for performance.
PERFORMANCE_SHARE = 0.2
RACK_NODES = 40

_GPU, _NEW, _OLD = "NVIDIA H100 80GB HBM3", "AMD EPYC 7763", "Intel Xeon Gold 6230"


def node_name(number: int) -> str:
    """Names as cloud providers give them."""
    return f"ip-10-{number // 62_500}-{number // 250 % 250}-{number % 250}.eu-central-1.compute.internal"


def nodes(count: int) -> Iterator[dict[str, Any]]:
    """Return the nodes: a tenth with GPUs, four tenths new, the rest old; forty in a rack."""
    for number in range(count):
        labels = {"joulie.io/rack": f"rack-{number // RACK_NODES}", "topology.kubernetes.io/zone": "eu-central-1a"}
        labels |= {f"feature.node.kubernetes.io/cpu-cpuid.FLAG{flag}": "true" for flag in range(20)}
        if number < count // 10:
            hardware: dict[str, Any] = {"cpu_model": _NEW, "cpu": 256, "gpus": 8, "gpu_model": _GPU}
        elif number < count // 2:
            hardware = {"cpu_model": _NEW, "cpu": 256}
        else:
            hardware = {"cpu_model": _OLD, "cpu": 80}
        yield make_node(node_name(number), labels=labels, cpu_sockets=2, **hardware)


def drainers(count: int) -> range:
    """Numbers of the old nodes with one performance pod each."""
    return range(count // 2, count // 2 + min(DRAINERS, count // 4))


def pods(node_count: int, count: int) -> Iterator[dict[str, Any]]:
    """Pods, all bound; the performance ones on the densest nodes, one on each drainer."""
    for number in drainers(node_count):
        yield _sized(make_pod(f"drainer-{number}", node=node_name(number), cpu=2, workload_class="performance"))
    fast = node_count // 10
    for number in range(count - len(drainers(node_count))):
        performance = number < count * PERFORMANCE_SHARE
        node = node_name(number % (fast if performance else node_count))
        yield _sized(make_pod(f"pod-{number}", node=node, cpu=1, workload_class="performance" if performance else None))


def bound_pod(name: str, node: str | None, *, phase: str, conditions: int, performance: bool) -> dict[str, Any]:
    """Return a pod in one state of its life: with so many of its conditions met."""
    pod = _sized(make_pod(name, node=node, cpu=2, workload_class="performance" if performance else None, phase=phase))
    del pod["status"]["conditions"][conditions:]
    return pod


def hardware(name: str) -> dict[str, Any]:
    """Return the agent's NodeHardware."""
    return make_node_hardware(
        name,
        cpu={"capRange": {"minWattsPerSocket": 60, "maxWattsPerSocket": 280}, "controlAvailable": True},
        status={"capabilities": {"cpuControl": True, "cpuTelemetry": True}, "quality": {"overall": "exact"}},
    )


def telemetry(name: str, cpu_watts: float, gpu_watts: float) -> dict[str, Any]:
    """Return the agent's report."""
    now = rfc3339(time.time())
    control = {"backend": "rapl", "result": "applied", "reason": "Capped", "enforcedWatts": 280, "updatedAt": now}
    return make_telemetry_profile(
        name,
        controls={"cpu": {"type": "host"}},
        control={"cpu": control, "gpu": control},
        power={"cpuWatts": cpu_watts, "gpuWatts": gpu_watts, "updatedAt": now},
        labels={"app.kubernetes.io/managed-by": "joulie-agent"},
    )


def _sized(pod: dict[str, Any]) -> dict[str, Any]:
    """Pad a pod to what the API server sends of one, about 3 KB."""
    condition = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pod["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]
    pod["spec"]["containers"][0]["env"] = [{"name": f"SETTING_{number}", "value": "x" * 32} for number in range(12)]
    pod["status"]["conditions"] = [
        {"type": type_, **condition} for type_ in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    fields = {f"f:{number}": {} for number in range(60)}
    pod["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": fields}}]
    return pod
