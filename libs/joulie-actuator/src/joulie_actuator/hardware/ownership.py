"""Writer of a knob's value, from the journal's entry and what is read. Pure; reads and writes are elsewhere.

A register (`LIMIT`, `SWITCH`) holds what was written last, or firmware's answer to it, so a value is Joulie's where the
journal has it. A request is one of several, and the lowest of them is read: a value below Joulie's shows that something
else limits as well, and only a value above it shows that Joulie's has been replaced. A lower limit (`FLOOR`) reads as a
request does, with the upper limit in place of the platform's.

The table of cases is in docs/decisions/0006-kernel-semantics.md, the reasons in 0003-restore.md.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from joulie_actuator.hardware.journal_file import JournalEntry
from joulie_actuator.hardware.knob import Knob, KnobKind, RequestKnob

#: Kinds of knobs whose lower value limits more.
_LIMITS_WHERE_LOWER: Final = frozenset({KnobKind.LIMIT, KnobKind.REQUEST})


class ValueOwner(StrEnum):
    """Writer of a value."""

    JOULIE = "joulie"
    EXTERNAL = "external"
    #: Joulie's value has to be written again to find out.
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class KnobReading:
    """A knob's value, and what is known of its writer."""

    knob: Knob
    value: int
    entry: JournalEntry | None
    #: Whether Joulie wrote last to the knob.
    managed: bool = False

    @property
    def external_value(self) -> int:
        """The newest external value: what the knob is to be restored to."""
        if self.entry is not None and self.managed:
            return self.entry.original
        return external_value(self.knob, self.entry, self.value)

    def holds(self, wanted: int) -> bool:
        """Return whether writing would change nothing; firmware may keep another value than the written one."""
        if self.entry is None or not self.managed:
            return self.value == wanted
        if self.knob.kind.is_request:
            return wanted == self.entry.written
        return self.value == wanted or (
            wanted == self.entry.written and _is_answer(self.knob, {wanted, self.entry.read_back}, self.value)
        )

    def external_suffices(self, wanted: int) -> bool:
        """Return whether the newest external value limits no less than the wanted one, so that it stays in force."""
        return self.knob.kind in _LIMITS_WHERE_LOWER and self.external_value <= wanted


def platform_limit(knob: Knob, value: int) -> str:
    """Return what on the machine itself explains a value; empty where nothing does, and for every register."""
    return knob.platform_limit(value) if isinstance(knob, RequestKnob) else ""


def external_value(knob: Knob, entry: JournalEntry | None, value: int) -> int:
    """Return what an external writer has requested, where the value that is read is not Joulie's.

    A request that a platform limit hides cannot be read, only that it is not lower: then it is the one known before
    where that is possible, and otherwise the highest, which the kernel starts with. Of a lower limit it
    is the value that is read: the kernel starts with the lowest.
    """
    if not platform_limit(knob, value):
        return value
    if entry is not None and entry.original >= value:
        return entry.original
    return value if knob.kind is KnobKind.FLOOR else max(knob.limits.high, value)


def suspected(entry: JournalEntry, value: int) -> JournalEntry:
    """Finish a probe that was interrupted: where the suspect is gone, the probe has replaced it, so it was external."""
    if entry.suspect is None or value == entry.suspect:
        return entry
    return replace(_with_external(entry, entry.suspect), suspect=None)


def owner(knob: Knob, entry: JournalEntry, value: int) -> ValueOwner:
    """Return who wrote a value."""
    kind = knob.kind
    last = entry.written if entry.pending is None else entry.pending
    if last is None:
        return ValueOwner.EXTERNAL
    if entry.stands and (value == entry.original or (kind.is_request and value < entry.original)):
        return ValueOwner.EXTERNAL  # as it was left; the platform may limit a request further
    if kind.is_request and entry.pending is not None and value <= last:
        return ValueOwner.UNCLEAR  # it may have been so low before, and does not show whether Joulie's was written
    if _is_answer(knob, entry.written_values, value):
        return ValueOwner.JOULIE
    if kind.is_request and value < last:
        return ValueOwner.UNCLEAR
    return ValueOwner.EXTERNAL if entry.pending is None or value == entry.original else ValueOwner.UNCLEAR


def settled(entry: JournalEntry, value: int, writer: ValueOwner) -> JournalEntry:
    """Return what is known once a value has shown whether `pending` was written, or `written` was written back."""
    if entry.pending is not None and value == entry.pending:
        return landed(entry, value)
    if entry.stands and writer is ValueOwner.JOULIE:
        entry = _resumed(entry)
    return replace(entry, pending=None, suspect=None)


def standing(entry: JournalEntry, value: int) -> JournalEntry:
    """Return what is known while an external value that is not above Joulie's is in force.

    The entry is kept: a tool that has saved Joulie's value before may write it back, and it is still Joulie's then.
    """
    known = _with_external(entry, value) if value != entry.original else entry
    return replace(known, stands=True, pending=None, suspect=None)


def probe_value(entry: JournalEntry) -> int:
    """Return the value of Joulie that a probe writes."""
    value = entry.written if entry.pending is None else entry.pending
    assert value is not None, "no value of Joulie to probe with"
    return value


def probed(knob: Knob, entry: JournalEntry, before: int, after: int) -> JournalEntry:
    """Return what is known once Joulie's value was written over `before`, and `after` was read."""
    value = probe_value(entry)
    entry = replace(entry, pending=value)
    if not knob.kind.is_request:
        return landed(entry if after == before else replace(entry, original=before), after)
    # Where Joulie's request was the lowest, writing it again cannot raise what is read; where it was replaced, it
    # lowers it.
    managed = (
        before in {value, entry.written, entry.read_back} or after == before or (before < value and after < before)
    )
    original = external_value(knob, entry, before) if before > value else before
    # What is read where nothing else limits: the highest answer to Joulie's value.
    read_back = max(after, entry.read_back) if entry.read_back is not None and entry.written == value else after
    if not managed:
        return landed(_with_external(entry, original), read_back)
    if knob.kind is KnobKind.REQUEST and _tested(entry, after):
        # The user's request is unknown; only the highest is certainly not below it.
        return landed(replace(entry, original=knob.limits.high), after)
    return landed(_resumed(entry), read_back)


def probe_of_original(knob: Knob, value: int) -> JournalEntry | None:
    """Return the intent of the test whether a request that is read first is a user's; None where it needs none.

    A platform limit that the machine shows nowhere reads as a user's request does. A little more is written: it is read
    where the request was the user's, and it is not where the platform limits.
    """
    if knob.kind is not KnobKind.REQUEST or not isinstance(knob, RequestKnob) or knob.platform_limit(value):
        return None
    more = knob.next_above(value)
    return None if more is None else JournalEntry(unit=knob.unit, original=value, pending=more)


def held_lower(knob: Knob, entry: JournalEntry, value: int) -> str:
    """Return why a request reads no more than before although it was raised; empty where it should read more."""
    if not knob.kind.is_request:
        return ""
    more = knob.next_above(value) if isinstance(knob, RequestKnob) else None
    if (entry.read_back is not None and value < entry.read_back) or (
        entry.written is not None and more is not None and more <= entry.written  # no driver rounds as far as that
    ):
        return "a platform limit was below Joulie's"
    return platform_limit(knob, value)


def intent(found: KnobReading, value: int) -> JournalEntry:
    """Return what is on disk while a value is being written."""
    if found.entry is not None and found.managed:
        return replace(found.entry, pending=value, earlier=None)
    return JournalEntry(unit=found.knob.unit, original=found.external_value, pending=value)


def landed(entry: JournalEntry, answer: int) -> JournalEntry:
    """Return what is known once the knob has answered `pending`."""
    return replace(entry, written=entry.pending, read_back=answer, pending=None, suspect=None, stands=False)


def _is_answer(knob: Knob, written: Collection[int | None], value: int) -> bool:
    """Return whether a value is one of those written, or what the hardware has rounded one of them down to."""
    return any(each is not None and 0 <= each - value <= knob.limits.rounding for each in written)


def _with_external(entry: JournalEntry, value: int) -> JournalEntry:
    """Return the entry with a newer external value; what was known before one below Joulie's is kept beside it."""
    if value > probe_value(entry):
        return replace(entry, original=value, earlier=None)
    return replace(entry, original=value, earlier=entry.original if entry.earlier is None else entry.earlier)


def _resumed(entry: JournalEntry) -> JournalEntry:
    """Return the entry of Joulie's value, in force again in place of the lower external one."""
    if not entry.stands:
        return entry
    return replace(
        entry, original=entry.original if entry.earlier is None else entry.earlier, earlier=None, stands=False
    )


def _tested(entry: JournalEntry, value: int) -> bool:
    """Return whether the test of `probe_of_original` has met a platform limit: more was written than is read."""
    return entry.written is None and entry.pending is not None and entry.original == value < entry.pending
