"""Polling of what is outside of the cluster, in the background."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from joulie_api.failures import Failures


async def poll_forever(
    poll: Callable[[], Awaitable[None]], *, interval_s: float, failures: Failures, work: str
) -> NoReturn:
    """Call `poll` at intervals until cancelled; an unexpected error, counted as that of `work`, ends one call only."""
    loop = asyncio.get_running_loop()
    while True:
        due_at = loop.time() + interval_s
        with failures.contained(work):
            await poll()
        await asyncio.sleep(max(0.0, due_at - loop.time()))
