"""Changes of the cluster that the operator follows, and the trigger of the planning loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from joulie_core.names import NodeName
from joulie_operator.workqueue import WorkQueue


class ChangeScope(Enum):
    """Scope of a change."""

    #: The plan, and the node that it is about.
    PLAN = auto()
    #: How many performance pods there are; the plan, if the policy follows demand.
    DEMAND = auto()
    #: That node only.
    NODE = auto()
    #: What the agent of that node reports; nodes that wait for a decision go first.
    REPORT = auto()


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A change that may need an action."""

    scope: ChangeScope
    #: None where no single node is concerned, as by demand.
    name: NodeName | None = None


ChangeListener = Callable[[ClusterChange], None]


class PlanTrigger:
    """Queues the nodes that changed, and wakes the planning loop where the plan may change.

    `follows_demand` is whether the plan depends on the number of performance pods.
    """

    def __init__(self, queue: WorkQueue, *, follows_demand: bool) -> None:
        self._queue = queue
        self._follows_demand = follows_demand
        self._changed: set[NodeName] = set()
        self._wake = asyncio.Event()

    def on_change(self, change: ClusterChange) -> None:
        """Take a change."""
        if change.name is not None:
            # Also where a plan follows: what the node itself decides need not wait for it.
            self._queue.add(change.name, urgent=change.scope is not ChangeScope.REPORT)
        if change.scope is ChangeScope.PLAN or (change.scope is ChangeScope.DEMAND and self._follows_demand):
            if change.name is not None:
                self._changed.add(change.name)
            self._wake.set()

    async def wait(self) -> None:
        """Return when there is a change that may alter the plan."""
        await self._wake.wait()

    def take(self) -> set[NodeName]:
        """Return the nodes that changed since the last call, and start over."""
        changed, self._changed = self._changed, set()
        self._wake.clear()
        return changed
