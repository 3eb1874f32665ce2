"""Whose value a knob holds, from the journal's entry and what is read. Pure; who reads and writes is `hands`.

A register (`LIMIT`, `SWITCH`) holds what was written last, or firmware's answer to it, so a value is ours where the
journal knows it. A request is one of several, and the lowest of them is read: a value below ours says that something
else limits as well, and only a value above ours says that ours has been replaced.

The table of cases is in docs/decisions/0006-kernel-semantics.md, the reasons in 0003-restore.md.
"""

from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from joulie_agent.hardware.journal import JournalEntry
from joulie_agent.hardware.knob import Knob, KnobKind, RequestKnob


class Claim(StrEnum):
    """Whose a value is."""

    OURS = "ours"
    FOREIGN = "foreign"
    #: Our own value has to be written again to tell.
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class KnobReading:
    """A knob's value, and what is known of whose it is."""

    knob: Knob
    value: int
    entry: JournalEntry | None
    #: Whether what was written last to the knob is ours.
    ours: bool = False

    @property
    def foreign_value(self) -> int:
        """The newest value that is not ours: what the knob is to be given back."""
        if self.entry is not None and self.ours:
            return self.entry.original
        return foreign_value(self.knob, self.entry, self.value)

    def holds(self, wanted: int) -> bool:
        """Whether writing would change nothing; firmware may hold a value of ours at another one."""
        if self.entry is None or not self.ours:
            return self.value == wanted
        if self.knob.kind is KnobKind.REQUEST:
            return wanted == self.entry.asked
        return self.value == wanted or (wanted == self.entry.asked and self.value == self.entry.got)

    def stands(self, wanted: int) -> bool:
        """Whether the newest foreign value limits no less than the wanted one, so that it is left in force."""
        return self.knob.kind is not KnobKind.SWITCH and self.foreign_value <= wanted


def platform_limit(knob: Knob, value: int) -> str:
    """Return what of the machine itself explains a value; empty where nothing does, and for every register."""
    return knob.platform_limit(value) if isinstance(knob, RequestKnob) else ""


def foreign_value(knob: Knob, entry: JournalEntry | None, value: int) -> int:
    """Return what an external writer has asked for, where a value that is not ours is read.

    A request that a platform limit hides cannot be read, only that it is not lower: then it is the one known before
    where that can be, and otherwise the highest there is, which is what the kernel starts with.
    """
    if not platform_limit(knob, value):
        return value
    if entry is not None and entry.original >= value:
        return entry.original
    return max(knob.limits.high, value)


def suspected(entry: JournalEntry, value: int) -> JournalEntry:
    """Settle a test that was cut off: where the suspect has gone, the test has replaced it, so it was foreign."""
    if entry.suspect is None or value == entry.suspect:
        return entry
    return replace(entry, original=entry.suspect, suspect=None)


def claim(kind: KnobKind, entry: JournalEntry, value: int) -> Claim:
    """Say whose a value is."""
    last = entry.asked if entry.pending is None else entry.pending
    if last is None:
        return Claim.FOREIGN
    if kind is KnobKind.REQUEST and entry.pending is not None and value <= last:
        return Claim.UNCLEAR  # it may have been so low before, and says nothing of whether ours was written
    if value in entry.ours:
        return Claim.OURS
    if kind is KnobKind.REQUEST and value < last:
        return Claim.UNCLEAR
    return Claim.FOREIGN if entry.pending is None or value == entry.original else Claim.UNCLEAR


def settled(entry: JournalEntry, value: int) -> JournalEntry:
    """Return what is known once a value has told whether `pending` was written."""
    if entry.pending is not None and value == entry.pending:
        return landed(entry, value)
    return replace(entry, pending=None, suspect=None)


def probe(entry: JournalEntry) -> int:
    """Return the value of ours that a test writes."""
    value = entry.asked if entry.pending is None else entry.pending
    assert value is not None, "nothing of ours to test with"
    return value


def tested(knob: Knob, entry: JournalEntry, before: int, after: int) -> JournalEntry:
    """Return what is known once our value was written over `before`, and `after` was read."""
    value = probe(entry)
    entry = replace(entry, pending=value)
    if knob.kind is not KnobKind.REQUEST:
        return landed(entry if after == before else replace(entry, original=before), after)
    # Where our request was the lowest, writing it again cannot raise what is read; where it was replaced, it lowers it.
    ours = before in {value, entry.asked, entry.got} or after == before or (before < value and after < before)
    original = foreign_value(knob, entry, before) if before > value else before
    # What ours reads where nothing else limits: the highest answer to it.
    got = max(after, entry.got) if entry.got is not None and entry.asked == value else after
    return landed(entry if ours else replace(entry, original=original), got)


def held_lower(knob: Knob, entry: JournalEntry, value: int) -> str:
    """Return why a request reads no more than before although it was raised; empty where it should read more."""
    if knob.kind is not KnobKind.REQUEST:
        return ""
    if entry.got is not None and value < entry.got:
        return "a limit of the platform was below ours"
    return platform_limit(knob, value)


def intent(found: KnobReading, value: int) -> JournalEntry:
    """Return what is on disk while a value is being written."""
    if found.entry is not None and found.ours:
        return replace(found.entry, pending=value)
    return JournalEntry(unit=found.knob.unit, original=found.foreign_value, pending=value)


def landed(entry: JournalEntry, answer: int) -> JournalEntry:
    """Return what is known once the knob has answered `pending`."""
    return replace(entry, asked=entry.pending, got=answer, pending=None, suspect=None)
