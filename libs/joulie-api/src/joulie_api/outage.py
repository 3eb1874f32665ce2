"""Waiting for a server that does not answer: the watches of a process take turns at probing.

Guarantees: while work waits that may probe, the next attempt of the process begins within `PROBE_INTERVAL_S`, and turns
make no more attempts than one in that time; the first answer ends the waits of all but the one whose turn is next.
"""

import asyncio
import math
from contextlib import suppress
from typing import Final

from joulie_api.errors import Forbidden, KubeError, NotFound, ServerError, TransportError, Unauthorized

#: How long a connection may take, TLS included.
CONNECT_TIMEOUT_S: Final = 5.0
#: The same where another server is likely to answer, and how many attempts of a process in a row are given up so early.
QUICK_CONNECT_TIMEOUT_S: Final = 1.0
QUICK_CONNECTS: Final = 4
#: Short enough to be ready within 5 s of the server's return, long enough for thousands of processes to wait for it.
PROBE_INTERVAL_S: Final = 2.0
#: Time after a failure that shows no server at work in which one may have just started. It refuses requests for less
#: than a second where it has two CPUs for itself, and for longer where it has not.
RETURN_S: Final = 30.0
#: Failures that show no server at work.
_NO_SERVER: Final = (TransportError, ServerError)
#: Refusals of a server that has not loaded its accounts, rules or kinds yet. Not 429: it asks for less load, whatever
#: its reason.
_NOT_LOADED: Final = (Unauthorized, Forbidden, NotFound)


class Outage:
    """Waits after failures, of everything that uses one client."""

    def __init__(self) -> None:
        #: Everything that waits.
        self._waiters: set[asyncio.Future[None]] = set()
        #: Of which these may probe, in the order of their turns.
        self._turns: dict[asyncio.Future[None], None] = {}
        #: Gives the next turn; None while nothing waits for one.
        self._timer: asyncio.TimerHandle | None = None
        self._last_turn_at = -math.inf
        self._failed_at = -math.inf
        #: Attempts in a row without an answer; a process that never had one is patient.
        self._unanswered = QUICK_CONNECTS

    @property
    def connect_timeout_s(self) -> float:
        """Seconds that the next connection may take.

        One of several servers behind an address may hang: after an answer, the next attempts lead to another soon.
        """
        return QUICK_CONNECT_TIMEOUT_S if self._unanswered < QUICK_CONNECTS else CONNECT_TIMEOUT_S

    def may_probe_after(self, problem: KubeError | None) -> bool:
        """Return whether work that failed so may take turns at probing.

        After a refusal only while the server may have just started: something failed in the last `RETURN_S` as if none
        were at work.
        """
        returning = self._now() - self._failed_at < RETURN_S
        return isinstance(problem, _NO_SERVER) or (returning and isinstance(problem, _NOT_LOADED))

    async def wait(self, delay_s: float, *, probe: bool = True, waited_s: float = 0.0) -> None:
        """Wait until the server has answered something else, or it is this work's turn to probe.

        Args:
            delay_s: the longest wait.
            probe: whether this work takes turns: of all that do, one is tried each `PROBE_INTERVAL_S`.
            waited_s: how long this work has waited already.
        """
        woken = asyncio.get_running_loop().create_future()
        self._waiters.add(woken)
        if probe:
            self._turns[woken] = None
        if self._turns:
            self._plan_turn(max(0.0, PROBE_INTERVAL_S - waited_s))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await woken
        finally:
            self._waiters.discard(woken)
            self._turns.pop(woken, None)
            if self._timer is not None and not self._turns:
                self._timer.cancel()
                self._timer = None

    def failed(self, error: KubeError) -> None:
        """Note a failure of a request or of an open watch."""
        if isinstance(error, _NO_SERVER):
            self._failed_at = self._now()

    def unanswered(self) -> None:
        """Note an attempt without an answer."""
        self._unanswered += 1

    def answered(self) -> None:
        """End the waits: the server has answered.

        Not that of the next turn, which ends soon: what alone fails would be tried again with each answer to others.
        """
        self._unanswered = 0
        due = None if self._timer is None else next(iter(self._turns))
        for waiter in self._waiters:
            if waiter is not due and not waiter.done():
                waiter.set_result(None)

    def _plan_turn(self, after_s: float) -> None:
        loop = asyncio.get_running_loop()
        at = max(loop.time() + after_s, self._last_turn_at + PROBE_INTERVAL_S)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._give_turn)

    def _give_turn(self) -> None:
        # No other has a turn until this attempt has failed: it takes longer than the interval where the server hangs.
        self._timer = None
        self._last_turn_at = self._now()
        head = next(iter(self._turns))
        del self._turns[head]
        if not head.done():
            head.set_result(None)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
