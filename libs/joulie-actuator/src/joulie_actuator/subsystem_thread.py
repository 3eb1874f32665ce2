"""The thread that executes the work of one subsystem, replaced when a file blocks it.

Guarantees that a piece of work ends, whatever file blocks: the blocked thread is abandoned, and another thread repeats
the work from its beginning, for which the file fails at once. So all work must be idempotent, as every request is.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.watch import AbandonedCall, Watch
from joulie_actuator.reasons import Reason

T = TypeVar("T")

#: An idle thread ends at once.
_STOP_S: Final = 1.0


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Callable[[], T]
    done: threading.Event = field(default_factory=threading.Event)
    results: list[T] = field(default_factory=list)
    error: BaseException | None = None

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self.results[0]


class SubsystemThread:
    """One thread at a time. For one caller at a time."""

    def __init__(self, name: str, watch: Watch | None = None) -> None:
        self.watch = watch if watch is not None else Watch()
        self._name = name
        self._thread: threading.Thread
        #: None while there is no thread.
        self._jobs: SimpleQueue[_Job[Any] | None] | None = None

    def run(self, work: Callable[[], T], timeout_s: float = math.inf) -> T | HardwareFailure:
        """Execute a piece of work; what it raises is raised here.

        Args:
            work: may be started several times.
            timeout_s: after that, the next file that blocks fails the whole work.
        """
        until = time.monotonic() + timeout_s
        while True:
            job = _Job(work)
            if not self._submit(job):
                return self._run_here(work)
            path = self._await(job)
            if path is None:
                return job.result()
            if time.monotonic() >= until:
                return HardwareFailure(Reason.TIMEOUT, f"{path} has blocked, as other files before")

    def stop(self) -> None:
        """End the thread once it is idle; later work starts another."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None
            self._thread.join(_STOP_S)

    def _submit(self, job: _Job[T]) -> bool:
        if self._jobs is None:
            jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
            self._thread = threading.Thread(target=self._serve, args=(jobs,), name=self._name, daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the limit of processes is reached
                return False
            self._jobs = jobs
        self._jobs.put(job)
        return True

    def _run_here(self, work: Callable[[], T]) -> T:
        """Execute in the calling thread: without a deadline, but limits can still be restored."""
        self.watch.attach()
        return work()

    def _await(self, job: _Job[T]) -> str | None:
        """Wait for the end of a job; where a file blocks it, abandon the thread and return the file."""
        while not job.done.wait(self.watch.left_s()):
            path = self.watch.abandon_overdue()
            if path is not None:
                self._jobs = None
                return path
        return None

    def _serve(self, jobs: SimpleQueue[_Job[Any] | None]) -> None:
        while (job := jobs.get()) is not None:
            self.watch.attach()
            try:
                job.results.append(job.work())
            except AbandonedCall:
                return
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                job.error = error
            job.done.set()
