"""What a writer tells of the knobs it manages: originals, what it wrote, what is requested, and what keeps it back."""

import os

import pytest

from joulie_agent.hardware.journal import Journal, JournalEntry
from joulie_agent.hardware.journaled_writer import JournaledWriter, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_agent.reasons import Reason


class Knob:
    """A register; `fails` makes writing and reading fail."""

    unit = "W"
    kind = KnobKind.LIMIT
    limits = KnobLimits(50, 300)

    def __init__(self, key="a", value=205):
        self.key, self.value = key, value
        self.writes = []
        self.fails = None

    def read(self):
        return self.fails or self.value

    def write(self, value):
        self.writes.append(value)
        if self.fails is None:
            self.value = value
        return self.fails or self.value


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path) as journal:
        yield journal


@pytest.fixture
def writer(journal):
    return JournaledWriter(journal)


BUSY = HardwareFailure(Reason.IO_ERROR, "busy")


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

    def full(_file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert writer.set(Knob("b"), 120).reason is Reason.NO_JOURNAL
    assert "No space left" in writer.journal_problem
    assert writer.journal_failure == HardwareFailure(Reason.NO_JOURNAL, writer.journal_problem)


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
