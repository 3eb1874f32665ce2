"""Reading and writing one file of sysfs at a time, below a root that may be mounted anywhere.

Promises values: whatever the kernel answers becomes text, an integer or a refusal with its reason. Writes stay below
the root, symbolic links included. Knows nothing of what the files mean; that is for the modules beside this one.

What an error means depends on when it comes. Opening fails where this process may not use the file. A write that fails
on an open file was declined by the driver: powercap answers ENODATA when firmware has locked a limit, since it hides
the driver's own EACCES, and ENODATA again when a limit that is not there is read.
Source: Linux, drivers/powercap/powercap_sys.c and intel_rapl_common.c; fs/kernfs/file.c for the rule on modes.
"""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from joulie_agent.hardware import descriptors
from joulie_agent.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_agent.reasons import Reason

#: An attribute of sysfs is never longer than a page.
_PAGE: Final = 4096
_WRITABLE: Final = 0o222
_DIGITS: Final = re.compile(r"(\d+)")

_ON_OPEN: Final = {
    errno.ENOENT: Reason.NO_INTERFACE,
    errno.ENOTDIR: Reason.NO_INTERFACE,
    errno.EACCES: Reason.NOT_PERMITTED,
    errno.EPERM: Reason.NOT_PERMITTED,
    errno.EROFS: Reason.NOT_PERMITTED,
    errno.ENODEV: Reason.DEVICE_LOST,
    errno.ENXIO: Reason.DEVICE_LOST,
    #: Of a driver that has given up on its device, and of a file that blocks: see `joulie_agent.hardware.watch`.
    errno.ETIMEDOUT: Reason.TIMEOUT,
}
_ON_READ: Final = _ON_OPEN | {
    errno.ENODATA: Reason.NO_INTERFACE,
    errno.EINVAL: Reason.NO_INTERFACE,
    errno.EOPNOTSUPP: Reason.NO_INTERFACE,
    # A frequency policy without an online CPU.
    errno.EBUSY: Reason.NO_DEVICE,
}
_ON_WRITE: Final = _ON_OPEN | {
    errno.ENODATA: Reason.FIRMWARE_LOCKED,
    errno.EACCES: Reason.FIRMWARE_LOCKED,
    errno.EPERM: Reason.FIRMWARE_LOCKED,
    errno.EINVAL: Reason.OUT_OF_RANGE,
    errno.ERANGE: Reason.OUT_OF_RANGE,
    errno.ENOSYS: Reason.NO_INTERFACE,
    errno.EOPNOTSUPP: Reason.NO_INTERFACE,
}


class FileCalls(Protocol):
    """The system calls that a tree makes. Paths are absolute; every call raises OSError as the kernel would."""

    def open(self, path: str, flags: int) -> int:
        """Return a handle for the other calls."""

    def read(self, handle: int) -> bytes:
        """Return the attribute as a whole, up to a page."""

    def write(self, handle: int, content: bytes) -> None:
        """Write in one call."""

    def mode(self, handle: int) -> int:
        """Return the permission bits."""

    def close(self, handle: int) -> None:
        """Forget the handle."""

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory, in any order."""

    def real(self, path: str) -> str:
        """Return the path without symbolic links; of a path that leads nowhere, as far as it goes."""


class OsCalls:
    """The calls of the running system; a `FileCalls`."""

    def open(self, path: str, flags: int) -> int:
        """Open a file."""
        return descriptors.opened(lambda: os.open(path, flags | os.O_CLOEXEC))

    def read(self, handle: int) -> bytes:
        """Read at the start of the file."""
        return os.read(handle, _PAGE)

    def write(self, handle: int, content: bytes) -> None:
        """Write at the start of the file."""
        os.write(handle, content)

    def mode(self, handle: int) -> int:
        """Return the permission bits."""
        return os.fstat(handle).st_mode

    def close(self, handle: int) -> None:
        """Close the file."""
        os.close(handle)

    def entries(self, path: str) -> list[str]:
        """List a directory."""
        return descriptors.opened(lambda: os.listdir(path))  # noqa: PTH208 - names only, and a `Path` for each costs more than the call

    def real(self, path: str) -> str:
        """Resolve symbolic links."""
        return os.path.realpath(path)


class SysfsTree:
    """A mounted sysfs, such as `/sys` or `/host-sys`. Paths are relative to it."""

    def __init__(self, root: Path | str, calls: FileCalls | None = None) -> None:
        self.root = Path(root)
        self._calls: FileCalls = calls or OsCalls()
        self._real_root = self._calls.real(str(root))
        #: A string, since a `Path` costs more to join than the file to read.
        self._prefix = f"{self.root}/"

    def read_text(self, path: str) -> str | HardwareFailure:
        """Return the first line of a file, without space around it."""
        try:
            fd = self._calls.open(self._prefix + path, os.O_RDONLY)
        except OSError as error:
            return _refusal(path, error, _ON_OPEN)
        try:
            content = self._calls.read(fd)
        except OSError as error:
            return read_refusal(path, error)
        finally:
            self._calls.close(fd)
        return content.decode(errors="replace").partition("\n")[0].strip()

    def read_int(self, path: str) -> int | HardwareFailure:
        """Return the integer that a file holds."""
        text = self.read_text(path)
        if isinstance(text, HardwareFailure):
            return text
        try:
            return int(text)
        except ValueError:
            return HardwareFailure(Reason.MALFORMED_REPLY, f"{path} holds {text[:40]!r}, not an integer")

    def read_known(self, path: str) -> int | None:
        """Return a positive integer, or None for everything else: zero is how drivers say "not known"."""
        value = self.read_int(path)
        return None if isinstance(value, HardwareFailure) or value <= 0 else value

    def write_int(self, path: str, value: int) -> HardwareFailure | None:
        """Write one integer in one call, which the kernel takes as a whole; None where it did."""
        return self.write_text(path, str(value))

    def write_text(self, path: str, text: str) -> HardwareFailure | None:
        """Write one line in one call, which the kernel takes as a whole; None where it did."""
        fd = self._open_for_writing(path)
        if isinstance(fd, HardwareFailure):
            return fd
        try:
            # No truncation: sysfs has none, and on an ordinary file a reader takes the first line only. So a file holds
            # the old or the new value, and never nothing, whenever this process is killed.
            self._calls.write(fd, f"{text}\n".encode())
        except OSError as error:
            return write_refusal(path, error)
        finally:
            self._calls.close(fd)
        return None

    def probe_write(self, path: str) -> HardwareFailure | None:
        """Say whether this process may write a file, by opening it only; the driver's own answer is not known by it."""
        fd = self._open_for_writing(path)
        if isinstance(fd, HardwareFailure):
            return fd
        self._calls.close(fd)
        return None

    def names(self, path: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        """Return the entries of a directory that match as a whole, in natural order; none where it cannot be read."""
        try:
            found = self._calls.entries(self._prefix + path)
        except OSError:
            return ()
        return tuple(sorted((name for name in found if pattern.fullmatch(name)), key=natural))

    def real(self, path: str) -> str:
        """Return the path without symbolic links; two paths to one file or directory become the same."""
        return os.path.relpath(self._calls.real(self._prefix + path), self._real_root)

    def _open_for_writing(self, path: str) -> int | HardwareFailure:
        if self.real(path).startswith(os.pardir):
            return HardwareFailure(Reason.NO_INTERFACE, f"{path} leads out of {self.root}")
        try:
            fd = self._calls.open(self._prefix + path, os.O_WRONLY)
        except OSError as error:
            return _refusal(path, error, _ON_OPEN)
        # kernfs lets nobody write where the mode has no write bit, root included.
        if not self._calls.mode(fd) & _WRITABLE:
            self._calls.close(fd)
            return HardwareFailure(Reason.NOT_PERMITTED, f"{path} is read-only")
        return fd


@dataclass(frozen=True, slots=True)
class SysfsKnob:
    """A writable integer in sysfs; a `Knob`."""

    tree: SysfsTree
    path: str
    key: str
    unit: str
    limits: KnobLimits
    kind: KnobKind = KnobKind.LIMIT

    def read(self) -> int | HardwareFailure:
        """Return the value in force."""
        return self.tree.read_int(self.path)

    def write(self, value: int) -> int | HardwareFailure:
        """Write, read back, and return what was read."""
        return self.tree.write_int(self.path, value) or self.tree.read_int(self.path)

    def probe_write(self) -> HardwareFailure | None:
        """Say whether this process may write, without writing."""
        return self.tree.probe_write(self.path)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of a kernel list, `0-3,8` as in topology or `0 1 2` as in cpufreq; what is no CPU is left out."""
    cpus: set[int] = set()
    for part in re.split(r"[,\s]+", text):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() if dash else True):
            cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Order `policy2` before `policy10`."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name))


def read_refusal(path: str, error: OSError) -> HardwareFailure:
    """Return what a failed read of an open file means."""
    return _refusal(path, error, _ON_READ)


def write_refusal(path: str, error: OSError) -> HardwareFailure:
    """Return what a failed write to an open file means."""
    return _refusal(path, error, _ON_WRITE)


def _refusal(path: str, error: OSError, reasons: dict[int, Reason]) -> HardwareFailure:
    code = error.errno or 0
    return HardwareFailure(reasons.get(code, Reason.IO_ERROR), f"{path}: {error.strerror or os.strerror(code)}")
