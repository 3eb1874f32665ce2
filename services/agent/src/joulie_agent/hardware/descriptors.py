"""Descriptors kept back for restoring, for when this process or the machine has none left.

Promises that a file can be opened once more where `open` fails with EMFILE or ENFILE: the reserve is given up, and the
call made again. Whoever takes descriptors without need, such as a server, asks `refill` first and waits while that
fails.
"""

import errno
import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

T = TypeVar("T")

#: A file of sysfs, a directory, the journal's new file, one of /proc; twice, since two subsystems may restore at once.
COUNT: Final = 8
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})

_lock = threading.Lock()
_held: list[int] = []
_wanted = 0


def reserve(count: int = COUNT) -> None:
    """Begin to keep descriptors back, and allow this process as many as it may have."""
    global _wanted  # noqa: PLW0603 - a process has one table of descriptors
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _wanted = count
    refill()


def refill() -> bool:
    """Make the reserve whole; False where there are too few descriptors."""
    with _lock:
        try:
            while len(_held) < _wanted:
                _held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return True


def opened(call: Callable[[], T]) -> T:
    """Make a call that opens something, from the reserve if need be; whatever it raises is raised here."""
    try:
        return call()
    except OSError as error:
        if error.errno not in _EXHAUSTED or not _spend():
            raise
    return call()


def _spend() -> bool:
    with _lock:
        spent = bool(_held)
        while _held:
            os.close(_held.pop())
        return spent
