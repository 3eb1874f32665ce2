"""The only way to write hardware: note the original, write, read back, and give back what was found.

Promises, whatever instant the process dies at:

- before the first write to a knob its original is on disk, and before every write the value about to be written;
- a value we put there, or what firmware made of it, is recognised as ours later, by this process or the next;
- what is given back is the newest value that somebody else has put there: the one found first, or the one found since
  where somebody wrote in between;
- a value that somebody else has put there is never replaced by an older one. While a knob is in our charge it is
  written over (`Written.overwrote` says so) and becomes the new original; while we give back it stays.

Cannot see a value that somebody writes between our read and our write, nor tell somebody else's value that equals ours
from ours. Why it is done this way: docs/decisions/0003-give-back.md.

Not for several threads at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from msgspec.structs import replace

from joulie_agent.hardware.journal import Entry, Journal, JournalError
from joulie_agent.hardware.knob import Knob, Refusal
from joulie_agent.reasons import Reason


@dataclass(frozen=True, slots=True)
class Written:
    """A value of ours is in force."""

    #: What was read back; differs from what was asked for where firmware clamps or rounds.
    value: int
    #: False where it was in force already and nothing was written.
    changed: bool
    #: The value of somebody else that was written over while the knob was in our charge.
    overwrote: int | None = None
    #: The value in force is not ours: an external writer's is lower, or no limit is wanted. Nothing of ours is left in
    #: the knob.
    foreign: bool = False


class GivenBack(StrEnum):
    """What became of one knob."""

    RESTORED = "restored"
    KEPT_FOREIGN = "kept_foreign"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Restored:
    """One knob that was in our charge."""

    key: str
    outcome: GivenBack
    #: What the knob holds now; None where it could not be read.
    value: int | None = None
    #: Why it was refused.
    reason: Reason | None = None
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether nothing of ours is left in it."""
        return self.outcome is not GivenBack.REFUSED


@dataclass(frozen=True, slots=True)
class _Found:
    """A knob's value, and what is known of whose it is."""

    knob: Knob
    value: int
    entry: Entry | None

    @property
    def ours(self) -> bool:
        """Whether we put the value there."""
        return self.entry is not None and self.value in self.entry.ours

    def holds(self, wanted: int) -> bool:
        """Whether writing would change nothing; firmware may hold a value of ours at another one."""
        answered = self.entry is not None and wanted == self.entry.asked and self.value == self.entry.got
        return answered or self.value == wanted


class Hands:
    """Writes knobs and gives them back, with the journal as its memory."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._overwritten: Counter[str] = Counter()
        self._wanted: set[str] = set()

    @property
    def journal_problem(self) -> str | None:
        """Why the last record could not be made; None where it could.

        Nothing is lost where it was of something done: the intent was recorded before, and what came of it is found out
        at the next look.
        """
        return self._journal.problem

    @property
    def journal_refusal(self) -> Refusal | None:
        """Why nothing new may be set, and only restored; None where it may."""
        return Refusal(Reason.NO_JOURNAL, self._journal.problem) if self._journal.problem is not None else None

    @property
    def held(self) -> frozenset[str]:
        """Keys of the knobs that hold, or may hold, a value of ours."""
        return frozenset(self._journal.entries)

    @property
    def orphans(self) -> frozenset[str]:
        """Keys of held knobs that nobody has asked for since they were last to be given back, or since we began."""
        return self.held - self._wanted

    @property
    def originals(self) -> Mapping[str, int]:
        """What the knobs are to be given back, by key."""
        return {key: entry.original for key, entry in self._journal.entries.items()}

    @property
    def overwritten(self) -> Mapping[str, int]:
        """How often somebody else's value was written over, by key, since this process began."""
        return MappingProxyType(self._overwritten)

    def original(self, knob: Knob) -> int | Refusal:
        """Return what would be given back; for a knob that holds nothing of ours, what it holds."""
        found = self._look(knob)
        if isinstance(found, Refusal):
            return found
        return found.entry.original if found.entry is not None and found.ours else found.value

    def unwant(self, keys: Iterable[str]) -> None:
        """Note that nobody asks for these knobs any more, also where they cannot be restored now: see `orphans`."""
        self._wanted.difference_update(keys)

    def set(self, knob: Knob, value: int) -> Written | Refusal:
        """Put a value in force; the same value again costs one read and re-asserts it if somebody has changed it."""
        return self.set_all([(knob, value)])[0]

    def set_all(self, orders: Sequence[tuple[Knob, int]]) -> list[Written | Refusal]:
        """Put values in force, each knob at most once; what one refuses does not keep the others from being set.

        All of it goes to the journal in one change before and one after, so that many cost little more than one.
        """
        assert len({knob.key for knob, _ in orders}) == len(orders), "a knob takes one value at a time"
        self._wanted |= {knob.key for knob, _ in orders}
        found = [self._look_within(knob, value) for knob, value in orders]
        due = [
            (each, value)
            for each, (_, value) in zip(found, orders, strict=True)
            if isinstance(each, _Found) and not each.holds(value)
        ]
        put = {each.knob.key: answer for (each, _), answer in zip(due, self._put(due), strict=True)}
        return [
            each if isinstance(each, Refusal) else put.get(each.knob.key, Written(each.value, changed=False))
            for each in found
        ]

    def restore(self, knobs: Iterable[Knob]) -> list[Restored]:
        """Give knobs back; those not in our charge are passed over. Call again for those that were refused.

        A journal that cannot be written does not stand in the way: the originals are on disk already. Nor does this
        write need an intent: dying after it leaves a knob that holds its original, which is what was promised.
        """
        answers: list[Restored] = []
        due: list[tuple[_Found, int]] = []
        for knob in {knob.key: knob for knob in knobs if knob.key in self._journal.entries}.values():
            self._wanted.discard(knob.key)
            found = self._look(knob)
            if isinstance(found, Refusal):
                answers.append(_refused(knob, found))
                continue
            assert found.entry is not None
            original = found.entry.original
            if found.value == original:
                answers.append(Restored(knob.key, GivenBack.RESTORED, original))
            elif found.ours:
                due.append((found, original))
            else:
                answers.append(Restored(knob.key, GivenBack.KEPT_FOREIGN, found.value))
        answers += [self._give_back(each, original) for each, original in due]
        self._note({answer.key: None for answer in answers if answer.done})
        return answers

    def _give_back(self, found: _Found, original: int) -> Restored:
        knob = found.knob
        answer = knob.write(original)
        if isinstance(answer, Refusal):
            return _refused(knob, answer)
        if answer == original:
            return Restored(knob.key, GivenBack.RESTORED, answer)
        message = f"asked for {original} {knob.unit}, reads {answer}"
        if answer == found.value:
            return Restored(knob.key, GivenBack.REFUSED, answer, Reason.FIRMWARE_LOCKED, message)
        # It took the value and holds it elsewhere, as a policy does that is also limited by temperature.
        return Restored(knob.key, GivenBack.RESTORED, answer, message=message)

    def _put(self, orders: Sequence[tuple[_Found, int]]) -> list[Written | Refusal]:
        intents = {found.knob.key: _intent(found, value) for found, value in orders}
        try:
            self._journal.change(intents)
        except JournalError as error:
            return [Refusal(Reason.NO_JOURNAL, str(error))] * len(orders)
        answers: list[Written | Refusal] = []
        outcomes: dict[str, Entry | None] = {}
        for found, value in orders:
            answer = found.knob.write(value)
            if isinstance(answer, Refusal):
                answers.append(answer)
                if found.knob.read() == found.value:  # nothing has landed; otherwise the next look finds out
                    outcomes[found.knob.key] = found.entry
            else:
                answers.append(self._written(found, answer))
                outcomes[found.knob.key] = _landed(intents[found.knob.key], answer)
        self._note(outcomes)
        return answers

    def _written(self, found: _Found, answer: int) -> Written:
        if found.entry is None or not found.entry.ours or found.ours:
            return Written(answer, changed=True)
        self._overwritten[found.knob.key] += 1
        return Written(answer, changed=True, overwrote=found.value)

    def _look_within(self, knob: Knob, value: int) -> _Found | Refusal:
        if value not in knob.limits:
            limits = f"{knob.limits.low} to {knob.limits.high} {knob.unit}"
            return Refusal(Reason.OUT_OF_RANGE, f"{knob.key}: {value} {knob.unit} is outside {limits}")
        return self._look(knob)

    def _look(self, knob: Knob) -> _Found | Refusal:
        """Read a knob and settle whose value it holds."""
        value = knob.read()
        if isinstance(value, Refusal):
            return value
        entry = self._journal.entries.get(knob.key)
        if entry is None or entry.pending is None:
            return _Found(knob, value, entry)
        settled = self._settle(knob, value, entry)
        if isinstance(settled, _Found):
            self._note({knob.key: settled.entry})
        return settled

    def _settle(self, knob: Knob, value: int, entry: Entry) -> _Found | Refusal:
        """Find out what became of a write whose end nobody has seen."""
        if entry.suspect is not None and value != entry.suspect:
            # Trying it out has replaced the suspect, so it was no answer to `pending`: somebody had put it there.
            entry = replace(entry, original=entry.suspect, suspect=None)
        if value == entry.pending:
            return _Found(knob, value, _landed(entry, value))
        if value in entry.ours or value == entry.original:
            return _Found(knob, value, replace(entry, pending=None, suspect=None))
        return self._try_out(knob, value, entry)

    def _try_out(self, knob: Knob, value: int, entry: Entry) -> _Found | Refusal:
        """Write `pending` again: a machine that answers it with the value we found has answered so before."""
        assert entry.pending is not None
        try:
            self._journal.change({knob.key: replace(entry, suspect=value)})
        except JournalError as error:
            return Refusal(Reason.NO_JOURNAL, str(error))
        answer = knob.write(entry.pending)
        if isinstance(answer, Refusal):
            return answer
        original = entry.original if answer == value else value
        return _Found(knob, answer, _landed(replace(entry, original=original), answer))

    def _note(self, outcomes: Mapping[str, Entry | None]) -> None:
        """Record what has been done already; where that fails, `journal_problem` says so."""
        with suppress(JournalError):
            self._journal.change(outcomes)


def _intent(found: _Found, value: int) -> Entry:
    """What is on disk while the value is being written."""
    if found.entry is None:
        return Entry(unit=found.knob.unit, original=found.value, pending=value)
    if found.ours:
        return replace(found.entry, pending=value)
    return replace(found.entry, original=found.value, pending=value)


def _landed(entry: Entry, answer: int) -> Entry:
    """What is known once the knob has answered `pending`."""
    return replace(entry, asked=entry.pending, got=answer, pending=None, suspect=None)


def _refused(knob: Knob, refusal: Refusal) -> Restored:
    return Restored(knob.key, GivenBack.REFUSED, None, refusal.reason, refusal.message)
