"""Waiting for a server that does not answer: the watches of a process share one probe.

Guarantees: while some work waits, the next attempt of the process begins within `PROBE_INTERVAL_S`; the first answer
ends the waits of all others.
"""

import asyncio
from contextlib import suppress
from typing import Final

#: How long a connection may take, TLS included.
CONNECT_TIMEOUT_S: Final = 5.0
#: The same where another server is likely to answer, and how many attempts of a process in a row are given up so early.
QUICK_CONNECT_TIMEOUT_S: Final = 1.0
QUICK_CONNECTS: Final = 4
#: Short enough to be ready within 5 s of the server's return, long enough for thousands of processes to wait for it.
PROBE_INTERVAL_S: Final = 2.0


class Outage:
    """Waits after failures, of everything that uses one client."""

    def __init__(self) -> None:
        self._probing = False
        self._waiters: set[asyncio.Future[None]] = set()
        #: Attempts in a row without an answer; a process that never had one is patient.
        self._unanswered = QUICK_CONNECTS

    @property
    def connect_timeout_s(self) -> float:
        """Seconds that the next connection may take.

        One of several servers behind an address may hang: after an answer, the next attempts lead to another soon.
        """
        return QUICK_CONNECT_TIMEOUT_S if self._unanswered < QUICK_CONNECTS else CONNECT_TIMEOUT_S

    async def wait(self, delay_s: float, *, probe: bool = True) -> None:
        """Wait until the server has answered something else, at most `delay_s`.

        Args:
            delay_s: the longest wait.
            probe: whether this work may be the one that waits `PROBE_INTERVAL_S` at most; not after an answer, such as
                a refusal, since the server is there.
        """
        if probe and not self._probing:
            self._probing = True
            try:
                await asyncio.sleep(min(delay_s, PROBE_INTERVAL_S))
            finally:
                self._probing = False
            return
        answered = asyncio.get_running_loop().create_future()
        self._waiters.add(answered)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await answered
        finally:
            self._waiters.discard(answered)

    def unanswered(self) -> None:
        """Note an attempt without an answer."""
        self._unanswered += 1

    def answered(self) -> None:
        """End all waits: the server has answered."""
        self._unanswered = 0
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
