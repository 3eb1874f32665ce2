"""The only way to write hardware: note the original, write, read back, and give back what was found.

Promises, whatever instant the process dies at:

- before the first write to a knob its original is on disk, and before every write the value about to be written;
- a value we put there, or what firmware made of it, is recognised as ours later, by this process or the next;
- what is given back is the newest value that somebody else has put there: the one found first, or the one found since
  where somebody wrote in between;
- a value that somebody else has put there is never replaced by an older one. While a knob is in our charge it is
  written over (`Written.overwrote` says so) and becomes the new original; while we give back it stays.

Cannot see a value that somebody writes between our read and our write, nor tell somebody else's value that equals ours
from ours. Why it is done this way: docs/decisions/0004-give-back.md.

Not for several threads at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

import msgspec

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
    """A knob's value, and the entry that says whose it is: it is ours if `entry.ours` holds it."""

    knob: Knob
    value: int
    entry: Entry | None


class Hands:
    """Writes knobs and gives them back, with the journal as its memory."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._overwritten: Counter[str] = Counter()

    @property
    def held(self) -> frozenset[str]:
        """Keys of the knobs that hold, or may hold, a value of ours."""
        return frozenset(self._journal.entries)

    @property
    def overwritten(self) -> Mapping[str, int]:
        """How often somebody else's value was written over, by key, since this process began."""
        return MappingProxyType(self._overwritten)

    def original(self, key: str) -> int | None:
        """What would be given back; None for a knob that is not in our charge."""
        entry = self._journal.entries.get(key)
        return entry.original if entry else None

    def set(self, knob: Knob, value: int) -> Written | Refusal:
        """Put a value in force; the same value again costs one read and re-asserts it if somebody has changed it."""
        return self.set_all([(knob, value)])[0]

    def set_all(self, orders: Iterable[tuple[Knob, int]]) -> list[Written | Refusal]:
        """Put values in force, in order; what one knob refuses does not keep the others from being set.

        All of it goes to the journal in one change before and one after, so that many cost little more than one.
        """
        orders = list(orders)
        answers: dict[int, Written | Refusal] = {}
        due: dict[int, tuple[_Found, int]] = {}
        for place, (knob, value) in enumerate(orders):
            found = self._look_within(knob, value)
            if isinstance(found, Refusal):
                answers[place] = found
            elif _in_force(found, value):
                answers[place] = Written(found.value, changed=False)
            else:
                due[place] = (found, value)
        answers |= dict(zip(due, self._put(due.values()), strict=True))
        return [answers[place] for place in range(len(orders))]

    def restore(self, knobs: Iterable[Knob]) -> list[Restored]:
        """Give knobs back; those not in our charge are passed over. Call again for those that were refused.

        A journal that cannot be written does not stand in the way: the originals are on disk already.
        """
        answers: dict[str, Restored] = {}
        due: list[_Found] = []
        for knob in knobs:
            if knob.key in self._journal.entries and knob.key not in answers:
                found = self._look(knob)
                if isinstance(found, Refusal):
                    answers[knob.key] = _refused(knob.key, found)
                elif found.entry is not None:
                    answers[knob.key] = _kept(found, found.entry)
                    if found.value in found.entry.ours and found.value != found.entry.original:
                        due.append(found)
        answers |= {answer.key: answer for answer in self._give_back(due)}
        # If the removals cannot be recorded the entries are met again, at rest: the knobs hold their originals.
        self._note({key: None for key, answer in answers.items() if answer.done})
        return list(answers.values())

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
        return self._settle(knob, value, entry)

    def _settle(self, knob: Knob, value: int, entry: Entry) -> _Found | Refusal:
        """Find out what became of a write whose end nobody has seen."""
        if entry.suspect is not None and value != entry.suspect:
            # Trying it out has replaced the suspect, so it was no answer to `pending`: somebody had put it there.
            entry = msgspec.structs.replace(entry, original=entry.suspect, suspect=None)
        if value == entry.pending:
            return _Found(knob, value, _landed(entry, value))
        if value in entry.ours | {entry.original}:
            return _Found(knob, value, msgspec.structs.replace(entry, pending=None, suspect=None))
        return self._try_out(knob, value, entry)

    def _try_out(self, knob: Knob, value: int, entry: Entry) -> _Found | Refusal:
        """Write `pending` again: a machine that answers it with the value we found has answered so before."""
        assert entry.pending is not None
        try:
            self._journal.change({knob.key: msgspec.structs.replace(entry, suspect=value)})
        except JournalError as error:
            return Refusal(Reason.NO_JOURNAL, str(error))
        answer = knob.write(entry.pending)
        if isinstance(answer, Refusal):
            return answer
        original = entry.original if answer == value else value
        return _Found(knob, answer, _landed(msgspec.structs.replace(entry, original=original), answer))

    def _put(self, orders: Iterable[tuple[_Found, int]]) -> list[Written | Refusal]:
        """Write what is not in force yet."""
        orders = list(orders)
        intents = {found.knob.key: _intent(found, value) for found, value in orders}
        try:
            self._journal.change(intents)
        except JournalError as error:
            return [Refusal(Reason.NO_JOURNAL, str(error))] * len(orders)
        answers = [self._write(found, value) for found, value in orders]
        # A record that fails leaves `pending` standing, which is settled at the next look.
        self._note({found.knob.key: _record(intents[found.knob.key], answer, found) for (found, _), answer in ...})
        return answers
