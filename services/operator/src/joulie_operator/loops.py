"""When the operator thinks: shortly after what may alter a plan, at least once in the interval, and for twins steadily.

A node whose pods or hardware changed is looked at at once; what its change does to the others is planned after the
debounce time, which a burst of changes shares. The regular pass looks at every node, so that whatever was missed or
changed behind our back is put right within the interval. Twins are measured in sweeps of their own, a slice of nodes at
a time and spread over the sweep interval, so that a large cluster neither holds the event loop nor writes in waves.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from joulie_core.names import NodeName
from joulie_operator.cluster import Cluster
from joulie_operator.node_reconciler import PublishedObjects
from joulie_operator.planner import NodePlanner
from joulie_operator.twins import TwinTracker
from joulie_operator.workqueue import WorkQueue

#: Nodes of one slice of a sweep: a few milliseconds of the event loop.
SLICE = 100
#: Share of the sweep interval that a sweep is spread over.
SPREAD = 0.8

_log = structlog.get_logger()


class OperatorLoops:
    """The two loops of a leading operator."""

    def __init__(
        self,
        cluster: Cluster,
        controller: NodePlanner,
        twins: TwinTracker,
        *,
        queue: WorkQueue,
        published: PublishedObjects,
        interval_s: float,
        debounce_s: float,
        sweep_interval_s: float,
        wall: Callable[[], float],
        on_pass: Callable[[float], None],
    ) -> None:
        self._cluster = cluster
        self._controller = controller
        self._twins = twins
        self._queue = queue
        self._published = published
        self._interval_s = interval_s
        self._debounce_s = debounce_s
        self._sweep_interval_s = sweep_interval_s
        self._wall = wall
        self._on_pass = on_pass
        self._changed: set[NodeName] = set()
        self._dirty = asyncio.Event()
        self._reported = ""

    def on_change(self, name: NodeName | None) -> None:
        """Note a change that may alter the plan."""
        if name is not None:
            self._changed.add(name)
            # A draining node whose last performance pod has left need not wait for a plan.
            self._queue.add(name)
        self._dirty.set()

    async def plan_for_ever(self) -> None:
        """Plan now, after each burst of changes, and once in the interval."""
        loop = asyncio.get_running_loop()
        while True:
            due_at = loop.time() + self._interval_s
            self.plan(everything=True)
            while await self._changed_before(due_at):
                self.plan(everything=False)

    async def sweep_for_ever(self) -> None:
        """Measure all twins, once in the sweep interval; the first time before any is compared."""
        loop = asyncio.get_running_loop()
        await self.measure()
        while True:
            due_at = loop.time() + self._sweep_interval_s
            await self.sweep(spread_s=SPREAD * self._sweep_interval_s)
            await asyncio.sleep(max(0.0, due_at - loop.time()))

    def plan(self, *, everything: bool) -> None:
        """Run the policy and queue the nodes that it concerns, or all."""
        started_at = asyncio.get_running_loop().time()
        changed, self._changed = self._changed, set()
        self._dirty.clear()
        concerned = self._controller.plan(self._wall())
        for name in (*concerned, *changed):
            self._queue.add(name)
        if everything:
            for name in self._everything():
                self._queue.add(name, urgent=False)
        self._report()
        self._on_pass(asyncio.get_running_loop().time() - started_at)

    async def measure(self) -> None:
        """Measure every node."""
        for names in _slices(self._controller.managed()):
            now = asyncio.get_running_loop().time()
            for name in names:
                self._twins.measure(name, now)
            await asyncio.sleep(0)

    async def sweep(self, *, spread_s: float = 0.0) -> None:
        """Measure every node and queue those whose twin has to be written; racks draw what they drew one sweep ago."""
        self._twins.sum_racks()
        names = self._controller.managed()
        pause_s = spread_s * SLICE / max(SLICE, len(names))
        for part in _slices(names):
            now = asyncio.get_running_loop().time()
            for name in part:
                if self._controller.state(name) is None:
                    # It left management since the sweep began.
                    continue
                self._twins.measure(name, now)
                if self._is_due(name, now):
                    self._queue.add(name, urgent=False)
            await asyncio.sleep(pause_s)

    def _is_due(self, name: NodeName, now: float) -> bool:
        there = self._published.twins.get(name)
        status = self._twins.status(name, self._controller.offered(name), now)
        return self._twins.is_due(name, status, now, there.schedulable_class if there is not None else None)

    def _everything(self) -> Iterable[NodeName]:
        """Every node, and every name that something is still published for."""
        names = (
            {str(name) for name in self._cluster.nodes} | self._published.targets.keys() | self._published.twins.keys()
        )
        return (NodeName(name) for name in names)

    async def _changed_before(self, due_at: float) -> bool:
        """Wait for a change and let its burst pass; False once the regular pass is due."""
        try:
            async with asyncio.timeout_at(due_at):
                await self._dirty.wait()
                await asyncio.sleep(self._debounce_s)
        except TimeoutError:
            return False
        return True

    def _report(self) -> None:
        """Log a plan that differs from the one before."""
        plan = self._controller.last_plan
        if plan is not None and plan.reason != self._reported:
            self._reported = plan.reason
            _log.info("planned", performance_nodes=plan.hp_count, nodes=len(plan.profiles), reason=plan.reason)


def _slices(names: list[NodeName]) -> Iterable[list[NodeName]]:
    return (names[start : start + SLICE] for start in range(0, len(names), SLICE))
