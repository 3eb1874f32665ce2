"""Faults of single files, changeable while others use them."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: Between two checks of a hung access whether it has been released.
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFault:
    """Departures of one file from what it should do. Errors are numbers of `errno`; 0 is none."""

    open_errno: int = 0
    read_errno: int = 0
    write_errno: int = 0
    #: Writes succeed and change nothing.
    ignores_writes: bool = False
    #: Every access takes this long.
    delay_s: float = 0.0
    #: Accesses wait until the fault is taken away.
    hangs: bool = False


class KernelFaults:
    """Faults by real path."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._faults: dict[str, KernelFault] = {}
        self._changed = threading.Condition()
        self._hung = 0

    @property
    def hung(self) -> int:
        """Number of accesses that wait for a fault to be taken away."""
        return self._hung

    def put(self, path: str, fault: KernelFault | None) -> None:
        """Set a fault of a file; None removes it and releases the callers that hang on it."""
        with self._changed:
            if fault is None:
                self._faults.pop(path, None)
            else:
                self._faults[path] = fault
            self._changed.notify_all()

    def clear(self) -> None:
        """Take all faults away."""
        with self._changed:
            self._faults.clear()
            self._changed.notify_all()

    def on_open(self, path: str) -> None:
        """Fail as opening does."""
        if path in self._faults:
            _fail(self._faults[path].open_errno, path)

    def on_read(self, path: str) -> None:
        """Wait or fail as reading does."""
        fault = self._wait(path)
        if fault is not None:
            _fail(fault.read_errno, path)

    def on_write(self, path: str) -> bool:
        """Wait or fail as writing does; returns whether the write has an effect."""
        fault = self._wait(path)
        if fault is None:
            return True
        _fail(fault.write_errno, path)
        return not fault.ignores_writes

    def _wait(self, path: str) -> KernelFault | None:
        fault = self._faults.get(path)
        if fault is None:
            return None
        if fault.delay_s:
            self._sleep(fault.delay_s)
        if not fault.hangs:
            return fault
        with self._changed:
            self._hung += 1
            self._changed.notify_all()
            while self._faults.get(path) is fault:
                self._changed.wait(_POLL_S)
            self._hung -= 1
            return self._faults.get(path)


def _fail(code: int, path: str) -> None:
    if code:
        raise OSError(code, os.strerror(code), path)
