"""The workers of all nodes that this process serves.

No worker starts before every watch has been listed once: a target that is not read yet must not look like a deleted
one. Each served node has exactly one worker. Nodes that left management while no agent ran are restored.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import structlog

from joulie_agent.scope import Scope, is_managed
from joulie_agent.worker import NodeWorker, WorkerDeps
from joulie_api.client import KubeClient
from joulie_api.errors import KubeError, NotFound
from joulie_api.resources import NODES
from joulie_api.wire import decode_node
from joulie_core.names import NodeName
from joulie_core.node import Node

#: After which a worker that could not be started is tried again.
RETRY_S: Final = 60.0
_START: Final = "start of a node's worker"

_log = structlog.get_logger()


class NodeWorkers:
    """Starts and ends workers as nodes come and go.

    `wake` and `move` only set flags, so that handlers of watches may call them.
    """

    def __init__(self, client: KubeClient, scope: Scope) -> None:
        self._client = client
        self._scope = scope
        self._workers: dict[str, NodeWorker] = {}
        self._moved = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None

    @property
    def workers(self) -> Mapping[str, NodeWorker]:
        """The workers by node, including those of leaving nodes."""
        return MappingProxyType(self._workers)

    def wake(self, name: str | None) -> None:
        """Trigger the worker of a node; None triggers all."""
        if name is None:
            for worker in self._workers.values():
                worker.wake()
        elif name in self._workers:
            self._workers[name].wake()

    def move(self) -> None:
        """Trigger a comparison of workers and nodes: a node was added, removed or relabelled."""
        self._moved.set()

    def _move_later(self) -> None:
        """Compare workers and nodes again after a while; one timer serves all nodes."""
        if self._retry is None or self._retry.when() <= asyncio.get_running_loop().time():
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self.move)

    async def run(self, deps: WorkerDeps) -> None:
        """Serve until cancelled."""
        await deps.informers.wait_known()
        async with asyncio.TaskGroup() as group:

            def start(node: Node, *, orphan: bool = False) -> None:
                try:
                    worker = NodeWorker(node, deps, orphan=orphan)
                except Exception as error:  # noqa: BLE001 - what one node reports must not stop the others' workers
                    deps.failures.internal_error(_START, error, node=node.name)
                    self._move_later()
                    return
                deps.failures.worked(_START, node=node.name)
                self._workers[node.name] = worker
                task = group.create_task(worker.run(), name=f"node {node.name}")
                task.add_done_callback(lambda _: self._ended(node.name, deps))

            for node in await self._orphans(deps):
                start(node, orphan=True)
            while True:
                self._moved.clear()
                self._settle(deps, start)
                await self._moved.wait()

    def _settle(self, deps: WorkerDeps, start: Callable[[Node], None]) -> None:
        """Start and end workers so that they match the nodes."""
        owned = {name: node for name, node in deps.informers.nodes.items() if self._scope.owns(node)}
        for name, node in owned.items():
            if name in self._workers:
                self._workers[name].stay()
            else:
                start(node)
        for name, worker in self._workers.items():
            if name not in owned:
                worker.leave()

    def _ended(self, name: str, deps: WorkerDeps) -> None:
        del self._workers[name]
        deps.discoverer.forget(name)
        deps.failures.forget(node=name)
        # The node may have come back in the meantime.
        self.move()

    async def _orphans(self, deps: WorkerDeps) -> list[Node]:
        """Return the nodes that have a report of this agent and left management while no agent ran."""
        found = []
        for profile in deps.informers.status_profiles():
            name = profile.name
            if profile.model.status.control is None or not self._scope.responsible(name):
                continue
            if name in deps.informers.nodes and self._scope.owns(deps.informers.nodes[name]):
                continue
            try:
                node = decode_node(await self._client.get(NODES, name))
            except NotFound:
                continue  # its objects go with it
            except KubeError as error:
                _log.warning("node lookup failed", node=NodeName(name), error=str(error))
                continue
            # A managed node outside the selector belongs to another agent.
            if not is_managed(node):
                found.append(node)
        return found
