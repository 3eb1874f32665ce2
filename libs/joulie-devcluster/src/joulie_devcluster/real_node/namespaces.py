"""Keep a node's processes in namespaces of their own: nothing that a kubelet or containerd starts can outlive the node.

    python -I -S namespaces.py hold SOURCE:TARGET...      # new process and mount namespaces; stays until SIGTERM
    python -I -S namespaces.py enter PID COMMAND...       # runs a command in those that PID lives in

Containers are nobody's children: a runtime lets go of them on purpose, so that they survive it. Here they live in a
process namespace, and the kernel kills everything in it as soon as its first process is gone. What they mounted goes
with the mount namespace, so that a node's directory can be removed without reaching into a host path mounted in it.

`hold` binds each SOURCE over its TARGET (both must exist) in the new mount namespace only, prints "holding as PID" once
that is done, and adopts orphans. In both forms this process waits outside, passes SIGTERM on and ends as its child did;
the child dies with it however it went. Linux only, root only. Imports nothing outside the standard library, as
`die_with_parent` does.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

# From <sched.h>, <sys/mount.h> and <sys/prctl.h>.
_CLONE_NEWNS, _CLONE_NEWPID = 0x0002_0000, 0x2000_0000
_MS_BIND, _MS_REC, _MS_SLAVE, _MS_SHARED = 0x1000, 0x4000, 0x8_0000, 0x10_0000
_PR_SET_PDEATHSIG = 1
_USAGE_EXIT, _CANNOT_START_EXIT = 2, 127

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Perform one of the two forms; the exit status of the child."""
    try:
        match arguments:
            case ["hold", *binds]:
                return _hold([bind.split(":", 1) for bind in binds])
            case ["enter", pid, executable, *rest]:
                return _enter(int(pid), [executable, *rest])
            case _:
                sys.stderr.write("usage: namespaces.py hold SOURCE:TARGET... | enter PID COMMAND...\n")
                return _USAGE_EXIT
    except OSError as error:
        sys.stderr.write(f"namespaces: {error}\n")
        return _CANNOT_START_EXIT


def _hold(binds: list[list[str]]) -> int:
    _call("unshare", _libc.unshare(_CLONE_NEWPID))
    child, line = _fork_tied(lambda line: _be_init(binds, line))
    if line.recv(1):
        sys.stdout.write(f"holding as {child}\n")
        sys.stdout.flush()
    # Not the SIGTERM that came: the first process of a namespace takes all others along only when it is gone.
    return _shepherd(child, passed_on=signal.SIGKILL)


def _enter(pid: int, command: list[str]) -> int:
    cwd = Path.cwd()
    processes, mounts = (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in ("pid", "mnt"))
    _call("setns", _libc.setns(processes, _CLONE_NEWPID))

    def become_command(_: socket.socket) -> NoReturn:
        _call("setns", _libc.setns(mounts, _CLONE_NEWNS))
        os.chdir(cwd)
        os.execv(command[0], command)  # noqa: S606 - the whole point, without a shell

    child, _ = _fork_tied(become_command)
    return _shepherd(child, passed_on=signal.SIGTERM)


def _be_init(binds: list[list[str]], line: socket.socket) -> NoReturn:
    """The first process of the namespace: make the mounts, then reap whoever is left without a parent."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    # Mounts of the host appear in here, none of ours out there; among containers they are shared as on any node.
    _mount(None, "/", _MS_REC | _MS_SLAVE)
    _mount(None, "/", _MS_REC | _MS_SHARED)
    _mount("proc", "/proc", 0, kind="proc")
    for source, target in binds:
        _mount(source, target, _MS_BIND | _MS_REC)
    line.send(b".")
    while True:
        signal.sigwait({signal.SIGCHLD})
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def _fork_tied(run: Callable[[socket.socket], NoReturn]) -> tuple[int, socket.socket]:
    """Fork a child that the kernel kills when this process ends; its pid, and a line to what runs in it."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child != 0:
        theirs.close()
        return child, ours
    try:
        ours.close()
        _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        if _is_closed(theirs):
            # The parent died between fork and prctl: no signal will ever come.
            os._exit(_CANNOT_START_EXIT)
        run(theirs)
    except OSError as error:
        sys.stderr.write(f"namespaces: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(_CANNOT_START_EXIT)


def _is_closed(line: socket.socket) -> bool:
    try:
        return line.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


def _shepherd(child: int, *, passed_on: signal.Signals) -> int:
    """Wait for the child; SIGTERM reaches it as `passed_on`. Its exit status, 128 + signal where it was killed."""
    descriptor = os.pidfd_open(child)

    def pass_on(_number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, passed_on)

    signal.signal(signal.SIGTERM, pass_on)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _mount(source: str | None, target: str, flags: int, *, kind: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    _call(f"mount {target}", _libc.mount(*encoded, ctypes.c_ulong(flags), None))


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
