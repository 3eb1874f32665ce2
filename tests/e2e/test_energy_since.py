"""`kubectl joulie energy --since` through the proxy of a real API server, by a user who may do just that."""

import re
import shlex
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from tests.doc_commands import documented_commands
from tests.e2e.plugin import Plugin
from tests.e2e.proxied_backend import ProxiedBackend
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually
from tests.energy_history import AgentSeries, PastSeries, needs_promtool
from tests.prometheus_server import PrometheusServer, needs_prometheus

from joulie_api.resources import NAMESPACES
from joulie_core.attribution.sums import PodOwner
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.manifests import apply_manifests

pytestmark = [pytest.mark.e2e, needs_prometheus, needs_promtool]

_USER, _GROUP = "accountant", "sre"
_NAMESPACE, _SERVICE = "monitoring", "prometheus-operated"
_DAY_S = 86_400
_RBAC = "rbac.authorization.k8s.io"


@pytest_asyncio.fixture
async def prometheus(tmp_path: Path) -> AsyncIterator[PrometheusServer]:
    """Prometheus with the series of a day of two agents."""
    now = time.time()
    series = PastSeries()
    train, web = PodOwner("ml", "job/train"), PodOwner("shop", "deployment/web")
    series.add_agent(AgentSeries("n1", {train: 500.0, web: 100.0}), now - _DAY_S, now)
    series.add_agent(AgentSeries("n2", {web: 50.0}), now - _DAY_S / 2, now)
    await series.store(tmp_path)
    server = PrometheusServer(tmp_path, {})
    await server.start()
    yield server
    await server.stop()


async def test_a_user_with_the_documented_role_sees_the_energy_of_a_day(
    bare: ClusterView, devcluster: DevCluster, prometheus: PrometheusServer
) -> None:
    port = urlsplit(prometheus.url).port
    assert port is not None
    await bare.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
    backend = ProxiedBackend(bare.client, _NAMESPACE, _SERVICE, "web")
    plugin = Plugin(devcluster.issue_kubeconfig(_USER, [_GROUP]))
    documented = [shlex.split(each.text)[2:] for each in documented_commands() if _is_documented(each.text)]
    assert len(documented) == 2

    assert "forbidden" in await plugin.run(*documented[0], code=3)
    await _grant(bare)
    text = " ".join((await plugin.run(*documented[0], code=3)).split())
    assert f"Prometheus {_NAMESPACE}/{_SERVICE} is not there" in text
    await backend.create(9090)
    assert "cannot reach Prometheus" in await plugin.run(*documented[0], code=3)
    async with backend.answers(port):

        async def shown() -> None:
            text = " ".join((await plugin.run(*documented[0])).split())
            assert "ml job/train cpu allocated 12.0" in text
            assert "shop deployment/web cpu allocated 3.0" in text
            assert "2 nodes had series, 1 of them for a part of the time only: n2 50%" in text

        await eventually(shown, within_s=30)
        await plugin.run("energy", "--since", "1d", "--prometheus", f"{_NAMESPACE}/{_SERVICE}")
        # The role names the port by its number.
        assert "forbidden" in await _of_port(plugin, "web")
        admin = Plugin(devcluster.kubeconfig)
        await admin.run("energy", "--since", "1d", "--prometheus", f"{_NAMESPACE}/{_SERVICE}:web")
        for other, reason in (("nix", "no endpoints available"), ("9091", "no service port 9091 found")):
            text = await _of_port(admin, other)
            assert reason in text
            assert "has the Service this port" in text
        assert "no series kepler_pod_cpu_joules_total" in " ".join((await plugin.run(*documented[1], code=3)).split())


async def _of_port(plugin: Plugin, port: str) -> str:
    """Return what is printed where a port of the Service cannot be asked."""
    return await plugin.run("energy", "--since", "1d", "--prometheus", f"{_NAMESPACE}/{_SERVICE}:{port}", code=3)


def _is_documented(command: str) -> bool:
    """Return whether a command of the pages is for the Service of this test."""
    return re.match(rf"kubectl joulie energy --since .*{_NAMESPACE}/{_SERVICE}:9090", command) is not None


async def _grant(view: ClusterView) -> None:
    """Create what the two commands of docs/kubectl-joulie.md create."""
    role, binding = [
        shlex.split(each.text)
        for each in documented_commands()
        if each.page == "docs/kubectl-joulie.md" and "prometheus-reader" in each.text
    ]
    options = dict(word.lstrip("-").split("=", 1) for word in role if "=" in word)
    resource, subresource = options["resource"].split("/")
    rule = {
        "apiGroups": [""],
        "verbs": [options["verb"]],
        "resources": [f"{resource}/{subresource}"],
        "resourceNames": [options["resource-name"]],
    }
    metadata = {"name": "prometheus-reader", "namespace": _NAMESPACE}
    subject = {"apiGroup": _RBAC, "kind": "Group", "name": binding[binding.index("--group") + 1]}
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": binding[binding.index("--role") + 1]}
    await apply_manifests(
        view.client,
        [
            {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": [subject],
            },
        ],
    )
