"""From refusals of knobs to the verdict on an operation, and the words for it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from joulie_agent.hardware.journaled_writer import JournaledWriter, RestoredKnob, RestoreOutcome, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

#: What cannot be done on this machine, as opposed to what should have worked.
_CANNOT_BE_DONE: Final = frozenset(
    {
        Reason.NO_INTERFACE,
        Reason.NO_DEVICE,
        Reason.NOT_PERMITTED,
        Reason.FIRMWARE_LOCKED,
        Reason.HELD_BY_FIRMWARE,
        Reason.OUT_OF_RANGE,
        Reason.NO_CAP_RANGE,
        Reason.NO_JOURNAL,
    }
)
#: Some machines have hundreds of knobs of a kind, and what ails one mostly ails all.
_MOST_SAID: Final = 4
_AWAY: Final = HardwareFailure(Reason.NO_DEVICE, "not on this machine now")


def refused(backend: str, refusals: Sequence[HardwareFailure], *, some_landed: bool = False) -> ControlOutcome:
    """Return the verdict where something refused; `some_landed`: a part of it is in force all the same."""
    return ControlOutcome(
        result=ControlResult.BLOCKED if _cannot(refusals) and not some_landed else ControlResult.ERROR,
        reason=refusals[0].reason,
        backend=backend,
        message=join(refusal.message for refusal in refusals),
    )


def partly(
    backend: str,
    reason: Reason,
    refusals: Sequence[HardwareFailure],
    said: str = "",
    *,
    enforced_watts: float | None = None,
) -> ControlOutcome:
    """Return the verdict where less than what was asked for is in force; the reason says that something is."""
    return ControlOutcome(
        result=ControlResult.BLOCKED if _cannot(refusals) else ControlResult.ERROR,
        reason=reason,
        backend=backend,
        message=join([said, *(refusal.message for refusal in refusals)]),
        enforced_watts=enforced_watts,
    )


def _cannot(refusals: Sequence[HardwareFailure]) -> bool:
    """Whether trying again is of no use."""
    return all(refusal.reason in _CANNOT_BE_DONE for refusal in refusals)


def give_back(
    hands: JournaledWriter, keys: frozenset[str], knobs: Mapping[str, Knob | HardwareFailure]
) -> tuple[RestoredKnob, ...]:
    """Give back what is held of `keys`, with the knobs that this machine has now.

    What is held and not on the machine is refused and stays in the journal: an unplugged CPU or a lost GPU may come
    back with our value still in it.
    """
    hands.unwant(keys)
    here: list[Knob] = []
    away: list[RestoredKnob] = []
    for key in sorted(hands.held & keys):
        knob = knobs.get(key, _AWAY)
        if isinstance(knob, HardwareFailure):
            away.append(RestoredKnob(key, RestoreOutcome.REFUSED, None, knob.reason, knob.message))
        else:
            here.append(knob)
    return (*hands.restore(here), *away)


def refusals(knobs: Iterable[RestoredKnob]) -> list[HardwareFailure]:
    """Return why knobs were not restored."""
    return [knob.refusal for knob in knobs if knob.refusal is not None]


def overwrote(answers: Iterable[tuple[str, WrittenKnob | HardwareFailure]]) -> list[str]:
    """Return a remark for each value of an external writer that was written over, or that is lower and stays."""
    written = [(key, answer) for key, answer in answers if isinstance(answer, WrittenKnob)]
    said = [f"{key}: {each.overwrote} of somebody else was written over" for key, each in written if each.overwrote]
    return said + [
        f"{key}: {each.value} of an external writer is lower and stays in force"
        for key, each in written
        if each.foreign
    ]


def remarks(knobs: Iterable[RestoredKnob]) -> list[str]:
    """Return a remark for each knob whose way back was not the plain one."""
    said = [f"{knob.key}: {knob.message}" for knob in knobs if knob.message]
    return said + [
        f"{knob.key}: {knob.value} of somebody else is kept"
        for knob in knobs
        if knob.outcome is RestoreOutcome.KEPT_EXTERNAL
    ]


def join(messages: Iterable[str]) -> str:
    """Return messages as one, each once and the first few only."""
    distinct = list(Counter(message for message in messages if message))
    more = len(distinct) - _MOST_SAID
    return "; ".join(distinct[:_MOST_SAID]) + (f"; and {more} more" if more > 0 else "")
