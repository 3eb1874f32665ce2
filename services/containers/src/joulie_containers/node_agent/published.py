"""Reports of the resource manager, published at the API server: extended resources and zones of the node."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from joulie_api.apply import Applier
from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_api.failures import Failures
from joulie_api.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from joulie_containers.node_agent.capacity import capacity_changes
from joulie_containers.node_agent.names import FIELD_MANAGER
from joulie_containers.node_agent.pusher import Pace, Pusher
from joulie_containers.node_agent.topology import is_own, topology_body
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.node import Node

#: After which a cluster without the kind NodeResourceTopology is checked again.
_MISSING_KIND_S: Final = 600.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _CapacityWrite:
    changes: Mapping[str, str | None]
    #: resourceVersion of the node that they are based on.
    version: str


class StatePublisher:
    """Publishes capacity and zones of one node.

    Args:
        client: client of the API server.
        node_name: name of the node.
        node: returns the node as watched; None where it is not known.
        state: returns the state of the resource manager; None where it is not known.
        failures: where unexpected errors are counted.
        pace: time constants.
    """

    def __init__(
        self,
        client: KubeClient,
        node_name: str,
        *,
        node: Callable[[], Node | None],
        state: Callable[[], pb.ManagerStatus | None],
        failures: Failures,
        pace: Pace,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._node = node
        self._state = state
        self._applier = Applier(client, FIELD_MANAGER)
        #: Names of extended resources that this process has set.
        self._capacity_names: set[str] = set()
        self._kind_missing_until = float("-inf")
        self.pushers: Final[tuple[Pusher[Any], ...]] = (
            Pusher(
                "capacity",
                self._capacity_changes,
                self._publish_capacity,
                interval_s=0,
                failures=failures,
                pace=pace,
            ),
            Pusher(
                "topology",
                self._topology,
                self._publish_topology,
                interval_s=pace.topology_interval_s,
                failures=failures,
                pace=pace,
            ),
        )

    def _capacity_changes(self) -> _CapacityWrite | None:
        node, state = self._node(), self._state()
        if node is None or state is None:
            return None
        changes = capacity_changes(state.extended_resources, node.capacity, self._capacity_names)
        return _CapacityWrite(changes, node.resource_version) if changes else None

    async def _publish_capacity(self, write: _CapacityWrite) -> None:
        self._capacity_names |= write.changes.keys()
        body = {"status": {"capacity": write.changes}}
        await self._client.merge_patch(NODES, self._node_name, body, subresource="status", field_manager=FIELD_MANAGER)

    def _topology(self) -> dict[str, Any] | None:
        """Return the object, empty where there is to be none; None where that is not known, or the kind is missing.

        Without a container runtime there are no zones, which is no statement about the node.
        """
        node, state = self._node(), self._state()
        if node is None or state is None or asyncio.get_running_loop().time() < self._kind_missing_until:
            return None
        body = topology_body(node, state)
        if body is None:
            return {}
        return body if body["zones"] else None

    async def _publish_topology(self, body: dict[str, Any]) -> None:
        try:
            if body:
                await self._applier.apply(NODE_RESOURCE_TOPOLOGIES, self._node_name, body)
            elif is_own(await self._client.get(NODE_RESOURCE_TOPOLOGIES, self._node_name)):
                await self._applier.delete(NODE_RESOURCE_TOPOLOGIES, self._node_name)
        except NotFound:
            if body:
                _log.warning("the cluster has no kind NodeResourceTopology")
                self._kind_missing_until = asyncio.get_running_loop().time() + _MISSING_KIND_S
