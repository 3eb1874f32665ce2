"""What a writer tells of the knobs it manages: originals, what it wrote, what is requested, and what keeps it back."""

import os

import pytest

from joulie_actuator.hardware.journal import Journal, peek
from joulie_actuator.hardware.journal_file import JournalEntry, JournalError
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.knob_results import RestoredKnob, RestoreOutcome, WrittenKnob
from joulie_actuator.reasons import Reason


class Knob:
    """A register. `fails` is what reading and writing fail with, `refuses` what writing alone does."""

    unit = "W"
    kind = KnobKind.LIMIT
    limits = KnobLimits(50, 300)

    def __init__(self, key="a", value=205):
        self.key, self.value = key, value
        self.writes = []
        self.fails = self.refuses = None
        self.locked = False

    def read(self):
        return self.fails or self.value

    def write(self, value):
        self.writes.append(value)
        failure = self.fails or self.refuses
        if failure is None and not self.locked:
            self.value = value
        return failure or self.value


class SwitchKnob(Knob):
    """A switch that is off."""

    kind = KnobKind.SWITCH
    limits = KnobLimits(0, 1)

    def __init__(self):
        super().__init__("switch", 0)


class LimitWithSwitch(Knob):
    """A register that is in force while its switch is on."""

    def __init__(self, switch):
        super().__init__()
        self.switch = switch


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path) as journal:
        yield journal


@pytest.fixture
def writer(journal):
    return JournaledWriter(journal)


BUSY = HardwareFailure(Reason.IO_ERROR, "busy")


def full(_file):
    raise OSError(28, "No space left on device")


def test_a_writer_that_has_written_nothing_manages_nothing(writer):
    assert (writer.managed, writer.unclaimed, writer.originals, writer.written) == (frozenset(), frozenset(), {}, {})
    assert (dict(writer.overwritten), writer.journal_problem, writer.journal_failure) == ({}, None, None)


def test_managed_knobs_have_an_original_and_what_was_written_last(writer):
    first, second = Knob("a"), Knob("b", 180)
    writer.set_all([(first, 120), (second, 100)])
    writer.set(first, 130)
    assert writer.managed == {"a", "b"}
    assert writer.originals == {"a": 205, "b": 180}
    assert writer.written == {"a": 130, "b": 100}


def test_a_value_that_was_about_to_be_written_counts_as_written_last(journal, writer):
    journal.change(
        {
            "a": JournalEntry(unit="W", original=205, written=120, read_back=120, pending=100),
            "b": JournalEntry(unit="W", original=205, written=120, read_back=119),
            "c": JournalEntry(unit="W", original=205),
        }
    )
    assert writer.written == {"a": 100, "b": 120}


def test_knobs_stay_requested_until_they_are_not_any_more(writer, journal):
    knobs = [Knob("a"), Knob("b"), Knob("c")]
    for knob in knobs:
        writer.set(knob, 120)
    assert writer.unclaimed == frozenset()
    writer.unclaim(["a", "x"])
    assert writer.unclaimed == {"a"}
    writer.set(knobs[0], 110)
    assert writer.unclaimed == frozenset()
    knobs[1].fails = BUSY
    writer.restore(knobs[1:2])
    assert writer.unclaimed == {"b"}, "it is not requested, although it still holds Joulie's value"
    assert JournaledWriter(journal).unclaimed == {"a", "b", "c"}, "the next process has no requests yet"


def test_a_knob_is_requested_although_it_could_not_be_set(writer, journal):
    knob = Knob()
    writer.set(knob, 120)
    writer.unclaim(["a"])
    knob.fails = BUSY
    assert writer.set(knob, 110) == BUSY
    assert writer.unclaimed == frozenset()


def test_a_journal_that_cannot_be_written_keeps_new_values_from_being_set(writer, monkeypatch):
    writer.set(Knob("a"), 120)
    monkeypatch.setattr(os, "fsync", full)
    assert writer.set(Knob("b"), 120).reason is Reason.NO_JOURNAL
    assert "No space left" in writer.journal_problem
    assert writer.journal_failure == HardwareFailure(Reason.NO_JOURNAL, writer.journal_problem)


def test_a_restore_is_recorded_later_where_that_is_wanted(writer, tmp_path, monkeypatch):
    first, second = Knob("a"), Knob("b")
    writer.set_all([(first, 120), (second, 120)])
    assert (writer.unrecorded, writer.record()) == (False, None)
    second.fails = BUSY
    done = writer.restore([first, second], record_later=True)
    assert [each.outcome for each in done] == [RestoreOutcome.RESTORED, RestoreOutcome.FAILED]
    assert (first.value, writer.managed, writer.unrecorded, peek(tmp_path).keys()) == (205, {"b"}, True, {"a", "b"})
    monkeypatch.setattr(os, "fsync", full)
    assert writer.record() == writer.journal_failure
    assert (writer.unrecorded, writer.journal_failure.reason) == (True, Reason.NO_JOURNAL)
    monkeypatch.undo()
    assert (writer.record(), writer.unrecorded, peek(tmp_path).keys()) == (None, False, {"b"})


def test_a_set_without_anything_to_write_does_not_record_what_waits_for_it(writer):
    first, second = Knob("a"), Knob("b")
    writer.set_all([(first, 120), (second, 120)])
    writer.restore([first], record_later=True)
    assert writer.set_all([(second, 120)]) == [WrittenKnob(120, changed=False)]
    assert writer.unrecorded
    writer.set(second, 110)
    assert not writer.unrecorded


def test_the_original_of_a_knob_that_is_not_managed_is_its_value(writer):
    knob = Knob()
    assert writer.original(knob) == 205
    writer.set(knob, 120)
    assert writer.original(knob) == 205
    knob.fails = BUSY
    assert writer.original(knob) == BUSY


@pytest.mark.parametrize("value", [49, 301])
def test_a_value_outside_the_range_is_refused_with_the_range(value, writer):
    expected = HardwareFailure(Reason.OUT_OF_RANGE, f"a: {value} W is outside 50 to 300 W")
    assert writer.set(Knob(), value) == expected
    assert writer.managed == frozenset()


def test_no_knob_takes_two_values_at_a_time(writer):
    with pytest.raises(AssertionError, match="one value at a time"):
        writer.set_all([(Knob(), 120), (Knob(), 110)])


def test_overwritten_values_are_counted_for_each_knob(writer):
    first, second = Knob("a"), Knob("b")
    writer.set_all([(first, 120), (second, 120)])
    for external in (200, 210):
        first.value = external
        assert writer.set(first, 120) == WrittenKnob(120, changed=True, overwrote=external)
    assert dict(writer.overwritten) == {"a": 2}
    assert writer.originals == {"a": 210, "b": 205}


def test_knobs_that_are_not_managed_are_not_restored(writer):
    knob = Knob()
    assert writer.restore([knob]) == []
    assert knob.writes == []


def test_a_restore_that_is_refused_is_told_and_can_be_repeated(writer):
    knob = Knob()
    writer.set(knob, 120)
    knob.refuses = BUSY
    assert writer.restore([knob]) == [RestoredKnob("a", RestoreOutcome.FAILED, None, Reason.IO_ERROR, "busy")]
    assert writer.managed == {"a"}
    knob.refuses = None
    assert writer.restore([knob]) == [RestoredKnob("a", RestoreOutcome.RESTORED, 205)]
    assert (knob.value, writer.managed) == (205, frozenset())


def test_a_restore_without_effect_is_told_with_what_is_read(writer):
    knob = Knob()
    writer.set(knob, 120)
    knob.locked = True
    message = "wrote 205 W, reads 120"
    assert writer.restore([knob]) == [RestoredKnob("a", RestoreOutcome.FAILED, 120, Reason.FIRMWARE_LOCKED, message)]
    assert writer.managed == {"a"}


def test_a_knob_whose_next_value_is_refused_keeps_the_one_before_and_its_original(writer):
    knob = Knob()
    writer.set(knob, 120)
    knob.refuses = BUSY
    assert writer.set(knob, 110) == BUSY
    assert (writer.managed, writer.written, writer.originals) == ({"a"}, {"a": 120}, {"a": 205})
    knob.refuses = None
    writer.restore([knob])
    assert knob.value == 205


def _full(_journal, _changes):
    raise JournalError("disk full")


DISK_FULL = HardwareFailure(Reason.NO_JOURNAL, "disk full")


def test_without_a_journal_every_value_is_refused_with_the_reason(writer, monkeypatch):
    monkeypatch.setattr(Journal, "change", _full)
    assert writer.set_all([(Knob("a"), 120), (Knob("b"), 120)]) == [DISK_FULL, DISK_FULL]


@pytest.fixture
def interrupted(journal):
    """A register that reads 117 W; a process was killed while it wrote 110 W over 120 W."""
    journal.change({"a": JournalEntry(unit="W", original=205, written=120, read_back=120, pending=110)})

    class Noting(Knob):
        suspects = ()

        def write(self, value):
            self.suspects += (journal.entries["a"].suspect,)
            return super().write(value)

    return Noting(value=117)


def test_a_value_that_may_be_external_is_in_the_journal_before_joulies_is_written_over_it(interrupted, writer):
    assert writer.original(interrupted) == 117
    assert (interrupted.writes, interrupted.suspects) == ([110], (117,))
    assert (writer.originals, writer.written) == ({"a": 117}, {"a": 110})


def test_a_value_that_may_be_external_is_not_written_over_without_a_journal(interrupted, writer, monkeypatch):
    monkeypatch.setattr(Journal, "change", _full)
    assert writer.original(interrupted) == DISK_FULL
    assert writer.restore([interrupted]) == [
        RestoredKnob("a", RestoreOutcome.FAILED, None, Reason.NO_JOURNAL, "disk full")
    ]
    assert interrupted.writes == []


def test_a_value_that_may_be_external_stays_unknown_where_joulies_is_refused(interrupted, writer):
    interrupted.refuses = BUSY
    assert writer.original(interrupted) == BUSY
    assert writer.originals == {"a": 205}
    interrupted.refuses = None
    assert writer.original(interrupted) == 117


def test_of_several_external_limits_that_suffice_each_is_kept_or_put_back(writer):
    free, managed = Knob("a", 100), Knob("b")
    writer.set(managed, 120)
    assert writer.set_all([(free, 150), (managed, 250)]) == [
        WrittenKnob(100, changed=False, external=True),
        WrittenKnob(205, changed=True, external=True),
    ]
    assert (free.writes, managed.writes) == ([], [120, 205])


@pytest.fixture
def switched_on(writer):
    """A limit of 120 W that Joulie has set and switched on."""
    switch = SwitchKnob()
    limit = LimitWithSwitch(switch)
    writer.set(limit, 120)
    writer.set(switch, 1)
    return limit


def test_a_limit_that_was_off_is_not_restored_while_it_is_on(switched_on, writer):
    held = RestoredKnob(
        "a", RestoreOutcome.FAILED, None, Reason.IO_ERROR, "switch is 1 and was 0: it is restored first"
    )
    assert writer.restore([switched_on]) == [held]
    assert switched_on.value == 120
    answers = writer.restore([switched_on.switch, switched_on])
    assert [each.outcome for each in answers] == [RestoreOutcome.RESTORED] * 2
    assert (switched_on.switch.value, switched_on.value) == (0, 205)


def test_a_limit_whose_switch_cannot_be_read_is_restored(switched_on, writer):
    switched_on.switch.fails = BUSY
    assert writer.restore([switched_on]) == [RestoredKnob("a", RestoreOutcome.RESTORED, 205)]


def test_a_limit_whose_switch_is_not_managed_is_restored(writer):
    limit = LimitWithSwitch(SwitchKnob())
    writer.set(limit, 120)
    limit.switch.value = 1
    assert writer.restore([limit]) == [RestoredKnob("a", RestoreOutcome.RESTORED, 205)]
