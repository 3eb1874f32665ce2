"""Create KWOK nodes in a cluster, many at a time, and wait until they are ready."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from joulie_api.client import KubeClient
from joulie_api.resources import NODES
from joulie_devcluster.errors import StartError

# Well below the API server's limit of 200 mutating requests in flight: others want to write too.
_IN_FLIGHT = 32
_POLL_S = 0.25


async def create_nodes(client: KubeClient, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Create Node objects concurrently; joulie_api's AlreadyExists where one is there."""
    limit = asyncio.Semaphore(_IN_FLIGHT)

    async def create(manifest: Mapping[str, Any]) -> None:
        async with limit:
            await client.create(NODES, manifest)

    async with asyncio.TaskGroup() as group:
        for manifest in manifests:
            group.create_task(create(manifest))


async def wait_nodes_schedulable(client: KubeClient, names: Sequence[str], *, timeout_s: float) -> None:
    """Wait until all named nodes are Ready and without the taints that keep pods off nodes that just came up.

    Raises:
        StartError: some are not after `timeout_s` seconds; names a few.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    waiting = set(names)
    while True:
        asked = loop.time()
        nodes = await client.list(NODES)
        waiting -= {node["metadata"]["name"] for node in nodes if is_schedulable(node)}
        if not waiting:
            return
        if loop.time() >= deadline:
            some = ", ".join(sorted(waiting)[:5])
            raise StartError(f"{len(waiting)} of {len(names)} nodes are not schedulable in {timeout_s:g} s: {some}")
        # Thousands of nodes take the server a while to list: at most half of the time is spent on asking.
        await asyncio.sleep(max(_POLL_S, loop.time() - asked))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a Node object's Ready condition is True."""
    conditions = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Whether it is ready and the controllers have taken their own taints off."""
    taints = node.get("spec", {}).get("taints", ())
    return is_ready(node) and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)
