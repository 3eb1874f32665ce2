"""Every statement of docs/security.md about what a token may write, tried on a real API server by a dry run.

One cluster for the file, with a release in daemonset mode and one in pool mode. The tokens are those that the kubelet
would mount: bound to a pod.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.chart import CHART, NAMESPACE, RESOURCES, VEN, Helm, Values
from tests.e2e.release import Release
from tests.e2e.waiting import eventually
from tests.token_rights import (
    MAY_SLEEP,
    NAMED_AS_VENS,
    OTHER,
    OWN,
    PERMITTED,
    PERSONS_EVENT,
    ROLE,
    STATEMENTS,
    UNMANAGED,
    VEN_EVENT,
    Statement,
    Token,
    power_event,
)

from joulie_api.client import KubeClient
from joulie_api.errors import Forbidden
from joulie_api.resources import (
    BALLOONS_POLICIES,
    CRDS,
    NODE_BMCS,
    NODE_POWER_BUDGETS,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_TWINS,
    PODS,
    POWER_EVENTS,
    SECRETS,
    TELEMETRY_PROFILES,
    Resource,
)
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.fixtures import Starter
from joulie_testing.api import make_node_power_budget

# The clients belong to the loop of the fixture.
pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

_CPU = CpuClass(model="AMD-EPYC-9654", cores=192)
_NODES = (NodeClass(name="epyc", count=2, cpu=_CPU), NodeClass(name="other", cpu=_CPU, managed=False))
_VALUES: Values = {
    "operator": {"sleep": {"enabled": True}},
    "outofband": {"enabled": True, "secrets": ["bmc"]},
    "agent": {"resourceManager": {"enabled": True}},
    **VEN,
}
_ACCOUNTS = {
    Token.OPERATOR: "joulie-operator",
    Token.AGENT: "joulie-agent",
    Token.POOL: "pool-joulie-agent",
    Token.EXTENDER: "joulie-scheduler-extender",
    Token.OUT_OF_BAND: "joulie-outofband",
    Token.VEN: "joulie-ven",
    Token.RESTORE: "joulie-restore",
}
_RBAC = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def clients(
    start_cluster: Starter, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[Token, KubeClient]]:
    """The API server as each token may use it, on a cluster with objects of every kind."""
    cluster = await start_cluster(ClusterConfig(nodes=_NODES))
    try:
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(await cluster.client(user_agent="joulie-tests"))
            tmp_path = tmp_path_factory.mktemp("rights")
            release = Release(cluster, admin, replace(helm, home=tmp_path, kubeconfig=cluster.kubeconfig), tmp_path)
            await release.install(_VALUES)
            pool = {"agent": {"mode": "pool"}, "operator": {"enabled": False}, "extender": {"enabled": False}}
            command = ("install", "pool", str(CHART), "--wait", "--timeout", "60s", "--values", "-")
            await release.run(*command, values=pool)
            await _create_objects(admin)
            await _create_hooks_account(release)
            found = {}
            for token, account in _ACCOUNTS.items():
                path = await release.kubeconfig(account, await _pod(release, token))
                client = await KubeClient.connect(kubeconfig=str(path), user_agent="joulie-tests")
                found[token] = await stack.enter_async_context(client)
            await _policies_are_in_force(found)
            yield found
    finally:
        await cluster.down()


async def _create_objects(admin: KubeClient) -> None:
    await admin.create(CRDS, _topology_crd())
    for name in ("bmc", "other"):
        await admin.create(SECRETS, _body(SECRETS, name, stringData={"username": "u"}), NAMESPACE)
    for namespace in ("default", "kube-system"):
        containers = [{"name": "web", "image": "web"}]
        await admin.create(PODS, _body(PODS, "web", spec={"containers": containers}), namespace)
    for node in (OWN, OTHER, UNMANAGED):
        spec = {
            "nodeName": node,
            "protocol": "redfish",
            "address": "https://10.0.0.17",
            "credentialsSecretRef": {"name": "bmc"},
            "caSecretRef": {"name": "bmc"},
            "powerOff": "Allowed" if node in MAY_SLEEP else "Never",
        }
        await admin.create(NODE_BMCS, _body(NODE_BMCS, node, spec=spec))
        target = {"target": {"scope": "node", "nodeName": node}}
        await admin.create(TELEMETRY_PROFILES, _body(TELEMETRY_PROFILES, node, spec=target))
        await admin.create(NODE_TWINS, _body(NODE_TWINS, node, spec={"nodeName": node}))
        await admin.create(NODE_POWER_BUDGETS, make_node_power_budget(node))
    await admin.create(BALLOONS_POLICIES, _body(BALLOONS_POLICIES, "default", spec={}))
    await admin.create(POWER_EVENTS, power_event(VEN_EVENT, "joulie-ven"))
    for name in (PERSONS_EVENT, NAMED_AS_VENS):
        await admin.create(POWER_EVENTS, power_event(name, None))

    async def served() -> None:
        await admin.list(NODE_RESOURCE_TOPOLOGIES)

    await eventually(served, within_s=30)


async def _create_hooks_account(release: Release) -> None:
    """As Helm does at an uninstall: the account exists while the hooks run."""
    for manifest in release.helm.render(_VALUES):
        if manifest["metadata"]["name"] == "joulie-restore" and manifest["kind"] in _RBAC:
            resource = RESOURCES[manifest["kind"]]
            await release.client.create(resource, manifest, NAMESPACE if resource.namespaced else None)


async def _pod(release: Release, token: Token) -> dict[str, object] | None:
    if token is Token.RESTORE:
        return None
    if token is Token.POOL:
        (pod,) = await release.pods_by("app.kubernetes.io/instance=pool,app.kubernetes.io/component=agent")
        return pod
    component = {Token.OUT_OF_BAND: "outofband", Token.VEN: "ven"}.get(token, token.value)
    pods = await release.pods(component)
    return next(pod for pod in pods if token is not Token.AGENT or pod["spec"]["nodeName"] == OWN)


async def _policies_are_in_force(clients: dict[Token, KubeClient]) -> None:
    """The API server learns of policies and roles by watches."""
    first = {(each.token, each.answer): each for each in reversed(STATEMENTS)}
    for each in first.values():

        async def answered(statement: Statement = each) -> bool:
            return await _answer(clients[statement.token], statement) == statement.answer

        await eventually(answered, within_s=30, what=each.row)


async def _answer(client: KubeClient, statement: Statement) -> str:
    try:
        await _send(client, statement)
    except Forbidden as error:
        _, found, rest = str(error).partition("ValidatingAdmissionPolicy '")
        return rest.partition("'")[0] if found else ROLE
    return PERMITTED


async def _send(client: KubeClient, statement: Statement) -> None:
    query = () if statement.method == "GET" else (("dryRun", "All"), ("fieldManager", "joulie-tests"))
    if statement.content_type.startswith("application/apply"):
        query += (("force", "true"),)
    await client.request(
        statement.method, statement.path, query=query, body=statement.body, content_type=statement.content_type
    )


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: f"{each.token.name.lower()}: {each.attempt}")
async def test_a_token_may_do_what_the_page_says_and_no_more(clients: dict[Token, KubeClient], statement: Statement):
    client = clients[statement.token]
    if statement.answer == PERMITTED:
        await _send(client, statement)
        return
    with pytest.raises(Forbidden) as refused:
        await _send(client, statement)
    message = str(refused.value)
    if statement.answer == ROLE:
        assert "ValidatingAdmissionPolicy" not in message
    else:
        assert f"ValidatingAdmissionPolicy '{statement.answer}'" in message
        assert statement.says in message
        assert "admissionPolicy.enabled" in message


def _body(resource: Resource, name: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **fields}


def _topology_crd() -> dict[str, object]:
    """The kind of the API topology.node.k8s.io, without its schema."""
    res = NODE_RESOURCE_TOPOLOGIES
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": res.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = _body(CRDS, f"{res.plural}.{res.group}")
    # The group belongs to Kubernetes; the API server wants to know who approved a CRD in it.
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}
    body["metadata"] = {"name": f"{res.plural}.{res.group}", "annotations": approved}
    names = {"plural": res.plural, "kind": res.kind}
    body["spec"] = {"group": res.group, "scope": "Cluster", "names": names, "versions": [version]}
    return body
