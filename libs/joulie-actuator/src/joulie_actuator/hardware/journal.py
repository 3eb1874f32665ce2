"""The journal of originals: what every managed knob held before, on disk before the first write to it.

Guarantees that a change is on disk as a whole when `change` returns, and that a process killed at any instant leaves
the journal as it was either before or after the change: new contents go to a second file which is synced and then
renamed over the first. A journal that cannot be read (torn, damaged, written by a newer release) is an error and is not
modified, since the originals in it exist nowhere else. One process at a time holds a state directory; the kernel
releases the lock when the process ends, however it ends.

A journal that can be read and not written (read-only or full file system, missing rights) is opened all the same: its
knobs can be restored, and `change` fails for everything new until the file can be written again. So is one where the
identity of the running boot cannot be read: its entries may be of this boot.

Entries of an earlier boot are dropped on opening: limits of packages, policies and GPUs are volatile, so what is found
after a boot was written by firmware, drivers or others since, and must not be overwritten with older values.

What an original is and who wrote a value is decided in `joulie_actuator.hardware.journaled_writer`.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self, TypeVarTuple

from joulie_actuator.hardware import descriptors
from joulie_actuator.hardware.journal_file import JournalEntry, JournalError, encoded, entries_of_boot, read_content
from joulie_actuator.hardware.watch import Watch

Args = TypeVarTuple("Args")

JOURNAL_FILE: Final = "journal.json"
LOCK_FILE: Final = "lock"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NEW_SUFFIX: Final = ".new"
#: Errors of a directory that may hold a journal and takes no new file.
_NOT_WRITABLE: Final = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM})


class JournalHeldError(JournalError):
    """Another process holds the state directory."""


class Journal:
    """The entries of one state directory, held by this process until `close`.

    Use `open`. Not for several threads at once.
    """

    def __init__(self, directory: Path, lock: int | None, boot_id: str | None) -> None:
        self._path = directory / JOURNAL_FILE
        self._lock = lock
        self._closed = False
        #: None: not known, so no entry can be recorded as of this boot.
        self._boot_id = boot_id
        self._entries: dict[str, JournalEntry] = {}
        #: Whether the file may hold other entries.
        self._behind = False
        self.watch: Watch | None = None
        """Supervises changes: a disk may block as well."""
        self.problem: str | None = None
        """Reason why the last record could not be made, so that nothing new may be set; None where it could."""
        self.dropped: tuple[str, ...] = ()
        """Keys of entries that an earlier boot left."""

    @classmethod
    def open(cls, directory: Path, *, boot_id: str | None = None) -> Self:
        """Lock a state directory, read what is in it, and find out whether it can be written (`problem`).

        Args:
            directory: created if it is missing.
            boot_id: identity of the running kernel; None reads it.

        Raises:
            JournalHeldError: another process holds the directory.
            JournalError: the directory cannot be used, or its journal cannot be read.
        """
        try:
            _make(directory)
            lock = _claim(directory)
        except OSError as error:
            raise JournalError(f"{directory} cannot keep a journal: {error}") from error
        journal = cls(directory, lock, _boot_id() if boot_id is None else boot_id)
        try:
            journal._load()
        except BaseException:
            journal.close()
            raise
        journal.problem = journal._write(journal._entries, journal._try_out)
        return journal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlock the directory. The journal keeps its entries."""
        self._closed = True
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def entries(self) -> Mapping[str, JournalEntry]:
        """The managed knobs, by key."""
        return MappingProxyType(self._entries)

    def change(self, changes: Mapping[str, JournalEntry | None]) -> None:
        """Record all changes at once; None removes an entry. Writes nothing where nothing changes.

        Raises:
            JournalError: it is not on disk. Entries here are as they were, except for removed ones: what has been
                restored is not managed any more, and a file that still lists it costs the next process one read.
        """
        entries = {key: entry for key, entry in {**self._entries, **changes}.items() if entry is not None}
        if entries == self._entries and not self._behind:
            return
        try:
            self._store(entries)
        except JournalError:
            self.remove({key for key, entry in changes.items() if entry is None})
            raise
        self._entries = entries

    @property
    def behind(self) -> bool:
        """Whether the file may differ from the entries here; the next `change` writes it, also one of nothing."""
        return self._behind

    def remove(self, keys: Collection[str]) -> None:
        """Remove entries here, and from the file with the next `change`, whatever it is of.

        Until then a file that still lists them costs the next process one restore of what has its original already.
        """
        if not self._entries.keys().isdisjoint(keys):
            self._entries = {key: entry for key, entry in self._entries.items() if key not in keys}
            self._behind = True

    def _store(self, entries: Mapping[str, JournalEntry]) -> None:
        self._behind = True
        self.problem = self._write(entries, self._replace)
        if self.problem is not None:
            raise JournalError(self.problem)
        self._behind = False

    def _write(self, entries: Mapping[str, JournalEntry], write: Callable[[bytes], None]) -> str | None:
        """Write the entries; return why that failed."""
        if self._closed:
            return f"{self._path} is closed"
        if self._boot_id is None:
            return f"{BOOT_ID} cannot be read, so no entry could be recorded as one of this boot"
        try:
            write(encoded(entries, self._boot_id))
        except OSError as error:
            return f"{self._path} cannot be written: {error}"
        return None

    def _try_out(self, content: bytes) -> None:
        """Find out whether the file could be written. Does not wait for the disk and leaves the file as it is."""
        _write_file(self._path.with_name(self._path.name + _NEW_SUFFIX), content, sync=False)

    def _replace(self, content: bytes) -> None:
        """Replace the file so that at any moment it has the old or the new content, also after a power failure."""
        new = self._path.with_name(self._path.name + _NEW_SUFFIX)
        self._call(_write_file, new, content)
        self._call(os.replace, new, self._path)
        self._call(_sync, self._path.parent)

    def _call(self, function: Callable[[*Args], None], *args: *Args) -> None:
        if self.watch is None:
            function(*args)
        else:
            self.watch.call(str(self._path), function, *args)

    def _load(self) -> None:
        content = read_content(self._path)
        self._entries = entries_of_boot(self._path, content, self._boot_id)
        self.dropped = () if self._entries else tuple(content.entries)


def peek(directory: Path) -> Mapping[str, JournalEntry]:
    """Return the entries of this boot without locking the directory: for display only.

    Raises:
        JournalError: it cannot be read.
    """
    path = directory / JOURNAL_FILE
    return entries_of_boot(path, read_content(path), _boot_id())


def is_held(directory: Path) -> bool:
    """Return whether a process holds a state directory; False where that is unknown.

    Locks it for an instant, which a process that opens the journal then has to tolerate. Changes nothing.
    """
    try:
        lock = _lock(directory, 0)
    except JournalHeldError:
        return True
    except OSError:
        return False
    if lock is not None:
        os.close(lock)
    return False


def _boot_id() -> str | None:
    try:
        return BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise


def _claim(directory: Path) -> int | None:
    lock = _lock(directory, os.O_CREAT)
    if lock is not None:
        # For a message only; in another container's view the number means another process.
        with suppress(OSError):  # a full disk, or one that is read-only
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _lock(directory: Path, create: int) -> int | None:
    """Lock a state directory; None where there is none."""
    lock = _lock_file(directory / LOCK_FILE, create)
    if lock is None:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _pid_in(lock)
        os.close(lock)
        raise JournalHeldError(f"{directory} is held by another process (pid {holder})") from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def _lock_file(path: Path, create: int) -> int | None:
    """Open what is locked: the file, also where it cannot be written; the directory where there is no file.

    A process that can write has made the file, and locks it; so two processes always lock the same of the two.
    """
    try:
        return os.open(path, os.O_RDWR | create, 0o600)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE | {errno.ENOENT}:
            raise
    for place in (path, path.parent):
        with suppress(FileNotFoundError):
            return os.open(place, os.O_RDONLY)
    return None


def _pid_in(lock: int) -> str:
    try:
        return os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
    except OSError:  # a directory
        return "unknown"


def _write_file(path: Path, content: bytes, *, sync: bool = True) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    file = descriptors.opened(lambda: os.open(path, flags, 0o600))
    try:
        written = 0
        while written < len(content):
            written += os.write(file, content[written:])
        if sync:
            os.fsync(file)
    finally:
        os.close(file)


def _sync(path: Path) -> None:
    directory = descriptors.opened(lambda: os.open(path, os.O_RDONLY))
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
