"""Supervision of the file calls of a thread, so that a file that blocks affects that file only.

A read or write of sysfs may block as long as a driver or its firmware does, and the thread in it cannot be stopped.
`Watch` records the begin and the end of each call. The supervisor of the thread abandons it once a call is overdue; an
abandoned thread ends with `AbandonedCall` as soon as its call returns, so that it neither writes nor records anything
any more. Until then every further call for that file fails at once with ETIMEDOUT.

Guarantees that a thread is abandoned inside a call only: what a thread does between two calls is done by it alone. Does
not guarantee that an abandoned write has done nothing: it may land when the driver returns. It was recorded as
`pending` before, see `joulie_actuator.hardware.journal`, and the next read shows it.
"""

import errno
import threading
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from joulie_actuator.hardware.sysfs import FileCalls

P = ParamSpec("P")
T = TypeVar("T")

#: A call to sysfs takes microseconds, and milliseconds where it reaches another CPU or firmware.
CALL_S: Final = 5.0
#: The same while another file blocks, and while many do: often a whole driver blocks on one lock, and a full deadline
#: for each of a hundred files would use up the time that a stopping process has.
CROWDED_CALL_S: Final = 0.5
MANY: Final = 8
MANY_CALL_S: Final = 0.05
#: With so many blocked files no other is tried any more, since each holds a thread.
MOST_BLOCKED: Final = 256


class AbandonedCall(BaseException):
    """The thread was abandoned during a call: it has to end and touch nothing."""


class Watch:
    """The calls of one worker thread at a time. Without a worker nothing is supervised."""

    def __init__(self, *, call_s: float = CALL_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._call_s = call_s
        self._clock = clock
        self._lock = threading.Lock()
        self._worker: int | None = None
        self._call: tuple[str, float] | None = None
        #: Since when, by file.
        self._blocked: dict[str, float] = {}

    def attach(self) -> None:
        """Make the calling thread the worker."""
        with self._lock:
            self._worker = threading.get_ident()
            self._call = None

    @property
    def blocked(self) -> dict[str, float]:
        """The files that block, and for how many seconds."""
        with self._lock:
            now = self._clock()
            return {path: now - since for path, since in self._blocked.items()}

    def call(self, path: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call for a file.

        Raises:
            OSError: ETIMEDOUT while an earlier call for this file has not returned; whatever the call raises.
            AbandonedCall: the worker was abandoned meanwhile.
        """
        self._begin(path)
        try:
            return function(*args, **kwargs)
        finally:
            self._end(path)

    def left_s(self) -> float:
        """Return how long the worker's call may still take; a whole deadline where it is in no call."""
        with self._lock:
            allowed_s = self._allowed_s()
            return allowed_s if self._call is None else max(0.0, self._call[1] + allowed_s - self._clock())

    def abandon_overdue(self) -> str | None:
        """Abandon the worker if its call is overdue; return the file that blocks it."""
        with self._lock:
            if self._call is None or self._clock() < self._call[1] + self._allowed_s():
                return None
            path, since = self._call
            self._blocked[path] = since
            self._worker = self._call = None
            return path

    def _begin(self, path: str) -> None:
        with self._lock:
            now = self._clock()
            since = self._blocked.get(path)
            if since is not None:
                raise OSError(errno.ETIMEDOUT, f"an earlier call has not returned for {now - since:.0f} s")
            if len(self._blocked) >= MOST_BLOCKED:
                raise OSError(errno.ETIMEDOUT, f"not tried, since {len(self._blocked)} other files block")
            self._call = (path, now)

    def _end(self, path: str) -> None:
        with self._lock:
            if self._worker in {None, threading.get_ident()} and path not in self._blocked:
                self._call = None
                return
            self._blocked.pop(path, None)
        raise AbandonedCall(path)

    def _allowed_s(self) -> float:
        count = len(self._blocked)
        return min(self._call_s, MANY_CALL_S if count >= MANY else CROWDED_CALL_S if count else self._call_s)


class WatchedCalls:
    """The file operations of a tree, each as one watched call; a `FileCalls`."""

    def __init__(self, calls: FileCalls, watch: Watch) -> None:
        self._calls = calls
        self._watch = watch

    def read(self, path: str) -> bytes:
        """Read a file."""
        return self._watch.call(path, self._calls.read, path)

    def write(self, path: str, content: bytes) -> None:
        """Write a file."""
        self._watch.call(path, self._calls.write, path, content)

    def check_writable(self, path: str) -> None:
        """Open a file for writing."""
        self._watch.call(path, self._calls.check_writable, path)

    def entries(self, path: str) -> list[str]:
        """List a directory."""
        return self._watch.call(path, self._calls.entries, path)

    def real(self, path: str) -> str:
        """Resolve symbolic links; a path that blocks stays as it is."""
        try:
            return self._watch.call(path, self._calls.real, path)
        except TimeoutError:
            return path
