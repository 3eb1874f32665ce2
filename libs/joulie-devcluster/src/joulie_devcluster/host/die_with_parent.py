"""Run a command that dies with its parent: `python -I -S die_with_parent.py PARENT_PID COMMAND...`.

The kernel sends SIGKILL to the command as soon as the thread that started it is gone, however it went (SIGKILL
included). SIGKILL, because nobody is left to escalate, and because it also ends a process that is stopped. The setting
survives `exec`, so the command keeps this process's pid and nothing of Python stays behind. Linux only. Imports nothing
outside the standard library: it runs without site-packages, in about 20 ms.
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
    """Return the command line that runs `command` (an absolute path and arguments) as a child that dies with us."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(arguments: list[str]) -> int:
    """Tie this process to its parent and become the command; returns an exit status only where that fails."""
    if len(arguments) < 2:  # noqa: PLR2004 - a pid and a command
        sys.stderr.write("usage: die_with_parent.py PARENT_PID COMMAND...\n")
        return _USAGE_EXIT
    parent_pid, command = int(arguments[0]), arguments[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.stderr.write(f"die_with_parent: prctl: {os.strerror(ctypes.get_errno())}\n")
        return _CANNOT_START_EXIT
    # The parent may have died between fork and prctl; then no signal will ever come.
    if os.getppid() != parent_pid:
        return _CANNOT_START_EXIT
    try:
        os.execv(command[0], command)  # noqa: S606 - the whole point, without a shell
    except OSError as error:
        sys.stderr.write(f"die_with_parent: {command[0]}: {error.strerror}\n")
    return _CANNOT_START_EXIT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
