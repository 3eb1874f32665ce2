"""Control outcomes from what knobs answered, and the messages in them, which reach `status.control.*.message`."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import RestoredKnob, RestoreOutcome, WrittenKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult

#: What is not possible on this machine, as opposed to what should have worked.
_NOT_POSSIBLE: Final = frozenset(
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
#: Some machines have hundreds of knobs of a kind, which mostly fail alike.
_MAX_MESSAGES: Final = 4
_ABSENT: Final = HardwareFailure(Reason.NO_DEVICE, "not present on this machine now")


def failed(backend: str, failures: Sequence[HardwareFailure], *, some_applied: bool = False) -> ControlOutcome:
    """Return the outcome where something failed; `some_applied`: a part of it is in force all the same."""
    return ControlOutcome(
        result=ControlResult.BLOCKED if _not_possible(failures) and not some_applied else ControlResult.ERROR,
        reason=failures[0].reason,
        backend=backend,
        message=join_messages(failure.message for failure in failures),
    )


def partly_applied(
    backend: str,
    reason: Reason,
    failures: Sequence[HardwareFailure],
    message: str = "",
    *,
    enforced_watts: float | None = None,
    total_watts: float | None = None,
) -> ControlOutcome:
    """Return the outcome where less than was requested is in force; the reason shows that something is."""
    return ControlOutcome(
        result=ControlResult.BLOCKED if _not_possible(failures) else ControlResult.ERROR,
        reason=reason,
        backend=backend,
        message=join_messages([message, *(failure.message for failure in failures)]),
        enforced_watts=enforced_watts,
        total_watts=total_watts,
    )


def _not_possible(failures: Sequence[HardwareFailure]) -> bool:
    """Return whether a retry is of no use."""
    return all(failure.reason in _NOT_POSSIBLE for failure in failures)


def restore(
    writer: JournaledWriter,
    keys: frozenset[str],
    knobs: Mapping[str, Knob | HardwareFailure],
    *,
    record_later: bool = False,
) -> tuple[RestoredKnob, ...]:
    """Restore the managed knobs of `keys`, with the knobs that this machine has now; `record_later` is the writer's.

    A managed knob that is not on the machine fails and stays in the journal: an unplugged CPU or a lost GPU may return
    with Joulie's value still in it.
    """
    writer.unclaim(keys)
    present: list[Knob] = []
    absent: list[RestoredKnob] = []
    for key in sorted(writer.managed & keys):
        knob = knobs.get(key, _ABSENT)
        if isinstance(knob, HardwareFailure):
            absent.append(RestoredKnob(key, RestoreOutcome.FAILED, None, knob.reason, knob.message))
        else:
            present.append(knob)
    return (*writer.restore(present, record_later=record_later), *absent)


def failures(knobs: Iterable[RestoredKnob]) -> list[HardwareFailure]:
    """Return why knobs were not restored."""
    return [knob.failure for knob in knobs if knob.failure is not None]


def overwrite_messages(answers: Iterable[tuple[str, WrittenKnob | HardwareFailure]]) -> list[str]:
    """Return a message for each external value that was overwritten, or that is lower and stays in force."""
    written = [(key, answer) for key, answer in answers if isinstance(answer, WrittenKnob)]
    messages = [f"{key}: overwrote external value {each.overwrote}" for key, each in written if each.overwrote]
    return messages + [
        f"{key}: external value {each.value} is lower and stays in force" for key, each in written if each.external
    ]


def restore_messages(knobs: Iterable[RestoredKnob]) -> list[str]:
    """Return a message for each knob that does not simply hold its original again."""
    knobs = list(knobs)
    messages = [f"{knob.key}: {knob.message}" for knob in knobs if knob.message]
    return messages + [
        f"{knob.key}: external value {knob.value} left in place"
        for knob in knobs
        if knob.outcome is RestoreOutcome.KEPT_EXTERNAL
    ]


def join_messages(messages: Iterable[str]) -> str:
    """Return the messages as one: each once, and the first few only."""
    distinct = list(Counter(message for message in messages if message))
    more = len(distinct) - _MAX_MESSAGES
    return "; ".join(distinct[:_MAX_MESSAGES]) + (f"; and {more} more" if more > 0 else "")
