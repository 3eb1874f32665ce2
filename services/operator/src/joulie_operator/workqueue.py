"""The nodes that have to be reconciled, and the changes of the cluster that queue them or trigger the planning loop.

The queue is a set with two priorities, processed by a few workers. One worker processes a name at a time; a name that
is added meanwhile is processed again; urgent names go before the others. The queue holds names only: what to do is
decided when a name is processed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from joulie_core.names import NodeName


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


class WorkQueue:
    """Names waiting for a worker, each once; urgent ones first, in order of arrival."""

    def __init__(self) -> None:
        self._urgent: OrderedDict[NodeName, None] = OrderedDict()
        self._ordinary: OrderedDict[NodeName, None] = OrderedDict()
        self._taken: set[NodeName] = set()
        self._timers: dict[NodeName, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._urgent_only = False

    def __len__(self) -> int:
        return len(self._urgent) + len(self._ordinary) + len(self._taken)

    def add(self, name: NodeName, *, urgent: bool = True) -> None:
        """Queue a node."""
        if urgent:
            self._ordinary.pop(name, None)
            self._urgent.setdefault(name)
        elif name not in self._urgent:
            self._ordinary.setdefault(name)
        self._wake.set()

    def add_later(self, name: NodeName, delay_s: float) -> None:
        """Queue a node after a while; the earliest of several calls counts."""
        loop = asyncio.get_running_loop()
        pending = self._timers.get(name)
        if pending is not None:
            if pending.when() <= loop.time() + delay_s:
                return
            pending.cancel()
        self._timers[name] = loop.call_later(delay_s, self._on_timer, name)

    async def take(self) -> NodeName:
        """Return the next name; no other worker gets it until `done`."""
        while True:
            for waiting in (self._urgent,) if self._urgent_only else (self._urgent, self._ordinary):
                name = next((each for each in waiting if each not in self._taken), None)
                if name is not None:
                    del waiting[name]
                    self._taken.add(name)
                    return name
            self._wake.clear()
            await self._wake.wait()

    def done(self, name: NodeName) -> None:
        """End the processing of a name."""
        self._taken.discard(name)
        if name in self._urgent or name in self._ordinary:
            self._wake.set()

    @contextmanager
    def urgent_only(self, most_s: float) -> Iterator[None]:
        """Hand out urgent names only while the context lasts, and for `most_s` seconds at most."""
        timer = asyncio.get_running_loop().call_later(most_s, self._hand_out_all)
        self._urgent_only = True
        try:
            yield
        finally:
            timer.cancel()
            self._hand_out_all()

    def close(self) -> None:
        """Cancel the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _hand_out_all(self) -> None:
        self._urgent_only = False
        self._wake.set()

    def _on_timer(self, name: NodeName) -> None:
        del self._timers[name]
        self.add(name)


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
