"""Writes the objects of one node, each only if it differs from what is published.

The caller decides the order, and repeats what fails. All methods raise KubeError.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import structlog

from joulie_api.apply import FencedWriter
from joulie_api.errors import NotFound
from joulie_api.owners import owned_by
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES, Resource
from joulie_core import labels
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.node_twin import NodeTwinStatus
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import OWN_LABELS
from joulie_operator.decisions import DesiredState
from joulie_operator.published import PublishedCondition
from joulie_operator.published_state import Comparison, PublishedPart, PublishedState

_RESOURCES: Final = (NODES, NODE_POWER_PROFILES, NODE_TWINS)

_log = structlog.get_logger()


class NodeWriter:
    """The writes of all nodes; each method returns how what is published compares with what is desired now."""

    def __init__(self, writes: FencedWriter, published: PublishedState, *, wall: Callable[[], float]) -> None:
        self._writes = writes
        self._published = published
        self._wall = wall

    async def write_target(self, node: Node, spec: NodePowerProfileSpec) -> Comparison:
        """Write the NodePowerProfile."""
        seen = self._published.target(node.name)
        desired = (spec, node.uid)
        found = self._published.compare(
            PublishedPart.TARGET, node.name, desired, (seen.spec, seen.owner_uid) if seen is not None else None
        )
        if found is not Comparison.DIFFERENT:
            return found
        body = {"metadata": owned_by(node), "spec": spec.dump()}
        with self._published.writing(PublishedPart.TARGET, node.name, desired):
            await self._writes.apply(NODE_POWER_PROFILES, node.name, body)
        return Comparison.PUBLISHED

    async def write_conditions(self, node: Node, conditions: tuple[PublishedCondition, ...]) -> Comparison:
        """Write the conditions of the NodePowerProfile."""
        seen = self._published.target(node.name)
        before = seen.conditions if seen is not None else ()
        found = self._published.compare(PublishedPart.CONDITIONS, node.name, conditions, before)
        if found is not Comparison.DIFFERENT:
            return found
        body = {"status": {"conditions": msgspec.to_builtins(conditions)}}
        with (
            self._object_exists(NODE_POWER_PROFILES, node.name),
            self._published.writing(PublishedPart.CONDITIONS, node.name, conditions, before=before),
        ):
            await self._writes.apply(NODE_POWER_PROFILES, node.name, body, status=True)
        return Comparison.PUBLISHED

    async def write_labels(self, node: Node, desired: DesiredState) -> Comparison:
        """Write the labels of the Node."""
        wanted = {labels.POWER_PROFILE: str(desired.profile_label), labels.DRAINING: str(desired.draining).lower()}
        seen = {key: node.labels.get(key) for key in wanted}
        found = self._published.compare(PublishedPart.LABELS, node.name, (wanted, node.uid), (seen, node.uid))
        if found is not Comparison.DIFFERENT:
            return found
        with self._published.writing(PublishedPart.LABELS, node.name, (wanted, node.uid)):
            await self._writes.patch_node_labels(node.name, wanted)
        return Comparison.PUBLISHED

    async def write_twin(self, node: Node) -> Comparison:
        """Write the NodeTwin, without its status."""
        seen = self._published.twin(node.name)
        found = self._published.compare(
            PublishedPart.TWIN, node.name, node.uid, seen.owner_uid if seen is not None else None
        )
        if found is not Comparison.DIFFERENT:
            return found
        body = {"metadata": owned_by(node), "spec": {"nodeName": node.name}}
        with self._published.writing(PublishedPart.TWIN, node.name, node.uid):
            await self._writes.apply(NODE_TWINS, node.name, body)
        return Comparison.PUBLISHED

    async def write_twin_status(self, node: Node, status: NodeTwinStatus) -> None:
        """Write the status of the NodeTwin, with the time."""
        stamped = status.model_copy(update={"last_updated": rfc3339(self._wall())})
        with (
            self._object_exists(NODE_TWINS, node.name),
            self._published.writing(PublishedPart.TWIN_STATUS, node.name, status),
        ):
            await self._writes.apply(NODE_TWINS, node.name, {"status": stamped.dump()}, status=True)

    async def remove(self, name: NodeName, node: Node | None) -> bool:
        """Remove what was published for a node that is not managed; return whether there was anything.

        The labels go first and the twin last, so that what is interrupted is found again. `node` is None for a Node
        that is not in the selection, whether it exists or not.
        """
        labelled = node is not None and not OWN_LABELS.isdisjoint(node.labels)
        if not labelled and not any(self._published.is_own(res, name) for res in _RESOURCES):
            return False
        if node is None or labelled:
            try:
                await self._writes.patch_node_labels(name, dict.fromkeys(sorted(OWN_LABELS)))
            except NotFound:
                _log.debug("labels not removed, node does not exist", node=name)
        for res in (NODE_POWER_PROFILES, NODE_TWINS):
            if self._published.is_own(res, name):
                await self._writes.delete(res, name)
        for res in _RESOURCES:
            self._published.forget(res, name)
        return True

    @contextmanager
    def _object_exists(self, res: Resource, name: NodeName) -> Iterator[None]:
        """Have an object made again at the next attempt where its status cannot be written, as it was deleted."""
        try:
            yield
        except NotFound:
            self._published.mark_unknown(res, name)
            raise
