"""The machine mounted by FUSE, so that a real program opens, reads and writes it by system calls.

The file system runs in a process of its own (`joulie_testing.agent.kernel.serve`), which holds the machine; `Mounted`
calls the machine's methods there over a socket. When this process goes, however it ends, the other one unmounts. Needs
root, /dev/fuse, libfuse 3 and the package `mfusepy`; `why_not` returns which of them is missing.
"""

import ctypes
import ctypes.util
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, cast

from joulie_testing.agent.kernel.behaviour import Behaviour
from joulie_testing.agent.kernel.machine import KernelMachine
from joulie_testing.agent.machine_spec import MachineSpec

_START_S: Final = 30.0
_STOP_S: Final = 5.0
_MNT_DETACH: Final = 2


class MountError(Exception):
    """The file system did not come up; the message is the output of its process."""


def why_not() -> str | None:
    """Say why nothing can be mounted here; None where it can."""
    if os.geteuid() != 0:
        return "only root can mount"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no usable /dev/fuse"
    if _library() is None:
        return "libfuse 3 is not installed"
    if find_spec("mfusepy") is None:
        return "the package mfusepy is not installed"
    return None


def _library() -> str | None:
    return ctypes.util.find_library("fuse3")


class Mounted:
    """A mounted machine: `sys` and `proc` are its roots, `machine` calls the model's methods in the other process."""

    def __init__(self, root: Path, connection: "Connection[Any, Any]") -> None:
        self.root = root
        self.sys = root / "sys"
        self.proc = root / "proc"
        self._connection = connection
        self._turn = threading.Lock()
        #: Only methods, with plain values: its attributes are in the other process.
        self.machine = cast("KernelMachine", _Remote(self))

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the machine."""
        with self._turn:
            self._connection.send((method, arguments, named))
            answer = self._connection.recv()
        if isinstance(answer, BaseException):
            raise answer
        return answer


class _Remote:
    """Stands for a `KernelMachine` in another process."""

    def __init__(self, mounted: Mounted) -> None:
        self._mounted = mounted

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            return self._mounted.call(name, *arguments, **named)

        return call


@contextmanager
def mounted(spec: MachineSpec, directory: Path, behaviour: Behaviour | None = None) -> Iterator[Mounted]:
    """Mount a machine on an empty directory for as long as the context lasts; it is unmounted whatever happens.

    Raises:
        MountError: it could not be mounted.
    """
    directory.mkdir(parents=True, exist_ok=True)
    local, remote = socket.socketpair()
    with remote:
        command = [sys.executable, "-m", "joulie_testing.agent.kernel.serve", str(directory), str(remote.fileno())]
        # mfusepy takes libfuse 2 where that is installed, too, and its options are others.
        environment = {**os.environ, "FUSE_LIBRARY_PATH": _library() or ""}
        process = subprocess.Popen(  # noqa: S603
            command, pass_fds=[remote.fileno()], stderr=subprocess.PIPE, env=environment
        )
    connection: Connection[Any, Any] = Connection(local.detach())
    try:
        _begin(connection, process, (spec, behaviour or Behaviour()))
        yield Mounted(directory, connection)
    finally:
        connection.close()
        _unmount(directory)
        _end(process)


def _begin(connection: "Connection[Any, Any]", process: "subprocess.Popen[bytes]", order: object) -> None:
    try:
        connection.send(order)
        if connection.poll(_START_S) and connection.recv() == "mounted":
            return
    except (EOFError, ConnectionError):
        pass
    process.kill()
    raise MountError(process.communicate()[1].decode(errors="replace") or "the file system did not answer")


def _unmount(directory: Path) -> None:
    """Unmount at once, even while it is in use."""
    ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(directory), _MNT_DETACH)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process and its connection to the kernel; callers that wait on a file get an error."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_S)
    process.kill()
    process.communicate()
