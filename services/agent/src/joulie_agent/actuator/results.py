"""From failures of knobs to the verdict on an operation, and the words for it."""

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


def failed(backend: str, failures: Sequence[HardwareFailure], *, some_landed: bool = False) -> ControlOutcome:
    """Return the verdict where something refused; `some_landed`: a part of it is in force all the same."""
    return ControlOutcome(
        result=ControlResult.BLOCKED if _cannot(failures) and not some_landed else ControlResult.ERROR,
        reason=failures[0].reason,
        backend=backend,
        message=join_messages(failure.message for failure in failures),
    )


def partly_applied(
    backend: str,
    reason: Reason,
    failures: Sequence[HardwareFailure],
    said: str = "",
    *,
    enforced_watts: float | None = None,
) -> ControlOutcome:
    """Return the verdict where less than what was asked for is in force; the reason says that something is."""
    return ControlOutcome(
        result=ControlResult.BLOCKED if _cannot(failures) else ControlResult.ERROR,
        reason=reason,
        backend=backend,
        message=join_messages([said, *(failure.message for failure in failures)]),
        enforced_watts=enforced_watts,
    )


def _cannot(failures: Sequence[HardwareFailure]) -> bool:
    """Whether trying again is of no use."""
    return all(failure.reason in _CANNOT_BE_DONE for failure in failures)


def restore(
    writer: JournaledWriter, keys: frozenset[str], knobs: Mapping[str, Knob | HardwareFailure]
) -> tuple[RestoredKnob, ...]:
    """Give back what is held of `keys`, with the knobs that this machine has now.

    What is held and not on the machine is refused and stays in the journal: an unplugged CPU or a lost GPU may come
    back with our value still in it.
    """
    writer.unclaim(keys)
    here: list[Knob] = []
    away: list[RestoredKnob] = []
    for key in sorted(writer.managed & keys):
        knob = knobs.get(key, _AWAY)
        if isinstance(knob, HardwareFailure):
            away.append(RestoredKnob(key, RestoreOutcome.FAILED, None, knob.reason, knob.message))
        else:
            here.append(knob)
    return (*writer.restore(here), *away)


def failures(knobs: Iterable[RestoredKnob]) -> list[HardwareFailure]:
    """Return why knobs were not restored."""
    return [knob.failure for knob in knobs if knob.failure is not None]


def overwrite_messages(answers: Iterable[tuple[str, WrittenKnob | HardwareFailure]]) -> list[str]:
    """Return a remark for each value of an external writer that was written over, or that is lower and stays."""
    written = [(key, answer) for key, answer in answers if isinstance(answer, WrittenKnob)]
    said = [f"{key}: {each.overwrote} of somebody else was written over" for key, each in written if each.overwrote]
    return said + [
        f"{key}: {each.value} of an external writer is lower and stays in force"
        for key, each in written
        if each.external
    ]


def restore_messages(knobs: Iterable[RestoredKnob]) -> list[str]:
    """Return a remark for each knob whose way back was not the plain one."""
    said = [f"{knob.key}: {knob.message}" for knob in knobs if knob.message]
    return said + [
        f"{knob.key}: {knob.value} of somebody else is kept"
        for knob in knobs
        if knob.outcome is RestoreOutcome.KEPT_EXTERNAL
    ]


def join_messages(messages: Iterable[str]) -> str:
    """Return messages as one, each once and the first few only."""
    distinct = list(Counter(message for message in messages if message))
    more = len(distinct) - _MOST_SAID
    return "; ".join(distinct[:_MOST_SAID]) + (f"; and {more} more" if more > 0 else "")
