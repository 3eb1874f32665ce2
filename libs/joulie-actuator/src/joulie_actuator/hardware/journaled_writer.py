"""The only way to write hardware: record the original, write, read back, and restore.

Guarantees, at whatever instant the process is killed:

- before the first write to a knob its original is on disk, and before every write the value about to be written;
- a value that Joulie wrote, or what firmware made of it, is recognised as such later, by this process or the next;
- what is restored is the newest external value: the one found first, or the one found since;
- an external value is never replaced by an older one. While a knob is managed it is overwritten (see
  `WrittenKnob.overwrote`) and becomes the new original; during a restore it stays.

Cannot see an external value that is written between a read and the write that follows, nor distinguish an external
value that equals Joulie's from Joulie's. Why it is done this way: docs/decisions/0003-restore.md.

Not for several threads at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from joulie_actuator.hardware import ownership
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journal_file import JournalEntry, JournalError
from joulie_actuator.hardware.journaled_reader import JournaledReader, record_done
from joulie_actuator.hardware.knob import HardwareFailure, Knob, SteppedKnob, SwitchedLimit
from joulie_actuator.hardware.knob_results import RestoredKnob, RestoreOutcome, WrittenKnob
from joulie_actuator.hardware.ownership import KnobReading
from joulie_actuator.reasons import Reason


class JournaledWriter:
    """Writes knobs and restores them, with the journal as its memory."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._overwritten: Counter[str] = Counter()
        self._claimed: set[str] = set()
        self._reader = JournaledReader(journal)

    @property
    def journal_problem(self) -> str | None:
        """Reason why the last record could not be made; None where it could.

        Nothing is lost where it was of a finished write: the intent was recorded before, and the next read shows the
        result.
        """
        return self._journal.problem

    @property
    def journal_failure(self) -> HardwareFailure | None:
        """Reason why nothing new may be set, and only restored; None where it may."""
        return HardwareFailure(Reason.NO_JOURNAL, self._journal.problem) if self._journal.problem is not None else None

    @property
    def managed(self) -> frozenset[str]:
        """Keys of the knobs that hold, or may hold, a value written by Joulie."""
        return frozenset(self._journal.entries)

    @property
    def unclaimed(self) -> frozenset[str]:
        """Keys of managed knobs that no request has set since the process began, or since `unclaim`."""
        return self.managed - self._claimed

    @property
    def originals(self) -> Mapping[str, int]:
        """Values that the knobs are to be restored to, by key."""
        return {key: entry.original for key, entry in self._journal.entries.items()}

    @property
    def written(self) -> Mapping[str, int]:
        """Values written last, or about to be, by key: all that is known of a knob that cannot be read."""
        newest = {
            key: entry.written if entry.pending is None else entry.pending
            for key, entry in self._journal.entries.items()
        }
        return {key: value for key, value in newest.items() if value is not None}

    @property
    def overwritten(self) -> Mapping[str, int]:
        """Number of external values that were overwritten, by key, since this process began."""
        return MappingProxyType(self._overwritten)

    def original(self, knob: Knob) -> int | HardwareFailure:
        """Return what would be restored; for a knob that is not managed, its value."""
        found = self._reader.read(knob)
        return found if isinstance(found, HardwareFailure) else found.external_value

    def unclaim(self, keys: Iterable[str]) -> None:
        """Record that these knobs are not requested any more, also where they cannot be restored now."""
        self._claimed.difference_update(keys)

    def forget(self, keys: Iterable[str]) -> list[RestoredKnob]:
        """Drop knobs that do not exist any more; those that are not managed are skipped."""
        gone = sorted(self.managed.intersection(keys))
        self.unclaim(gone)
        record_done(self._journal, dict.fromkeys(gone))
        return [RestoredKnob(key, RestoreOutcome.GONE) for key in gone]

    def set(self, knob: Knob, value: int) -> WrittenKnob | HardwareFailure:
        """Put a value in force; the same value again costs one read and writes it again where it was changed."""
        return self.set_all([(knob, value)])[0]

    def set_all(self, values: Sequence[tuple[Knob, int]]) -> list[WrittenKnob | HardwareFailure]:
        """Put values in force, each knob at most once; a failure of one does not keep the others from being set.

        An external limit that is not above the wanted one stays in force, or is written back. One that a switch keeps
        from being in force limits nothing, and is overwritten.

        All of it goes to the journal in one change before and one after, so that many cost little more than one.
        Requests that are read for the first time and may be a platform limit cost two more.
        """
        assert len({knob.key for knob, _ in values}) == len(values), "a knob takes one value at a time"
        self._claimed |= {knob.key for knob, _ in values}
        found = [(self._read_in_range(knob, value), value) for knob, value in values]
        read = [(each, value) for each, value in found if isinstance(each, KnobReading)]
        kept = [(each, value) for each, value in read if self._external_suffices(each, value)]
        keys = {each.knob.key for each, _ in kept}
        due = [(each, value) for each, value in read if each.knob.key not in keys and not each.holds(value)]
        put = self._keep_external(kept) | self._write_all(self._test_originals(due))
        return [
            each
            if isinstance(each, HardwareFailure)
            else put.get(each.knob.key, WrittenKnob(each.value, changed=False))
            for each, _ in found
        ]

    def restore(self, knobs: Iterable[Knob], *, record_later: bool = False) -> list[RestoredKnob]:
        """Restore knobs; those that are not managed are skipped. Call again for those that failed.

        A journal that cannot be written does not prevent this: the originals are on disk already. Nor does this write
        need an intent: a kill after it leaves a knob that holds its original, as guaranteed. With `record_later` the
        journal's file is as before at the return: the next change of any knob writes it, or `record`.
        """
        due = {knob.key: knob for knob in knobs if knob.key in self._journal.entries}
        self.unclaim(due)
        answers = [self._restore(knob) for knob in due.values()]
        self._journal.remove([answer.key for answer in answers if answer.done])
        if not record_later:
            self.record()
        return answers

    @property
    def unrecorded(self) -> bool:
        """Whether the journal's file may differ from what is managed."""
        return self._journal.behind

    def record(self) -> HardwareFailure | None:
        """Put what is managed into the journal's file, if it may differ; return why that failed."""
        record_done(self._journal, {})
        return self.journal_failure if self.unrecorded else None

    def _restore(self, knob: Knob) -> RestoredKnob:
        before = self._journal.entries[knob.key]
        if (held := self._held_by_switch(knob)) is not None:
            return _failed(knob, held)
        found = self._reader.read(knob, restoring=True)
        if isinstance(found, HardwareFailure):
            return _failed(knob, found)
        assert found.entry is not None
        original = found.entry.original
        lower = found.entry.stands and found.entry.earlier is not None
        done = found.value == original and not lower
        between = done and isinstance(knob, SteppedKnob) and knob.is_between()
        if done and not between and not (found.managed and knob.kind.is_request):
            return RestoredKnob(knob.key, RestoreOutcome.RESTORED, original)
        if not found.managed and not between:
            return RestoredKnob(knob.key, RestoreOutcome.KEPT_EXTERNAL, found.value)
        answer = self._write_original(found, original)
        if answer.done and original not in {before.original, before.earlier}:
            # Reading has shown an external request below Joulie's.
            return replace(answer, outcome=RestoreOutcome.KEPT_EXTERNAL)
        return answer

    def _held_by_switch(self, knob: Knob) -> HardwareFailure | None:
        """Return why a limit cannot be restored yet: its original was switched off, and would come into force."""
        switch = knob.switch if isinstance(knob, SwitchedLimit) else None
        entry = None if switch is None else self._journal.entries.get(switch.key)
        if switch is None or entry is None or entry.original != 0:
            return None
        state = switch.read()
        if isinstance(state, HardwareFailure) or state == 0:
            return None
        return HardwareFailure(Reason.IO_ERROR, f"{switch.key} is {state} and was 0: it is restored first")

    def _write_original(self, found: KnobReading, original: int) -> RestoredKnob:
        knob = found.knob
        answer = knob.write(original)
        if isinstance(answer, HardwareFailure):
            return _failed(knob, answer)
        if answer == original:
            return RestoredKnob(knob.key, RestoreOutcome.RESTORED, answer)
        message = f"wrote {original} {knob.unit}, reads {answer}"
        assert found.entry is not None
        held = ownership.held_lower(knob, found.entry, answer)
        if answer == found.value and not held:
            return RestoredKnob(knob.key, RestoreOutcome.FAILED, answer, Reason.FIRMWARE_LOCKED, message)
        # It accepted the value and reads another one, as a policy does that is also limited by temperature.
        return RestoredKnob(knob.key, RestoreOutcome.RESTORED, answer, message=": ".join(filter(None, [message, held])))

    def _keep_external(self, values: Sequence[tuple[KnobReading, int]]) -> dict[str, WrittenKnob | HardwareFailure]:
        """Keep external limits that are not above Joulie's; write them back where Joulie's is in force."""
        answers: dict[str, WrittenKnob | HardwareFailure] = {}
        outcomes: dict[str, JournalEntry | None] = {}
        for found, value in values:
            key = found.knob.key
            original = found.external_value
            if not found.managed:
                answers[key] = WrittenKnob(found.value, changed=False, external=found.value < value)
                outcomes[key] = self._standing(found, original)
                continue
            restored = self._write_original(found, original)
            if restored.reason is not None or restored.value is None:
                answers[key] = HardwareFailure(restored.reason or Reason.IO_ERROR, restored.message)
            else:
                answers[key] = WrittenKnob(restored.value, changed=True, external=restored.value < value)
                outcomes[key] = self._standing(found, original)
        if outcomes:
            record_done(self._journal, outcomes)
        return answers

    def _standing(self, found: KnobReading, original: int) -> JournalEntry | None:
        if found.entry is None or not found.entry.written_values:
            return None
        return ownership.standing(found.entry, original)

    def _external_suffices(self, found: KnobReading, wanted: int) -> bool:
        return found.external_suffices(wanted) and not self._is_off(found)

    def _is_off(self, found: KnobReading) -> bool:
        """Return whether a switch keeps the newest external limit from being in force."""
        switch = found.knob.switch if isinstance(found.knob, SwitchedLimit) else None
        if switch is None:
            return False
        # Where Joulie's limit is in force, the switch that goes with the external one is the original.
        return (self.original(switch) if found.managed else switch.read()) == 0

    def _test_originals(self, values: Sequence[tuple[KnobReading, int]]) -> list[tuple[KnobReading, int]]:
        """Find out of requests that are read for the first time whether they are a user's or the platform's."""
        intents = {
            found.knob.key: intent
            for found, _ in values
            if found.entry is None and (intent := ownership.probe_of_original(found.knob, found.value)) is not None
        }
        if not intents:
            return list(values)
        try:
            self._journal.change(intents)
        except JournalError:
            return list(values)  # the write that follows fails in the same way
        tested = [
            (self._test_original(found, intents[found.knob.key]) if found.knob.key in intents else found, value)
            for found, value in values
        ]
        record_done(self._journal, {found.knob.key: found.entry for found, _ in tested if found.knob.key in intents})
        return tested

    def _test_original(self, found: KnobReading, intent: JournalEntry) -> KnobReading:
        answer = found.knob.write(ownership.probe_value(intent))
        if isinstance(answer, HardwareFailure):
            return found  # untested: then what is read counts as the user's
        return KnobReading(found.knob, answer, ownership.probed(found.knob, intent, found.value, answer), managed=True)

    def _write_all(self, values: Sequence[tuple[KnobReading, int]]) -> dict[str, WrittenKnob | HardwareFailure]:
        if not values:
            return {}  # a restore before may wait for its record
        intents = {found.knob.key: ownership.intent(found, value) for found, value in values}
        try:
            self._journal.change(intents)
        except JournalError as error:
            return {found.knob.key: HardwareFailure(Reason.NO_JOURNAL, str(error)) for found, _ in values}
        answers: dict[str, WrittenKnob | HardwareFailure] = {}
        outcomes: dict[str, JournalEntry | None] = {}
        for found, value in values:
            answer = found.knob.write(value)
            if isinstance(answer, HardwareFailure):
                answers[found.knob.key] = answer
                if _nothing_landed(found, value):  # otherwise the next read shows it
                    outcomes[found.knob.key] = found.entry
            else:
                answers[found.knob.key] = self._written(found, answer)
                outcomes[found.knob.key] = ownership.landed(intents[found.knob.key], answer)
        record_done(self._journal, outcomes)
        return answers

    def _written(self, found: KnobReading, answer: int) -> WrittenKnob:
        if found.entry is None or not found.entry.written_values or found.managed:
            return WrittenKnob(answer, changed=True)
        self._overwritten[found.knob.key] += 1
        return WrittenKnob(answer, changed=True, overwrote=found.value)

    def _read_in_range(self, knob: Knob, value: int) -> KnobReading | HardwareFailure:
        if value not in knob.limits:
            limits = f"{knob.limits.low} to {knob.limits.high} {knob.unit}"
            return HardwareFailure(Reason.OUT_OF_RANGE, f"{knob.key}: {value} {knob.unit} is outside {limits}")
        return self._reader.read(knob)


def _nothing_landed(found: KnobReading, wanted: int) -> bool:
    """Return whether a failed write has left the knob as it was; False where a request hides it."""
    value = found.knob.read()
    return value == found.value and (not found.knob.kind.is_request or value > wanted)


def _failed(knob: Knob, failure: HardwareFailure) -> RestoredKnob:
    return RestoredKnob(knob.key, RestoreOutcome.FAILED, None, failure.reason, failure.message)
