"""Reads of knobs, each with who wrote the value that was read: Joulie, or another program or user.

Where the value and the journal do not tell, Joulie's value is written again, and what is read then tells. Made for
`joulie_actuator.hardware.journaled_writer`, with the same journal and the same guarantees.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from joulie_actuator.hardware import ownership
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journal_file import JournalEntry, JournalError
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.ownership import KnobReading, ValueOwner
from joulie_actuator.reasons import Reason

#: How often a knob is read whose value an external writer, or the platform, changes between two reads.
_MAX_READS: Final = 3


def record_done(journal: Journal, outcomes: Mapping[str, JournalEntry | None]) -> None:
    """Record what has been done already; where that fails, `Journal.problem` has the cause."""
    with suppress(JournalError):
        journal.change(outcomes)


class JournaledReader:
    """Reads knobs, with the journal as its memory."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        #: Readings below Joulie's value that a probe has shown to be the platform's, with the entry at the time.
        self._explained: dict[str, tuple[JournalEntry, int]] = {}

    def read(self, knob: Knob, *, restoring: bool = False) -> KnobReading | HardwareFailure:
        """Read a knob and find out who wrote its value."""
        for _ in range(_MAX_READS):
            value = knob.read()
            if isinstance(value, HardwareFailure):
                return value
            noted = self._journal.entries.get(knob.key)
            if noted is None:
                return KnobReading(knob, value, None)
            entry = ownership.suspected(noted, value)
            claim = ownership.owner(knob, entry, value)
            if claim is not ValueOwner.UNCLEAR:
                settled = ownership.settled(entry, value, claim)
                found: KnobReading | HardwareFailure | None = KnobReading(
                    knob, value, settled, managed=claim is ValueOwner.JOULIE
                )
            elif not restoring and self._explained.get(knob.key) == (entry, value):
                return KnobReading(knob, value, entry, managed=True)
            else:
                found = self._probe(knob, value, entry, restoring=restoring)
            if isinstance(found, KnobReading) and found.entry != self._journal.entries.get(knob.key):
                record_done(self._journal, {knob.key: found.entry})
            if found is not None:
                return found
        return HardwareFailure(Reason.IO_ERROR, f"{knob.key}: its value changes each time it is read")

    def _probe(
        self, knob: Knob, value: int, entry: JournalEntry, *, restoring: bool
    ) -> KnobReading | HardwareFailure | None:
        """Write Joulie's value again to find out who wrote the one that is read; None where another one is read by now.

        A register that answers with the value found has answered so before. A request that reads the value found, or
        less, is limited by the platform as well, and Joulie's request is in force.
        """
        request = knob.kind.is_request
        if value not in entry.written_values and not ownership.platform_limit(knob, value):
            # Not where the platform explains it: this record would make its limit external if it ended meanwhile.
            try:
                self._journal.change({knob.key: msgspec.structs.replace(entry, suspect=value)})
            except JournalError as error:
                if not (request and restoring):  # without the record only a kill between two writes can lose a value
                    return HardwareFailure(Reason.NO_JOURNAL, str(error))
        if request and knob.read() != value:
            record_done(self._journal, {knob.key: entry})
            return None
        answer = knob.write(ownership.probe_value(entry))
        if isinstance(answer, HardwareFailure):
            if request and knob.read() == value:
                record_done(self._journal, {knob.key: entry})
            return answer
        entry = ownership.probed(knob, entry, value, answer)
        if request:
            self._explained[knob.key] = (entry, answer)
        return KnobReading(knob, answer, entry, managed=True)
