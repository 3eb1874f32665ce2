"""Reading and writing one file of sysfs at a time, below a root that may be mounted anywhere.

Every answer of the kernel becomes text, an integer or a failure with its reason. Writes stay below the root, symbolic
links included. What the files mean is in the modules beside this one.

The meaning of an error depends on the operation. Opening fails where this process may not use the file. A write that
fails on an open file was rejected by the driver: powercap answers ENODATA when firmware has locked a limit, since it
hides the driver's own EACCES, and ENODATA again when an absent limit is read.
Source: Linux, drivers/powercap/powercap_sys.c and intel_rapl_common.c; fs/kernfs/file.c for the rule on modes.
"""

import errno
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from joulie_actuator.hardware import descriptors
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.reasons import Reason
from joulie_core.containers.idset import HIGHEST_ID

#: An attribute of sysfs is never longer than a page.
_PAGE: Final = 4096
_WRITABLE: Final = 0o222
_DIGITS: Final = re.compile(r"(\d+)")

_ON_OPEN: Final[dict[int | None, Reason]] = {
    errno.ENOENT: Reason.NO_INTERFACE,
    errno.ENOTDIR: Reason.NO_INTERFACE,
    errno.EACCES: Reason.NOT_PERMITTED,
    errno.EPERM: Reason.NOT_PERMITTED,
    errno.EROFS: Reason.NOT_PERMITTED,
    errno.ENODEV: Reason.DEVICE_LOST,
    errno.ENXIO: Reason.DEVICE_LOST,
    #: From a driver whose device does not answer, and for a file that blocks: see `joulie_actuator.hardware.watch`.
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
    # The CPUs have no vector left for the interrupt.
    errno.ENOSPC: Reason.OVERRULED,
}


class OperationError(OSError):
    """A read or write failed on a file that could be opened."""


class FileCalls(Protocol):
    """File operations of a tree, one at a time. Paths are absolute.

    Every operation raises OSError as the kernel would: OperationError where the file could be opened.
    """

    def read(self, path: str) -> bytes:
        """Return the attribute as a whole, up to a page."""

    def write(self, path: str, content: bytes) -> None:
        """Write in one system call."""

    def check_writable(self, path: str) -> None:
        """Open for writing and write nothing."""

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory, in any order."""

    def real(self, path: str) -> str:
        """Return the path without symbolic links; of a path that leads nowhere, as far as it goes."""


class OsCalls:
    """The calls of the running system; a `FileCalls`."""

    def read(self, path: str) -> bytes:
        """Open, read once and close."""
        file = descriptors.opened(lambda: os.open(path, os.O_RDONLY))
        try:
            return os.read(file, _PAGE)
        except OSError as error:
            raise OperationError(error.errno, error.strerror) from error
        finally:
            os.close(file)

    def write(self, path: str, content: bytes) -> None:
        """Open, write once and close."""
        file = _open_writable(path)
        try:
            os.write(file, content)
        except OSError as error:
            raise OperationError(error.errno, error.strerror) from error
        finally:
            os.close(file)

    def check_writable(self, path: str) -> None:
        """Open and close."""
        os.close(_open_writable(path))

    def entries(self, path: str) -> list[str]:
        """List a directory."""
        return descriptors.opened(lambda: os.listdir(path))  # noqa: PTH208 - names only, and a `Path` for each costs more than the call

    def real(self, path: str) -> str:
        """Resolve symbolic links."""
        return os.path.realpath(path)


def _open_writable(path: str) -> int:
    file = descriptors.opened(lambda: os.open(path, os.O_WRONLY))
    # kernfs refuses writes where the mode has no write bit, even from root.
    if not os.fstat(file).st_mode & _WRITABLE:
        os.close(file)
        raise read_only()
    return file


def read_only() -> OSError:
    """Return the error for a file without a write bit."""
    return OSError(errno.EROFS, "read-only")


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
        content = self.read_content(path)
        return content if isinstance(content, HardwareFailure) else content.partition("\n")[0].strip()

    def read_content(self, path: str) -> str | HardwareFailure:
        """Return a file as a whole, up to a page."""
        try:
            return self._calls.read(self._prefix + path).decode(errors="replace")
        except OperationError as error:
            return read_failure(path, error)
        except OSError as error:
            return _failure(path, error, _ON_OPEN)

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
        """Return a positive integer, or None for everything else: drivers show zero for "not known"."""
        value = self.read_int(path)
        return None if isinstance(value, HardwareFailure) or value <= 0 else value

    def write_int(self, path: str, value: int) -> HardwareFailure | None:
        """Write one integer in one system call; return None where the kernel accepted it."""
        return self.write_text(path, str(value))

    def write_text(self, path: str, text: str) -> HardwareFailure | None:
        """Write one line in one system call; return None where the kernel accepted it."""
        # No truncation: sysfs has none, and on an ordinary file a reader takes the first line only. So a file holds the
        # old or the new value, and never nothing, whenever this process is killed.
        return self._try_write(path, lambda absolute: self._calls.write(absolute, f"{text}\n".encode()))

    def probe_write(self, path: str) -> HardwareFailure | None:
        """Check whether this process may write a file, by opening it only; the driver may still reject a write."""
        return self._try_write(path, self._calls.check_writable)

    def names(self, path: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        """Return the entries of a directory that match as a whole, in natural order; empty where it cannot be read."""
        try:
            found = self._calls.entries(self._prefix + path)
        except OSError:
            return ()
        return tuple(sorted((name for name in found if pattern.fullmatch(name)), key=natural))

    def real(self, path: str) -> str:
        """Return the path without symbolic links; two paths to one file or directory become the same."""
        return os.path.relpath(self._calls.real(self._prefix + path), self._real_root)

    def _try_write(self, path: str, operation: Callable[[str], None]) -> HardwareFailure | None:
        if self.real(path).startswith(os.pardir):
            return HardwareFailure(Reason.NO_INTERFACE, f"{path} leads out of {self.root}")
        try:
            operation(self._prefix + path)
        except OperationError as error:
            return write_failure(path, error)
        except OSError as error:
            return _failure(path, error, _ON_OPEN)
        return None


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
        """Check whether this process may write, without writing."""
        return self.tree.probe_write(self.path)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of a kernel list, `0-3,8` as in topology or `0 1 2` as in cpufreq; anything else is left out."""
    cpus: set[int] = set()
    for part in re.split(r"[,\s]+", text):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() if dash else True) and int(last or first) <= HIGHEST_ID:
            cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that orders `policy2` before `policy10`."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name))


def read_failure(path: str, error: OSError) -> HardwareFailure:
    """Return what a failed read of an open file means."""
    return _failure(path, error, _ON_READ)


def write_failure(path: str, error: OSError) -> HardwareFailure:
    """Return what a failed write to an open file means."""
    return _failure(path, error, _ON_WRITE)


def _failure(path: str, error: OSError, reasons: Mapping[int | None, Reason]) -> HardwareFailure:
    return HardwareFailure(reasons.get(error.errno, Reason.IO_ERROR), f"{path}: {error.strerror}")
