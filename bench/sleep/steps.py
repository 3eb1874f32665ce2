"""One pass of the operator's controller of sleeping nodes over watches that are filled; writes go nowhere."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from prometheus_client import CollectorRegistry

from joulie_api.app import freeze_heap
from joulie_api.failures import Failures
from joulie_api.resources import Resource
from joulie_api.wire import decode_kind
from joulie_core import labels
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds import NodeBMC, NodeSleepPolicy
from joulie_core.kinds.node_hardware import Exactness
from joulie_core.names import NodeName
from joulie_core.sleep import SleepReason, SleepRecord, SleepState
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.controller import SleepController, SleepParts
from joulie_operator.sleep.metrics import SleepMetrics
from joulie_operator.sleep.nodes import WatchedNode, read_node
from joulie_operator.sleep.pods import WatchedPod, read_pod
from joulie_operator.sleep.records import state_label, stored_text
from joulie_operator.sleep.watches import WatchedCluster
from joulie_operator.sleep.writer import SleepWriter
from joulie_testing.api import make_node, make_pod

_NOW_S: Final = 1_800_000_000.0
_PODS_PER_NODE: Final = 10
_HOST: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_APP: Final = {"labelSelector": {"matchLabels": {"app": "burst"}}, "topologyKey": _HOST}
_SPREAD: Final = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_APP}
_REFUSED: Final = "0/5000 nodes are available: 2000 Insufficient cpu, 3000 node(s) had untolerated taint(s)."


#: What the pod of each number has, by the name of the row.
PENDING: Final[Mapping[str, Callable[[int], dict[str, Any]]]] = MappingProxyType(
    {
        "pass: alike": lambda _: {"cpu": 4},
        "pass: of different sizes": lambda at: {"cpu": f"{4000 + at}m"},
        "pass: kept apart from each other": lambda _: {"cpu": 4, "affinity": {"podAntiAffinity": {_REQUIRED: [_APP]}}},
        "pass: spread over nodes": lambda _: {"cpu": 4, "topologySpreadConstraints": [_SPREAD]},
    }
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Cost of a pass: CPU time, the longest time that the event loop waited (CPU and clock), and nodes woken."""

    cpu_s: float
    block_cpu_s: float
    block_s: float
    woken: int


class _Api:
    """Takes every request; counts the nodes that are asked to wake."""

    def __init__(self) -> None:
        self.woken = 0

    async def list_page(self, _: Resource, **__: str) -> bytes:
        return b'{"metadata":{},"items":[]}'

    async def patch(self, _: Resource, __: str, body: Mapping[str, Any]) -> None:
        self.woken += body.get("spec", {}).get("desiredPower") == "On"

    async def apply(self, _: Resource, __: str, ___: Mapping[str, Any], **____: bool) -> None:
        return

    async def evict(self, _: str, __: str) -> None:
        return


class _Watches:
    """Watches that have seen a cluster."""

    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster

    def seen(self) -> WatchedCluster:
        each = self._cluster
        return replace(
            each, nodes=dict(each.nodes), pods=dict(each.pods), bmcs=dict(each.bmcs), policies=dict(each.policies)
        )

    def stale_reason(self) -> str | None:
        return None

    def on_waiting_pod(self, _: Callable[[], None]) -> None:
        return


class Passes:
    """Passes over a cluster of `nodes` of which `asleep` sleep, each with its own pods that wait."""

    def __init__(self, nodes: int, asleep: int) -> None:
        record = SleepRecord(state=SleepState.ASLEEP, since_s=_NOW_S - 5000.0, reason=SleepReason.OFF_CONFIRMED)
        self._nodes = {f"n{at}": _node(at, record if at < asleep else None) for at in range(nodes)}
        self._bmcs = {f"n{at}": _bmc(at, asleep=at < asleep) for at in range(nodes)}
        self._running = dict(
            _pod(f"runs-{at}-{number}", node=f"n{at}", cpu=6)
            for at in range(asleep, nodes)
            for number in range(_PODS_PER_NODE)
        )
        spec = {"nodeSelector": {"managed": "true"}, "mode": "Act", "minAwake": {"count": 2, "spare": 2}}
        policy = json.dumps({"metadata": {"name": "all", "generation": 1}, "spec": spec})
        self._policies = {"all": decode_kind(NodeSleepPolicy)(policy.encode())}

    def measure(self, pods: int, pending: Callable[[int], dict[str, Any]]) -> Figures:
        """Return what one pass takes while pods wait."""
        waiting = dict(_pod(f"waits-{at}", **pending(at)) for at in range(pods))
        seen = WatchedCluster(
            nodes=self._nodes,
            pods=self._running | waiting,
            daemon_sets={},
            bmcs=self._bmcs,
            policies=self._policies,
            claims={},
            volumes={},
            pods_unknown=False,
            unread_bmcs=frozenset(),
        )
        freeze_heap()
        return asyncio.run(_measure(seen))


async def _measure(seen: WatchedCluster) -> Figures:
    api, registry = _Api(), CollectorRegistry()
    view = HardwareView(None, None, 0, Exactness.GENERIC, "family")
    parts = SleepParts(
        watches=_Watches(seen),  # type: ignore[arg-type]
        writer=SleepWriter(api, api),
        metrics=SleepMetrics(registry),
        hardware=lambda _: view,
        managed=lambda: [NodeName(name) for name in seen.nodes],
        record_event=lambda _: None,
        failures=Failures(registry),
        wall=lambda: _NOW_S,
    )
    controller = SleepController(parts, interval_s=10.0)
    longest = [0.0, 0.0]
    beating = asyncio.create_task(_beat(longest))
    await asyncio.sleep(0)
    began_s = time.process_time()
    await controller.step()
    cpu_s = time.process_time() - began_s
    await asyncio.sleep(0)
    beating.cancel()
    return Figures(cpu_s, longest[0], longest[1], api.woken)


async def _beat(longest: list[float]) -> None:
    """Note the longest time between two turns: in CPU time, which other processes do not lengthen, and by the clock."""
    clocks = (time.process_time, time.perf_counter)
    before = [clock() for clock in clocks]
    while True:
        await asyncio.sleep(0.001)
        now = [clock() for clock in clocks]
        longest[:] = (max(known, new - old) for known, old, new in zip(longest, before, now, strict=True))
        before = now


def _node(at: int, record: SleepRecord | None) -> WatchedNode:
    node_labels = {"managed": "true", "pool": f"pool{at % 7}", _HOST: f"n{at}"}
    body = make_node(f"n{at}", cpu=64, labels=node_labels)
    body["metadata"] |= {"resourceVersion": str(at + 1), "uid": f"uid-{at}"}
    if record is not None:
        body["metadata"]["labels"][labels.SLEEP_STATE] = state_label(record.state)
        body["metadata"]["annotations"] = {labels.SLEEP_RECORD: stored_text(record)}
        body["spec"]["taints"] = [{"key": labels.ASLEEP_TAINT, "effect": "NoSchedule"}]
    conditions = [
        {"type": "Ready", "status": "True" if record is None else "Unknown"},
        {"type": f"{labels.PREFIX}Asleep", "status": "False", "reason": "Awake" if record is None else "Asleep"},
    ]
    body["status"]["conditions"] = conditions
    return read_node(json.dumps(body).encode())


def _bmc(at: int, *, asleep: bool) -> Any:
    spec = {
        "nodeName": f"n{at}",
        "protocol": "redfish",
        "address": "https://10.0.0.1",
        "credentialsSecretRef": {"name": "bmc"},
        "powerOff": "Allowed",
        **({"desiredPower": "Off"} if asleep else {}),
    }
    conditions = [{"type": kind, "status": "True", "reason": "Ok"} for kind in ("Reachable", "WakeProven")]
    sampled_at = rfc3339(_NOW_S, "seconds")
    status = {"powerState": "Off" if asleep else "On", "sampledAt": sampled_at, "conditions": conditions}
    annotations = {labels.REQUESTED_POWER: "Off"} if asleep else {}
    metadata = {"name": f"n{at}", "resourceVersion": "1", "uid": f"uid-{at}", "annotations": annotations}
    return decode_kind(NodeBMC)(json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode())


def _pod(name: str, *, node: str | None = None, cpu: Any = None, **spec: Any) -> tuple[str, WatchedPod]:
    body = make_pod(name, node=node, cpu=cpu)
    body["spec"] |= spec
    body["metadata"]["labels"] = {"app": "burst" if node is None else "web"}
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "controller": True}
    ]
    if node is None:
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": _REFUSED}
        body["status"]["conditions"] = [refused | {"lastTransitionTime": rfc3339(_NOW_S - 5, "seconds")}]
    return f"default/{name}", read_pod(json.dumps(body).encode())
