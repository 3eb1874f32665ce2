"""`kubectl joulie` on a real control plane, as a user who has the role joulie-viewer and nothing else."""

import asyncio
import shutil
from collections.abc import Mapping
from typing import Any

import pytest
from tests.e2e.plugin import Plugin
from tests.e2e.proxied_backend import ProxiedBackend
from tests.e2e.system import System
from tests.e2e.view import count
from tests.e2e.waiting import eventually

from joulie_api.energy_factors import FACTORS_NAME
from joulie_api.permissions import VIEWER
from joulie_api.resources import CONFIG_MAPS, PODS, TELEMETRY_PROFILES
from joulie_core.units import JOULES_PER_KWH
from joulie_devcluster.control_plane.manifests import apply_manifests
from joulie_sim.stack.stack import NAMESPACE
from joulie_testing.api import make_telemetry_profile

pytestmark = pytest.mark.e2e

_RBAC = "rbac.authorization.k8s.io"
_USER = "eve"
_SERVICE = "joulie-scheduler-extender"


@pytest.mark.system(
    operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "0.5"},
    agent={"RECONCILE_INTERVAL": "2s"},
)
async def test_every_verb_works_for_a_user_who_may_only_read(system: System) -> None:
    async def planned() -> None:
        assert count(await system.view.profiles()) == {"performance": 6, "eco": 6}

    await eventually(planned, within_s=60)
    await _grant(system)
    plugin = Plugin(system.stack.cluster.issue_kubeconfig(_USER))
    await _cannot_write(plugin)
    await _shows_nodes(plugin, system)
    await _explains(plugin, system)
    await _counts_money(plugin, system)
    await _checks(plugin)


async def _grant(system: System) -> None:
    """Install the role as the chart has it."""
    manifests: list[Mapping[str, Any]] = []
    in_namespace = (*VIEWER.namespace, *VIEWER.energy_factors)
    scopes = (("ClusterRole", VIEWER.cluster, {}), ("Role", in_namespace, {"namespace": NAMESPACE}))
    for kind, grants, scope in scopes:
        metadata = {"name": "joulie-viewer", **scope}
        rules = [
            grant.rule() | ({"resourceNames": [f"http:{_SERVICE}:http", FACTORS_NAME]} if grant.by_name else {})
            for grant in grants
        ]
        subject = {"apiGroup": _RBAC, "kind": "User", "name": _USER}
        reference = {"apiGroup": _RBAC, "kind": kind, "name": "joulie-viewer"}
        role = {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}
        binding = {**role, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}
        binding.pop("rules")
        manifests += [role, binding]
    await apply_manifests(system.view.client, manifests)


async def _cannot_write(plugin: Plugin) -> None:
    if shutil.which("kubectl"):
        process = await asyncio.create_subprocess_exec(
            "kubectl", "label", "node", "h100-0", "a=b", "--kubeconfig", str(plugin.kubeconfig),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, err = await process.communicate()
        assert b"forbidden" in err.lower()
    text = await plugin.run("wake", "h100-0", code=3)
    assert "cannot patch resource" in text
    assert "wake needs get, list and patch on nodes" in text


async def _shows_nodes(plugin: Plugin, system: System) -> None:
    profiles = await system.view.profiles()

    async def complete() -> None:
        found = {node["name"]: node for node in (await plugin.data("nodes"))["nodes"]}
        assert {name: node["profile"] for name, node in found.items()} == profiles
        assert all(node["watts"] and node["quality"] == "measured" for node in found.values()), found
        assert all(node["controls"] for node in found.values()), found

    await eventually(complete, within_s=60)
    table = await plugin.run("nodes", "--sort", "watts")
    assert len(table.splitlines()) == 13
    status = await plugin.data("status")
    assert status["power"]["total"]["nodesByQuality"] == {"measured": 12}
    assert status["power"]["byProfile"]["eco"]["nodes"] == 6
    assert "12 managed" in await plugin.run_by_kubectl("status")
    eco = next(name for name, profile in profiles.items() if profile == "eco")
    profile = await plugin.run("profile", eco)
    assert "static_partition" in profile
    assert "Planned is True" in profile
    assert eco in await plugin.run("events")
    assert "forbidden" not in await plugin.run("profile", "nix", code=3)


async def _explains(plugin: Plugin, system: System) -> None:
    client, namespace = system.view.client, system.view.namespace
    huge = {"cpu": 10_000, "workload_class": "performance"}
    (pod,) = await system.view.create_pods(1, "train", **huge)

    async def refused() -> None:
        events = (await plugin.data("why-pending", pod, "-n", namespace))["events"]
        assert any(event["reason"] == "FailedScheduling" for event in events), events

    await eventually(refused, within_s=60)
    reason = await plugin.data("why-pending", pod, "-n", namespace)
    counts = {each["reason"]: len(each["nodes"]) for each in reason["filterResults"]}
    assert counts == {"PerformanceNode": 6, "EcoNode": 6}
    await plugin.run("why-pending", pod, "-n", namespace)
    url = system.stack.extender_url
    text = await plugin.run("explain", "pod", pod, "-n", namespace, "--extender-url", url)
    assert "6 allowed, 6 refused" in text
    assert "Performance pods" in await plugin.run("explain", "node", "h100-0", "--extender-url", url)
    assert "is not installed" in await plugin.run("explain", "node", "h100-0", code=3)

    # The proxy of a Service, first without endpoints: the role lets the request through, and no pod answers.
    labels = {"app.kubernetes.io/name": "joulie", "app.kubernetes.io/component": "extender"}
    await ProxiedBackend(client, NAMESPACE, _SERVICE, "http").create(9876, labels)
    assert "cannot reach the extender" in await plugin.run("explain", "node", "h100-0", code=3)
    await _explains_through_the_proxy(plugin, system, pod)
    await client.delete(PODS, pod, namespace)


async def _counts_money(plugin: Plugin, system: System) -> None:
    """Money and CO2e by the ConfigMap, of a report that a node of which there is no agent has left."""
    client, kwh = system.view.client, JOULES_PER_KWH
    made = make_telemetry_profile("metered")
    await client.create(TELEMETRY_PROFILES, {key: value for key, value in made.items() if key != "status"})
    sums = {"joules": 2 * kwh, "lowerJoules": kwh, "upperJoules": 3 * kwh}
    row = {"namespace": "ml", "workload": "job/train", "device": "cpu", "kind": "allocated", **sums}
    energy = {"since": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-02T00:00:00Z", "workloads": [row]}
    await client.merge_patch(TELEMETRY_PROFILES, "metered", {"status": {"energy": energy}}, subresource="status")
    assert "EUR" not in await plugin.run("energy")
    data = {"pricePerKwh": "0.25", "currency": "EUR"}
    factors = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FACTORS_NAME}, "data": data}
    await client.create(CONFIG_MAPS, factors, NAMESPACE)
    (found,) = (await plugin.data("energy"))["workloads"]
    assert found["money"] == {"lower": 0.25, "point": 0.5, "upper": 0.75}
    await client.merge_patch(CONFIG_MAPS, FACTORS_NAME, {"data": {"pricePerKwh": "NaN"}}, NAMESPACE)
    text = await plugin.run("energy", code=3)
    assert "key pricePerKwh: 'NaN'" in text
    assert "job/train" in text
    await client.delete(CONFIG_MAPS, FACTORS_NAME, NAMESPACE)
    await client.delete(TELEMETRY_PROFILES, "metered")


async def _explains_through_the_proxy(plugin: Plugin, system: System, pod: str) -> None:
    backend = ProxiedBackend(system.view.client, NAMESPACE, _SERVICE, "http")
    async with backend.answers(system.stack.cluster.extender_port):

        async def proxied() -> None:
            text = await plugin.run("explain", "pod", pod, "-n", system.view.namespace)
            assert "6 allowed, 6 refused" in text
            assert f"Extender        {_SERVICE}" in text

        await eventually(proxied, within_s=30)
        assert "Performance pods" in await plugin.run("explain", "node", "h100-0")
        assert "does not know it" in await plugin.run("explain", "node", "nix", code=3)


async def _checks(plugin: Plugin) -> None:
    checks = (await plugin.data("doctor"))["checks"]
    assert not [each for each in checks if each["state"] == "finding"]
    states = {each["check"]: each["state"] for each in checks}
    assert {states[name] for name in ("CRDs", "targets", "agents", "twins", "caps", "labels")} == {"ok"}
    # They are processes here, without pods.
    assert states["services"] == "not checked"
    await plugin.run("doctor")
