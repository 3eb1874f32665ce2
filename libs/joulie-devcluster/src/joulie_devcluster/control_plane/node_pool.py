"""Creation of many KWOK nodes at a time, and waiting until nodes are schedulable."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from joulie_api.client import KubeClient
from joulie_api.resources import NODES
from joulie_devcluster.errors import StartError

# Well below the API server's limit of 200 mutating requests in flight, which other clients share.
_MAX_IN_FLIGHT = 32
_POLL_S = 0.25


async def create_nodes(client: KubeClient, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Create Node objects concurrently.

    Raises:
        ExceptionGroup: of `joulie_api.errors.KubeError`, such as AlreadyExists.
    """
    limit = asyncio.Semaphore(_MAX_IN_FLIGHT)

    async def create(manifest: Mapping[str, Any]) -> None:
        async with limit:
            await client.create(NODES, manifest)

    async with asyncio.TaskGroup() as group:
        for manifest in manifests:
            group.create_task(create(manifest))


async def wait_nodes_schedulable(client: KubeClient, names: Sequence[str], *, timeout_s: float) -> None:
    """Wait until the named nodes are schedulable.

    Raises:
        StartError: some nodes are not schedulable after `timeout_s` seconds; the message names up to five.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    waiting = set(names)
    while True:
        listed = loop.time()
        nodes = await client.list(NODES)
        waiting -= {node["metadata"]["name"] for node in nodes if is_schedulable(node)}
        if not waiting:
            return
        if loop.time() >= deadline:
            some = ", ".join(sorted(waiting)[:5])
            raise StartError(f"{len(waiting)} of {len(names)} nodes are not schedulable after {timeout_s:g} s: {some}")
        # Listing thousands of nodes takes the API server a while: spend at most half of the time on it.
        await asyncio.sleep(max(_POLL_S, loop.time() - listed))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether a Node's Ready condition is True."""
    conditions = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Return whether a Node is ready and has no `node.kubernetes.io/` taint."""
    taints = node.get("spec", {}).get("taints", ())
    return is_ready(node) and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)
