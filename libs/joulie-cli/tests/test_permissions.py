"""The role for users of `kubectl joulie` grants what the verbs request, and nothing else."""

import asyncio
from contextlib import suppress

from joulie_api.permissions import VIEWER
from joulie_cli.__main__ import perform
from joulie_cli.arguments import VERBS, make_parser
from joulie_cli.cluster import ClusterReader
from joulie_cli.verbs.top import LiveNodes
from joulie_testing.api import Respond, make_node_hardware, make_pod, make_power_domain
from joulie_testing.cli import extender_service, managed_node

_VERBS = {
    "status": ("status",),
    "nodes": ("nodes",),
    "explain": ("explain", "pod", "train"),
    "why-pending": ("why-pending", "train"),
    "profile": ("profile", "n1"),
    "devices": ("devices", "n1"),
    "energy": ("energy",),
    "doctor": ("doctor",),
    "sleep": ("sleep",),
    "savings": ("savings",),
    "power": ("power", "rack"),
    "event": ("event",),
    "events": ("events", "-w"),
}
_PLURALS = {
    "Node": "nodes", "Pod": "pods", "Event": "events", "Service": "services", "ClusterRole": "clusterroles",
    "NodeHardware": "nodehardwares", "NodePowerProfile": "nodepowerprofiles", "NodeTwin": "nodetwins",
    "TelemetryProfile": "telemetryprofiles", "NodeBMC": "nodebmcs",
    "NodeSleepPolicy": "nodesleeppolicies", "ConfigMap": "configmaps",
    "PowerDomain": "powerdomains", "NodePowerBudget": "nodepowerbudgets",
    "PowerEvent": "powerevents",
}  # fmt: skip


async def test_every_verb_is_permitted_and_every_permission_is_used(fake_api, fake_client, tmp_path):
    fake_api.put_all([*managed_node("n1"), make_node_hardware("n1"), make_pod("train"), extender_service()])
    fake_api.put(make_power_domain("rack", status={"mode": "Enforce"}))
    fake_api.faults.add(Respond(503), path="/proxy/", times=None)
    kubeconfig = str(fake_api.kubeconfig(tmp_path))
    for arguments in _VERBS.values():
        task = asyncio.create_task(perform(make_parser().parse_args([*arguments, "--kubeconfig", kubeconfig])))
        if "-w" in arguments:
            await fake_api.wait_for(lambda: fake_api.watches("Event") == 2)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await _watch_as_top(fake_api, fake_client)

    granted = {(verb, name) for grant in VIEWER.everything for name in grant.names for verb in grant.verbs}
    used = {
        (request.verb, _PLURALS[request.kind] + (f"/{request.subresource}" if request.subresource else ""))
        for request in fake_api.requests
        if request.kind
    }
    assert used - granted == set()
    assert granted - used == set()
    # What these write is in no role of the chart: test_wake.py, test_maintenance.py.
    assert {"top", "completion", "wake", "maintenance", *_VERBS} == set(VERBS)


async def _watch_as_top(fake_api, client):
    nodes = LiveNodes(ClusterReader(client), [])
    tasks = [asyncio.create_task(each.run()) for each in nodes.watches]
    await fake_api.wait_for(lambda: all(fake_api.watches(kind) for kind in ("NodeTwin", "TelemetryProfile")))
    await fake_api.wait_for(lambda: fake_api.watches("NodePowerProfile"))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
