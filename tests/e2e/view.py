"""A test's view of the cluster: objects of the API server, and the state of the simulator."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp

from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_api.resources import EVENTS, NODE_POWER_PROFILES, NODE_TWINS, NODES, PODS, Resource
from joulie_core import labels
from joulie_testing.api.builders import make_pod


class ClusterView:
    """Reads and small writes with administrator permissions."""

    def __init__(self, client: KubeClient, *, sim_url: str, namespace: str) -> None:
        self.client = client
        self.sim_url = sim_url
        self.namespace = namespace

    async def objects(self, resource: Resource) -> dict[str, dict[str, Any]]:
        """Return all objects of a cluster-scoped resource by name."""
        return {item["metadata"]["name"]: item for item in await self.client.list(resource)}

    async def profiles(self) -> dict[str, str]:
        """Return the value of the power-profile label by node, without nodes that have no such label."""
        nodes = await self.objects(NODES)
        marks = {name: node["metadata"].get("labels", {}) for name, node in nodes.items()}
        return {name: mark[labels.POWER_PROFILE] for name, mark in marks.items() if labels.POWER_PROFILE in mark}

    async def labels_of(self, node: str) -> dict[str, str]:
        """Return the labels of one node."""
        return json.loads(await self.client.get(NODES, node))["metadata"].get("labels", {})

    async def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node; None removes one."""
        await self.client.merge_patch(NODES, node, {"metadata": {"labels": dict(labels)}})

    async def target(self, node: str) -> dict[str, Any]:
        """Return `spec` of the node's NodePowerProfile; raise AssertionError if it does not exist."""
        try:
            return json.loads(await self.client.get(NODE_POWER_PROFILES, node))["spec"]
        except NotFound as error:
            raise AssertionError(f"{node} has no NodePowerProfile") from error

    async def twin(self, node: str) -> dict[str, Any]:
        """Return `status` of the node's NodeTwin; raise AssertionError if it has none."""
        try:
            twin = json.loads(await self.client.get(NODE_TWINS, node))
        except NotFound as error:
            raise AssertionError(f"{node} has no NodeTwin") from error
        assert "status" in twin, f"the NodeTwin of {node} has no status yet"
        return twin["status"]

    async def simulated(self, node: str) -> dict[str, Any]:
        """Return the simulator's state of one node."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.sim_url}/state") as answer:
            assert answer.status == 200, await answer.text()
            return (await answer.json())["nodes"][node]

    async def create_pods(self, count: int, prefix: str, **spec: Any) -> list[str]:
        """Create equal pods `prefix-0` ...; `spec` are arguments of `joulie_testing.api.builders.make_pod`."""
        names = [f"{prefix}-{number}" for number in range(count)]
        await asyncio.gather(
            *(self.client.create(PODS, make_pod(name, self.namespace, **spec), self.namespace) for name in names)
        )
        return names

    async def delete_pods(self, names: Iterable[str]) -> None:
        """Delete pods without grace; ignore those that are gone."""
        for name in names:
            try:
                await self.client.delete(PODS, name, self.namespace)
            except NotFound:
                continue

    async def pods(self) -> dict[str, dict[str, Any]]:
        """Return the pods of the test's namespace by name."""
        return {item["metadata"]["name"]: item for item in await self.client.list(PODS, self.namespace)}

    async def placements(self, names: Iterable[str]) -> Mapping[str, str | None]:
        """Return the node of each pod, None while it is pending."""
        found = await self.pods()
        return {name: found[name]["spec"].get("nodeName") for name in names}

    async def placed(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the node of each pod; raise AssertionError while one is pending."""
        where = await self.placements(names)
        pending = [name for name, node in where.items() if node is None]
        assert not pending, f"{len(pending)} pods are pending, among them {pending[0]}"
        return {name: str(node) for name, node in where.items()}

    async def event_messages(self, pod: str) -> list[str]:
        """Return the messages of the events of a pod."""
        selector = f"involvedObject.name={pod}"
        return [
            event.get("message", "")
            for event in await self.client.list(EVENTS, self.namespace, field_selector=selector)
        ]

    async def resource_versions(self, resources: Iterable[Resource]) -> dict[tuple[str, str], str]:
        """Return the resource version of every object of cluster-scoped resources."""
        return {
            (resource.kind, name): item["metadata"]["resourceVersion"]
            for resource in resources
            for name, item in (await self.objects(resource)).items()
        }


def families(nodes: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the hardware family by node name: the GPU model of a GPU node, else the CPU model."""
    marks = {name: node["metadata"]["labels"] for name, node in nodes.items()}
    return {name: mark.get(labels.HW_GPU_MODEL) or mark[labels.HW_CPU_MODEL] for name, mark in marks.items()}


def count(profiles: Mapping[str, str]) -> Counter[str]:
    """Return the number of nodes by profile."""
    return Counter(profiles.values())
