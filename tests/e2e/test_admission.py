"""What tokens of agents may write, decided by the admission policies of the chart on a real API server.

One cluster for the file: two managed nodes and one that is not, agents of a release in daemonset mode and of one in
pool mode. The tokens are bound to pods that the DaemonSet's and the StatefulSet's controllers created.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.chart import CHART, NAMESPACE, Helm
from tests.e2e.release import Release
from tests.e2e.waiting import eventually

from joulie_api.client import KubeClient
from joulie_api.errors import Forbidden, Invalid
from joulie_api.resources import (
    BALLOONS_POLICIES,
    EVENTS,
    NODE_HARDWARES,
    NODES,
    TELEMETRY_PROFILES,
    Resource,
)
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.fixtures import Starter

pytestmark = pytest.mark.e2e

_CPU = CpuClass(model="AMD-EPYC-9654", cores=192)
_NODES = (NodeClass(name="epyc", count=2, cpu=_CPU), NodeClass(name="other", cpu=_CPU, managed=False))
OWN, OTHER, UNMANAGED = "epyc-0", "epyc-1", "other-0"
AGENT, POOL_AGENT = "joulie-agent", "pool-joulie-agent"
_WAY_OUT = "agent.admissionPolicy.enabled"
_MANAGED_BY_AGENT = {"app.kubernetes.io/managed-by": "joulie-agent"}
_OFF = {"enabled": False}
#: Entries in the status of a container policy beside the own one: the most that the CRD allows.
_MANY = 4999


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(start_cluster: Starter, helm: Helm, tmp_path_factory: pytest.TempPathFactory):
    """A cluster with both releases; their pods run."""
    cluster = await start_cluster(ClusterConfig(nodes=_NODES))
    try:
        async with await cluster.client(user_agent="joulie-tests") as client:
            tmp_path = tmp_path_factory.mktemp("releases")
            release = Release(cluster, client, replace(helm, home=tmp_path, kubeconfig=cluster.kubeconfig), tmp_path)
            await release.install({"operator": _OFF, "extender": _OFF, "agent": {"resourceManager": {"enabled": True}}})
            pool = {"agent": {"mode": "pool"}, "operator": _OFF, "extender": _OFF}
            command = ("install", "pool", str(CHART), "--wait", "--timeout", "60s", "--values", "-")
            await release.run(*command, values=pool)
        yield cluster
    finally:
        await cluster.down()


@pytest_asyncio.fixture
async def release(cluster: DevCluster, helm: Helm, tmp_path: Path) -> AsyncIterator[Release]:
    """The release in daemonset mode."""
    async with await cluster.client(user_agent="joulie-tests") as client:
        yield Release(cluster, client, replace(helm, home=tmp_path, kubeconfig=cluster.kubeconfig), tmp_path)


@asynccontextmanager
async def _client(release: Release, account: str, pod: Mapping[str, Any] | None) -> AsyncIterator[KubeClient]:
    kubeconfig = await release.kubeconfig(account, None if pod is None else dict(pod))
    async with await KubeClient.connect(kubeconfig=str(kubeconfig), user_agent="joulie-tests") as client:
        yield client


@pytest_asyncio.fixture
async def agent(release: Release) -> AsyncIterator[KubeClient]:
    """The API server as the agent on OWN may use it. The policy is known to be enforced."""
    pod = next(pod for pod in await release.pods("agent") if pod["spec"]["nodeName"] == OWN)
    async with _client(release, AGENT, pod) as client:
        # The API server learns of a policy by a watch.
        await eventually(lambda: _is_refused(client, NODE_HARDWARES, _hardware(OTHER)), within_s=30)
        yield client


@pytest_asyncio.fixture
async def pool_agent(release: Release) -> AsyncIterator[KubeClient]:
    """The API server as an agent of the pool may use it."""
    selector = "app.kubernetes.io/instance=pool,app.kubernetes.io/component=agent"
    (pod,) = await release.pods_by(selector)
    async with _client(release, POOL_AGENT, pod) as client:
        await eventually(lambda: _is_refused(client, NODE_HARDWARES, _hardware(UNMANAGED)), within_s=30)
        yield client


@pytest_asyncio.fixture(autouse=True)
async def no_objects_of_other_tests(release: Release) -> AsyncIterator[None]:
    """Nothing of a test is left for the next."""
    yield
    for resource in (NODE_HARDWARES, TELEMETRY_PROFILES, BALLOONS_POLICIES):
        await release.client.request("DELETE", resource.collection_path())


def _body(resource: Resource, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **fields}


def _hardware(node: str, *, of: str | None = None) -> dict[str, Any]:
    return _body(NODE_HARDWARES, node, spec={"nodeName": of or node})


def _profile(node: str, *, of: str | None = None, generated: bool = True) -> dict[str, Any]:
    body = _body(TELEMETRY_PROFILES, node, spec={"target": {"scope": "node", "nodeName": of or node}})
    body["metadata"]["labels"] = _MANAGED_BY_AGENT if generated else {}
    return body


async def _apply(client: KubeClient, resource: Resource, body: dict[str, Any], subresource: str | None = None) -> None:
    name = body["metadata"]["name"]
    await client.apply(resource, name, body, field_manager="joulie-agent", subresource=subresource)


async def _is_refused(client: KubeClient, resource: Resource, body: dict[str, Any]) -> bool:
    path = resource.object_path(body["metadata"]["name"])
    query = (("fieldManager", "joulie-agent"), ("force", "true"), ("dryRun", "All"))
    try:
        await client.request("PATCH", path, query=query, body=body, content_type="application/apply-patch+yaml")
    except Forbidden:
        return True
    return False


async def test_an_agent_writes_and_deletes_the_objects_of_its_own_node(agent: KubeClient):
    for resource, body in ((NODE_HARDWARES, _hardware(OWN)), (TELEMETRY_PROFILES, _profile(OWN))):
        await _apply(agent, resource, body)
        await _apply(agent, resource, _body(resource, OWN, status={}), "status")
        await agent.delete(resource, OWN)


@pytest.mark.parametrize(
    ("resource", "body"),
    [(NODE_HARDWARES, _hardware(OTHER)), (TELEMETRY_PROFILES, _profile(OTHER))],
    ids=["NodeHardware", "TelemetryProfile"],
)
async def test_an_agent_is_refused_the_objects_of_another_node_by_name(
    agent: KubeClient, release: Release, resource: Resource, body: dict[str, Any]
):
    def message(verb: str, what: str = resource.plural) -> str:
        return f"Joulie's agent on node {OWN} may not {verb} {what} {OTHER}, only objects of its own node"

    with pytest.raises(Forbidden, match=message("create")) as refused:
        await _apply(agent, resource, body)
    assert _WAY_OUT in str(refused.value)
    await release.client.create(resource, body)
    with pytest.raises(Forbidden, match=message("update")):
        await agent.merge_patch(resource, OTHER, {"metadata": {"annotations": {"a": "b"}}})
    with pytest.raises(Forbidden, match=message("update", f"{resource.plural}/status")):
        await _apply(agent, resource, _body(resource, OTHER, status={}), "status")
    with pytest.raises(Forbidden, match=message("delete")):
        await agent.delete(resource, OTHER)


async def test_a_token_that_is_bound_to_no_pod_is_refused(agent: KubeClient, release: Release):
    async with _client(release, AGENT, None) as unbound:
        with pytest.raises(Forbidden, match="has no node claim: only tokens that the kubelet mounts") as refused:
            await _apply(unbound, NODE_HARDWARES, _hardware(OWN))
    assert _WAY_OUT in str(refused.value)


async def test_a_token_that_is_bound_to_a_pod_of_another_node_is_refused(agent: KubeClient, release: Release):
    pod = next(pod for pod in await release.pods("agent") if pod["spec"]["nodeName"] == OTHER)
    async with _client(release, AGENT, pod) as elsewhere:
        with pytest.raises(Forbidden, match=f"on node {OTHER} may not create nodehardwares {OWN}"):
            await _apply(elsewhere, NODE_HARDWARES, _hardware(OWN))


async def test_an_object_of_the_own_node_names_no_other(agent: KubeClient):
    with pytest.raises(Invalid, match=r"nodeName must equal metadata\.name"):
        await _apply(agent, NODE_HARDWARES, _hardware(OWN, of=OTHER))
    with pytest.raises(Forbidden, match="only for its node"):
        await _apply(agent, TELEMETRY_PROFILES, _profile(OWN, of=OTHER))


async def test_a_profile_of_a_user_keeps_its_spec(agent: KubeClient, release: Release):
    await release.client.create(TELEMETRY_PROFILES, _profile(OWN, of=OTHER, generated=False))
    await _apply(agent, TELEMETRY_PROFILES, _body(TELEMETRY_PROFILES, OWN, status={}), "status")
    for patch in (
        {"spec": {"target": {"nodeName": OWN}}},
        {"metadata": {"labels": _MANAGED_BY_AGENT}},
    ):
        with pytest.raises(Forbidden, match="only while the agent manages it"):
            await agent.merge_patch(TELEMETRY_PROFILES, OWN, patch)
    with pytest.raises(Forbidden, match="only while the agent manages it"):
        await agent.delete(TELEMETRY_PROFILES, OWN)


async def test_the_marks_of_a_generated_profile_that_was_edited_can_be_removed(agent: KubeClient, release: Release):
    await release.client.create(TELEMETRY_PROFILES, _profile(OWN, of=OTHER))
    await agent.merge_patch(TELEMETRY_PROFILES, OWN, {"metadata": {"labels": dict.fromkeys(_MANAGED_BY_AGENT)}})


async def test_an_agent_writes_its_own_entry_of_a_shared_status(agent: KubeClient, release: Release):
    entries = {f"node-{number}": {"status": "Success", "generation": 1} for number in range(_MANY)}
    await release.client.create(BALLOONS_POLICIES, _body(BALLOONS_POLICIES, "default", spec={}))
    await _set_entries(release.client, entries)
    await _set_entries(agent, {OWN: {"status": "Success", "generation": 1}})
    await _set_entries(agent, {OWN: {"status": "Failure", "generation": 2}})
    await _set_entries(agent, {OWN: None})
    for changed in (
        {"node-7": None},
        {"node-7": {"status": "Failure"}},
        {OTHER: {"status": "Success", "generation": 1}},
    ):
        with pytest.raises(Forbidden, match="balloonspolicies/status default but for the entry of its own node"):
            await _set_entries(agent, changed)


async def _set_entries(client: KubeClient, entries: Mapping[str, Any]) -> None:
    await client.merge_patch(BALLOONS_POLICIES, "default", {"status": {"nodes": dict(entries)}}, subresource="status")


async def test_an_agent_changes_only_its_own_node_and_not_what_administrators_reserve(agent: KubeClient):
    await agent.merge_patch(NODES, OWN, {"metadata": {"labels": {"example.com/a": "b"}}})
    await agent.merge_patch(NODES, OWN, {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}})
    await agent.merge_patch(NODES, OWN, {"spec": {"taints": []}})
    await agent.merge_patch(NODES, OWN, {"status": {"capacity": {"example.com/slots": "3"}}}, subresource="status")
    with pytest.raises(Forbidden, match=f"may not update nodes {OTHER}, only objects of its own node"):
        await agent.merge_patch(NODES, OTHER, {"metadata": {"labels": {"example.com/a": "b"}}})
    reserved = {"metadata": {"labels": {"rack.node-restriction.kubernetes.io/secure": "true"}}}
    for patch in (reserved, {"spec": {"unschedulable": True}}):
        with pytest.raises(Forbidden, match=r"(node-restriction|unschedulable).*: it may set labels without"):
            await agent.merge_patch(NODES, OWN, patch)
    moved = {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}
    with pytest.raises(Forbidden, match=r"status\.addresses: .* extended resources"):
        await agent.merge_patch(NODES, OWN, moved, subresource="status")


async def test_an_agent_reports_events_of_pods_in_the_name_of_its_own_node_only(agent: KubeClient):
    await agent.create(EVENTS, _event("a", "Pod", OWN), NAMESPACE)
    for event in (_event("b", "Pod", OTHER), _event("c", "Node", OWN)):
        with pytest.raises(Forbidden, match="it may report about pods, with its own node as the source"):
            await agent.create(EVENTS, event, NAMESPACE)


def _event(name: str, kind: str, host: str) -> dict[str, Any]:
    return _body(
        EVENTS,
        name,
        involvedObject={"kind": kind, "name": "p", "namespace": NAMESPACE},
        source={"component": "joulie-agent", "host": host},
        reason="Test",
        message="test",
        type="Warning",
    )


async def test_others_than_the_agents_are_not_concerned(agent: KubeClient, release: Release):
    for node in (OWN, OTHER, UNMANAGED):
        await release.client.create(NODE_HARDWARES, _hardware(node))
        await release.client.delete(NODE_HARDWARES, node)


async def test_a_pool_agent_writes_objects_of_nodes_that_its_selector_matches(pool_agent: KubeClient):
    for node in (OWN, OTHER):
        await _apply(pool_agent, NODE_HARDWARES, _hardware(node))
        await _apply(pool_agent, TELEMETRY_PROFILES, _profile(node))
        await _apply(pool_agent, TELEMETRY_PROFILES, _body(TELEMETRY_PROFILES, node, status={}), "status")
    for resource, body in ((NODE_HARDWARES, _hardware(UNMANAGED)), (TELEMETRY_PROFILES, _profile(UNMANAGED))):
        match = (
            f"pool agents may not write {resource.plural} {UNMANAGED}, only of nodes that match joulie.io/managed=true"
        )
        with pytest.raises(Forbidden, match=match) as refused:
            await _apply(pool_agent, resource, body)
        assert _WAY_OUT in str(refused.value)


async def test_a_pool_agent_deletes_the_objects_of_a_node_that_left_its_selector(
    pool_agent: KubeClient, release: Release
):
    await release.client.create(NODE_HARDWARES, _hardware(UNMANAGED))
    await pool_agent.delete(NODE_HARDWARES, UNMANAGED)


async def test_a_pool_agents_token_that_is_bound_to_no_pod_is_refused(pool_agent: KubeClient, release: Release):
    async with _client(release, POOL_AGENT, None) as unbound:
        with pytest.raises(Forbidden, match="is not bound to a pod"):
            await _apply(unbound, NODE_HARDWARES, _hardware(OWN))
