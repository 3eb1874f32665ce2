"""A release of the chart on a development cluster."""

import asyncio
import json
from pathlib import Path
from typing import Any

import yaml
from tests.chart import CHART, NAMESPACE, RESOURCES, Helm, account_token

from joulie_api.client import KubeClient
from joulie_api.resources import PODS, Resource
from joulie_devcluster.control_plane.cluster import DevCluster

HELM_TIMEOUT_S = 120


class Release:
    """A release `joulie` on a cluster of the test's own."""

    def __init__(self, cluster: DevCluster, client: KubeClient, helm: Helm, tmp_path: Path) -> None:
        self.cluster = cluster
        self.client = client
        self.helm = helm
        self.tmp_path = tmp_path

    async def run(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        stdin = json.dumps(values or {})
        where = ("--namespace", NAMESPACE)
        return await asyncio.to_thread(self.helm.run, *arguments, *where, stdin=stdin, timeout_s=HELM_TIMEOUT_S)

    async def install(self, values: dict[str, Any]) -> str:
        command = ("install", "joulie", str(CHART), "--create-namespace", "--wait", "--timeout", "90s", "--values", "-")
        return await self.run(*command, values=values)

    async def pods(self, component: str) -> list[dict[str, Any]]:
        """Pods of a component."""
        return await self.pods_by(f"app.kubernetes.io/instance=joulie,app.kubernetes.io/component={component}")

    async def pods_by(self, selector: str) -> list[dict[str, Any]]:
        """Pods of the namespace that a label selector matches."""
        return await self.client.list(PODS, NAMESPACE, label_selector=selector)

    async def left(self) -> list[tuple[str, str]]:
        """Objects of the release that exist, whatever made them."""
        found = []
        for resource in (*RESOURCES.values(), PODS):
            selector = "app.kubernetes.io/instance=joulie"
            found += [(resource.kind, each["metadata"]["name"]) for each in await self._list(resource, selector)]
        return found

    async def _list(self, resource: Resource, selector: str) -> list[dict[str, Any]]:
        return await self.client.list(resource, label_selector=selector)

    async def kubeconfig(self, account: str, pod: dict[str, Any] | None = None) -> Path:
        """A kubeconfig with a token of a service account, bound to a pod as the kubelet's are, or to none."""
        user = {"token": await account_token(self.client, account, pod=pod)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "c",
                    "cluster": {"server": self.cluster.server, "certificate-authority": str(self.cluster.ca_path)},
                }
            ],
            "users": [{"name": account, "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": account}}],
            "current-context": "c",
        }
        path = self.tmp_path / f"{account}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path
