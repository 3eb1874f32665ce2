"""Calls that may hang, each with a deadline: a thread of their own takes the hang, and the caller gets a refusal.

Promises that a call returns within its deadline, whatever the driver does, and that after a hang later calls are
refused at once, with the age of the hang, until the driver returns. Calls run one at a time and in order; one that has
not begun within its deadline never begins. The event loop is never blocked, and a thread that hangs does not keep the
process from ending.

Does not promise that a call refused with TIMEOUT has done nothing: nobody can stop a thread inside a driver, so what it
was asked to write may still be written when it returns. `returned_late` counts those.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.reasons import Reason

T = TypeVar("T")


@dataclass(slots=True)
class _Call(Generic[T]):
    function: Callable[[], T]
    deadline_s: float
    #: When the deadline ends; waiting for earlier calls counts.
    due: float
    future: Future[T]
    started: float = 0.0


class DeadlineWorker:
    """One thread that makes the calls of one driver. For callers in any thread and in any event loop."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._queue: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._submitting = threading.Lock()
        self._running: _Call[Any] | None = None
        self.timeouts = 0
        """Calls that were refused because the driver took too long, for them or for an earlier one."""
        self.returned_late = 0
        """Calls that came back after their deadline, and may have done what they were asked."""

    def call(self, function: Callable[[], T], deadline_s: float) -> T | HardwareFailure:
        """Make a call; whatever it raises is raised here. Blocks, so not for a thread that runs an event loop."""
        submitted = self._submit(function, deadline_s)
        if isinstance(submitted, HardwareFailure):
            return submitted
        with suppress(TimeoutError):  # of the wait: what the call itself raises is returned here
            submitted.future.exception(deadline_s)
        return self._settle(submitted)

    async def call_async(self, function: Callable[[], T], deadline_s: float) -> T | HardwareFailure:
        """Make a call without blocking the event loop; whatever it raises is raised here."""
        import asyncio  # noqa: PLC0415 - seven megabytes that a process without an event loop need not pay

        submitted = self._submit(function, deadline_s)
        if isinstance(submitted, HardwareFailure):
            return submitted
        answer = asyncio.wrap_future(submitted.future)
        try:
            await asyncio.wait([answer], timeout=deadline_s)
            return self._settle(submitted)
        finally:
            # Nobody waits any longer: a call that has not begun never will, and a late answer looks for no event loop.
            answer.cancel()
            submitted.future.cancel()

    def hanging(self) -> HardwareFailure | None:
        """Return why a call would be refused now: an earlier one is overdue, and for how long it has been running."""
        running = self._running
        now = self._clock()
        if running is None or now <= running.due:
            return None
        return HardwareFailure(
            Reason.TIMEOUT, f"{self._name}: a call has not returned for {now - running.started:.0f} s"
        )

    def stop(self) -> None:
        """End the thread once it is idle; a later call begins another. A thread that hangs ends with the process."""
        with self._submitting:
            if self._thread is not None:
                self._queue.put(None)

    def _submit(self, function: Callable[[], T], deadline_s: float) -> _Call[T] | HardwareFailure:
        refusal = self.hanging()
        if refusal is not None:
            self.timeouts += 1
            return refusal
        submitted = _Call(function, deadline_s, self._clock() + deadline_s, Future[T]())
        with self._submitting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"{self._name}-calls", daemon=True)
                self._thread.start()
            self._queue.put(submitted)
        return submitted

    def _settle(self, submitted: _Call[T]) -> T | HardwareFailure:
        """Return the answer, or give the call up."""
        if submitted.future.cancel():
            what = "could not begin"
        elif submitted.future.done():
            return submitted.future.result()
        else:
            what = "did not return"
        self.timeouts += 1
        return HardwareFailure(Reason.TIMEOUT, f"{self._name}: a call {what} within {submitted.deadline_s:g} s")

    def _serve(self) -> None:
        while True:
            submitted = self._queue.get()
            if submitted is not None:
                self._make(submitted)
                continue
            with self._submitting:
                if self._queue.empty():
                    self._thread = None
                    return

    def _make(self, submitted: _Call[Any]) -> None:
        if not submitted.future.set_running_or_notify_cancel():
            return
        submitted.started = self._clock()
        self._running = submitted
        try:
            result = submitted.function()
        except BaseException as error:  # noqa: BLE001 - raised where the call was asked for
            self._finish(submitted)
            submitted.future.set_exception(error)
        else:
            self._finish(submitted)
            submitted.future.set_result(result)

    def _finish(self, submitted: _Call[Any]) -> None:
        self._running = None
        if self._clock() > submitted.due:
            self.returned_late += 1
