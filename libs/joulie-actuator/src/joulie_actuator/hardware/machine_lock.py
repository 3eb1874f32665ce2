"""A lock on the whole machine, whatever the state directory of its holder: on the directory of its CPUs.

One process at a time holds a machine, among all containers that mount the same sysfs: the kernel keeps a
lock of `flock` with the inode, and a bind mount of sysfs has the inodes of what is mounted. The directory is opened for
reading and nothing in it is touched. The lock ends with its holder, however that ends.

A machine without the directory has no such lock; there only the state directory separates two processes.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from joulie_actuator.hardware.journal import JournalHeldError

DIRECTORY: Final = "devices/system/cpu"


class MachineHeldError(JournalHeldError):
    """A process with another state directory holds the machine."""


def claim(sys_root: Path, state_dir: Path) -> int | None:
    """Lock the machine; return the descriptor to close in the end, None where there is nothing to lock.

    Raises:
        MachineHeldError: another process has it. Lock the state directory first: then it has another one.
    """
    path = sys_root / DIRECTORY
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise MachineHeldError(
            f"another process, with a state directory other than {state_dir}, sets the limits of this machine ({path} "
            "is locked). Two agents overwrite each other's limits: remove one, or run this with the other's STATE_DIR"
        ) from error
    except OSError:  # a file system without locks
        os.close(lock)
        return None
    return lock
