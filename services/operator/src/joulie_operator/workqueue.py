"""The nodes that have to be reconciled: a set with two priorities, processed by a few workers.

One worker processes a name at a time; a name that is added meanwhile is processed again; urgent names go before the
others. The queue holds names only: what to do is decided when a name is processed.
"""

import asyncio
from collections import OrderedDict

from joulie_core.names import NodeName


class WorkQueue:
    """Names waiting for a worker, each once; urgent ones first, in order of arrival."""

    def __init__(self) -> None:
        self._urgent: OrderedDict[NodeName, None] = OrderedDict()
        self._ordinary: OrderedDict[NodeName, None] = OrderedDict()
        self._taken: set[NodeName] = set()
        self._timers: dict[NodeName, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

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
            for waiting in (self._urgent, self._ordinary):
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

    def close(self) -> None:
        """Cancel the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _on_timer(self, name: NodeName) -> None:
        del self._timers[name]
        self.add(name)
