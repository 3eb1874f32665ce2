"""The thread that does the work of one subsystem, replaced when a file blocks it.

Promises that a piece of work ends, whatever file blocks: the thread in it is given up, and the work is done again from
its beginning by another thread, to which the file is refused. So all work has to be such that doing it twice does no
harm, which holds for every request.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.hardware.watch import AbandonedCall, Watch
from joulie_agent.reasons import Reason

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
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[_Job[Any] | None] | None = None

    def do(self, work: Callable[[], T], patience_s: float = math.inf) -> T | HardwareFailure:
        """Do a piece of work; whatever it raises is raised here.

        Args:
            work: may be begun several times.
            patience_s: once that is over, a file that blocks is refused for the whole work, and no further one is
                looked for.
        """
        until = time.monotonic() + patience_s
        while True:
            job = _Job(work)
            if not self._hand_over(job):
                return self._do_here(work)
            path = self._await(job)
            if path is None:
                return job.result()
            if time.monotonic() >= until:
                return HardwareFailure(Reason.TIMEOUT, f"{path} has blocked, as others before")

    def stop(self) -> None:
        """End the thread once it is idle; later work begins another."""
        if self._jobs is not None and self._thread is not None:
            self._jobs.put(None)
            self._jobs = None
            self._thread.join(_STOP_S)

    def _hand_over(self, job: _Job[T]) -> bool:
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

    def _do_here(self, work: Callable[[], T]) -> T:
        """Without a thread there is no deadline, but what is in force can still be restored."""
        self.watch.hire()
        return work()

    def _await(self, job: _Job[T]) -> str | None:
        """Wait for the job's end; where a file blocks it, give its thread up and return the file."""
        while not job.done.wait(self.watch.left_s()):
            path = self.watch.give_up()
            if path is not None:
                self._jobs = None
                return path
        return None

    def _serve(self, jobs: SimpleQueue[_Job[Any] | None]) -> None:
        while (job := jobs.get()) is not None:
            self.watch.hire()
            try:
                job.results.append(job.work())
            except AbandonedCall:
                return
            except BaseException as error:  # noqa: BLE001 - raised where the work was asked for
                job.error = error
            job.done.set()
