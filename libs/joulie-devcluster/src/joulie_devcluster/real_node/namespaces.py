"""Launcher of processes in separate namespaces, so that no process of a kubelet or containerd outlives the node.

    python -I -S namespaces.py create SOURCE:TARGET...   # create process and mount namespaces; run until SIGTERM
    python -I -S namespaces.py enter PID COMMAND...      # run a command in the namespaces of PID

Container runtimes detach containers from themselves on purpose, so that containers survive a restart of the runtime.
Here they are in a process namespace, whose processes the kernel kills as soon as its init process ends. Their mounts
end with the mount namespace, so that removing the node's directory cannot reach into a host path that was mounted in
it.

`create` bind-mounts each SOURCE on its TARGET (both must exist) in the new mount namespace only, prints "init process
PID" when that is done, and reaps orphans. In both forms this process stays outside of the namespaces, forwards SIGTERM
and exits with the status of its child; the kernel kills the child when this process ends.

Limits: Linux only, root only. Imports the standard library only and needs no site-packages, like `die_with_parent`.
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
    """Run one of the two forms and return the exit status of the child."""
    try:
        match arguments:
            case ["create", *binds]:
                return _create([bind.split(":", 1) for bind in binds])
            case ["enter", pid, executable, *rest]:
                return _enter(int(pid), [executable, *rest])
            case _:
                sys.stderr.write("usage: namespaces.py create SOURCE:TARGET... | enter PID COMMAND...\n")
                return _USAGE_EXIT
    except OSError as error:
        sys.stderr.write(f"namespaces: {error}\n")
        return _CANNOT_START_EXIT


def _create(binds: list[list[str]]) -> int:
    _check("unshare", _libc.unshare(_CLONE_NEWPID))
    # SIGKILL instead of SIGTERM: the kernel kills the other processes of the namespace when its init process has ended.
    child, channel = _fork(lambda channel: _run_init(binds, channel), forward_sigterm_as=signal.SIGKILL)
    if channel.recv(1):
        sys.stdout.write(f"init process {child}\n")
        sys.stdout.flush()
    return _wait(child)


def _enter(pid: int, command: list[str]) -> int:
    cwd = Path.cwd()
    processes, mounts = (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in ("pid", "mnt"))
    _check("setns", _libc.setns(processes, _CLONE_NEWPID))

    def exec_command(_: socket.socket) -> NoReturn:
        _check("setns", _libc.setns(mounts, _CLONE_NEWNS))
        os.chdir(cwd)
        os.execv(command[0], command)  # noqa: S606 - replaces this process; no shell is wanted

    child, _ = _fork(exec_command, forward_sigterm_as=signal.SIGTERM)
    return _wait(child)


def _run_init(binds: list[list[str]], channel: socket.socket) -> NoReturn:
    """Run the init process of the namespace: create the mounts, then reap orphans."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _check("unshare", _libc.unshare(_CLONE_NEWNS))
    # Mounts propagate from the host into this namespace but not back; between containers they are shared, as on any
    # node.
    _mount(None, "/", _MS_REC | _MS_SLAVE)
    _mount(None, "/", _MS_REC | _MS_SHARED)
    _mount("proc", "/proc", 0, kind="proc")
    for source, target in binds:
        _mount(source, target, _MS_BIND | _MS_REC)
    channel.send(b".")
    while True:
        signal.sigwait({signal.SIGCHLD})
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def _fork(run: Callable[[socket.socket], NoReturn], *, forward_sigterm_as: signal.Signals) -> tuple[int, socket.socket]:
    """Fork a child that the kernel kills when this process ends, and to which this process forwards SIGTERM.

    Args:
        run: the child's main function, called with its end of a socket pair.
        forward_sigterm_as: the signal that the child receives instead of SIGTERM.

    Returns:
        The child's pid and this process's end of the socket pair.
    """
    parent_end, child_end = socket.socketpair()
    # Blocked until the handler is installed: a SIGTERM in between must not end this process without the child's status.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    child = os.fork()
    if child != 0:
        child_end.close()
        _forward_sigterm(child, forward_sigterm_as)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return child, parent_end
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        parent_end.close()
        _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        if _is_closed(child_end):
            # The parent died between fork and prctl, so no signal will be sent.
            os._exit(_CANNOT_START_EXIT)
        run(child_end)
    except OSError as error:
        sys.stderr.write(f"namespaces: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(_CANNOT_START_EXIT)


def _is_closed(channel: socket.socket) -> bool:
    try:
        return channel.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


def _forward_sigterm(child: int, number: signal.Signals) -> None:
    descriptor = os.pidfd_open(child)

    def forward(_number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)

    signal.signal(signal.SIGTERM, forward)


def _wait(child: int) -> int:
    """Wait for the child and return its exit status (128 + N if signal N ended it)."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _mount(source: str | None, target: str, flags: int, *, kind: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    _check(f"mount {target}", _libc.mount(*encoded, ctypes.c_ulong(flags), None))


def _check(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
