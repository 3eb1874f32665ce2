"""The chart on a real control plane: what it renders is accepted, a release works with its own rights, and goes."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from tests.chart import (
    CHART,
    MATRIX,
    NAMESPACE,
    POOL,
    RESOURCES,
    ROOT,
    SLEEP_PRESET,
    Helm,
    HelmError,
    Manifest,
    containers,
    env_of,
    find,
)
from tests.e2e.release import Release
from tests.e2e.waiting import eventually

from joulie_api.client import KubeClient
from joulie_api.errors import Forbidden, NotFound
from joulie_api.resources import (
    CRDS,
    NAMESPACES,
    NODE_HARDWARES,
    NODE_POWER_PROFILES,
    NODE_SLEEP_POLICIES,
    NODES,
    PODS,
    Resource,
)
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.fixtures import ClusterFactory
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_sim.stack.roles import load_roles, user_of
from joulie_sim.stack.service import JoulieService, Service

pytestmark = pytest.mark.e2e

#: Three nodes of which two are managed.
NODE_CLASSES = (
    NodeClass(name="epyc", count=2, cpu=CpuClass(model="AMD-EPYC-9654", cores=192)),
    NodeClass(name="other", cpu=CpuClass(model="AMD-EPYC-9654", cores=192), managed=False),
)

#: Roles of `load_roles` for what the installed release does not do.
_NOT_IN_THE_RELEASE = (
    "joulie-sim",
    "joulie-agent-class-limits",
    "joulie-agent-resource-manager",
    "joulie-operator-savings",
    "joulie-operator-power-budgets",
    "joulie-operator-power-domains",
    "joulie-ven",
)
#: A line of docs/security.md: verb, resource, namespace or nothing, account, answer.
_CAN_I = re.compile(
    rf"^kubectl auth can-i (\S+) (\S+) (?:-n (\S+) )?--as=system:serviceaccount:{NAMESPACE}:(\S+) +# (yes|no)$",
    re.MULTILINE,
)


@pytest_asyncio.fixture
async def release(fresh_devcluster: ClusterFactory, helm: Helm, tmp_path: Path) -> AsyncIterator[Release]:
    """Nothing is installed yet."""
    cluster = await fresh_devcluster(nodes=NODE_CLASSES)
    async with await cluster.client(user_agent="joulie-tests") as client:
        yield Release(cluster, client, replace(helm, home=tmp_path, kubeconfig=cluster.kubeconfig), tmp_path)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
async def test_the_api_server_accepts_every_object(helm: Helm, kube_client: KubeClient, kube_namespace: str, values):
    for manifest in helm.render(values, release="accepted", namespace=kube_namespace):
        resource = RESOURCES[manifest["kind"]]
        assert resource.api_version == manifest["apiVersion"]
        path = resource.collection_path(kube_namespace if resource.namespaced else None)
        query = (("dryRun", "All"), ("fieldValidation", "Strict"))
        await kube_client.request("POST", path, query=query, body=manifest)


@pytest_asyncio.fixture
async def restricted(kube_client: KubeClient, kube_namespace: str) -> str:
    """A namespace that enforces the Pod Security level `restricted`."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await kube_client.merge_patch(NAMESPACES, kube_namespace, label)
    return kube_namespace


@pytest.mark.parametrize(
    "values", [{}, POOL, {"agent": {"watchdog": {"enabled": True}}}], ids=["default", "pool", "dog"]
)
async def test_all_pods_but_those_on_the_nodes_meet_the_restricted_level(
    helm: Helm, kube_client: KubeClient, restricted: str, values
):
    workloads = [each for each in helm.render(values, namespace=restricted) if "template" in each.get("spec", {})]
    assert workloads
    for workload in workloads:
        # Permissions of the account are of no interest here; it would have to exist.
        spec = {**workload["spec"]["template"]["spec"], "serviceAccountName": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        creation = kube_client.request("POST", PODS.collection_path(restricted), query=(("dryRun", "All"),), body=pod)
        if workload["kind"] == "DaemonSet":
            with pytest.raises(Forbidden, match=r'violates PodSecurity "restricted.*hostPath'):
                await creation
        else:
            await creation


async def test_a_release_works_with_its_own_accounts_and_goes(release: Release):
    out_of_band = {"enabled": True, "secrets": ["bmc"]}
    values = {
        "agent": {"headersSecrets": ["bmc"]},
        "outofband": out_of_band,
        "operator": {"sleep": {"enabled": True}},
    }
    assert "percentageOfNodesToScore: 100" in await release.install(values)
    assert {pod["spec"]["nodeName"] for pod in await release.pods("agent")} == {"epyc-0", "epyc-1"}
    assert len(await release.pods("extender")) == 2
    assert len(await release.pods("operator")) == 2
    await _rights_are_as_written(release)
    await _answers_of_the_security_page_are_right(release)
    await _services_work(release)

    await release.run("uninstall", "joulie", "--timeout", "60s")
    assert await release.run("list", "--short") == ""

    async def gone() -> None:
        assert await release.left() == []

    await eventually(gone, within_s=60)
    crds = {each["metadata"]["name"] for each in await release.client.list(CRDS)}
    assert "nodepowerprofiles.joulie.io" in crds


async def test_a_release_keeps_letting_nodes_sleep_while_some_are_off(release: Release):
    await release.install({**SLEEP_PRESET, "agent": {"enabled": False}})
    policy = {"apiVersion": "joulie.io/v1alpha1", "kind": "NodeSleepPolicy", "metadata": {"name": "night"}}
    spec = {"nodeSelector": {"joulie.io/managed": "true"}}
    await release.client.create(NODE_SLEEP_POLICIES, {**policy, "spec": spec})

    async def leave(**nodes: int) -> str:
        status = {"status": {"nodes": nodes}}
        await release.client.merge_patch(NODE_SLEEP_POLICIES, "night", status, subresource="status")
        values = {"preset": "score", "agent": {"enabled": False}}
        return await release.run("upgrade", "joulie", str(CHART), "--values", "-", values=values)

    with pytest.raises(HelmError, match=r"3 of the NodeSleepPolicy night are off: .*docs/presets\.md"):
        await leave(awake=5, asleep=2, waking=1)
    operator = json.loads(await release.client.get(RESOURCES["Deployment"], "joulie-operator", NAMESPACE))
    assert env_of(containers(operator)["operator"])["SLEEP_ENABLED"] == "true"
    await leave(awake=8, asleep=0, waking=0)
    operator = json.loads(await release.client.get(RESOURCES["Deployment"], "joulie-operator", NAMESPACE))
    assert "SLEEP_ENABLED" not in env_of(containers(operator)["operator"])


async def test_an_uninstall_that_cannot_restore_fails_and_can_be_undone_or_repeated(release: Release):
    # The hook's first pod finds no node to run on.
    await release.install({"uninstall": {"nodeSelector": {"hooks": "here"}}})
    await _uninstall_fails(release)
    assert await release.run("list", "--short") == "joulie\n"
    assert len(await release.pods("agent")) == 2
    assert not [name for _, name in await release.left() if "restore" in name]

    # What the hook has done when it fails late.
    await release.client.delete(RESOURCES["Deployment"], "joulie-operator", NAMESPACE)
    await release.client.delete(RESOURCES["DaemonSet"], "joulie-agent", NAMESPACE)
    await release.run("rollback", "joulie", "1", "--wait", "--timeout", "60s")
    assert "deployed" in await release.run("status", "joulie")
    assert len(await release.pods("agent")) == 2
    assert len(await release.pods("operator")) == 2

    await _uninstall_fails(release)
    await release.client.merge_patch(NODES, "other-0", {"metadata": {"labels": {"hooks": "here"}}})
    await release.run("uninstall", "joulie", "--timeout", "60s")
    assert await release.run("list", "--short") == ""


async def _uninstall_fails(release: Release) -> None:
    with pytest.raises(HelmError, match="joulie-restore-withdraw"):
        await release.run("uninstall", "joulie", "--timeout", "6s")


async def _rights_are_as_written(release: Release) -> None:
    for role in load_roles():
        if role["metadata"]["name"] in _NOT_IN_THE_RELEASE:
            continue
        service = user_of(role)
        account = "joulie-scheduler-extender" if service == "joulie-extender" else service
        namespace = NAMESPACE if role["kind"] == "Role" else ""
        for rule in role["rules"]:
            name = "bmc" if rule["resources"] == ["secrets"] else ""
            for group, resource, verb in [
                (g, r, v) for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]
            ]:
                assert await _may(release, account, verb, group, resource, namespace, name), (account, verb, resource)
    for account, verb, group, resource, namespace, name in [
        ("joulie-agent", "get", "", "secrets", NAMESPACE, "other"),
        ("joulie-agent", "list", "", "secrets", NAMESPACE, ""),
        ("joulie-agent", "patch", "", "nodes", "", ""),
        ("joulie-agent", "patch", "joulie.io", "nodepowerprofiles", "", ""),
        ("joulie-agent", "list", "", "pods", "", ""),
        ("joulie-operator", "delete", "", "pods", NAMESPACE, ""),
        ("joulie-operator", "get", "", "secrets", NAMESPACE, ""),
        ("joulie-operator", "delete", "joulie.io", "nodehardwares", "", ""),
        ("joulie-operator", "patch", "joulie.io", "telemetryprofiles", "", ""),
        ("joulie-scheduler-extender", "patch", "", "nodes", "", ""),
        ("joulie-scheduler-extender", "patch", "joulie.io", "nodetwins", "", ""),
    ]:
        assert not await _may(release, account, verb, group, resource, namespace, name), (account, verb, resource)


async def _answers_of_the_security_page_are_right(release: Release) -> None:
    found = _CAN_I.findall((ROOT / "docs" / "security.md").read_text())
    assert len(found) == 10
    for verb, resource, namespace, account, answer in found:
        plural, _, group = resource.partition(".")
        allowed = await _may(release, account, verb, group, plural, namespace, "")
        assert allowed == (answer == "yes"), (account, verb, resource)


async def _may(release: Release, account: str, *access: str) -> bool:
    verb, group, resource, namespace, name = access
    plural, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "resourceAttributes": {**attributes, "namespace": namespace, "name": name},
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(json.loads(await release.client.request("POST", path, body=body))["status"]["allowed"])


async def _services_work(release: Release) -> None:
    """Operator, agent and extender, as processes here: with the environment and the tokens that their pods have."""
    manifests = [each for each in yaml.safe_load_all(await release.run("get", "manifest", "joulie")) if each]
    started = [
        await _start(release, Service.AGENT, find(manifests, "DaemonSet", "joulie-agent"), "controller"),
        await _start(release, Service.OPERATOR, find(manifests, "Deployment", "joulie-operator"), "operator"),
        await _start(release, Service.EXTENDER, find(manifests, "Deployment", "joulie-scheduler-extender"), "extender"),
    ]
    try:
        for service in started:
            await service.wait_ready()
        await eventually(lambda: _exists(release, NODE_HARDWARES, "epyc-0"), within_s=20, what="no NodeHardware")
        await eventually(lambda: _exists(release, NODE_POWER_PROFILES, "epyc-0"), within_s=20, what="no target")
    finally:
        for service in reversed(started):
            await service.stop()


async def _start(release: Release, service: Service, workload: Manifest, container: str) -> JoulieService:
    port = free_port()
    component = workload["metadata"]["labels"]["app.kubernetes.io/component"]
    pod = min(await release.pods(component), key=lambda each: str(each["spec"]["nodeName"]))
    own = {
        "KUBECONFIG": str(await release.kubeconfig(pod["spec"]["serviceAccountName"], pod)),
        "METRICS_ADDR": f"{LOOPBACK}:{port}",
        "EXTENDER_ADDR": f"{LOOPBACK}:{free_port()}",
        "NODE_NAME": "epyc-0",
        "POD_NAME": "pod-0",
        "POD_NAMESPACE": NAMESPACE,
    }
    env = {key: value or "" for key, value in env_of(containers(workload)[container]).items()} | own
    log_path = release.tmp_path / f"{service}.log"
    process = JoulieService(service, str(service), metrics_port=port, env=env, log_path=log_path)
    await process.start()
    return process


async def _exists(release: Release, resource: Resource, name: str) -> bool:
    try:
        await release.client.get(resource, name)
    except NotFound:
        return False
    return True
