"""Puts the fallback of a limit in force when the limit ends, also while a pass waits for the API server.

A pass may wait for half a minute for an API server that hangs; the limit must not wait with it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from joulie_core.budget.in_force import NodeLimitReport
from joulie_core.budget.node_limit import FollowedLimit


class FallbackTimer:
    """Calls for the fallback of one node's limit, by the clock of the event loop.

    Args:
        fall_back: lowers the limit; called one at a time, and never where no limit was put in force.
    """

    def __init__(self, fall_back: Callable[[], Awaitable[None]]) -> None:
        self._fall_back = fall_back
        self._due_s: float | None = None
        self._changed = asyncio.Event()

    def before(self, limit: FollowedLimit | None, now_s: float) -> None:
        """Take over a limit that is about to be put in force; None: none is."""
        ends_s = limit.hold.ends_s() if limit is not None and limit.hold is not None else None
        # What has ended is not put in force: the fallback is.
        self._set(ends_s if ends_s is not None and ends_s > now_s else None)

    def after(self, limit: FollowedLimit | None, report: NodeLimitReport | None, now_s: float) -> None:
        """Take over what came of it: a fallback that is not in force is tried again after the time of a sample."""
        if limit is None or limit.hold is None or report is None or not limit.applies(now_s):
            return
        if limit.falls_back(now_s) and not report.falls_back:
            self._set(now_s + limit.hold.sample_s)

    def retry(self, after_s: float) -> None:
        """Call again after so many seconds."""
        self._set(asyncio.get_running_loop().time() + after_s)

    def stop(self) -> None:
        """Call no more until the next limit: nothing of it is in force."""
        self._set(None)

    async def run(self) -> NoReturn:
        """Call until cancelled."""
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(self._due_s):
                    await self._changed.wait()
            except TimeoutError:
                self._due_s = None
                await self._fall_back()

    def _set(self, due_s: float | None) -> None:
        self._due_s = due_s
        self._changed.set()
