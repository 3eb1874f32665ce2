"""Objects of a cluster under Joulie, and readers of output, for tests of the command line and for its page."""

import time
from typing import Any

from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_node, make_node_power_profile, make_node_twin, make_telemetry_profile

NAMESPACE = "joulie-system"


def words(text: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in text.splitlines()]


def flat(text: str) -> str:
    """Return text in one line, as before it was wrapped."""
    return " ".join(text.split())


def ago(seconds: float) -> str:
    """Return the time so many seconds ago, RFC 3339."""
    return rfc3339(time.time() - seconds)


def managed_node(
    name: str,
    profile: str = "performance",
    *,
    schedulable_class: str | None = None,
    draining: bool = False,
    watts: float | None = 300.0,
    cap: float = 600.0,
    headroom: float | None = 50.0,
    quality: str = "measured",
    age_s: float = 3.0,
    cpu: dict[str, Any] | None = None,
    conditions: tuple[dict[str, str], ...] = (),
    server_watts: float | None = None,
) -> list[dict[str, Any]]:
    """Return Node, target, twin and report of one node.

    Args:
        name: its name.
        profile: `performance` or `eco`.
        schedulable_class: class in the twin; None for the one that follows.
        draining: whether it is draining.
        watts: measured power; None for unknown.
        cap: watts that the caps allow.
        headroom: free share of the cap, in percent; None for unknown.
        quality: quality of the power.
        age_s: age of the twin, in seconds.
        cpu: fields of the report on the CPUs.
        conditions: conditions of the target.
        server_watts: power of the whole server, by its BMC; None for unknown.
    """
    labels = {"joulie.io/power-profile": profile, "joulie.io/draining": str(draining).lower(), "joulie.io/rack": "r1"}
    control = {"backend": "rapl", "result": "applied", "enforcedWatts": cap / 2, **(cpu or {})}
    power = {"source": "agent", "quality": quality, "nodeCappedPowerW": cap, "measuredNodePowerW": watts}
    server = {"source": "redfish", "measuredServerPowerW": server_watts, "sampledAt": ago(45), "intervalSeconds": 60}
    twin = make_node_twin(
        name,
        schedulable_class or ("draining" if draining else profile),
        last_updated=ago(age_s),
        status={
            "predictedPowerHeadroomScore": headroom,
            **({} if server_watts is None else {"serverMeasurement": server}),
            "powerMeasurement": {key: value for key, value in power.items() if value is not None},
        },
    )
    return [
        make_node(name, labels=labels),
        make_node_power_profile(name, profile, draining=draining, status={"conditions": list(conditions)}),
        twin,
        make_telemetry_profile(name, control={"cpu": control}),
    ]


def service_pod(
    component: str, node: str, *, ready: bool = True, version: str = "0.1.0", owner: str = ""
) -> dict[str, Any]:
    """Return a pod as the chart makes it."""
    container = "controller" if component == "agent" else component
    metadata: dict[str, Any] = {
        "name": f"joulie-{component}-{node}",
        "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/name": "joulie", "app.kubernetes.io/component": component},
    }
    if owner:
        metadata["ownerReferences"] = [
            {"kind": owner, "name": f"joulie-{component}", "uid": "1", "apiVersion": "apps/v1"}
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "containers": [{"name": container, "image": f"docker.io:5000/joulie/{component}:{version}"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def extender_service() -> dict[str, Any]:
    """Return the Service of the chart's extender."""
    labels = {"app.kubernetes.io/name": "joulie", "app.kubernetes.io/component": "extender"}
    metadata = {"name": "joulie-scheduler-extender", "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 9876}]}}


def make_event(
    kind: str,
    name: str,
    reason: str,
    message: str,
    *,
    component: str = "joulie-operator",
    namespace: str = "default",
    at: str,
    count: int = 1,
) -> dict[str, Any]:
    """Return an Event about an object, last seen at a time in RFC 3339."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason.lower()}", "namespace": namespace},
        "involvedObject": {"kind": kind, "name": name},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": count,
        "lastTimestamp": at,
        "reportingComponent": component,
    }
