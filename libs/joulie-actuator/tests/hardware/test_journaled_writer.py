import os
from dataclasses import dataclass, field

import pytest

from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journal_file import JournalError
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.knob_results import RestoredKnob, RestoreOutcome, WrittenKnob
from joulie_actuator.reasons import Reason


@dataclass
class FakeKnob:
    """A register with the manners of hardware."""

    key: str = "rapl/0"
    value: int = 205
    unit: str = "W"
    kind: KnobKind = KnobKind.LIMIT
    limits: KnobLimits = field(default_factory=lambda: KnobLimits(50, 300))
    ceiling: int = 10_000
    locked: bool = False
    lost: bool = False
    #: The write is refused, and has landed all the same.
    lies: bool = False
    writes: list = field(default_factory=list)

    def read(self):
        return HardwareFailure(Reason.DEVICE_LOST, "gone") if self.lost else self.value

    def write(self, value):
        if self.lost:
            return HardwareFailure(Reason.DEVICE_LOST, "gone")
        self.writes.append(value)
        if not self.locked:
            self.value = min(value, self.ceiling)
        return HardwareFailure(Reason.IO_ERROR, "read-back failed") if self.lies else self.value


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path) as journal:
        yield journal


@pytest.fixture
def writer(journal):
    return JournaledWriter(journal)


def test_the_original_is_on_disk_before_the_first_write(writer, journal):
    seen = []

    class Watched(FakeKnob):
        def write(self, value):
            seen.append(journal.entries[self.key])
            return super().write(value)

    assert writer.set(Watched(), 120) == WrittenKnob(120, changed=True)
    assert (seen[0].original, seen[0].pending) == (205, 120)


def test_restoring_restores_the_value_found_and_forgets_the_knob(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    writer.set(knob, 90)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]
    assert knob.value == 205
    assert writer.managed == frozenset()
    assert writer.restore([knob]) == []


def test_a_value_in_force_is_not_written_again(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    assert writer.set(knob, 120) == WrittenKnob(120, changed=False)
    assert knob.writes == [120]


def test_a_value_found_in_force_is_not_managed(writer):
    knob = FakeKnob(value=120)
    assert writer.set(knob, 120) == WrittenKnob(120, changed=False)
    assert writer.managed == frozenset()


def test_what_firmware_made_of_a_written_value_is_recognised(writer):
    knob = FakeKnob()
    knob.ceiling = 110
    assert writer.set(knob, 120) == WrittenKnob(110, changed=True)
    assert writer.set(knob, 120) == WrittenKnob(110, changed=False)
    knob.ceiling = 300
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]


def test_a_lower_value_of_an_external_writer_is_not_raised_by_the_first_write(writer):
    knob = FakeKnob(value=80)
    assert writer.set(knob, 120) == WrittenKnob(80, changed=False, external=True)
    assert knob.writes == []
    assert writer.managed == frozenset()


def test_a_lower_external_value_written_later_stays_and_is_kept_by_a_restore(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.value = 80
    assert writer.set(knob, 120) == WrittenKnob(80, changed=False, external=True)
    assert writer.overwritten == {}
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.KEPT_EXTERNAL, 80)]
    assert knob.writes == [120]
    assert writer.managed == frozenset()


@pytest.mark.parametrize("between", [[], [120], [120, 120], [120, 140], [100]], ids=str)
def test_a_cap_that_another_tool_saves_and_writes_back_is_restored_to_what_was_before_the_cap(between, writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    saved, knob.value = knob.value, 90
    for cap in between:
        assert writer.set(knob, cap) == WrittenKnob(90, changed=False, external=True)
    knob.value = saved
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]
    assert knob.value == 205


def test_a_cap_that_another_tool_writes_back_follows_the_caps_that_come_after(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.value = 90
    writer.set(knob, 120)
    knob.value = 120
    assert writer.set(knob, 100) == WrittenKnob(100, changed=True)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]


def test_a_lower_external_value_that_rises_is_overwritten_and_restored(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    for value in (90, 110):
        knob.value = value
        assert writer.set(knob, 120).external
    knob.value = 150
    assert writer.set(knob, 120) == WrittenKnob(120, changed=True, overwrote=150)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 150)]


def test_a_cap_below_a_lower_external_value_is_restored_to_that_value(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.value = 90
    writer.set(knob, 120)
    assert writer.set(knob, 80).value == 80
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 90)]


def test_a_standing_external_value_costs_no_change_of_the_journal_at_each_tick(writer, monkeypatch):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.value = 90
    writer.set(knob, 120)
    monkeypatch.setattr(Journal, "_store", _full)
    assert writer.set(knob, 120) == WrittenKnob(90, changed=False, external=True)
    assert writer.journal_problem is None


def test_what_the_hardware_rounds_down_later_is_still_joulies(writer):
    knob = FakeKnob(limits=KnobLimits(50, 300, rounding=2))
    writer.set(knob, 120)
    knob.value = 118
    assert writer.set(knob, 120) == WrittenKnob(118, changed=False)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]


@pytest.mark.parametrize("value", [117, 121])
def test_a_value_beyond_the_rounding_is_external(value, writer):
    knob = FakeKnob(limits=KnobLimits(50, 300, rounding=2))
    writer.set(knob, 120)
    knob.value = value
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.KEPT_EXTERNAL, value)]


@dataclass
class SwitchedKnob(FakeKnob):
    """A limit that is in force while its switch is 1."""

    switch: FakeKnob = field(
        default_factory=lambda: FakeKnob("rapl/0/on", value=0, kind=KnobKind.SWITCH, limits=KnobLimits(0, 1))
    )


@pytest.mark.parametrize("found", [0, 90])
def test_a_lower_limit_that_is_switched_off_is_overwritten_and_restored(found, writer):
    knob = SwitchedKnob(value=found)
    for _ in range(2):
        assert writer.set(knob, 120).value == 120
        writer.set(knob.switch, 1)
    answers = writer.restore([knob.switch, knob])
    assert [answer.outcome for answer in answers] == [RestoreOutcome.RESTORED] * 2
    assert (knob.value, knob.switch.value) == (found, 0)
    assert knob.writes == [120, found]


def test_a_limit_whose_original_was_switched_off_is_not_restored_while_it_is_on(writer):
    knob = SwitchedKnob()
    knob.value = 0
    writer.set(knob, 120)
    writer.set(knob.switch, 1)
    (answer,) = writer.restore([knob])
    assert (answer.outcome, knob.value) == (RestoreOutcome.FAILED, 120)
    assert writer.managed == {"rapl/0", "rapl/0/on"}


def test_a_lower_external_limit_that_comes_while_joulies_is_switched_on_stays(writer):
    knob = SwitchedKnob(value=0)
    writer.set(knob, 120)
    writer.set(knob.switch, 1)
    knob.value = 90
    assert writer.set(knob, 120) == WrittenKnob(90, changed=False, external=True)


def test_a_cap_that_rises_above_the_original_puts_the_original_in_force(writer):
    knob = FakeKnob(value=150)
    writer.set(knob, 100)
    assert writer.set(knob, 200) == WrittenKnob(150, changed=True, external=True)
    assert writer.set(knob, 200) == WrittenKnob(150, changed=False, external=True)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 150)]
    assert knob.writes == [100, 150]
    assert writer.managed == frozenset()


def test_a_cap_that_is_written_back_after_it_rose_above_the_original_is_replaced_by_the_original(writer):
    knob = FakeKnob(value=150)
    writer.set(knob, 100)
    writer.set(knob, 200)
    knob.value = 100
    assert writer.set(knob, 200) == WrittenKnob(150, changed=True, external=True)
    knob.value = 100
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 150)]


def test_a_cap_equal_to_the_original_is_the_original(writer):
    knob = FakeKnob(value=150)
    writer.set(knob, 100)
    assert writer.set(knob, 150) == WrittenKnob(150, changed=True)
    assert writer.set(knob, 150) == WrittenKnob(150, changed=False)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 150)]


def test_an_original_that_cannot_be_put_in_force_stays_in_the_journal(writer):
    knob = FakeKnob(value=150)
    writer.set(knob, 100)
    knob.locked = True
    failure = writer.set(knob, 200)
    assert failure == HardwareFailure(Reason.FIRMWARE_LOCKED, "wrote 150 W, reads 100")
    assert writer.managed == {"rapl/0"}


def test_a_lower_value_of_an_external_writer_is_kept_where_our_cap_is_lower_still(writer):
    knob = FakeKnob(value=80)
    assert writer.set(knob, 60) == WrittenKnob(60, changed=True)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 80)]


def test_a_switch_has_no_lower_value(writer):
    switch = FakeKnob(value=0, kind=KnobKind.SWITCH, limits=KnobLimits(0, 1))
    assert writer.set(switch, 1) == WrittenKnob(1, changed=True)
    assert writer.restore([switch]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 0)]


def test_an_external_value_is_overwritten_while_managed_and_counted_and_restored(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.value = 150
    assert writer.set(knob, 120) == WrittenKnob(120, changed=True, overwrote=150)
    assert writer.overwritten == {"rapl/0": 1}
    assert writer.original(knob) == 150
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 150)]


def test_the_original_is_the_newest_external_value(writer):
    knob = FakeKnob()
    assert writer.original(knob) == 205
    writer.set(knob, 120)
    assert writer.original(knob) == 205
    knob.value = 150
    assert writer.original(knob) == 150
    knob.lost = True
    assert writer.original(knob) == HardwareFailure(Reason.DEVICE_LOST, "gone")


def test_an_external_value_is_kept_by_a_restore(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.value = 150
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.KEPT_EXTERNAL, 150)]
    assert knob.writes == [120]
    assert writer.managed == frozenset()


def test_an_original_that_was_restored_externally_is_neither_an_error_nor_overwritten(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.value = 205
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]
    assert knob.writes == [120]


def test_a_value_outside_the_allowed_range_never_reaches_the_knob(writer):
    knob = FakeKnob()
    for value in (49, 301, -1):
        failure = writer.set(knob, value)
        assert isinstance(failure, HardwareFailure)
        assert failure.reason is Reason.OUT_OF_RANGE
    assert knob.writes == []
    assert writer.managed == frozenset()


class TwoStepKnob(FakeKnob):
    """A knob that is written by two calls."""

    between = False

    def is_between(self):
        return self.between

    def write(self, value):
        self.between = False
        return super().write(value)


@pytest.mark.parametrize("between", [True, False])
def test_an_original_that_is_read_after_a_write_was_cut_off_is_written_again(between, writer):
    knob = TwoStepKnob()
    writer.set(knob, 120)
    knob.value, knob.between = 205, between
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]
    assert (knob.between, knob.writes) == (False, [120, 205] if between else [120])


def test_an_external_value_of_a_knob_of_two_calls_is_kept_by_a_restore(writer):
    knob = TwoStepKnob()
    writer.set(knob, 120)
    knob.value, knob.between = 150, True
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.KEPT_EXTERNAL, 150)]
    assert knob.writes == [120]


def test_an_original_outside_the_allowed_range_is_restored_all_the_same(writer):
    knob = FakeKnob(value=4095)
    writer.set(knob, 120)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 4095)]


def test_one_failure_keeps_no_other_knob_from_being_set(writer):
    knobs = [FakeKnob("rapl/0"), FakeKnob("rapl/1", lost=True), FakeKnob("rapl/2", value=120)]
    answers = writer.set_all([(knob, 120) for knob in knobs])
    assert answers == [
        WrittenKnob(120, changed=True),
        HardwareFailure(Reason.DEVICE_LOST, "gone"),
        WrittenKnob(120, changed=False),
    ]
    assert writer.managed == {"rapl/0"}


def test_a_failed_write_without_effect_is_not_managed(writer):
    knob = FakeKnob(locked=True, lies=True)
    assert writer.set(knob, 120) == HardwareFailure(Reason.IO_ERROR, "read-back failed")
    assert writer.managed == frozenset()


def test_a_failed_write_that_landed_is_restored(writer):
    class Rounding(FakeKnob):
        def write(self, value):
            return super().write(value // 41 * 41)

    knob = Rounding(lies=True)
    writer.set(knob, 120)
    assert knob.value == 82
    knob.lies = False
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]


def test_a_locked_knob_answers_with_what_it_holds(writer):
    knob = FakeKnob(locked=True)
    assert writer.set(knob, 120) == WrittenKnob(205, changed=True)
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]


def test_a_managed_knob_that_locks_fails_and_stays_in_the_journal(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.locked = True
    (answer,) = writer.restore([knob])
    assert (answer.outcome, answer.reason) == (RestoreOutcome.FAILED, Reason.FIRMWARE_LOCKED)
    assert writer.managed == {"rapl/0"}
    knob.locked = False
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]


def test_an_original_that_the_machine_no_longer_reaches_is_restored_as_near_as_it_goes(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.ceiling = 180
    (answer,) = writer.restore([knob])
    assert (answer.outcome, answer.value) == (RestoreOutcome.RESTORED, 180)
    assert answer.message == "wrote 205 W, reads 180"
    assert writer.managed == frozenset()


def test_a_lost_device_fails_and_is_restored_when_it_returns(writer):
    knob = FakeKnob()
    writer.set(knob, 120)
    knob.lost = True
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.FAILED, None, Reason.DEVICE_LOST, "gone")]
    knob.lost = False
    assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]


def test_without_a_journal_nothing_is_written(writer, journal, monkeypatch):
    knob = FakeKnob()
    monkeypatch.setattr(Journal, "change", _full)
    failure = writer.set(knob, 120)
    assert isinstance(failure, HardwareFailure)
    assert failure.reason is Reason.NO_JOURNAL
    assert knob.writes == []


def test_a_full_disk_does_not_prevent_a_restore(writer, journal, monkeypatch):
    knob = FakeKnob()
    writer.set(knob, 120)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _no_space)
        assert writer.restore([knob]) == [RestoredKnob("rapl/0", RestoreOutcome.RESTORED, 205)]
        assert knob.value == 205
        assert writer.managed == frozenset()
        assert "No space left" in writer.journal_problem
        assert writer.set(knob, 120).reason is Reason.NO_JOURNAL
    assert isinstance(writer.set(knob, 120), WrittenKnob)
    assert writer.journal_problem is None


def test_many_knobs_cost_two_changes_of_the_journal(writer, monkeypatch):
    changes = []
    real = Journal.change

    def counted(self, entries):
        changes.append(len(entries))
        real(self, entries)

    monkeypatch.setattr(Journal, "change", counted)
    writer.set_all([(FakeKnob(f"cpufreq/policy{number}"), 120) for number in range(64)])
    assert changes == [64, 64]


def _full(_journal, _changes):
    raise JournalError("disk full")


def _no_space(_file):
    raise OSError(28, "No space left on device")


def test_a_knob_that_does_not_exist_any_more_is_forgotten_and_no_other(writer, journal):
    first, second = FakeKnob("a"), FakeKnob("b")
    writer.set_all([(first, 120), (second, 130)])
    assert writer.forget(["a", "never managed"]) == [RestoredKnob("a", RestoreOutcome.GONE)]
    assert (writer.managed, writer.unclaimed) == ({"b"}, frozenset())
    assert journal.entries.keys() == {"b"}
    assert RestoredKnob("a", RestoreOutcome.GONE).done
    # A knob of that key that comes later is another one.
    later = FakeKnob("a", value=90)
    writer.set(later, 80)
    assert writer.restore([later]) == [RestoredKnob("a", RestoreOutcome.RESTORED, 90)]
