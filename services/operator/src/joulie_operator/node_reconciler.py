"""The workers that bring one node's objects to the desired state, in the safe order.

On the way to performance the caps are lifted before the node is offered (target, twin, labels); on the way to eco the
offer is withdrawn before the caps come (twin, labels, target). The twin is written before the labels in both cases: a
change of a Node, and not one of a NodeTwin, makes kube-scheduler try refused pods again, and the extender then has to
know the twin. A decision is committed when its target is on the API
server, an announcement of eco when its labels are; notifications follow then, and not before.

A failed write, or an unexpected error, is repeated for that node after a growing pause, and what is published for the
node stays; a write refused by the fence ends the process.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from joulie_api.errors import KubeError, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.memo import Memo
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import Cluster, Eligibility
from joulie_operator.conditions import ReportCache, conditions_of, refusal
from joulie_operator.decisions import Decision
from joulie_operator.node_writer import NodeWriter
from joulie_operator.notifications import CapsRefused, NodeNotProcessed, Notification
from joulie_operator.planner import NodePlanner
from joulie_operator.published import PublishedCondition, PublishedTarget, PublishedTwin
from joulie_operator.published_state import ECHO_GRACE_S, Comparison, PublishedPart, PublishedState
from joulie_operator.twins import TwinTracker
from joulie_operator.workqueue import WorkQueue

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0
_WORK: Final = "reconcile node"

_log = structlog.get_logger()


class NodeReconciler:
    """Processes the queue.

    `notify` is called after the write that it reports, and must not wait. `clock` is monotonic, `wall` the time.
    """

    def __init__(
        self,
        cluster: Cluster,
        planner: NodePlanner,
        twins: TwinTracker,
        reports: ReportCache,
        *,
        queue: WorkQueue,
        writer: NodeWriter,
        published: PublishedState,
        notify: Callable[[Notification], None],
        failures: Failures,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._internal = failures
        self._cluster = cluster
        self._planner = planner
        self._twins = twins
        self._reports = reports
        self._queue = queue
        self._writer = writer
        self._published = published
        self._notify = notify
        self._clock = clock
        self._wall = wall
        self._retries_s: dict[NodeName, float] = {}
        self._conditions: dict[NodeName, Memo[tuple[PublishedCondition, ...]]] = {}
        self._failures = FailureLog(_log, failed="write failed, will be repeated", recovered="write succeeded")

    async def work(self) -> None:
        """Run one worker until cancelled.

        Raises:
            NotLeader: this process must not write any more.

        """
        while True:
            name = await self._queue.take()
            try:
                await self.reconcile(name)
            except NotLeader:
                raise
            except KubeError as error:
                self._failures.failed(error, node=name)
                self._retry(name)
            except Exception as error:  # noqa: BLE001 - what one node reports must not stop the work on the others
                self._on_defect(name, error)
                self._retry(name)
            else:
                self._retries_s.pop(name, None)
                self._failures.recovered(node=name)
                self._internal.worked(_WORK, node=name)
            finally:
                self._queue.done(name)
            # Most nodes need no request. Thousands of them in a row must not keep the lease from being renewed.
            await asyncio.sleep(0)

    async def reconcile(self, name: NodeName) -> None:
        """Bring one node's objects up to date.

        Raises:
            KubeError: a write failed; those after it were not tried.

        """
        if self._cluster.eligibility(name) is Eligibility.UNMANAGED:
            await self._clean(name)
            return
        decision = self._planner.desired(name, self._clock(), self._wall())
        if decision is None:
            return
        found = await self._publish(decision)
        if Comparison.AWAITED in found:
            self._queue.add_later(name, ECHO_GRACE_S)
        if decision.requeue_after_s is not None:
            self._queue.add_later(name, decision.requeue_after_s)

    def on_target(self, key: str, _old: PublishedTarget | None, new: PublishedTarget | None) -> None:
        """Queue a node whose target was deleted, or is not the one that this process wrote."""
        name = NodeName(key)
        if new is None:
            self._published.forget(NODE_POWER_PROFILES, name)
            self._queue.add(name)
        elif not self._published.is_expected(PublishedPart.TARGET, name, (new.spec, new.owner_uid)):
            self._queue.add(name)

    def on_twin(self, key: str, _old: PublishedTwin | None, new: PublishedTwin | None) -> None:
        """Queue a node whose twin was deleted, or that should have none."""
        name = NodeName(key)
        if new is None:
            self._published.forget(NODE_TWINS, name)
            self._queue.add(name)
        elif self._planner.state(name) is None:
            self._queue.add(name)

    async def _publish(self, decision: Decision) -> set[Comparison]:
        node, desired = decision.node, decision.desired
        if desired.target is None:
            found = {await self._write_twin(decision), await self._writer.write_labels(node, desired)}
            self._commit(decision)
            return found
        if desired.profile_label is Profile.PERFORMANCE:
            found = {await self._writer.write_target(node, desired.target)}
            self._commit(decision)
            found |= {await self._write_twin(decision), await self._writer.write_labels(node, desired)}
        else:
            found = {
                await self._write_twin(decision),
                await self._writer.write_labels(node, desired),
                await self._writer.write_target(node, desired.target),
            }
            self._commit(decision)
        return found | {await self._write_conditions(node, desired.target)}

    def _commit(self, decision: Decision) -> None:
        self._planner.commit(decision, self._clock())
        for notification in decision.notifications:
            self._notify(notification)

    async def _write_twin(self, decision: Decision) -> Comparison:
        node, desired = decision.node, decision.desired
        found = await self._writer.write_twin(node)
        now = self._clock()
        status = self._twins.status(node.name, desired.schedulable_class, desired.caps, now)
        if self._twins.is_due(node.name, status, self._published.last_twin(node.name), now):
            await self._writer.write_twin_status(node, status)
        return found

    async def _write_conditions(self, node: Node, spec: NodePowerProfileSpec) -> Comparison:
        before, report = self._published.conditions(node.name), self._reports.of(node.name)
        cordoned = self._cluster.eligibility(node.name) is Eligibility.CORDONED
        conditions = self._conditions.setdefault(node.name, Memo()).of(
            (spec, report, cordoned, before),
            lambda: conditions_of(spec, report, cordoned=cordoned, before=before, now=rfc3339(self._wall())),
        )
        found = await self._writer.write_conditions(node, conditions)
        refused = refusal(before, conditions)
        if refused is not None:
            self._notify(CapsRefused(node, refused))
        return found

    async def _clean(self, name: NodeName) -> None:
        """Remove everything that was published for a node that is not managed any more."""
        if await self._writer.remove(name, self._cluster.nodes.get(name)):
            _log.info("node left management", node=name)
        self._planner.forget(name)
        self._twins.forget(name)
        self._conditions.pop(name, None)
        self._internal.forget(node=name)

    def _on_defect(self, name: NodeName, error: Exception) -> None:
        self._internal.internal_error(_WORK, error, node=name)
        node = self._cluster.nodes.get(name)
        # With the first of several attempts.
        if node is not None and name not in self._retries_s:
            self._notify(NodeNotProcessed(node, type(error).__name__))

    def _retry(self, name: NodeName) -> None:
        last_s = self._retries_s.get(name)
        retry_s = FIRST_RETRY_S if last_s is None else min(LAST_RETRY_S, 2 * last_s)
        self._retries_s[name] = retry_s
        self._queue.add_later(name, retry_s)
