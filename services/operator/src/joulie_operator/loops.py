"""The planning loop and the loop that refreshes twins.

A node whose pods or hardware changed is queued at once (`joulie_operator.changes`); the plan is computed after the
debounce time, which a burst of changes shares, and at least once in the interval. That regular pass queues every node,
so that whatever was missed or changed by others is corrected within the interval. Twins are measured in sweeps of their
own, a slice of nodes at a time and spread over the sweep interval, so that a large cluster neither holds the event loop
nor writes in waves.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from joulie_api.failures import Failures
from joulie_core.names import NodeName
from joulie_operator.cluster import Cluster
from joulie_operator.planner import NodePlanner
from joulie_operator.published_state import PublishedState
from joulie_operator.twins import TwinTracker
from joulie_operator.workqueue import PlanTrigger, WorkQueue

#: Nodes of one slice of a sweep: a few milliseconds of the event loop.
SLICE = 100
#: Share of the sweep interval that a sweep is spread over.
SPREAD = 0.8
_MEASURE = "measure node"

_log = structlog.get_logger()


class OperatorLoops:
    """The two loops of a leading operator."""

    def __init__(
        self,
        cluster: Cluster,
        planner: NodePlanner,
        twins: TwinTracker,
        *,
        trigger: PlanTrigger,
        queue: WorkQueue,
        published: PublishedState,
        interval_s: float,
        debounce_s: float,
        sweep_interval_s: float,
        failures: Failures,
        wall: Callable[[], float],
        on_pass: Callable[[float], None],
    ) -> None:
        self._cluster = cluster
        self._planner = planner
        self._twins = twins
        self._trigger = trigger
        self._queue = queue
        self._published = published
        self._interval_s = interval_s
        self._debounce_s = debounce_s
        self._sweep_interval_s = sweep_interval_s
        self._failures = failures
        self._wall = wall
        self._on_pass = on_pass
        self._logged = ""

    async def prepare(self) -> None:
        """Resolve the hardware of every node, which the first plan needs, a slice at a time.

        At once it would hold the event loop for seconds in a large cluster, and the lease would not be renewed.
        """
        for names in _slices(list(self._cluster.nodes)):
            for name in names:
                with self._failures.contained("resolve hardware", node=name):
                    self._cluster.hardware(name)
            await asyncio.sleep(0)

    async def run_plans(self) -> None:
        """Plan now, after each burst of changes, and once in the interval."""
        loop = asyncio.get_running_loop()
        while True:
            due_at = loop.time() + self._interval_s
            self.plan(everything=True)
            while await self._changed_before(due_at):
                self.plan(everything=False)

    async def run_sweeps(self) -> None:
        """Measure all twins, once in the sweep interval; the first time before any is compared."""
        loop = asyncio.get_running_loop()
        self._adopt()
        await self.measure()
        while True:
            due_at = loop.time() + self._sweep_interval_s
            await self.sweep(spread_s=SPREAD * self._sweep_interval_s)
            await asyncio.sleep(max(0.0, due_at - loop.time()))

    def plan(self, *, everything: bool) -> None:
        """Run the policy and queue the nodes that it concerns, or all."""
        started_at = asyncio.get_running_loop().time()
        due = [*self._trigger.take()]
        # The last plan stays in force where there is no new one.
        with self._failures.contained("plan"):
            due = [*self._planner.plan(self._wall()), *due]
        for name in due:
            self._queue.add(name)
        if everything:
            for name in {*self._cluster.nodes, *self._published.names()}:
                self._queue.add(name, urgent=False)
        self._log_plan()
        self._on_pass(asyncio.get_running_loop().time() - started_at)

    async def measure(self) -> None:
        """Measure every node."""
        for names in _slices(self._planner.managed()):
            now = asyncio.get_running_loop().time()
            for name in names:
                with self._failures.contained(_MEASURE, node=name):
                    self._twins.measure(name, self._planner.published_caps(name), now)
            await asyncio.sleep(0)

    async def sweep(self, *, spread_s: float = 0.0) -> None:
        """Measure every node and queue those whose twin has to be written; racks draw what they drew one sweep ago."""
        with self._failures.contained("sum racks"):
            self._twins.sum_racks()
        names = self._planner.managed()
        pause_s = spread_s * SLICE / max(SLICE, len(names))
        for part in _slices(names):
            now = asyncio.get_running_loop().time()
            for name in part:
                if self._planner.state(name) is None:
                    # It left management since the sweep began.
                    continue
                with self._failures.contained(_MEASURE, node=name):
                    if self._is_due(name, now):
                        self._queue.add(name, urgent=False)
            await asyncio.sleep(pause_s)

    def _is_due(self, name: NodeName, now: float) -> bool:
        """Measure a node, and return whether its twin has to be written."""
        caps = self._planner.published_caps(name)
        self._twins.measure(name, caps, now)
        status = self._twins.status(name, self._planner.published_class(name), caps, now)
        return self._twins.is_due(name, status, self._published.last_twin(name), now)

    def _adopt(self) -> None:
        """Take over what the operator before this one has measured."""
        for name in self._published.names():
            twin = self._published.twin(name)
            if twin is not None and twin.measured_watts is not None:
                self._twins.adopt(name, twin.measured_watts)

    async def _changed_before(self, due_at: float) -> bool:
        """Wait for a change and let its burst pass; False once the regular pass is due."""
        try:
            async with asyncio.timeout_at(due_at):
                await self._trigger.wait()
                await asyncio.sleep(self._debounce_s)
        except TimeoutError:
            return False
        return True

    def _log_plan(self) -> None:
        """Log a plan that differs from the one before."""
        plan = self._planner.last_plan
        if plan is not None and plan.reason != self._logged:
            self._logged = plan.reason
            _log.info("planned", performance_nodes=plan.performance_count, nodes=len(plan.profiles), reason=plan.reason)


def _slices(names: list[NodeName]) -> Iterable[list[NodeName]]:
    return (names[start : start + SLICE] for start in range(0, len(names), SLICE))
