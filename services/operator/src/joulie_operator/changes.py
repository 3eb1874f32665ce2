"""Changes of the cluster that the operator follows, and the trigger of the planning loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from joulie_core.names import NodeName
from joulie_operator.workqueue import WorkQueue


class ChangeScope(Enum):
    """What a change concerns."""

    #: The plan, and the node that it is about.
    PLAN = auto()
    #: That node only.
    NODE = auto()
    #: What the agent of that node reports; nodes that wait for a decision go first.
    REPORT = auto()


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A change that may need an action."""

    scope: ChangeScope
    #: None where no single node is concerned, such as a pod that waits for a node.
    name: NodeName | None = None


ChangeListener = Callable[[ClusterChange], None]


class PlanTrigger:
    """Queues the nodes that changed, and wakes the planning loop where the plan may change."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._changed: set[NodeName] = set()
        self._wake = asyncio.Event()

    def on_change(self, change: ClusterChange) -> None:
        """Take a change."""
        if change.name is not None:
            # Also where a plan follows: a draining node whose last performance pod has left need not wait for it.
            self._queue.add(change.name, urgent=change.scope is not ChangeScope.REPORT)
        if change.scope is ChangeScope.PLAN:
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
