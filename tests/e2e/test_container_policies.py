"""The node agent on a real control plane: which configuration a node gets, and what the status says about it."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from services.containers.tests.node_agent.scripted_manager import ScriptedManager
from tests.e2e.waiting import eventually

from joulie_api.client import KubeClient
from joulie_api.errors import Invalid
from joulie_api.resources import (
    ADJUSTMENTS,
    BALLOONS_POLICIES,
    CRDS,
    EVENTS,
    NODE_POWER_PROFILES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    TEMPLATE_POLICIES,
    TOPOLOGY_AWARE_POLICIES,
    Resource,
)
from joulie_containers.resource_api.cluster import ClusterClient
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.kinds import API_VERSION
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack

pytestmark = pytest.mark.e2e

_NODE = "n1"
_GROUP = "joulie.io/container-policy-group"
_WRITTEN = (
    TEMPLATE_POLICIES,
    TOPOLOGY_AWARE_POLICIES,
    BALLOONS_POLICIES,
    ADJUSTMENTS,
    NODE_POWER_PROFILES,
    NODES,
)


@dataclass(slots=True)
class NodeUnderTest:
    """A node with a node agent, and a scripted resource manager."""

    client: KubeClient
    manager: ScriptedManager
    stack: JoulieStack
    cluster_socket: Path

    async def write(self, resource: Resource, name: str, spec: Mapping[str, Any]) -> None:
        body = {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
        await self.client.create(resource, body)

    async def entry(self, resource: Resource, name: str) -> dict[str, Any] | None:
        found = json.loads(await self.client.get(resource, name))
        entry: dict[str, Any] | None = found.get("status", {}).get("nodes", {}).get(_NODE)
        return entry

    async def until_entry(self, resource: Resource, name: str, **expected: Any) -> dict[str, Any]:
        async def holds() -> None:
            entry = await self.entry(resource, name) or {}
            assert expected.items() <= entry.items(), entry

        await eventually(holds, within_s=15)
        return await self.entry(resource, name) or {}

    async def until_no_entry(self, resource: Resource, name: str) -> None:
        async def holds() -> None:
            assert await self.entry(resource, name) is None

        await eventually(holds, within_s=15)


@pytest_asyncio.fixture
async def node(devcluster: DevCluster, tmp_path: Path) -> AsyncIterator[NodeUnderTest]:
    stack = JoulieStack(devcluster)
    await stack.install()
    manager, cluster_socket = ScriptedManager(tmp_path / "manager.sock"), tmp_path / "agent.sock"
    await manager.start()
    env = {
        "NODE_NAME": _NODE,
        "RESOURCE_MANAGER_SOCKET": str(manager.socket),
        "NODE_AGENT_SOCKET": str(cluster_socket),
    }
    async with await devcluster.client() as client:
        await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE}})
        try:
            await stack.start(Service.CONTAINERS, "joulie-containers-n1", env=env)
            yield NodeUnderTest(client, manager, stack, cluster_socket)
        finally:
            await stack.down()
            await manager.stop()
            for resource in _WRITTEN:
                for each in await client.list(resource):
                    if resource is not NODES or each["metadata"]["name"] == _NODE:
                        await client.delete(resource, each["metadata"]["name"])


async def test_the_node_precedes_its_group_and_the_default_and_the_end_leaves_no_entry(node: NodeUnderTest) -> None:
    cpus = {"reservedResources": {"cpu": "750m"}}
    await node.write(TEMPLATE_POLICIES, "default", cpus)
    entry = await node.until_entry(TEMPLATE_POLICIES, "default", status="Success", generation=1)
    assert "timestamp" in entry
    await node.client.merge_patch(NODES, _NODE, {"metadata": {"labels": {_GROUP: "a"}}})
    await node.until_no_entry(TEMPLATE_POLICIES, "default")
    await node.write(TOPOLOGY_AWARE_POLICIES, "group.a", cpus)
    await node.until_entry(TOPOLOGY_AWARE_POLICIES, "group.a", status="Success")
    await node.write(TEMPLATE_POLICIES, f"node.{_NODE}", cpus)
    await node.until_entry(TEMPLATE_POLICIES, f"node.{_NODE}", status="Success")
    await node.until_no_entry(TOPOLOGY_AWARE_POLICIES, "group.a")
    pushed = [json.loads(each) if each else None for each in node.manager.configs]
    assert [(each["kind"], each["metadata"]["name"]) for each in pushed if each] == [
        ("TemplatePolicy", "default"),
        ("TopologyAwarePolicy", "group.a"),
        ("TemplatePolicy", f"node.{_NODE}"),
    ]
    assert pushed[-1]["spec"] == cpus
    await node.stack.down()
    assert await node.entry(TEMPLATE_POLICIES, f"node.{_NODE}") is None


async def test_a_bad_object_is_refused_by_its_status_and_two_kinds_are_a_conflict(node: NodeUnderTest) -> None:
    node.manager.refusals["cpuset:9999"] = "spec.availableResources.cpu: CPU 9999 does not exist"
    await node.write(TEMPLATE_POLICIES, "default", {"availableResources": {"cpu": "cpuset:9999"}})
    entry = await node.until_entry(TEMPLATE_POLICIES, "default", status="Failure", generation=1)
    assert entry["errors"] == "spec.availableResources.cpu: CPU 9999 does not exist"
    await node.client.merge_patch(TEMPLATE_POLICIES, "default", {"spec": {"availableResources": {"cpu": "cpuset:0"}}})
    entry = await node.until_entry(TEMPLATE_POLICIES, "default", status="Success", generation=2)
    assert "errors" not in entry
    await node.write(TOPOLOGY_AWARE_POLICIES, "default", {})
    for resource in (TEMPLATE_POLICIES, TOPOLOGY_AWARE_POLICIES):
        entry = await node.until_entry(resource, "default", status="Failure")
        assert "apply to this node" in entry["errors"]


async def test_errors_of_adjustments_come_and_go(node: NodeUnderTest) -> None:
    node.manager.errors = {"bad": {"": "no such class", "ns/p/main": "x" * 2000}}
    await node.write(ADJUSTMENTS, "bad", {"classes": {"cpu": "none"}})
    await node.write(ADJUSTMENTS, "elsewhere", {"scope": [{"nodes": ["other-*"]}], "classes": {"cpu": "eco"}})
    entry = await node.until_entry(ADJUSTMENTS, "bad", generation=1)
    assert (entry["errors"]["spec"], len(entry["errors"]["ns/p/main"])) == ("no such class", 1024)
    assert list(node.manager.adjustments[-1]) == ["bad"]
    node.manager.errors = {}
    await node.client.merge_patch(ADJUSTMENTS, "bad", {"spec": {"classes": {"cpu": "eco"}}})
    await node.until_no_entry(ADJUSTMENTS, "bad")


async def test_the_schema_refuses_what_no_resource_manager_could_read(node: NodeUnderTest) -> None:
    for resource, spec, field in (
        (ADJUSTMENTS, {"classes": {"cpu": ""}}, "spec.classes.cpu"),
        (ADJUSTMENTS, {"scope": [{"containers": [{"key": "name", "operator": "Equals"}]}]}, "spec.scope[0].containers"),
        (TEMPLATE_POLICIES, {"reservedPoolNamespaces": [""]}, "spec.reservedPoolNamespaces[0]"),
    ):
        with pytest.raises(Invalid) as refusal:
            await node.write(resource, "bad", spec)
        assert field in refusal.value.message


async def test_the_resource_manager_changes_the_node_and_gets_its_profile(node: NodeUnderTest) -> None:
    await node.write(NODE_POWER_PROFILES, _NODE, {"nodeName": _NODE, "profile": "eco"})
    await node.manager.until(lambda: node.manager.profiles == ["eco"])
    node.manager.status = pb.ManagerStatus(extended_resources={"cpuclass.joulie.io/eco-milli": 4000})
    cluster = ClusterClient(node.cluster_socket)
    try:
        taint = pb.Taint(key="joulie.io/eco", value="yes", effect="PreferNoSchedule")
        await cluster.set_labels({"joulie.io/class": "eco"})
        await cluster.set_annotations({"joulie.io/note": "any text"})
        await cluster.set_taints([taint])
        await cluster.record_events([pb.PodEvent(namespace="default", pod="p", pod_uid="u", reason="R", message="m")])
        assert (await cluster.labels())["joulie.io/class"] == "eco"
        assert (await cluster.annotations())["joulie.io/note"] == "any text"
        assert taint in await cluster.taints()
        await cluster.remove_labels(["joulie.io/class"])
        await cluster.remove_taints([taint])
        assert "joulie.io/class" not in await cluster.labels()
        assert taint not in await cluster.taints()

        async def published() -> None:
            assert (await cluster.capacity()).get("cpuclass.joulie.io/eco-milli") == "4k"

        await eventually(published, within_s=15)

        async def recorded() -> None:
            events = await node.client.list(EVENTS, "default")
            assert [each for each in events if each["involvedObject"]["uid"] == "u" and each["message"] == "m"]

        await eventually(recorded, within_s=15)
    finally:
        await cluster.close()


@pytest_asyncio.fixture
async def topology_kind(devcluster: DevCluster) -> AsyncIterator[None]:
    """The kind NodeResourceTopology, which a cluster has where another component has installed it."""
    group, plural = NODE_RESOURCE_TOPOLOGIES.group, NODE_RESOURCE_TOPOLOGIES.plural
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": NODE_RESOURCE_TOPOLOGIES.version, "served": True, "storage": True}
    crd = {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"},
        },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": NODE_RESOURCE_TOPOLOGIES.kind},
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }
    async with await devcluster.client() as client:
        await client.create(CRDS, crd)

        async def served() -> None:
            found = json.loads(await client.get(CRDS, f"{plural}.{group}"))
            # Just created, it may have a status with `conditions: null`.
            conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions") or ()}
            assert conditions.get("Established") == "True"

        await eventually(served, within_s=15)
        yield
        await client.delete(CRDS, f"{plural}.{group}")


async def test_zones_are_published_while_the_configuration_in_force_wants_them(
    topology_kind: None, node: NodeUnderTest
) -> None:
    zone = pb.Zone(name="root", kind="machine", cpus="0-3", capacity_milli=4000)

    def in_force(*, wanted: bool) -> pb.ManagerStatus:
        manifest = json.dumps({"spec": {"agent": {"nodeResourceTopology": wanted}}})
        configuration = pb.ActiveConfiguration(policy="balloons", manifest=manifest)
        return pb.ManagerStatus(node_name=_NODE, configuration=configuration, zones=[zone])

    async def published() -> None:
        found = await node.client.list(NODE_RESOURCE_TOPOLOGIES)
        assert [(each["metadata"]["name"], each["zones"][0]["name"]) for each in found] == [(_NODE, "root")]

    async def withdrawn() -> None:
        assert await node.client.list(NODE_RESOURCE_TOPOLOGIES) == []

    node.manager.status = in_force(wanted=True)
    await eventually(published, within_s=30)
    node.manager.status = in_force(wanted=False)
    await eventually(withdrawn, within_s=30)
