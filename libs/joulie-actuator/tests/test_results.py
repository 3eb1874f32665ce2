"""What is reported of knobs that were written or restored."""

from dataclasses import dataclass

import pytest

from joulie_actuator import results
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.knob_results import RestoredKnob, RestoreOutcome, WrittenKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult

LOCKED = HardwareFailure(Reason.FIRMWARE_LOCKED, "locked")
BROKEN = HardwareFailure(Reason.IO_ERROR, "broken")


@dataclass
class Limit:
    key: str
    value: int = 200
    kind: KnobKind = KnobKind.LIMIT
    unit: str = "W"

    @property
    def limits(self):
        return KnobLimits(50, 300)

    def read(self):
        return self.value

    def write(self, value):
        self.value = value
        return value


@pytest.mark.parametrize(
    ("failures", "some_applied", "result"),
    [
        ([LOCKED], False, ControlResult.BLOCKED),
        ([LOCKED, BROKEN], False, ControlResult.ERROR),
        ([LOCKED], True, ControlResult.ERROR),
    ],
)
def test_what_no_retry_can_help_is_blocked_unless_a_part_of_it_is_in_force(failures, some_applied, result):
    done = results.failed("rapl", failures, some_applied=some_applied)
    message = "; ".join(each.message for each in failures)
    assert done == ControlOutcome(result, Reason.FIRMWARE_LOCKED, "rapl", message)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.NO_INTERFACE,
        Reason.NO_DEVICE,
        Reason.NOT_PERMITTED,
        Reason.FIRMWARE_LOCKED,
        Reason.HELD_BY_FIRMWARE,
        Reason.OUT_OF_RANGE,
        Reason.NO_CAP_RANGE,
        Reason.NO_JOURNAL,
    ],
)
def test_what_this_machine_does_not_offer_is_blocked(reason):
    assert results.failed("rapl", [HardwareFailure(reason)]).result is ControlResult.BLOCKED


@pytest.mark.parametrize("reason", [Reason.IO_ERROR, Reason.DEVICE_LOST, Reason.TIMEOUT])
def test_what_should_have_worked_is_an_error(reason):
    assert results.failed("rapl", [HardwareFailure(reason)]).result is ControlResult.ERROR


@pytest.mark.parametrize(("failure", "result"), [(LOCKED, ControlResult.BLOCKED), (BROKEN, ControlResult.ERROR)])
def test_what_is_in_force_in_part_says_so_first_and_how_much_it_is(failure, result):
    done = results.partly_applied("rapl", Reason.PARTLY_APPLIED, [failure], "1 of 2", enforced_watts=90.0)
    assert done == ControlOutcome(result, Reason.PARTLY_APPLIED, "rapl", f"1 of 2; {failure.message}", 90.0)


def test_what_is_in_force_in_part_has_the_message_of_its_failures_and_no_watts_where_none_are_known():
    done = results.partly_applied("rapl", Reason.PARTLY_APPLIED, [LOCKED])
    assert (done.message, done.enforced_watts) == ("locked", None)


def test_managed_knobs_are_restored_and_others_are_left_alone(writer):
    managed, other = Limit("a"), Limit("b", value=70)
    writer.set(managed, 100)
    assert results.restore(writer, frozenset({"a", "b"}), {"a": managed, "b": other}) == (
        RestoredKnob("a", RestoreOutcome.RESTORED, 200),
    )
    assert (managed.value, other.value, writer.managed) == (200, 70, frozenset())


def test_only_the_knobs_that_are_named_are_restored(writer):
    knobs = {key: Limit(key) for key in "ab"}
    for knob in knobs.values():
        writer.set(knob, 100)
    results.restore(writer, frozenset({"b"}), knobs)
    assert {key: knob.value for key, knob in knobs.items()} == {"a": 100, "b": 200}
    assert writer.unclaimed == frozenset()


def test_a_managed_knob_that_is_not_on_the_machine_fails_and_stays_managed_without_a_claim(writer):
    gone, broken = Limit("a"), Limit("b")
    for knob in (gone, broken):
        writer.set(knob, 100)
    assert results.restore(writer, frozenset({"a", "b"}), {"b": BROKEN}) == (
        RestoredKnob("a", RestoreOutcome.FAILED, None, Reason.NO_DEVICE, "not present on this machine now"),
        RestoredKnob("b", RestoreOutcome.FAILED, None, Reason.IO_ERROR, "broken"),
    )
    assert writer.unclaimed == writer.managed == {"a", "b"}


def test_a_knob_that_was_not_restored_tells_why():
    restored = RestoredKnob("a", RestoreOutcome.RESTORED, 200)
    left = RestoredKnob("b", RestoreOutcome.FAILED, None, Reason.IO_ERROR, "broken")
    assert results.failures([restored, left]) == [BROKEN]


def test_external_values_that_were_overwritten_or_stay_in_force_are_named():
    answers = [
        ("a", WrittenKnob(100, changed=True)),
        ("b", WrittenKnob(80, changed=False, external=True)),
        ("c", WrittenKnob(100, changed=True, overwrote=150)),
        ("d", LOCKED),
    ]
    assert results.overwrite_messages(answers) == [
        "c: overwrote external value 150",
        "b: external value 80 is lower and stays in force",
    ]


def test_knobs_that_do_not_simply_hold_their_original_again_are_named():
    knobs = (
        RestoredKnob("a", RestoreOutcome.RESTORED, 200),
        RestoredKnob("b", RestoreOutcome.KEPT_EXTERNAL, 150),
        RestoredKnob("c", RestoreOutcome.FAILED, None, Reason.IO_ERROR, "broken"),
    )
    assert results.restore_messages(iter(knobs)) == ["c: broken", "b: external value 150 left in place"]


@pytest.mark.parametrize(
    ("messages", "joined"),
    [
        ([], ""),
        (["a"], "a"),
        (["b", "", "a", "b"], "b; a"),
        (["a", "b", "c", "d"], "a; b; c; d"),
        (["a", "b", "c", "d", "e"], "a; b; c; d; and 1 more"),
        (["a", "b", "c", "d", "e", "f", "f"], "a; b; c; d; and 2 more"),
    ],
)
def test_messages_are_joined_once_each_and_the_first_four_only(messages, joined):
    assert results.join_messages(messages) == joined
