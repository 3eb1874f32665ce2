"""A reserve of file descriptors for restoring, for when this process or the machine has none left.

Where `open` fails with EMFILE or ENFILE, the reserve is released and the call repeated. Code that can wait for
descriptors, such as a server, calls `refill` first and waits while that fails.
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
    """Start the reserve, and raise the limit of this process to the highest allowed."""
    global _wanted  # noqa: PLW0603 - a process has one table of descriptors
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _wanted = count
    refill()


def refill() -> bool:
    """Fill the reserve; return False where there are too few descriptors."""
    with _lock:
        try:
            while len(_held) < _wanted:
                _held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return True


def opened(call: Callable[[], T]) -> T:
    """Make a call that opens something, with the reserve if necessary; what it raises is raised here."""
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
