"""One subsystem of the machine: its journal, its lease, and one request at a time.

Promises that what is in force without a lease is restored: at the start (what a killed predecessor left), when the
lease runs out, at the end, and when a request has restored some of it only. What refuses is tried again at once and
then every 15 s until nothing is left. A request that puts something in force renews the lease, also where it fails
half-way. A subsystem whose journal cannot be used can be read and not written.

Each subsystem has its own executor, so that a driver which hangs in one holds up nothing in the other. A file that
blocks holds up its own subsystem for a few seconds, and fails from then on until the call returns: see
`joulie_agent.hardware.watch`.
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
#: How late a lease thread may be: longer than it ever waits for a request, or for all files of a subsystem that blocks.
OVERDUE_S: Final = 60.0
#: For how long a request finds out which files block; then it is refused as a whole, before its client gives up.
REQUEST_S: Final = CALL_S + 3.0
_NEVER: Final = float("-inf")


class SubsystemHandler(Protocol):
    """What a subsystem of the machine can do. One caller at a time."""

    writer: JournaledWriter | HardwareFailure

    def execute(self, request: Any, /) -> Reply:
        """Do what is asked of this subsystem."""

    def restore(self, keys: frozenset[str], /) -> RestoreReport:
        """Give knobs back, by key."""


class SubsystemExecutor:
    """Serves one subsystem. `start` it, `ask` from any thread, `end` it."""

    def __init__(
        self,
        subsystem: Subsystem,
        handler: SubsystemHandler,
        log: Log,
        *,
        clock: Callable[[], float] = time.monotonic,
        watch: Watch | None = None,
    ) -> None:
        self.subsystem = subsystem
        #: Makes every call of the handler that may touch hardware.
        self._thread = SubsystemThread(f"{subsystem}-work", watch)
        self._handler = handler
        self._log = log
        self.clock = clock
        #: Guards everything below, and whatever the handler does.
        self._lock = threading.Condition()
        self._started = False
        self._lease_until = _NEVER
        self._retry_at = _NEVER
        #: What the last attempt could not restore, and waits for the next one.
        self._failed: frozenset[str] = frozenset()
        self._stopping = threading.Event()
        self._reported: dict[str, str] = {}
        self._lease_thread: threading.Thread | None = None
        #: When the lease thread is to be seen again: when it wakes, or when it began what it is doing.
        self._expected_at = _NEVER

    def start(self) -> None:
        """Give back what is left from before, and keep the lease from now on; does not wait for either."""
        self._expected_at = self.clock()
        self._lease_thread = threading.Thread(target=self._run_lease, name=f"{self.subsystem}-lease", daemon=True)
        self._lease_thread.start()

    def health(self) -> SubsystemHealth:
        """Say whether the lease is kept. Waits for nothing, so that a subsystem that hangs is told as well."""
        late_s = self.clock() - self._expected_at
        problem = None
        if self._lease_thread is None or not self._lease_thread.is_alive():
            problem = "the lease thread has ended"
        elif late_s > OVERDUE_S:
            problem = f"the lease thread is {late_s:.0f} s late"
        degraded = [f"{path} has blocked for {age_s:.0f} s" for path, age_s in self._thread.watch.blocked.items()]
        writer = self._handler.writer
        journal = writer if isinstance(writer, HardwareFailure) else writer.journal_failure
        return SubsystemHealth(problem=problem, degraded=(*degraded, *([journal.message] if journal else ())))

    def execute(self, request: Request) -> Reply:
        """Carry out a request; waits while another one is carried out."""
        with self._lock:
            if self._stopping.is_set():
                return ErrorReply(message="the actuator is ending and gives everything back")
            if isinstance(request, Restore):
                return self._restore_now()
            if not self._started:
                self.check()  # nothing new comes into force on top of what a predecessor left
            try:
                reply = self._thread.do(lambda: self._handler.execute(request), REQUEST_S)
                return ErrorReply(message=reply.message) if isinstance(reply, HardwareFailure) else reply
            finally:
                # Also where it failed: what it has written before that must not stay without a lease.
                if isinstance(request, Setting):
                    self._lease_until = self.clock() + request.lease_s
                self._lock.notify_all()

    def check(self) -> float | None:
        """Give back what is due; return the seconds until something may be due again, None where nothing is held."""
        with self._lock:
            self._started = True
            now = self.clock()
            due = self._due(now)
            if due and (now >= self._retry_at or due - self._failed):
                self._restore("left behind" if self._lease_until == _NEVER else "not renewed", due)
                now = self.clock()
                self._failed = self._due(now)
                self._retry_at = now + RETRY_S
            if not self._managed():
                return None
            return max(0.0, (self._retry_at if self._due(now) else self._lease_until) - now)

    def stop(self, deadline: float) -> bool:
        """Take no more requests and restore everything.

        Returns:
            Whether nothing is left; False as well where that cannot be known, since there is no usable journal.
        """
        with self._lock:
            self._stopping.set()
            self._lock.notify_all()
            while held := self._managed():
                self._restore("ending", held)
                left_s = deadline - self.clock()
                if not self._managed() or left_s <= 0:
                    break
                self._lock.wait(min(RETRY_AT_END_S, left_s))
            return not self._managed() and not isinstance(self._handler.writer, HardwareFailure)

    def close(self) -> None:
        """Let the subsystem's thread end."""
        self._thread.stop()

    def _restore_now(self) -> Reply:
        if isinstance(self._handler.writer, HardwareFailure):
            return ErrorReply(message=self._handler.writer.message)
        self._lease_until = _NEVER
        self._failed = frozenset()
        try:
            return self._restore("asked to", self._managed())
        finally:
            self._lock.notify_all()  # what refused is tried again at once

    def _managed(self) -> frozenset[str]:
        return self._handler.writer.managed if isinstance(self._handler.writer, JournaledWriter) else frozenset()

    def _due(self, now: float) -> frozenset[str]:
        """What is in force without a lease: all of it, or what a predecessor left and nobody has asked for since."""
        if isinstance(self._handler.writer, JournaledWriter) and now < self._lease_until:
            return self._handler.writer.unclaimed
        return self._managed()

    def _run_lease(self) -> None:
        with self._lock:
            while not self._stopping.is_set():
                self._expected_at = self.clock()
                wait_s = self.check()
                self._expected_at = math.inf if wait_s is None else self.clock() + wait_s
                self._lock.wait(wait_s)

    def _restore(self, why: str, keys: frozenset[str]) -> RestoreReport:
        report = self._thread.do(lambda: self._handler.restore(keys))
        assert not isinstance(report, HardwareFailure), "restoring is given all the time that it takes"
        self._report(why, report)
        return report

    def _report(self, why: str, report: RestoreReport) -> None:
        """Tell an attempt, unless it ended as the one before."""
        left = {knob.key: f"{knob.reason}: {knob.message}" for knob in report.left}
        if left and left == self._reported:
            return
        self._reported = left
        outcomes = Counter(knob.outcome for knob in report.knobs)
        if report.knobs:
            self._log(
                "not everything given back" if left else "given back",
                level=Level.WARNING if left else Level.INFO,
                subsystem=self.subsystem,
                why=why,
                restored=outcomes[RestoreOutcome.RESTORED],
                kept=[knob.key for knob in report.knobs if knob.outcome is RestoreOutcome.KEPT_EXTERNAL],
                left=left,
                blocked=sorted(self._thread.watch.blocked),
            )
