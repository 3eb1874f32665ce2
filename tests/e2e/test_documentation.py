"""The commands of helm and kubectl in the documentation, run as they are written, in one cluster, in their order."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.chart import NAMESPACE, Helm
from tests.doc_commands import ON_A_CLUSTER
from tests.e2e.release import Release
from tests.e2e.shell import Shell, find_kubectl, make_shell
from tests.e2e.waiting import eventually

from joulie_api.errors import NotFound
from joulie_api.resources import (
    CRDS,
    LEASES,
    NAMESPACES,
    NODE_BMCS,
    NODE_POWER_PROFILES,
    NODE_TWINS,
    NODES,
    PODS,
    POWER_DOMAINS,
    POWER_EVENTS,
    SECRETS,
    TELEMETRY_PROFILES,
    Resource,
)
from joulie_core.labels import MANAGED
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.fixtures import ClusterFactory
from joulie_testing.api import (
    make_node_bmc,
    make_node_power_profile,
    make_node_twin,
    make_pod,
    make_power_domain,
    make_power_event,
    make_telemetry_profile,
)

pytestmark = pytest.mark.e2e

_NODE, _POD = "epyc-0", "train"
#: What stands for a name in the commands.
_NAMES = {"NODE": _NODE, "POD": _POD, "VERB": "status"}
#: No services run, so that there is something to find, no ledger of savings, and no agent that says what holds a GPU or
#: adds up energy.
_EXIT_CODES = {
    "kubectl joulie doctor": 1,
    f"kubectl joulie devices {_NODE}": 3,
    "kubectl joulie energy": 3,
    "kubectl joulie savings --since 7d --price 0.25 --grams-per-kwh 350": 3,
}
#: Of BMCs, as they were before the out-of-band service asked for approved addresses.
_OLD_SECRETS = {"bmc": {"username": "joulie", "password": "secret"}, "bmc-ca": {"ca.crt": "certificates"}}
_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)


@pytest_asyncio.fixture
async def release(fresh_devcluster: ClusterFactory, helm: Helm, tmp_path: Path) -> AsyncIterator[Release]:
    """Nothing is installed yet, and no node is managed."""
    cluster = await fresh_devcluster(
        nodes=(NodeClass(name="epyc", count=2, cpu=CpuClass(model="AMD-EPYC-9654", cores=192), managed=False),)
    )
    async with await cluster.client(user_agent="joulie-tests") as client:
        yield Release(cluster, client, replace(helm, home=tmp_path, kubeconfig=cluster.kubeconfig), tmp_path)


@pytest.fixture
def shell(release: Release, tmp_path: Path) -> Shell:
    tools = {"helm": release.helm.path, "kubectl": find_kubectl()}
    return make_shell(tmp_path, tools, release.cluster.kubeconfig, names=_NAMES, exit_codes=_EXIT_CODES)


@pytest.mark.timeout(600)
async def test_the_commands_of_the_pages_do_what_the_pages_say(release: Release, shell: Shell) -> None:
    client = release.client
    await _serve_kinds_of_the_prometheus_operator(release)
    checks = {
        ("docs/install.md", "Installation and removal"): _is_installed,
        ("docs/live-page.md", "Opening it"): _has_the_page,
        ("docs/monitoring.md", "Monitoring"): _has_monitors,
        ("docs/power-budgets.md", "Begin"): _observes_power_domains,
        ("docs/power-budgets.md", "Enforce"): _enforces_power_domains,
        ("docs/power-events.md", "The call"): _has_no_event,
        ("docs/power-budgets.md", "Leave"): _observes_none,
        ("docs/upgrade.md", "Steps"): _has_the_new_kind,
        ("docs/upgrade.md", "Secrets of BMCs"): _approves_the_addresses_and_certificates,
        ("docs/install.md", "Uninstalling"): _is_gone,
        ("docs/security.md", "Namespaces and Pod Security"): _are_two_releases,
    }
    for page, section in ON_A_CLUSTER:
        await shell.section(page, section)
        if (page, section) in checks:
            await checks.pop((page, section))(release)
        if section == "Installation and removal":
            await _install_an_older_kind(release)
            # What the services would write; here their pods have no processes.
            await client.create(PODS, make_pod(_POD, "default", cpu=100_000, workload_class="performance"), "default")
            for resource, made in (
                (NODE_POWER_PROFILES, make_node_power_profile(_NODE, "performance")),
                (NODE_TWINS, make_node_twin(_NODE, "performance")),
                (TELEMETRY_PROFILES, make_telemetry_profile(_NODE)),
                (POWER_DOMAINS, make_power_domain("rack-1")),
                (POWER_EVENTS, make_power_event("call-1")),
                (NODE_BMCS, make_node_bmc(_NODE)),
                (
                    NODE_BMCS,
                    make_node_bmc(
                        "epyc-1", spec={"credentialsSecretRef": {"name": "other"}, "address": "https://192.0.2.2"}
                    ),
                ),
            ):
                await client.create(resource, made)
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "joulie-operator"}}
            await client.create(LEASES, lease, NAMESPACE)
            for name, entries in _OLD_SECRETS.items():
                secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": entries}
                await client.create(SECRETS, secret, NAMESPACE)
    assert not checks


async def _install_an_older_kind(release: Release) -> None:
    """Take a field from a CRD, as if Helm had installed it from an older chart."""
    crd = await _read(release, CRDS, "nodetwins.joulie.io")
    _status_fields(crd).pop("schedulableClass")
    path, query = CRDS.object_path("nodetwins.joulie.io"), (("fieldManager", "helm"),)
    await release.client.request("PUT", path, query=query, body=crd)


async def _has_the_new_kind(release: Release) -> None:
    assert "schedulableClass" in _status_fields(await _read(release, CRDS, "nodetwins.joulie.io"))


def _status_fields(crd: dict[str, Any]) -> dict[str, Any]:
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields: dict[str, Any] = schema["properties"]["status"]["properties"]
    return fields


async def _approves_the_addresses_and_certificates(release: Release) -> None:
    data = (await _read(release, SECRETS, "bmc", NAMESPACE))["data"]
    assert {key: b64decode(value).decode() for key, value in data.items()} == {
        **_OLD_SECRETS["bmc"],
        **_OLD_SECRETS["bmc-ca"],
        "addresses": "https://192.0.2.1",
    }


async def _serve_kinds_of_the_prometheus_operator(release: Release) -> None:
    for kind in ("PodMonitor", "PrometheusRule"):
        plural = f"{kind.lower()}s"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {
                "group": "monitoring.coreos.com",
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        await release.client.create(CRDS, crd)


async def _is_installed(release: Release) -> None:
    assert (await _read(release, NODES, _NODE))["metadata"]["labels"][MANAGED] == "true"

    async def runs() -> None:
        assert [each["spec"]["nodeName"] for each in await release.pods("agent")] == [_NODE]
        assert len(await release.pods("operator")) == 2

    await eventually(runs, within_s=60)
    env = (await _read(release, _DEPLOYMENTS, "joulie-operator", NAMESPACE))["spec"]["template"]["spec"]
    assert {"name": "POLICY_TYPE", "value": "queue_aware_v1"} in env["containers"][0]["env"]


async def _observes_power_domains(release: Release) -> None:
    spec = (await _read(release, _DEPLOYMENTS, "joulie-operator", NAMESPACE))["spec"]["template"]["spec"]
    assert {"name": "POWER_DOMAINS", "value": "Observe"} in spec["containers"][0]["env"]


async def _enforces_power_domains(release: Release) -> None:
    spec = (await _read(release, _DEPLOYMENTS, "joulie-operator", NAMESPACE))["spec"]["template"]["spec"]
    assert {"name": "POWER_DOMAINS", "value": "Enforce"} in spec["containers"][0]["env"]


async def _has_no_event(release: Release) -> None:
    assert await release.client.list(POWER_EVENTS) == []


async def _observes_none(release: Release) -> None:
    spec = (await _read(release, _DEPLOYMENTS, "joulie-operator", NAMESPACE))["spec"]["template"]["spec"]
    assert "POWER_DOMAINS" not in {each["name"] for each in spec["containers"][0]["env"]}
    assert await release.client.list(POWER_DOMAINS) == []


async def _has_the_page(release: Release) -> None:
    spec = (await _read(release, _DEPLOYMENTS, "joulie-operator", NAMESPACE))["spec"]["template"]["spec"]
    assert "UI_ADDR" in {each["name"] for each in spec["containers"][0]["env"]}


async def _has_monitors(release: Release) -> None:
    monitors = Resource("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor", namespaced=True)
    found = await release.client.list(monitors, NAMESPACE)
    assert len(found) == 3
    assert {each["metadata"]["labels"]["release"] for each in found} == {"kube-prometheus-stack"}


async def _is_gone(release: Release) -> None:
    assert await release.run("list", "--short") == ""
    assert not [each for each in await release.client.list(CRDS) if each["spec"]["group"] == "joulie.io"]
    assert MANAGED not in (await _read(release, NODES, _NODE))["metadata"]["labels"]
    with pytest.raises(NotFound):
        await release.client.get(NAMESPACES, NAMESPACE)


async def _are_two_releases(release: Release) -> None:
    listed = json.loads(await asyncio.to_thread(release.helm.run, "list", "--all-namespaces", "--output", "json"))
    assert {(each["name"], each["namespace"]) for each in listed} == {
        ("joulie", NAMESPACE),
        ("joulie-agents", "joulie-agents"),
    }


async def _read(release: Release, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await release.client.get(resource, name, namespace))
    return found
