"""The locks that keep two resource managers apart: one of the state directory, one of the runtime's socket.

Two that share a state directory overwrite each other's grants, and two plugins that set a container's CPUs make its
creation fail. What is locked are the two directories, with `flock`: nothing is written, a bind mount into another
container has the same lock, and it ends with its holder, however that ends.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

_MODE: Final = 0o710


class NotAloneError(Exception):
    """Another process holds a directory; the message names it and what to do."""


@contextmanager
def sole_user(state_dir: Path, nri_socket: Path | None) -> Iterator[None]:
    """Hold the state directory, and the directory of the runtime's socket where it is there.

    Args:
        state_dir: created if it is missing.
        nri_socket: None where the runtime has started this process, and with it no other one.

    Raises:
        NotAloneError: another process holds one of them.
    """
    with suppress(OSError):  # it is there, or the cache reports it
        state_dir.mkdir(mode=_MODE, parents=True)
    with ExitStack() as stack:
        if not _lock(stack, state_dir):
            raise NotAloneError(
                f"STATE_DIR: {state_dir} is held by another process; end it, or give this one a directory of its own"
            )
        if nri_socket is not None and not _lock(stack, nri_socket.parent):
            raise NotAloneError(
                f"NRI_SOCKET: {nri_socket} is used by another resource manager, with a state directory other than "
                f"{state_dir}; a runtime has one: end the other"
            )
        yield


def _lock(stack: ExitStack, directory: Path) -> bool:
    """Lock a directory until the stack ends; return False where another process has it.

    One that is not there, cannot be opened or is on a file system without locks separates no process.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
