"""The files of a recording while it is written.

Guarantees that a line is in its file as a whole before a later one of the same file, and that no file is overwritten. A
process that is killed loses the lines since the last `flush`; a machine that stops, those since the last `sync`.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from joulie_sim.recording.lines import LOG, NODES, PODS

#: Lines of the first list of a large cluster are not held until the next flush.
_MOST_HELD_BYTES: Final = 1024 * 1024
_MODE: Final = 0o644


class RecordingExistsError(Exception):
    """The directory is not empty; the message has its name."""


class RecordingFiles:
    """The open files; a context manager that closes them.

    Args:
        directory: made where it does not exist.

    Raises:
        RecordingExistsError: it is not empty.
        OSError: it cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise RecordingExistsError(f"{directory} is not empty; a recording is written to a new directory")
        self.directory = directory
        self.written_bytes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._files = {name: os.open(directory / name, flags, _MODE) for name in (LOG, NODES, PODS)}
        self._held: dict[str, bytearray] = {name: bytearray() for name in self._files}
        self._encoder = msgspec.json.Encoder()

    def append(self, name: str, line: msgspec.Struct) -> None:
        """Add a line to a file.

        Raises:
            OSError: it cannot be written.
        """
        held = self._held[name]
        held += self._encoder.encode(line)
        held += b"\n"
        if len(held) >= _MOST_HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all lines.

        Raises:
            OSError: they cannot be written.
        """
        for name, held in self._held.items():
            while held:
                written = os.write(self._files[name], held)
                del held[:written]
                self.written_bytes += written

    def sync(self) -> None:
        """Wait until what was flushed is on the device; may be called from a thread."""
        for file in self._files.values():
            os.fsync(file)

    def close(self) -> None:
        """Close the files; lines that are not flushed are lost."""
        while self._files:
            _, file = self._files.popitem()
            os.close(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
