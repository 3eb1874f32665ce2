"""The process behind a mounted machine: `python -m joulie_testing.agent.kernel.serve DIRECTORY DESCRIPTOR`.

Attributes are read and written past the page cache, so every read reaches the model and every write arrives as it was
made. Names and modes may be cached for `_NAMES_S`, which quarters the time of a walk through /sys: opening reaches
the model always, and finds that an attribute has gone.
"""

import ctypes
import errno
import os
import stat
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any, Final

from joulie_testing.agent.kernel.filesystem import Attribute, Directory, Link
from joulie_testing.agent.kernel.machine import KernelMachine

_NAMES_S: Final = 1.0
_THREADS: Final = 64
_MNT_DETACH: Final = 2
#: The size of every attribute in sysfs.
_SIZE: Final = 4096


class Operations:
    """Operations of the file system, as mfusepy calls them."""

    use_ns = True

    def __init__(self, machine: KernelMachine, ready: threading.Event) -> None:
        self._machine = machine
        self._ready = ready
        #: What an open file has read: a second read at an offset goes on in it, as seq_file does.
        self._contents: dict[int, bytes] = {}

    def init(self, _path: str) -> None:
        """Say that the mount is there."""
        self._ready.set()

    def getattr(self, path: str, _handle: int | None = None) -> dict[str, int]:
        """Return type, mode and size."""
        match self._machine.look_up(path):
            case Directory():
                return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
            case Link(target=target):
                return {"st_mode": stat.S_IFLNK | 0o777, "st_nlink": 1, "st_size": len(target)}
            case Attribute(mode=mode):
                return {"st_mode": stat.S_IFREG | mode, "st_nlink": 1, "st_size": _SIZE}

    def readlink(self, path: str) -> str:
        """Return where a link leads."""
        node = self._machine.look_up(path)
        if not isinstance(node, Link):
            raise OSError(errno.EINVAL, "Invalid argument")
        return node.target

    def readdir(self, path: str, _handle: int) -> list[str]:
        """List a directory."""
        return [".", "..", *self._machine.entries(path)]

    def open(self, path: str, flags: int) -> int:
        """Open an attribute."""
        return self._machine.open(path, flags)

    def read(self, _path: str, size: int, offset: int, handle: int) -> bytes:
        """Show an attribute anew at its start, and go on in what was shown."""
        if not offset:
            self._contents[handle] = self._machine.read(handle)
        return self._contents.get(handle, b"")[offset : offset + size]

    def write(self, _path: str, content: bytes, _offset: int, handle: int) -> int:
        """Store an attribute."""
        self._machine.write(handle, content)
        return len(content)

    def truncate(self, _path: str, _length: int, _handle: int | None = None) -> int:
        """Do nothing, as sysfs does: `echo 1 > FILE` requests it."""
        return 0

    def release(self, _path: str, handle: int) -> int:
        """Close an attribute."""
        self._contents.pop(handle, None)
        self._machine.close(handle)
        return 0


def main(directory: str, descriptor: int) -> None:
    """Mount, and execute calls until the other end has gone."""
    from mfusepy import FUSE  # noqa: PLC0415 - for development only, and it needs a library of the system

    connection: Connection[Any, Any] = Connection(descriptor)
    spec, behaviour = connection.recv()
    machine, ready = KernelMachine(spec, behaviour), threading.Event()
    threading.Thread(target=_serve_calls, args=(machine, connection, ready, directory), daemon=True).start()
    FUSE(
        Operations(machine, ready),
        directory,
        foreground=True,
        fsname="joulie-kernel-model",
        allow_other=True,
        max_threads=_THREADS,
        direct_io=True,
        entry_timeout=_NAMES_S,
        attr_timeout=_NAMES_S,
        negative_timeout=0,
    )


def _serve_calls(
    machine: KernelMachine, connection: "Connection[Any, Any]", ready: threading.Event, directory: str
) -> None:
    try:
        ready.wait()
        connection.send("mounted")
        while True:
            method, arguments, named = connection.recv()
            connection.send(_call(machine, method, arguments, named))
    except (EOFError, OSError):
        machine.clear_faults()
        ctypes.CDLL(None).umount2(os.fsencode(directory), _MNT_DETACH)


def _call(machine: KernelMachine, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    try:
        return getattr(machine, method)(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - raised at the other end
        return error


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
