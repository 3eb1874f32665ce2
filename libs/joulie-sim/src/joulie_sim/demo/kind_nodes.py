"""Simulated nodes in a cluster of kind, beside its real ones: what keeps both apart, and their removal.

Guarantees that pods of others are not placed on simulated nodes, nor the demo's pods on real ones, and that nothing of
the demo is left after `remove_simulated`.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_api.resources import NODES, PODS, Resource
from joulie_devcluster.control_plane.nodes import NodeClass, Taint
from joulie_sim.demo.feeder import NAMESPACE
from joulie_sim.demo.site import WORKLOAD
from joulie_sim.workload.item import WORKLOAD_LABEL

#: Label and taint of the nodes.
SIMULATED: Final = "sim.joulie.io/simulated"
NODE_SELECTOR: Final = f"{SIMULATED}=true"
#: What the demo's pods need to be placed on them, and on them only.
POD_SPEC: Final[Mapping[str, Any]] = {
    "nodeSelector": {SIMULATED: "true"},
    "tolerations": [{"key": SIMULATED, "operator": "Exists"}],
}

#: DaemonSets of the cluster and of the chart tolerate every taint. They select nodes with Linux.
_SYSTEM: Final = {"kubernetes.io/os": "simulated"}
_IN_FLIGHT: Final = 32


def beside_real_nodes(classes: Sequence[NodeClass]) -> tuple[NodeClass, ...]:
    """Return node classes that differ from real nodes by a label, a taint and their system."""
    taint = Taint(key=SIMULATED, value="true", effect="NoSchedule")
    return tuple(
        each.model_copy(
            update={"labels": {**each.labels, SIMULATED: "true", **_SYSTEM}, "taints": (*each.taints, taint)}
        )
        for each in classes
    )


async def remove_simulated(client: KubeClient) -> None:
    """Delete the demo's pods, then its nodes; the garbage collector deletes what belongs to these.

    Raises:
        joulie_api.errors.KubeError: the API server cannot be reached or refuses; also in groups.
    """
    pods = await client.list(PODS, NAMESPACE, label_selector=f"{WORKLOAD_LABEL}={WORKLOAD}")
    await _delete(client, PODS, pods, NAMESPACE)
    await _delete(client, NODES, await client.list(NODES, label_selector=NODE_SELECTOR))


async def _delete(
    client: KubeClient, resource: Resource, found: Iterable[Mapping[str, Any]], namespace: str | None = None
) -> None:
    slots = asyncio.Semaphore(_IN_FLIGHT)

    async def delete(name: str) -> None:
        async with slots:
            try:
                await client.delete(resource, name, namespace)
            except NotFound:
                return

    async with asyncio.TaskGroup() as group:
        for each in found:
            group.create_task(delete(each["metadata"]["name"]))
