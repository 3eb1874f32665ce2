"""One part of the machine: its journal, its lease, and one request at a time.

Promises that what is in force without a lease is restored: at the start (what a killed predecessor left), when the
lease runs out, at the end, and when a request has restored some of it only. What refuses is tried again at once and
then every 15 s until nothing is left. A request that puts something in force renews the lease, also where it fails
half-way. A part whose journal cannot be used can be read and not written.

Parts have a lane each, so that a driver which hangs in one holds up nothing in the other. A file that blocks holds up
its own part for a few seconds, and is refused from then on until the call returns: see `joulie_agent.hardware.watch`.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from joulie_agent.actuator.log import Level, Log
from joulie_agent.actuator.protocol import (
    ErrorReply,
    Reply,
    Request,
    Restore,
    RestoreReport,
    Setting,
    Subsystem,
    SubsystemHealth,
)
from joulie_agent.actuator.subsystem_thread import SubsystemThread
from joulie_agent.hardware.journaled_writer import JournaledWriter, RestoreOutcome
from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.hardware.watch import CALL_S, Watch

#: Between two attempts to give back.
RETRY_S: Final = 15.0
RETRY_AT_END_S: Final = 1.0
#: How late a lease thread may be: longer than it ever waits for a request, or for all files of a part that blocks.
OVERDUE_S: Final = 60.0
#: For how long a request finds out which files block; then it is refused as a whole, before its client gives up.
REQUEST_S: Final = CALL_S + 3.0
_NEVER: Final = float("-inf")


class SubsystemHandler(Protocol):
    """What a part of the machine can do. One caller at a time."""

    hands: JournaledWriter | HardwareFailure

    def carry_out(self, request: Any, /) -> Reply:
        """Do what is asked of this part."""

    def restore(self, keys: frozenset[str], /) -> RestoreReport:
        """Give knobs back, by key."""


class SubsystemExecutor:
    """Serves one part. `start` it, `ask` from any thread, `end` it."""

    def __init__(
        self,
        part: Subsystem,
        handler: SubsystemHandler,
        log: Log,
        *,
        clock: Callable[[], float] = time.monotonic,
        watch: Watch | None = None,
    ) -> None:
        self.part = part
        #: Makes every call of the handler that may touch hardware.
        self._thread = SubsystemThread(f"{part}-work", watch)
        self._handler = handler
        self._log = log
        self.clock = clock
        #: Guards everything below, and whatever the handler does.
        self._turn = threading.Condition()
        self._begun = False
        self._lease_until = _NEVER
        self._retry_at = _NEVER
        #: What the last attempt could not restore, and waits for the next one.
        self._refused: frozenset[str] = frozenset()
        self._ending = threading.Event()
        self._told: dict[str, str] = {}
        self._keeper: threading.Thread | None = None
        #: When the lease thread is to be seen again: when it wakes, or when it began what it is doing.
        self._expected_at = _NEVER

    def start(self) -> None:
        """Give back what is left from before, and keep the lease from now on; does not wait for either."""
        self._expected_at = self.clock()
        self._keeper = threading.Thread(target=self._keep, name=f"{self.part}-lease", daemon=True)
        self._keeper.start()

    def health(self) -> SubsystemHealth:
        """Say whether the lease is kept. Waits for nothing, so that a part that hangs is told as well."""
        late_s = self.clock() - self._expected_at
        problem = None
        if self._keeper is None or not self._keeper.is_alive():
            problem = "the lease thread has ended"
        elif late_s > OVERDUE_S:
            problem = f"the lease thread is {late_s:.0f} s late"
        degraded = [f"{path} has blocked for {age_s:.0f} s" for path, age_s in self._thread.watch.blocked.items()]
        hands = self._handler.hands
        journal = hands if isinstance(hands, HardwareFailure) else hands.journal_refusal
        return SubsystemHealth(problem=problem, degraded=(*degraded, *([journal.message] if journal else ())))

    def ask(self, request: Request) -> Reply:
        """Carry out a request; waits while another one is carried out."""
        with self._turn:
            if self._ending.is_set():
                return ErrorReply(message="the actuator is ending and gives everything back")
            if isinstance(request, Restore):
                return self._give_back()
            if not self._begun:
                self.check()  # nothing new comes into force on top of what a predecessor left
            try:
                reply = self._thread.do(lambda: self._handler.carry_out(request), REQUEST_S)
                return ErrorReply(message=reply.message) if isinstance(reply, HardwareFailure) else reply
            finally:
                # Also where it failed: what it has written before that must not stay without a lease.
                if isinstance(request, Setting):
                    self._lease_until = self.clock() + request.lease_s
                self._turn.notify_all()

    def check(self) -> float | None:
        """Give back what is due; return the seconds until something may be due again, None where nothing is held."""
        with self._turn:
            self._begun = True
            now = self.clock()
            due = self._due(now)
            if due and (now >= self._retry_at or due - self._refused):
                self._restore("left behind" if self._lease_until == _NEVER else "not renewed", due)
                now = self.clock()
                self._refused = self._due(now)
                self._retry_at = now + RETRY_S
            if not self._held():
                return None
            return max(0.0, (self._retry_at if self._due(now) else self._lease_until) - now)

    def end(self, deadline: float) -> bool:
        """Take no more requests and restore everything.

        Returns:
            Whether nothing is left; False as well where that cannot be known, since there is no usable journal.
        """
        with self._turn:
            self._ending.set()
            self._turn.notify_all()
            while held := self._held():
                self._restore("ending", held)
                left_s = deadline - self.clock()
                if not self._held() or left_s <= 0:
                    break
                self._turn.wait(min(RETRY_AT_END_S, left_s))
            return not self._held() and not isinstance(self._handler.hands, HardwareFailure)

    def close(self) -> None:
        """Let the part's thread end."""
        self._thread.stop()

    def _give_back(self) -> Reply:
        if isinstance(self._handler.hands, HardwareFailure):
            return ErrorReply(message=self._handler.hands.message)
        self._lease_until = _NEVER
        self._refused = frozenset()
        try:
            return self._restore("asked to", self._held())
        finally:
            self._turn.notify_all()  # what refused is tried again at once

    def _held(self) -> frozenset[str]:
        return self._handler.hands.held if isinstance(self._handler.hands, JournaledWriter) else frozenset()

    def _due(self, now: float) -> frozenset[str]:
        """What is in force without a lease: all of it, or what a predecessor left and nobody has asked for since."""
        if isinstance(self._handler.hands, JournaledWriter) and now < self._lease_until:
            return self._handler.hands.orphans
        return self._held()

    def _keep(self) -> None:
        with self._turn:
            while not self._ending.is_set():
                self._expected_at = self.clock()
                wait_s = self.check()
                self._expected_at = math.inf if wait_s is None else self.clock() + wait_s
                self._turn.wait(wait_s)

    def _restore(self, why: str, keys: frozenset[str]) -> RestoreReport:
        report = self._thread.do(lambda: self._handler.restore(keys))
        assert not isinstance(report, HardwareFailure), "restoring is given all the time that it takes"
        self._tell(why, report)
        return report

    def _tell(self, why: str, report: RestoreReport) -> None:
        """Tell an attempt, unless it ended as the one before."""
        left = {knob.key: f"{knob.reason}: {knob.message}" for knob in report.left}
        if left and left == self._told:
            return
        self._told = left
        outcomes = Counter(knob.outcome for knob in report.knobs)
        if report.knobs:
            self._log(
                "not everything given back" if left else "given back",
                level=Level.WARNING if left else Level.INFO,
                part=self.part,
                why=why,
                restored=outcomes[RestoreOutcome.RESTORED],
                kept=[knob.key for knob in report.knobs if knob.outcome is RestoreOutcome.KEPT_EXTERNAL],
                left=left,
                blocked=sorted(self._thread.watch.blocked),
            )
