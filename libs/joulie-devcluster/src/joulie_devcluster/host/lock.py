"""An exclusive lock between processes, held on a file."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path, *, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold an exclusive lock on a file; wait while another process holds it.

    The kernel releases the lock when its holder ends, for whatever reason. The file is not removed: with removal, two
    processes could hold locks on two different files of the same name.

    Args:
        path: the file to lock, created if it does not exist.
        on_wait: called once if another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
