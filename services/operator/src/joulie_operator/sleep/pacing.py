"""When passes begin, and that one pass leaves the event loop to others.

Guarantees that a pass begins once in the interval; after a pod has begun to wait already a second after the last pass
has ended, and after as long as that pass took: so at most half of the time is spent on passes, however many pods come.
"""

import asyncio
from typing import Final

#: Shortest time between two passes; a burst of pods takes about as long to be looked at by kube-scheduler.
LEAST_PAUSE_S: Final = 1.0
#: Time after which a pass lets other work of the event loop go on; renewing the lease is one.
_TURN_S: Final = 0.01


class PassPacing:
    """Says when the next pass begins."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._waited_for = asyncio.Event()
        self._began_at = 0.0

    def on_waiting_pod(self) -> None:
        """Take note of a pod that has begun to wait for a node."""
        self._waited_for.set()

    def begin(self) -> None:
        """Note that a pass begins."""
        self._began_at = asyncio.get_running_loop().time()

    def take_pods(self) -> None:
        """Note that the pass sees all pods that wait."""
        self._waited_for.clear()

    async def next_pass(self) -> None:
        """Return when the next pass is due."""
        now = asyncio.get_running_loop().time()
        pause_s = max(LEAST_PAUSE_S, now - self._began_at)
        try:
            async with asyncio.timeout_at(self._began_at + self._interval_s):
                await self._waited_for.wait()
                await asyncio.sleep(now + pause_s - asyncio.get_running_loop().time())
        except TimeoutError:
            return


class LoopTurns:
    """Lets other work of the event loop go on during a long one."""

    def __init__(self) -> None:
        self._since_s = asyncio.get_running_loop().time()

    async def next(self) -> None:
        """Return at once, or after others had their turn."""
        now = asyncio.get_running_loop().time()
        if now - self._since_s >= _TURN_S:
            await asyncio.sleep(0)
            self._since_s = asyncio.get_running_loop().time()
