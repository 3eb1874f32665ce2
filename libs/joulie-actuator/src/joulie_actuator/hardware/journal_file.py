"""The file of a journal: its format, and what is read of it.

Guarantees that a file which is torn, damaged or written by a newer release is an error, and never an empty journal: the
originals in it exist nowhere else. Writing it is the work of `joulie_actuator.hardware.journal`.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from joulie_actuator.program import command

#: 2: keys name what is limited (`rapl/package-0/long_term`); before, they named directories.
VERSION: Final = 2


class JournalError(Exception):
    """Originals cannot be read or recorded; the message has the cause and the remedy."""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Journal entry of one managed knob; values in the knob's unit."""

    unit: str
    #: What to restore: the newest external value.
    original: int
    #: The last value that Joulie wrote, and what was read afterwards: firmware may clamp or round.
    written: int | None = msgspec.field(default=None, name="asked")
    read_back: int | None = msgspec.field(default=None, name="got")
    #: A value that was about to be written; whether it was, only the knob can show.
    pending: int | None = None
    #: A value that may be the knob's answer to `pending` or external; recorded before a probe finds out.
    suspect: int | None = None
    #: The original before `original`, where an external writer has set a lower value than `written`: what `written` was
    #: in force over, and is restored to if that writer writes it back.
    earlier: int | None = None
    #: Whether `original` is in force in place of `written`, since it is lower.
    stands: bool = False

    @property
    def written_values(self) -> frozenset[int]:
        """The values that, if read, were written by Joulie."""
        return frozenset({self.written, self.read_back, self.pending} - {None})  # type: ignore[arg-type]  # None is taken out


class _Header(msgspec.Struct, frozen=True):
    version: Annotated[int, msgspec.Meta(ge=1)]


class _File(msgspec.Struct, frozen=True):
    version: int
    boot_id: str
    #: Of `entries` as they stand in the file: a damaged digit is still a number.
    crc32: int
    entries: msgspec.Raw


class JournalContent(NamedTuple):
    """The content of a file of entries."""

    version: int = VERSION
    boot_id: str = ""
    entries: dict[str, JournalEntry] = {}  # noqa: RUF012 - never changed


def encoded(entries: Mapping[str, JournalEntry], boot_id: str) -> bytes:
    """Return the content of a file with these entries."""
    raw = msgspec.json.encode(entries, order="deterministic")
    return msgspec.json.encode(_File(version=VERSION, boot_id=boot_id, crc32=zlib.crc32(raw), entries=msgspec.Raw(raw)))


def read_content(path: Path) -> JournalContent:
    """Return the content of a file; of one that is missing, no entries.

    Raises:
        JournalError: it cannot be read, is damaged, or was written by a newer release.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return JournalContent()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error}; {_by_hand()}") from error
    return _decode(path, content)


def entries_of_boot(path: Path, content: JournalContent, boot_id: str | None) -> dict[str, JournalEntry]:
    """Return the entries of this boot, or those that may be of it; `boot_id` None: it is not known.

    Raises:
        JournalError: they have the keys of an older format, which cannot be distinguished from those of other knobs.
    """
    if boot_id is not None and content.boot_id != boot_id:
        return {}
    if content.entries and content.version < VERSION:
        raise JournalError(
            f"{path} was written by an older release (version {content.version}, this one reads {VERSION}) and holds "
            f"{len(content.entries)} limits: run `{command('restore')}` of that release, or reboot"
        )
    return content.entries


def _decode(path: Path, content: bytes) -> JournalContent:
    try:
        version = msgspec.json.decode(content, type=_Header).version
        if version > VERSION:
            raise JournalError(
                f"{path} was written by a newer release (version {version}, this one reads {VERSION}); "
                f"run `{command('restore')}` of that release before downgrading"
            )
        file = msgspec.json.decode(content, type=_File)
        if zlib.crc32(file.entries) != file.crc32:
            raise msgspec.ValidationError("the checksum does not match")
        return JournalContent(version, file.boot_id, msgspec.json.decode(file.entries, type=dict[str, JournalEntry]))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise JournalError(f"{path} is damaged ({error}); {_by_hand()}") from error


def _by_hand() -> str:
    return (
        f"nothing is changed while the originals are unknown. Correct the limits by hand, which `{command('doctor')}` "
        "lists, or reboot, then remove the file"
    )
