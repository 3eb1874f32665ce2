"""The valid documents: what the good ones are made of, and what poison is made from."""

from typing import Any, Final

from joulie_core.kinds.base import API_VERSION
from joulie_testing.api import (
    claiming,
    make_claim,
    make_device_class,
    make_node,
    make_node_bmc,
    make_node_hardware,
    make_node_power_budget,
    make_node_power_profile,
    make_node_twin,
    make_pod,
    make_power_domain,
    make_power_event,
    make_telemetry_profile,
)

GOOD: Final = 50
#: Two managed nodes that poison is about: the pool agent serves the second only.
SINKS: Final = ("sink-0", "sink-1")
#: Label of the nodes that the pool agent serves.
AGENT_LABEL: Final = "hostile-agent"
#: The Secret with credentials of a BMC that poison is about.
POISONED_SECRET: Final = "poison-bmc"
#: Selected by the poisoned NodeSleepPolicy, and by no other node.
SLEEP_LABEL: Final = "hostile-sleep"
NAMESPACE: Final = "default"
SYSTEM_NAMESPACE: Final = "joulie-system"
MODEL: Final = "AMD-EPYC-9654"
WATTS: Final = 400.0


_CPU_CAP: Final = {"packagePowerCapPctOfMax": 60}
_LONG_AGO: Final = "2026-01-01T00:00:00Z"
#: `root`, `calvin`, and every address of 127.0.0.1.
_SECRET: Final = {"username": "cm9vdA==", "password": "Y2Fsdmlu", "addresses": "aHR0cHM6Ly8xMjcuMC4wLjE="}


def good_names() -> list[str]:
    """Return the names of the good nodes."""
    return [f"good-{number}" for number in range(GOOD)]


def telemetry(node: str) -> dict[str, Any]:
    """Return what the backend of a node answers."""
    cap_range = {"minWattsPerSocket": 100.0, "maxWattsPerSocket": WATTS}
    facts = {"rawModel": MODEL, "model": MODEL, "vendor": "amd", "sockets": 2, "totalCores": 192, "coresPerSocket": 96}
    cpu = {**facts, "capRange": cap_range, "controlAvailable": True, "telemetryAvailable": True}
    memory = {"totalBytes": 1 << 39}
    gpu = {"powerWatts": 300.0, "devices": [{"uuid": "GPU-1", "index": 0, "powerWatts": 300.0, "capWatts": 400.0}]}
    answer = {"node": node, "cpu": {**cpu, "packagePowerWatts": 350.0, "throttlePct": 0.0}, "memory": memory}
    return {**answer, "gpu": gpu} if node in SINKS else answer


def control_reply(watts: float) -> dict[str, Any]:
    """Return what the backend answers to a control."""
    return {
        "result": "applied",
        "message": "ok",
        "state": {"capWatts": watts, "capWattsPerGpu": watts, "throttlePct": 0},
    }


def prometheus_answer(at_s: float, watts: float = 900.0) -> dict[str, Any]:
    """Return what Prometheus answers to an instant query."""
    result = [{"metric": {"node": SINKS[0], "instance": f"{SINKS[0]}:9100"}, "value": [at_s, str(watts)]}]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def extender_args() -> dict[str, Any]:
    """Return what kube-scheduler sends."""
    pod = claiming(make_pod("scheduled", NAMESPACE, cpu=2, workload_class="performance"), claim="good-0")
    return {"Pod": pod, "Nodes": {"items": [make_node(SINKS[0])]}, "NodeNames": None}


def kinds() -> dict[str, list[dict[str, Any]]]:
    """Return what poison is made from, by kind."""
    sink, other = SINKS
    bmc = {"powerOff": "Allowed", "desiredPower": "On", "cap": {"watts": 300, "expiresAt": "2099-01-01T00:00:00Z"}}
    answer = telemetry(sink)
    cpu = {key: each for key, each in answer["cpu"].items() if key not in {"packagePowerWatts", "throttlePct"}}
    gpu = {
        "present": True, "model": "NVIDIA-H100-80GB-HBM3", "vendor": "nvidia", "count": 8,
        "capRangePerGpu": {"minWatts": 200.0, "maxWatts": 700.0}, "devices": [{"uuid": "GPU-1", "index": 0}],
    }  # fmt: skip
    applied = {"result": "applied", "backend": "http-rapl", "message": "ok", "updatedAt": _LONG_AGO}
    report = {
        "control": {"cpu": applied},
        "power": {"cpuWatts": 350.0, "gpuWatts": 300.0, "updatedAt": _LONG_AGO},
    }
    twin = {"predictedPowerHeadroomScore": 55.0, "estimatedPUE": 1.2, "hardwareDensityScore": 1.0}
    opaque = {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}}
    claim, template = make_claim("poison", NAMESPACE, count=2), make_claim("poison", NAMESPACE, template=True)
    for spec in (claim["spec"], template["spec"]["spec"]):
        spec["devices"]["config"] = [{"requests": ["devices"], "opaque": opaque}]
    pod = make_pod(
        "poison", NAMESPACE, node=sink, cpu="2500m", memory="4Gi", gpu=1, workload_class="performance",
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "joulie.io/power-profile", "operator": "In", "values": ["eco"]}]}]}}},
    )  # fmt: skip
    node = make_node("poison", cpu=64, gpus=2, cpu_model=MODEL, cpu_sockets=2, gpu_model="NVIDIA-H100-80GB-HBM3",
                     labels={AGENT_LABEL: "true", "joulie.io/rack": "poisoned"})  # fmt: skip
    node["spec"]["taints"] = [{"key": "joulie.io/asleep", "effect": "NoSchedule"}]
    return {
        "Node": [node],
        "Pod": [pod, claiming(make_pod("poison", NAMESPACE, node=sink, cpu=1), claim="poison")],
        "NodeHardware": [make_node_hardware(sink, cpu=cpu, gpu=gpu, status={"memory": answer["memory"]})],
        "NodePowerProfile": [make_node_power_profile(other, cpu=_CPU_CAP, gpu={"capPctOfMax": 60})],
        "NodeTwin": [make_node_twin(sink, "eco", measured_watts=500, capped_watts=600, tdp_watts=800, status=twin)],
        "TelemetryProfile": [_telemetry_profile(sink, report), _telemetry_profile(other, report)],
        "NodeBMC": [make_node_bmc("poison", spec={**bmc, "address": "https://127.0.0.1:9"}),
                    make_node_bmc("poison", spec={"protocol": "ipmi", "address": "ipmi://127.0.0.1:9"})],
        "NodeSleepPolicy": [_sleep_policy("poison")],
        "PowerDomain": [make_power_domain("poison", parent="good", nodeSelector={SLEEP_LABEL: "true"}, priority=3,
                                          reserveWatts=100, floor={"wattsPerNode": 200},
                                          oversubscription={"breaker": [{"loadPercent": 130, "seconds": 60}],
                                                            "coolingSeconds": 600, "reactionSeconds": 20})],
        "NodePowerBudget": [make_node_power_budget(sink, status={"sequence": 1, "renewal": 1, "inForceWatts": 400.0,
                                                                 "oversubscription": {"sample": 7, "drawnWatts": 350.0,
                                                                                      "fallingBack": True}},
                                                   oversubscription={"fallbackWatts": 300.0, "sampleSeconds": 4,
                                                                     "holdSeconds": 8, "sample": 7}),
                            make_node_power_budget(other)],
        "PowerEvent": [make_power_event("poison", domain="good", limitWatts=90_000, baseline="LastHour",
                                        start="2026-11-28T17:00:00Z", rampDownSeconds=60, mayAffect=["standard"],
                                        ifSourceLost="Limit", sourceTimeoutSeconds=60, sourceLostLimitWatts=80_000,
                                        sourceRenewed="2026-11-28T17:00:00.123456Z")],
        "DaemonSet": [_daemon_set("poison")],
        "ResourceClaim": [claim],
        "ResourceClaimTemplate": [template],
        "DeviceClass": [make_device_class("poison.example.com", "example.com/gpu")],
        "Secret": [secret(POISONED_SECRET, _SECRET)],
    }  # fmt: skip


def secret(name: str, data: dict[str, str]) -> dict[str, Any]:
    """Return a Secret."""
    meta = {"name": name, "namespace": SYSTEM_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


def good_objects() -> list[dict[str, Any]]:
    """Return the good objects that users create, beside nodes and NodeBMCs."""
    found: list[dict[str, Any]] = []
    for name in good_names():
        found.append(make_claim(name, NAMESPACE))
        found.append(claiming(make_pod(name, NAMESPACE, node=name, cpu=4), claim=name))
    # A policy that counts only, whose nodes the good ones are.
    policy = _sleep_policy("good")
    policy["spec"] |= {"nodeSelector": {AGENT_LABEL: "true"}, "mode": "Observe"}
    domain = make_power_domain("good", limit_watts=100_000)
    return [*found, policy, domain, _daemon_set("good"), make_device_class("gpu.nvidia.com", "nvidia.com/gpu")]


def _telemetry_profile(node: str, report: dict[str, Any]) -> dict[str, Any]:
    endpoint = "http://127.0.0.1:9/{node}"
    http = {"endpoint": endpoint, "timeoutSeconds": 1}
    return make_telemetry_profile(
        node,
        sources={"cpu": {"type": "http", "http": http}},
        controls={"cpu": {"type": "http", "http": http}},
        control=report["control"],
        power=report["power"],
    )


def _sleep_policy(name: str) -> dict[str, Any]:
    spec = {
        "nodeSelector": {SLEEP_LABEL: "true"}, "mode": "Recommend", "minAwake": {"count": 1, "spare": 1},
        "schedules": [{"days": ["Mon"], "start": "08:00", "end": "18:00", "timeZone": "Europe/Rome",
                       "minAwake": 2}],
    }  # fmt: skip
    return {"apiVersion": API_VERSION, "kind": "NodeSleepPolicy", "metadata": {"name": name}, "spec": spec}


def _daemon_set(name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "nodeSelector": {"none": "here"}}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
