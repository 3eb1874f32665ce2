"""Making the API server say what was decided, node by node.

Workers take names from the queue, ask for the goal at that moment and write what differs from what is there. The order
of the writes is the safe one: on the way to performance the caps are lifted before the node is offered; on the way to
eco the offer is withdrawn (twin, then labels) before the caps come. A cleaned node loses its labels first and its twin
last, and the twin of a new node is made before its labels, so that what is interrupted is found again.

A failed write is repeated for that node after a growing pause; a write refused by the fence ends the process.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec
import structlog

from joulie_api.errors import KubeError, NotFound, NotLeader
from joulie_api.owners import owned_by
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES, Resource
from joulie_core import labels
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import Cluster, Eligibility
from joulie_operator.conditions import NodeReport, conditions_of, refusal
from joulie_operator.planner import DesiredState, NodePlanner
from joulie_operator.published import PublishedCondition, PublishedTarget, PublishedTwin
from joulie_operator.twins import TwinTracker
from joulie_operator.workqueue import WorkQueue

#: An echo of our own write is waited for this long before what is there counts as somebody else's change.
ECHO_GRACE_S: Final = 5.0
FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0

_log = structlog.get_logger()


class Writes(Protocol):
    """What the publisher needs of `joulie_api.apply.Applier`."""

    async def apply(self, res: Resource, name: str, body: Mapping[str, Any], *, status: bool = False) -> bool:
        """Server-side apply."""

    async def patch_node_labels(self, name: str, labels: Mapping[str, str | None]) -> bool:
        """Set or remove labels of a Node."""

    async def delete(self, res: Resource, name: str) -> bool:
        """Delete an object."""

    def forget(self, res: Resource, name: str) -> None:
        """Write at the next apply even if nothing changed."""


@dataclass(frozen=True, slots=True)
class PublishedObjects:
    """What is on the API server, as the watches last said."""

    targets: Mapping[str, PublishedTarget]
    twins: Mapping[str, PublishedTwin]


class _Part(StrEnum):
    """What is written of a node, each on its own."""

    LABELS = "labels"
    TARGET = "target"
    CONDITIONS = "conditions"
    TWIN = "twin"


_RESOURCES: Final[Mapping[_Part, Resource]] = {
    _Part.LABELS: NODES,
    _Part.TARGET: NODE_POWER_PROFILES,
    _Part.CONDITIONS: NODE_POWER_PROFILES,
    _Part.TWIN: NODE_TWINS,
}


@dataclass(frozen=True, slots=True)
class _Written:
    """What this process last wrote of one part of a node, and when."""

    value: Any
    at: float


class NodeReconciler:
    """Works off the queue."""

    def __init__(
        self,
        cluster: Cluster,
        controller: NodePlanner,
        twins: TwinTracker,
        *,
        queue: WorkQueue,
        writes: Writes,
        published: PublishedObjects,
        report: Callable[[NodeName], NodeReport],
        on_refusal: Callable[[Node, PublishedCondition], None],
        wall: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._controller = controller
        self._twins = twins
        self._queue = queue
        self._writes = writes
        self._published = published
        self._report = report
        self._on_refusal = on_refusal
        self._wall = wall
        self._written: dict[tuple[_Part, NodeName], _Written] = {}
        self._pauses: dict[NodeName, float] = {}

    async def work(self) -> None:
        """Be one worker, for ever. Raises NotLeader when this process must not write any more."""
        while True:
            name = await self._queue.take()
            try:
                await self.publish(name)
                self._pauses.pop(name, None)
            except NotLeader:
                raise
            except KubeError as error:
                self._retry(name, error)
            finally:
                self._queue.done(name)
            # Most looks end without a request. Thousands of them in a row must not keep the lease from being renewed.
            await asyncio.sleep(0)

    def lost(self, res: Resource, name: NodeName) -> None:
        """Note that somebody deleted an object, and look at the node."""
        self._forget(res, name)
        if res is NODE_TWINS:
            self._twins.forget_write(name)
        self._queue.add(name)

    async def publish(self, name: NodeName) -> None:
        """Bring one node's publication up to date. Raises KubeError."""
        if self._cluster.standing(name) is Eligibility.UNMANAGED:
            await self._clean(name)
            return
        node = self._cluster.nodes[name]
        goal = self._controller.goal(name, self._now(), self._wall())
        if goal is None:
            return
        if goal.profile_label is Profile.PERFORMANCE:
            await self._write_target(node, goal.target)
            await self._write_labels(node, goal)
            await self._write_twin(node, goal)
            await self._write_conditions(node, goal.target)
            return
        await self._write_twin(node, goal)
        await self._write_labels(node, goal)
        if goal.announcing:
            self._queue.add_later(name, self._controller.announced(name, self._now()))
        else:
            await self._write_target(node, goal.target)
            await self._write_conditions(node, goal.target)

    async def _write_target(self, node: Node, spec: NodePowerProfileSpec | None) -> None:
        if spec is None:
            return
        there = self._published.targets.get(node.name)
        wanted = (spec, node.uid)
        if self._is_there(_Part.TARGET, node.name, wanted, (there.spec, there.owner_uid) if there else None):
            return
        body = {"metadata": owned_by(node), "spec": spec.dump()}
        await self._writes.apply(NODE_POWER_PROFILES, node.name, body)
        self._note(_Part.TARGET, node.name, wanted)

    async def _write_conditions(self, node: Node, spec: NodePowerProfileSpec | None) -> None:
        if spec is None:
            return
        written, there = self._written.get((_Part.CONDITIONS, node.name)), self._published.targets.get(node.name)
        seen = there.conditions if there is not None else ()
        before: tuple[PublishedCondition, ...] = written.value if written is not None else seen
        wanted = conditions_of(
            spec,
            self._report(node.name),
            cordoned=self._cluster.standing(node.name) is Eligibility.CORDONED,
            before=before,
            now=rfc3339(self._wall()),
        )
        if self._is_there(_Part.CONDITIONS, node.name, wanted, seen):
            return
        body = {"status": {"conditions": msgspec.to_builtins(wanted)}}
        try:
            await self._writes.apply(NODE_POWER_PROFILES, node.name, body, status=True)
        except NotFound:
            # Deleted by somebody since it was made: make it again at the retry.
            self.lost(NODE_POWER_PROFILES, node.name)
            raise
        self._note(_Part.CONDITIONS, node.name, wanted)
        refused = refusal(before, wanted)
        if refused is not None:
            self._on_refusal(node, refused)

    async def _write_labels(self, node: Node, goal: DesiredState) -> None:
        wanted = {labels.POWER_PROFILE: str(goal.profile_label), labels.DRAINING: str(goal.draining).lower()}
        if self._is_there(_Part.LABELS, node.name, wanted, {key: node.labels.get(key) for key in wanted}):
            return
        await self._writes.patch_node_labels(node.name, wanted)
        self._note(_Part.LABELS, node.name, wanted)

    async def _write_twin(self, node: Node, goal: DesiredState) -> None:
        now = self._now()
        status = self._twins.status(node.name, goal.schedulable_class, now)
        there = self._published.twins.get(node.name)
        if not self._twins.is_due(node.name, status, now, there.schedulable_class if there is not None else None):
            return
        await self._make_twin(node)
        stamped = status.model_copy(update={"last_updated": rfc3339(self._wall())})
        try:
            await self._writes.apply(NODE_TWINS, node.name, {"status": stamped.dump()}, status=True)
        except NotFound:
            # Deleted by somebody since it was made: make it again at the retry.
            self.lost(NODE_TWINS, node.name)
            raise
        self._twins.on_written(node.name, status, now)

    async def _make_twin(self, node: Node) -> None:
        there = self._published.twins.get(node.name)
        if self._is_there(_Part.TWIN, node.name, node.uid, there.owner_uid if there is not None else None):
            return
        await self._writes.apply(NODE_TWINS, node.name, {"metadata": owned_by(node), "spec": {"nodeName": node.name}})
        self._note(_Part.TWIN, node.name, node.uid)

    async def _clean(self, name: NodeName) -> None:
        """Take back everything that was published for a node that is not managed any more."""
        node = self._cluster.nodes.get(name)
        ours = {labels.POWER_PROFILE, labels.DRAINING}
        labelled = node is not None and not ours.isdisjoint(node.labels)
        if not labelled and not self._left_behind(name):
            return
        if node is None or labelled:
            try:
                await self._writes.patch_node_labels(name, dict.fromkeys(sorted(ours)))
            except NotFound:
                _log.debug("node is gone", node=name)
        for res in (NODE_POWER_PROFILES, NODE_TWINS):
            if self._is_ours(res, name):
                await self._writes.delete(res, name)
        if self._controller.state(name) is not None:
            _log.info("node left management", node=name)
        for res in (NODES, NODE_POWER_PROFILES, NODE_TWINS):
            self._forget(res, name)
        self._controller.forget(name)
        self._twins.forget(name)

    def _left_behind(self, name: NodeName) -> bool:
        """Say whether something of ours is on the API server, or about to be."""
        return any(self._is_ours(res, name) for res in (NODES, NODE_POWER_PROFILES, NODE_TWINS))

    def _is_ours(self, res: Resource, name: NodeName) -> bool:
        """Say whether this operator, or one before it, made the object: those name their node as the owner."""
        if any((part, name) in self._written for part, of in _RESOURCES.items() if of is res):
            return True
        target, twin = self._published.targets.get(name), self._published.twins.get(name)
        if res is NODE_POWER_PROFILES:
            return target is not None and target.owner_uid != ""
        return res is NODE_TWINS and twin is not None and twin.owner_uid != ""

    def _is_there(self, part: _Part, name: NodeName, wanted: object, there: object) -> bool:
        """Say whether nothing has to be written: it is there, or it has just been written and will be seen to be."""
        written = self._written.get((part, name))
        if written is None:
            return there == wanted
        if written.value != wanted:
            return False
        if there == wanted:
            return True
        if self._now() - written.at < ECHO_GRACE_S:
            self._queue.add_later(name, ECHO_GRACE_S)
            return True
        self._writes.forget(_RESOURCES[part], name)
        return False

    def _note(self, part: _Part, name: NodeName, value: Any) -> None:
        self._written[part, name] = _Written(value, self._now())

    def _forget(self, res: Resource, name: NodeName) -> None:
        """Count what was written of an object as unknown."""
        for part, of in _RESOURCES.items():
            if of is res:
                self._written.pop((part, name), None)
        self._writes.forget(res, name)

    def _retry(self, name: NodeName, error: KubeError) -> None:
        pause_s = self._pauses.get(name)
        if pause_s is None:
            _log.warning("write failed, it will be repeated", node=name, error=str(error))
        self._pauses[name] = min(LAST_RETRY_S, FIRST_RETRY_S if pause_s is None else 2 * pause_s)
        self._queue.add_later(name, self._pauses[name])

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
