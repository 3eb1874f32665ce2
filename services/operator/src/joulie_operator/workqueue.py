"""Which nodes have to be published: a set with two priorities, worked off by a few workers.

Promises that a name is worked on by one worker at a time, that a name added while it is being worked on is worked on
again, and that urgent names go before the others. It holds names only: what to do is decided when a name's turn comes.
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
        """Ask for a look at the node."""
        if urgent:
            self._ordinary.pop(name, None)
            self._urgent.setdefault(name)
        elif name not in self._urgent:
            self._ordinary.setdefault(name)
        self._wake.set()

    def add_later(self, name: NodeName, delay_s: float) -> None:
        """Ask for a look after a while; the earliest of several such wishes counts."""
        loop = asyncio.get_running_loop()
        pending = self._timers.get(name)
        if pending is not None:
            if pending.when() <= loop.time() + delay_s:
                return
            pending.cancel()
        self._timers[name] = loop.call_later(delay_s, self._on_timer, name)

    async def take(self) -> NodeName:
        """Return the next name; it belongs to the caller until `done`."""
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
        """Give a taken name back."""
        self._taken.discard(name)
        if name in self._urgent or name in self._ordinary:
            self._wake.set()

    def close(self) -> None:
        """Cancel what is still to come."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _on_timer(self, name: NodeName) -> None:
        del self._timers[name]
        self.add(name)
