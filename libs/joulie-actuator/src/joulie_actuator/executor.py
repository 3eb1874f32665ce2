"""One subsystem of the machine: its journal, its leases, and one request at a time.

Guarantees that what is managed without a lease is restored: at the start (what a killed predecessor left), when the
lease expires, at the end, and when a request has released a part of it only. A failed restore is retried at once and
then every 15 s until nothing is left. A request that sets something renews its lease, also where it fails half-way.
Each client holds a lease of its own: what one of them holds stays when that of another expires. A subsystem whose
journal cannot be used can be read and not written.

A request that has ended a limit may be answered before the journal has it. The lease thread records it at once, and
again every 15 s while that fails; the record of any later change contains it.

Each subsystem has its own executor, so that a driver which hangs in one holds up nothing in the other. A file that
blocks holds up its own subsystem for a few seconds, and fails from then on until the call returns: see
`joulie_actuator.hardware.watch`.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.knob_results import RestoreOutcome
from joulie_actuator.hardware.watch import CALL_S, Watch
from joulie_actuator.log import Level, Log
from joulie_actuator.protocol import LeaseKind, Request, Restore, Setting, Subsystem, lease_of
from joulie_actuator.replies import ErrorReply, Reply, RestoreReport, SubsystemHealth
from joulie_actuator.subsystem_thread import SubsystemThread

#: Between two attempts to restore.
RETRY_S: Final = 15.0
RETRY_AT_END_S: Final = 1.0
#: How late a lease thread may be: longer than it ever waits for a request, or for all files of a subsystem that blocks.
OVERDUE_S: Final = 60.0
#: How long a request may find out which files block; then it fails as a whole, before its client stops waiting.
REQUEST_S: Final = CALL_S + 3.0
_NEVER: Final = float("-inf")
#: What a restore of the controller leaves.
_OF_CLASSES: Final = frozenset({LeaseKind.CLASSES, LeaseKind.CORE_LIMITS})


class SubsystemHandler(Protocol):
    """Executes the requests of one subsystem. One caller at a time."""

    writer: JournaledWriter | HardwareFailure

    def execute(self, request: Any, /) -> Reply:
        """Execute a request."""

    def restore(self, keys: frozenset[str], /) -> RestoreReport:
        """Restore knobs, by key."""

    def keep(self, leases: frozenset[LeaseKind], /) -> RestoreReport:
        """End what other leases hold: restore it, except where one of `leases` wants another value."""


class SubsystemExecutor:
    """Runs the requests of one subsystem. `start` it, `execute` from any thread, `stop` it."""

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
        #: Runs every call of the handler that may reach hardware.
        self._thread = SubsystemThread(f"{subsystem}-work", watch)
        self._handler = handler
        self._log = log
        self.clock = clock
        #: Guards everything below, and all that the handler does.
        self._lock = threading.Condition()
        self._started = False
        #: When each lease expires that has been taken since everything was restored last.
        self._leases: dict[LeaseKind, float] = {}
        #: Whether any has been taken.
        self._leased = False
        self._retry_at = _NEVER
        #: What the last attempt could not restore, until the next one.
        self._failed: frozenset[str] = frozenset()
        self._stopping = threading.Event()
        self._reported: dict[str, str] = {}
        #: When the journal is tried again, and why it could not be written.
        self._record_at = _NEVER
        self._unrecorded_for: str | None = None
        self._lease_thread: threading.Thread | None = None
        #: When the lease thread is expected to run: when it wakes, or when it began its current work.
        self._expected_at = _NEVER

    def start(self) -> None:
        """Start the lease thread, which first restores what is left from before; return at once."""
        self._expected_at = self.clock()
        self._lease_thread = threading.Thread(target=self._run_lease, name=f"{self.subsystem}-lease", daemon=True)
        self._lease_thread.start()

    def health(self) -> SubsystemHealth:
        """Return whether the lease is enforced. Does not wait, so that a subsystem that hangs is reported too."""
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
        """Execute a request; waits while another one is executed."""
        with self._lock:
            if self._stopping.is_set():
                return ErrorReply(message="the actuator is stopping and restores everything")
            if isinstance(request, Restore):
                return self._restore_now(keep_classes=request.keep_classes)
            if not self._started:
                self.check()  # restore what a predecessor left before anything new is set
            self._end_expired(*([lease_of(request)] if isinstance(request, Setting) else ()))
            try:
                reply = self._thread.run(lambda: self._handler.execute(request), REQUEST_S)
                return ErrorReply(message=reply.message) if isinstance(reply, HardwareFailure) else reply
            finally:
                # Also where it failed: what it has written until then must not stay without a lease.
                if isinstance(request, Setting):
                    self._leased = True
                    self._leases[lease_of(request)] = self.clock() + request.lease_s
                self._lock.notify_all()

    def check(self) -> float | None:
        """Restore and record what is due; return the seconds until something may be due again, None for never."""
        with self._lock:
            self._started = True
            self._end_expired()
            now = self.clock()
            due = self._due()
            if due and (now >= self._retry_at or due - self._failed):
                self._restore("lease expired" if self._leased else "left by a predecessor", due)
                now = self.clock()
                self._failed = self._due()
                self._retry_at = now + RETRY_S
            wake_at = [self._record_at] if self._record() else []
            if self._managed():
                wake_at += [*(self._leases[kind] for kind in self._live()), *([self._retry_at] if self._due() else [])]
            return max(0.0, min(wake_at) - now) if wake_at else None

    def stop(self, deadline: float) -> bool:
        """Reject further requests and restore everything.

        Returns:
            Whether nothing is managed any more; also False where that is unknown for lack of a usable journal.
        """
        with self._lock:
            self._stopping.set()
            self._lock.notify_all()
            while managed := self._managed():
                self._restore("stopping", managed)
                left_s = deadline - self.clock()
                if not self._managed() or left_s <= 0:
                    break
                self._lock.wait(min(RETRY_AT_END_S, left_s))
            self._record_at = _NEVER
            self._record()
            return not self._managed() and not isinstance(self._handler.writer, HardwareFailure)

    def close(self) -> None:
        """End the thread of the subsystem."""
        self._thread.stop()

    def _record(self) -> bool:
        """Write the journal's file where it may differ from what is managed; return whether it still does.

        The next process would restore what it lists, which has its original already.
        """
        writer = self._handler.writer
        if isinstance(writer, HardwareFailure) or not writer.unrecorded:
            self._record_at, self._unrecorded_for = _NEVER, None
            return False
        if (now := self.clock()) < self._record_at:
            return True
        failure = self._thread.run(writer.record)
        why = None if failure is None else failure.message
        if why is not None and why != self._unrecorded_for:
            self._log("journal not written, tried again", level=Level.WARNING, subsystem=self.subsystem, error=why)
        self._record_at, self._unrecorded_for = _NEVER if why is None else now + RETRY_S, why
        return why is not None

    def _restore_now(self, *, keep_classes: bool) -> Reply:
        if isinstance(self._handler.writer, HardwareFailure):
            return ErrorReply(message=self._handler.writer.message)
        self._end_expired()
        self._failed = frozenset()
        try:
            if keep_classes and (kept := self._live() & _OF_CLASSES):
                ended = self._keep("requested", kept)
                left = self._due() - {knob.key for knob in ended.knobs}
                others = self._restore("requested", left).knobs if left else ()
                return RestoreReport(knobs=(*ended.knobs, *others))
            self._leases.clear()
            self._leased = False
            return self._restore("requested", self._managed())
        finally:
            self._lock.notify_all()  # what failed is retried at once

    def _live(self) -> frozenset[LeaseKind]:
        now = self.clock()
        return frozenset(kind for kind, until in self._leases.items() if now < until)

    def _end_expired(self, *renewed: LeaseKind) -> None:
        """End the leases that have expired where others stay; where none does, all that is managed is due."""
        staying = self._live().union(renewed)
        if staying and not staying >= self._leases.keys():
            self._keep("lease expired", staying)

    def _keep(self, cause: str, leases: frozenset[LeaseKind]) -> RestoreReport:
        self._leases = {kind: until for kind, until in self._leases.items() if kind in leases}
        report = self._thread.run(lambda: self._handler.keep(leases))
        assert not isinstance(report, HardwareFailure), "restoring has no time limit"
        self._report(cause, report)
        return report

    def _managed(self) -> frozenset[str]:
        return self._handler.writer.managed if isinstance(self._handler.writer, JournaledWriter) else frozenset()

    def _due(self) -> frozenset[str]:
        """Return what is managed without a lease: all of it, or what no request has claimed."""
        if isinstance(self._handler.writer, JournaledWriter) and self._live():
            return self._handler.writer.unclaimed
        return self._managed()

    def _run_lease(self) -> None:
        with self._lock:
            while not self._stopping.is_set():
                self._expected_at = self.clock()
                wait_s = self.check()
                self._expected_at = math.inf if wait_s is None else self.clock() + wait_s
                self._lock.wait(wait_s)

    def _restore(self, cause: str, keys: frozenset[str]) -> RestoreReport:
        report = self._thread.run(lambda: self._handler.restore(keys))
        assert not isinstance(report, HardwareFailure), "restoring has no time limit"
        self._report(cause, report)
        return report

    def _report(self, cause: str, report: RestoreReport) -> None:
        """Log an attempt, unless it ended as the one before."""
        left = {knob.key: f"{knob.reason}: {knob.message}" for knob in report.left}
        if left and left == self._reported:
            return
        self._reported = left
        outcomes = Counter(knob.outcome for knob in report.knobs)
        if report.knobs:
            self._log(
                "restore incomplete" if left else "restored",
                level=Level.WARNING if left else Level.INFO,
                subsystem=self.subsystem,
                cause=cause,
                restored=outcomes[RestoreOutcome.RESTORED],
                kept=[knob.key for knob in report.knobs if knob.outcome is RestoreOutcome.KEPT_EXTERNAL],
                left=left,
                blocked=sorted(self._thread.watch.blocked),
            )
