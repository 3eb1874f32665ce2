"""Calls that may hang, each with a deadline: a thread of their own runs them, and the caller gets a failure in time.

Guarantees that a call returns within its deadline, whatever the driver does, and that after a hang later calls fail at
once, with the age of the hang, until the driver returns. Calls run one at a time and in order; one that has not begun
within its deadline never begins. A thread that hangs does not keep the process from ending.

Does not guarantee that a call that failed with TIMEOUT has done nothing: a thread inside a driver cannot be stopped, so
what it was to write may still be written when it returns.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason

T = TypeVar("T")


@dataclass(slots=True)
class _Call(Generic[T]):
    function: Callable[[], T]
    #: When the deadline ends; waiting for earlier calls counts.
    due: float
    started: float | None = None
    cancelled: bool = False
    #: One entry: what was returned, or what was raised.
    results: SimpleQueue[tuple[list[T], BaseException | None]] = field(default_factory=SimpleQueue)


class DeadlineWorker:
    """One thread that makes the calls of one device. For callers in any thread."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._queue: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running: _Call[Any] | None = None
        #: Guards the thread's start and end, and a call's begin against its cancellation.
        self._lock = threading.Lock()

    def call(self, function: Callable[[], T], deadline_s: float) -> T | HardwareFailure:
        """Make a call; what it raises is raised here. Blocks, so not for a thread that runs an event loop."""
        failure = self.hanging()
        if failure is not None:
            return failure
        call = _Call(function, self._clock() + deadline_s)
        self._submit(call)
        try:
            returned, raised = call.results.get(timeout=deadline_s)
        except Empty:
            with self._lock:
                call.cancelled = call.started is None
                what = "could not begin" if call.cancelled else "did not return"
            return HardwareFailure(Reason.TIMEOUT, f"{self._name}: a call {what} within {deadline_s:g} s")
        if raised is not None:
            raise raised
        return returned[0]

    def hanging(self) -> HardwareFailure | None:
        """Return why a call would fail now: an earlier one is overdue, with how long it has been running."""
        running = self._running
        if running is None or running.started is None:
            return None
        now = self._clock()
        if now <= running.due:
            return None
        return HardwareFailure(
            Reason.TIMEOUT, f"{self._name}: a call has not returned for {now - running.started:.0f} s"
        )

    def stop(self) -> None:
        """End the thread once it is idle; a later call begins another. A thread that hangs ends with the process."""
        with self._lock:
            if self._thread is not None:
                self._queue.put(None)

    def _submit(self, call: _Call[T]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"{self._name}-calls", daemon=True)
                self._thread.start()
            self._queue.put(call)

    def _serve(self) -> None:
        while True:
            call = self._queue.get()
            if call is not None:
                self._run(call)
                continue
            with self._lock:
                if self._queue.empty():
                    self._thread = None
                    return

    def _run(self, call: _Call[Any]) -> None:
        with self._lock:
            if call.cancelled:
                return
            call.started = self._clock()
        self._running = call
        try:
            result: tuple[list[Any], BaseException | None] = ([call.function()], None)
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            result = ([], error)
        self._running = None
        call.results.put(result)
