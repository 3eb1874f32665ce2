"""Writes docs/kubectl-joulie.md: what every verb is for, and what it prints of a small cluster in this process."""

import asyncio
import contextlib
import io
import re
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

import msgspec
from tools.generated import ROOT, finish

from joulie_api.permissions import SERVICES
from joulie_api.savings import LEDGER_NAME, ledger_manifest
from joulie_cli.__main__ import perform
from joulie_cli.arguments import MANAGED, VERBS, make_parser, make_parsers
from joulie_cli.cluster import connect
from joulie_cli.layout import plain
from joulie_cli.verbs.top import TopView, screen
from joulie_cli.views.rows import NodeRow
from joulie_core.labels import MANAGED as MANAGED_KEY
from joulie_core.labels import PREFIX, SLEEP_RECORD, SLEEP_STATE
from joulie_core.savings import EstimateRange, Lever, LeverRate, SavingsLedger
from joulie_core.timestamps import epoch_seconds, rfc3339
from joulie_core.units import JOULES_PER_KWH
from joulie_testing.api import (
    FakeApiServer,
    Respond,
    make_node_bmc,
    make_node_hardware,
    make_pod,
    make_power_domain,
    make_power_event,
)
from joulie_testing.cli import ago, extender_service, make_event, managed_node, service_pod

_HEAD: Final = """\
# kubectl joulie

What Joulie does in a cluster, and why, on the command line. Only `wake` and `maintenance` change anything. What is
unknown is shown as `-` or `unknown`, never as 0. `kubectl joulie VERB --help` has the options and an example of each
verb.

## Install

```sh
pip install ./libs/joulie-core ./libs/joulie-api ./libs/joulie-cli
kubectl joulie status
```

kubectl finds the program `kubectl-joulie` on `PATH`, and `kubectl_complete-joulie` beside it for completion. Without
kubectl, `kubectl-joulie status` does the same. `--kubeconfig` and `--context` choose the cluster, else `KUBECONFIG` or
`~/.kube/config`. Tables fit 80 columns on a terminal; in a pipe nothing is cut. `-o json` and `-o yaml` have every
field, with `null` for what is unknown. Output is coloured on a terminal only, unless `NO_COLOR` is set.

| exit code | meaning |
|---|---|
| 0 | done; for `doctor`: nothing found |
| 1 | `doctor` found something to act on; `wake`: a node does not wake, or not in time |
| 2 | the command line is wrong |
| 3 | the API server, the extender or Prometheus cannot be reached, forbids a request, or has nothing of what is asked |

## Permissions

The chart has a ClusterRole `joulie-viewer` for everything but `explain`, and in its namespace a Role `joulie-viewer`
for the proxy of the extender's Service, which `explain` and a check of `doctor` use, and for the ConfigMap
`joulie-energy-factors`, of which `energy` and `savings` take money and CO2e:

```sh
kubectl create clusterrolebinding joulie-viewers --clusterrole joulie-viewer --group sre
kubectl create rolebinding joulie-viewers -n joulie-system --role joulie-viewer --group sre
```

Where savings are estimated (`operator.savings.enabled`), a Role `joulie-viewer-savings` beside them reads the ledger.

`energy --since` asks a Prometheus, which `--prometheus` names. Behind a Service it is reached through the API server's
proxy, for which users need `get` on `services/proxy` there, as of the Service `prometheus-operated` with the port 9090:

```sh
kubectl create role prometheus-reader -n monitoring --verb=get --resource=services/proxy \\
  --resource-name=http:prometheus-operated:9090
kubectl create rolebinding prometheus-readers -n monitoring --role prometheus-reader --group sre
```

Who may do that can read all that this Prometheus has, of all namespaces.

`wake` and `maintenance` patch Nodes, which this role does not permit. RBAC knows no single annotations: who may patch
Nodes can label, taint and cordon all of them. A role for administrators who may:

```sh
kubectl create clusterrole joulie-waker --verb=get,list,patch --resource=nodes
kubectl create clusterrolebinding joulie-wakers --clusterrole joulie-waker --group sre-leads
```

A verb that lacks a permission names it. `status` and `doctor` go on without what they may not read, and say so.

## Completion

`source <(kubectl joulie completion bash)`, or `zsh`, `fish`: verbs, options, and names of nodes and pods.
"""
_FOOT: Final = "\nThis page is generated: `just docs`.\n"
_SERVER: Final = "https://10.0.0.1:6443"
#: What the extender answers for a pod; scores and terms as its formula gives them.
_EXPLANATION: Final[dict[str, Any]] = {
    "scorePolicy": "headroom_v1",
    "cluster": {"trendWPerMin": 0.0, "trendScale": 6.0, "perfPressure": 0.0, "problem": None},
    "pod": {"cpu_cores": 8.0, "gpus": 0.0, "memory_bytes": 0.0, "workload_class": "performance"},
    "nodes": [
        {
            "nodeName": name,
            "score": score,
            "terms": {"headroom": score - 15.0, "cooling": 15.0, "trend": 0.0, "profile": 0.0, "pressure": 0.0},
            "marginalCpuW": 21.0,
            "marginalGpuW": 0.0,
            "neutral": None,
            "filter": {"allowed": allowed, "reason": reason, "message": message},
        }
        for name, score, allowed, reason, message in (
            ("epyc-0", 46.1, True, "PerformanceNode", "node supplies performance"),
            ("epyc-1", 43.9, True, "PerformanceNode", "node supplies performance"),
            ("xeon-0", 74.3, False, "EcoNode", "joulie: node is eco, performance pods are kept off it"),
            (
                "xeon-1", 60.0, False, "DrainingNode",
                "joulie: node is draining towards eco, performance pods are kept off it",
            ),
        )
    ],
}  # fmt: skip
_LIMITED: Final = {
    "reason": "ClockLimited",
    "allowedSlowdown": "10%",
    "clockMhz": 1282,
    "heldClockMhz": 1410,
    "now": {
        "clockBound": "none",
        "limited": False,
        "savedWatts": {"lower": 43.3, "upper": 70.1},
        "slowdownPct": {"lower": 0.0, "upper": 10.0},
    },
}


def _not_limited(reason: str, bound: str) -> dict[str, Any]:
    return {"reason": reason, "now": {"clockBound": bound, "limited": False}}


#: GPUs of one node: one of a standard pod, one that a performance pod shares, one of a pod that has just started.
_DEVICES: Final = [
    {"uuid": f"GPU-{index}", "index": index, "heldAs": held_as, "reason": reason, "message": message,
     "holderCount": len(holders), "watts": watts, "holders": [
         {"namespace": "ml", "pod": pod, "container": "main", "workloadClass": workload_class}
         for pod, workload_class in holders], "classLimit": limit}
    for index, (held_as, reason, message, watts, limit, *holders) in enumerate((
        ("standard", "AllStandard", "", 287.5, _LIMITED, ("train-0", "standard")),
        ("performance", "PerformancePod", "", 301.0, _not_limited("NoSlowdownAllowed", "none"),
         ("batch-7", "standard"), ("serve-1", "performance")),
        ("unknown", "PodTooNew", "pod ml/train-1", 62.0, _not_limited("HolderUnknown", "idle"), ("train-1", "unknown")),
        ("free", "NoPod", "", 58.5, _not_limited("Free", "idle")),
    ))
]  # fmt: skip
_ENERGY_ROWS: Final = (
    ("ml", "job/train", "gpu", "measured", 41.2, 41.2, 41.2),
    ("ml", "deployment/serve", "gpu", "allocated", 12.9, 0.0, 25.8),
    ("ml", "job/train", "cpu", "allocated", 6.1, 4.4, 7.9),
    ("shop", "deployment/web", "cpu", "allocated", 2.3, 1.6, 3.2),
)
_ENERGY: Final = {
    "devices": [
        {"device": device, "podsJoules": pods * JOULES_PER_KWH, "idleJoules": idle * JOULES_PER_KWH,
     "unattributedJoules": rest * JOULES_PER_KWH}
        for device, pods, idle, rest in (("cpu", 8.4, 9.8, 1.2), ("gpu", 54.1, 3.3, 0.6))
    ],
    "workloads": [
        {"namespace": namespace, "workload": workload, "device": device, "kind": kind,
         "joules": joules * JOULES_PER_KWH, "lowerJoules": lower * JOULES_PER_KWH,
         "upperJoules": upper * JOULES_PER_KWH}
        for namespace, workload, device, kind, joules, lower, upper in _ENERGY_ROWS
    ],
}  # fmt: skip
#: The command that is shown of each verb.
_COMMANDS: Final = {
    "status": ("status",),
    "nodes": ("nodes",),
    "explain": ("explain", "pod", "train", "-n", "ml"),
    "why-pending": ("why-pending", "train", "-n", "ml"),
    "profile": ("profile", "xeon-1"),
    "devices": ("devices", "epyc-0"),
    "energy": ("energy",),
    "doctor": ("doctor",),
    "events": ("events",),
    "sleep": ("sleep",),
    "savings": ("savings", "--since", "7d", "--price", "0.25"),
    "power": ("power",),
    "event": ("event", "call-1"),
    "wake": ("wake", "--all", "--for", "4h"),
}
_TIME: Final = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
#: An age in seconds depends on how long the page takes.
_AGE: Final = re.compile(r"\b\d+s ago")


async def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    _, verbs = make_parsers()
    async with FakeApiServer() as server:
        _fill(server)
        with tempfile.TemporaryDirectory() as directory:
            kubeconfig = server.kubeconfig(Path(directory))
            for verb in VERBS:
                if verb == "sleep":
                    _put_to_sleep(server)
                if verb == "savings":
                    _save(server)
                if verb == "power":
                    _feed(server)
                if verb == "event":
                    _call(server)
                shown = _AGE.sub("5s ago", _TIME.sub("2026-06-01T18:00:00Z", await _shown(verb, kubeconfig)))
                parts.append(f"\n## {verb}\n\n{verbs[verb].description}\n")
                if shown:
                    parts.append(f"\n```text\n{shown.replace(server.url, _SERVER)}```\n")
    return "".join(parts) + _FOOT


async def _shown(verb: str, kubeconfig: Path) -> str:
    """Return the example of a verb, with its output; empty where it has none."""
    if verb == "top":
        rows = await _rows(kubeconfig)
        lines = screen(rows, TopView(), server=_SERVER, problem=None, width=80, height=9)
        return f"$ kubectl joulie top\n{plain(lines)}"
    if verb not in _COMMANDS:
        return ""
    arguments = _COMMANDS[verb]
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        await perform(make_parser().parse_args([*arguments, "--kubeconfig", str(kubeconfig)]))
    return f"$ kubectl joulie {' '.join(arguments)}\n{written.getvalue()}"


async def _rows(kubeconfig: Path) -> list[NodeRow]:
    async with connect(Namespace(kubeconfig=str(kubeconfig), context=None)) as cluster:
        return await cluster.rows(MANAGED)


def _fill(server: FakeApiServer) -> None:
    """Make a cluster of four nodes with a draining node, a locked firmware and a pod that waits."""
    # Ages of minutes, so that the page does not depend on the second in which it is made.
    age_s = 125.0
    policy = {"name": "queue_aware_v1", "reason": "2 of 4 nodes supply performance"}
    condition = {"type": "Draining", "status": "True", "reason": "PerformancePods", "lastTransitionTime": ago(905)}
    nodes = (
        managed_node("epyc-0", watts=412, cap=720, headroom=43, age_s=age_s),
        managed_node("epyc-1", watts=433, cap=720, headroom=40, age_s=age_s, quality="modelled"),
        managed_node("xeon-0", "eco", watts=61, cap=420, headroom=85, age_s=age_s,
                     cpu={"result": "blocked", "reason": "FirmwareLocked", "enforcedWatts": None}),
        managed_node("xeon-1", "eco", draining=True, watts=240, cap=700, headroom=66, age_s=age_s,
                     conditions=(condition,)),
    )  # fmt: skip
    for objects in nodes:
        server.put_all(objects)
        name = objects[0]["metadata"]["name"]
        server.patch("NodePowerProfile", name, {"spec": {"policy": policy, "cpu": {"packagePowerCapPctOfMax": 100}}})
        server.put_all([make_node_hardware(name), service_pod("agent", name, owner="DaemonSet")])
    energy = {**_ENERGY, "since": ago(3 * 86_400 + 60), "updatedAt": ago(10)}
    server.patch("TelemetryProfile", "epyc-0", {"status": {"devices": _DEVICES, "energy": energy}})
    for component in ("operator", "extender"):
        server.put_all(service_pod(component, node) for node in ("epyc-0", "epyc-1"))
    server.put_all([*(_role(component) for component in SERVICES), extender_service()])
    server.put(make_pod("train", "ml", cpu=8, workload_class="performance"))
    text = "planned eco, but 1 performance pod is still on the node: draining under performance caps"
    message = f"ActivePerformance -> DrainingPerformance: {text}"
    server.put(make_event("Node", "xeon-1", "EcoDeferred", message, at=ago(905)))
    message = "0/4 nodes are available: 2 Insufficient cpu, 2 node(s) were rejected by the extender."
    server.put(
        make_event("Pod", "train", "FailedScheduling", message, component="default-scheduler", namespace="ml",
                   at=ago(605))
    )  # fmt: skip
    answer = msgspec.json.encode(_EXPLANATION)
    server.faults.add(Respond(200, body=answer), path="/proxy/debug/explain", times=None)
    metrics = b'joulie_scheduler_filter_requests_total{workload_class="standard"} 214.0\n'
    server.faults.add(Respond(200, body=metrics), path="/proxy/metrics", times=None)


def _put_to_sleep(server: FakeApiServer) -> None:
    """Let one node sleep, whose BMC measures, and another one go to sleep."""
    record = {
        "sleeps": 41,
        "cycles": [time.time() - 30_000, time.time() - 7300],
        "idleWatts": 231,
        "idleMeasured": True,
    }
    for name, state, reason in (("xeon-0", "asleep", "off confirmed"), ("xeon-1", "draining", "cordon seen")):
        metadata = {"labels": {SLEEP_STATE: state}, "annotations": {SLEEP_RECORD: msgspec.json.encode(record).decode()}}
        condition = {
            "type": f"{PREFIX}Asleep",
            "reason": state.capitalize(),
            "message": f"{state.capitalize()}: {reason}",
            "lastTransitionTime": ago(7250),
        }
        server.patch("Node", name, {"metadata": metadata, "status": {"conditions": [condition]}})
    reachable = {"type": "Reachable", "status": "True", "reason": "Answers"}
    off = {"powerState": "Off", "powerWatts": 14, "sampledAt": ago(5), "conditions": [reachable]}
    server.put(make_node_bmc("xeon-0", status=off))
    status = {
        "nodes": {"selected": 4, "awake": 2, "asleep": 1, "draining": 1},
        "powerCycles": {"limit": 4, "used": 2, "total": 4, "exhausted": 0},
        "rackBoots": {"limit": 10, "used": 0, "full": 0, "withoutRack": 0},
        "refusals": [{"reason": "no_bmc", "nodes": 2}],
    }
    body = {"apiVersion": "joulie.io/v1alpha1", "kind": "NodeSleepPolicy", "metadata": {"name": "night"}}
    server.put(body | {"spec": {"nodeSelector": {MANAGED_KEY: "true"}, "mode": "Act"}, "status": status})


def _feed(server: FakeApiServer) -> None:
    """Let a feed have two racks, one with a node of which nothing is known."""
    accepted = {"type": "Accepted", "status": "True", "reason": "Valid"}
    above = {"type": "Held", "status": "False", "reason": "AboveLimit"}
    unknown = {"type": "Held", "status": "Unknown", "reason": "PowerUnknown"}
    racks = (
        ("feed-1", 3_000, None, unknown, (845, 61, 1), None, 2_500, (4, 1)),
        ("rack-1", 1_600, "feed-1", above, (845, 0, 0), 2_240, 1_600, (2, 0)),
        ("rack-2", 1_500, "feed-1", unknown, (None, 61, 1), None, 900, (2, 1)),
    )
    for name, limit, parent, held, (measured, modelled, unread), may_draw, allocated, (nodes, missing) in racks:
        drawn = {"measuredWatts": measured, "modelledWatts": modelled or None, "unknownNodes": unread}
        sums = {"inForceWatts": may_draw, "allocatedWatts": allocated, "nodes": nodes, "unknownNodes": missing}
        status = {"mode": "Observe", "lastUpdated": ago(5), "drawn": drawn, "conditions": [accepted, held], **sums}
        server.put(make_power_domain(name, limit_watts=limit, parent=parent, status=status))


def _call(server: FakeApiServer) -> None:
    """Let a feed have an event with a gap."""
    first_s = epoch_seconds("2026-06-01T17:30:00Z")
    assert first_s is not None, "it is a time"
    minutes, missing = [], 15
    for number in range(30):
        held, after = number in range(5, 25), number in range(26, 30)
        minute = {"start": rfc3339(first_s + 60 * number, "seconds"), "baselineWatts": 2_600, "samples": 6}
        drawn = 1_790 + number % 3 * 10 if held else 2_600 - after * 60
        if held:
            minute["targetWatts"] = 1_820
        if number != missing:
            minute |= {"drawnWatts": drawn, "quality": "measured"}
        minutes.append(minute)
    status = {
        "state": "Ended", "lastUpdated": ago(5), "deliverableWatts": 1_400, "baselineWatts": 2_600,
        "drawnWatts": 2_540, "secondsTo90Percent": 21.4, "meanErrorWhileHeld": -1.1, "reboundPercent": -2.3,
        "affected": {"standardNodes": 3}, "minutes": minutes,
        "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted",
                        "message": "the limit goes from 3000 W to 1820 W; 1400 W could be delivered"}],
    }  # fmt: skip
    times = {"start": "2026-06-01T17:35:00Z", "end": "2026-06-01T17:55:00Z", "standing": None}
    spec = {"domain": "feed-1", "limitWatts": None, "reduceByPercent": 30, "baseline": "LastHour", **times}
    server.put(make_power_event("call-1", status=status, mayAffect=["standard"], **spec))


def _save(server: FakeApiServer) -> None:
    """Let a ledger of savings have two days, with an hour of which nothing is known."""
    # A little before the minute, so that the page does not depend on the second in which it is made.
    now_s = time.time() - 125.0
    ledger = SavingsLedger.begin(now_s - 49.5 * 3_600.0)
    ledger.add_unknown(now_s - 48.5 * 3_600.0)
    rates = {
        Lever.SLEEP: LeverRate(EstimateRange(410.0, 434.0, 458.0)),
        Lever.CAPS: LeverRate(),
        Lever.SCORE: LeverRate(EstimateRange(62.0, 118.0, 174.0)),
    }
    ledger.add(rates, now_s)
    metadata = {"name": LEDGER_NAME, "namespace": "joulie-system"}
    server.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata} | ledger_manifest(ledger))


def _role(component: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "joulie", "app.kubernetes.io/component": component}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"joulie-{component}", "labels": labels},
        "rules": [grant.rule() for grant in SERVICES[component].cluster],
    }


if __name__ == "__main__":
    sys.exit(finish(ROOT / "docs" / "kubectl-joulie.md", asyncio.run(page()), "just docs"))
