"""Launcher of a command that the kernel kills when its parent ends: `die_with_parent.py PARENT_PID COMMAND...`.

The kernel sends SIGKILL to the command as soon as the thread that started it has ended for any reason, SIGKILL
included. SIGKILL, because no process is left that could escalate, and because it also ends a stopped process. The
setting is preserved by `exec`, so the command keeps this process's pid and no Python process remains.

Limits: Linux only. Imports the standard library only and needs no site-packages, so that it starts in about 20 ms.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_USAGE_EXIT = 2
_CANNOT_START_EXIT = 127


def wrap(command: Sequence[str]) -> list[str]:
    """Return the command line that runs `command` as a child of this process.

    Args:
        command: absolute path of the executable, and its arguments.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(arguments: list[str]) -> int:
    """Set the parent-death signal and replace this process by the command.

    Args:
        arguments: pid of the parent, and the command.

    Returns:
        An exit status, only if the command cannot be started.
    """
    if len(arguments) < 2:  # noqa: PLR2004 - a pid and a command
        sys.stderr.write("usage: die_with_parent.py PARENT_PID COMMAND...\n")
        return _USAGE_EXIT
    parent_pid, command = int(arguments[0]), arguments[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.stderr.write(f"die_with_parent: prctl: {os.strerror(ctypes.get_errno())}\n")
        return _CANNOT_START_EXIT
    # If the parent died between fork and prctl, no signal will be sent.
    if os.getppid() != parent_pid:
        return _CANNOT_START_EXIT
    try:
        os.execv(command[0], command)  # noqa: S606 - replaces this process; no shell is wanted
    except OSError as error:
        sys.stderr.write(f"die_with_parent: {command[0]}: {error.strerror}\n")
    return _CANNOT_START_EXIT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
