"""Who wrote a value, and what is known afterwards, case by case (docs/decisions/0006-kernel-semantics.md)."""

from dataclasses import dataclass, field

import pytest

from joulie_actuator.hardware.journal_file import JournalEntry
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.ownership import (
    KnobReading,
    ValueOwner,
    external_value,
    held_lower,
    intent,
    landed,
    owner,
    platform_limit,
    probe_of_original,
    probe_value,
    probed,
    settled,
    standing,
    suspected,
)
from joulie_actuator.reasons import Reason

LIMIT, REQUEST, FLOOR, SWITCH = KnobKind.LIMIT, KnobKind.REQUEST, KnobKind.FLOOR, KnobKind.SWITCH
JOULIE, EXTERNAL, UNCLEAR = ValueOwner.JOULIE, ValueOwner.EXTERNAL, ValueOwner.UNCLEAR
LOW, HIGH = 100, 900


@dataclass
class Register:
    """A knob that holds what was written last; nothing here reads or writes it."""

    kind: KnobKind = LIMIT
    limits: KnobLimits = field(default_factory=lambda: KnobLimits(LOW, HIGH, rounding=3))
    key: str = "k"
    unit: str = "W"

    def read(self):
        return HardwareFailure(Reason.IO_ERROR, "not to be read")

    def write(self, value):
        return HardwareFailure(Reason.IO_ERROR, "not to be written")


@dataclass
class Request(Register):
    """A knob of several requests; `explained` has the values that the platform's limit is, `above` what is more."""

    kind: KnobKind = REQUEST
    limits: KnobLimits = field(default_factory=lambda: KnobLimits(LOW, HIGH))
    unit: str = "kHz"
    explained: tuple[int, ...] = ()
    above: dict[int, int] = field(default_factory=dict)

    def platform_limit(self, value):
        return "too hot" if value in self.explained else ""

    def next_above(self, value):
        return self.above.get(value)


def entry(original=500, **fields):
    return JournalEntry(**{"unit": "W", "original": original, **fields})


CAPPED = {"written": 300, "read_back": 298}


@pytest.mark.parametrize(
    ("knob", "known", "value", "expected"),
    [
        (Register(), entry(), 500, EXTERNAL),
        (Register(), entry(), 300, EXTERNAL),
        (Register(), entry(**CAPPED), 300, JOULIE),
        (Register(), entry(**CAPPED), 297, JOULIE),
        (Register(), entry(**CAPPED), 298, JOULIE),
        (Register(), entry(**CAPPED), 295, JOULIE),
        (Register(), entry(**CAPPED), 294, EXTERNAL),
        (Register(), entry(**CAPPED), 301, EXTERNAL),
        (Register(), entry(**CAPPED, pending=200), 200, JOULIE),
        (Register(), entry(**CAPPED, pending=200), 197, JOULIE),
        (Register(), entry(**CAPPED, pending=200), 300, JOULIE),
        (Register(), entry(**CAPPED, pending=200), 500, EXTERNAL),
        (Register(), entry(**CAPPED, pending=200), 400, UNCLEAR),
        (Register(), entry(**CAPPED, pending=200), 100, UNCLEAR),
        (Register(), entry(pending=200), 500, EXTERNAL),
        (Register(), entry(pending=200), 499, UNCLEAR),
        (Register(), entry(250, stands=True, **CAPPED), 250, EXTERNAL),
        (Register(), entry(250, stands=True, **CAPPED), 300, JOULIE),
        (Register(), entry(298, stands=True, **CAPPED), 298, EXTERNAL),
        (Register(), entry(298, stands=True, **CAPPED), 297, JOULIE),
        (Register(), entry(298, stands=False, **CAPPED), 298, JOULIE),
        (Request(), entry(**CAPPED), 300, JOULIE),
        (Request(), entry(**CAPPED), 298, JOULIE),
        (Request(), entry(**CAPPED), 297, UNCLEAR),
        (Request(), entry(**CAPPED), 301, EXTERNAL),
        (Request(FLOOR), entry(**CAPPED), 299, UNCLEAR),
        (Request(), entry(**CAPPED, pending=200), 200, UNCLEAR),
        (Request(), entry(**CAPPED, pending=200), 150, UNCLEAR),
        (Request(), entry(**CAPPED, pending=200), 300, JOULIE),
        (Request(), entry(**CAPPED, pending=200), 201, UNCLEAR),
        (Request(), entry(**CAPPED, pending=200), 500, EXTERNAL),
        (Request(), entry(250, stands=True, **CAPPED), 250, EXTERNAL),
        (Request(), entry(250, stands=True, **CAPPED), 249, EXTERNAL),
        (Request(), entry(250, stands=True, **CAPPED), 251, UNCLEAR),
        (Request(), entry(250, stands=True, **CAPPED), 300, JOULIE),
        (Request(), entry(250, stands=True, **CAPPED), 301, EXTERNAL),
    ],
)
def test_a_value_is_joulies_external_or_has_to_be_tried(knob, known, value, expected):
    assert owner(knob, known, value) is expected


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        (Register(), 250, ""),
        (Request(explained=(250,)), 250, "too hot"),
        (Request(explained=(250,)), 251, ""),
    ],
)
def test_only_a_request_is_explained_by_the_platform(knob, value, expected):
    assert platform_limit(knob, value) == expected


@pytest.mark.parametrize(
    ("knob", "known", "value", "expected"),
    [
        (Register(), entry(), 250, 250),
        (Request(), entry(), 250, 250),
        (Request(explained=(250,)), entry(500), 250, 500),
        (Request(explained=(250,)), entry(250), 250, 250),
        (Request(explained=(250,)), entry(249), 250, HIGH),
        (Request(explained=(250,)), None, 250, HIGH),
        (Request(explained=(950,)), None, 950, 950),
        (Request(FLOOR, explained=(250,)), None, 250, 250),
        (Request(FLOOR, explained=(250,)), entry(249), 250, 250),
        (Request(FLOOR, explained=(250,)), entry(500), 250, 500),
    ],
)
def test_what_an_external_writer_has_requested_is_read_known_or_taken_for_the_highest(knob, known, value, expected):
    assert external_value(knob, known, value) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (KnobReading(Register(), 300, entry(500), managed=True), 500),
        (KnobReading(Register(), 300, entry(500)), 300),
        (KnobReading(Register(), 300, None), 300),
        (KnobReading(Register(), 300, None, managed=True), 300),
        (KnobReading(Request(explained=(300,)), 300, None), HIGH),
        (KnobReading(Request(explained=(300,)), 300, entry(400)), 400),
    ],
)
def test_a_knob_is_restored_to_the_newest_external_value(found, expected):
    assert found.external_value == expected


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        (KnobReading(Register(), 300, None), 300, True),
        (KnobReading(Register(), 300, None), 301, False),
        (KnobReading(Register(), 300, None, managed=True), 301, False),
        (KnobReading(Register(), 298, entry(**CAPPED)), 300, False),
        (KnobReading(Register(), 298, entry(**CAPPED), managed=True), 300, True),
        (KnobReading(Register(), 295, entry(**CAPPED), managed=True), 300, True),
        (KnobReading(Register(), 294, entry(**CAPPED), managed=True), 300, False),
        (KnobReading(Register(), 298, entry(**CAPPED), managed=True), 299, False),
        (KnobReading(Register(), 298, entry(**CAPPED), managed=True), 298, True),
        (KnobReading(Request(), 250, entry(**CAPPED), managed=True), 300, True),
        (KnobReading(Request(), 250, entry(**CAPPED), managed=True), 250, False),
        (KnobReading(Request(), 250, entry(**CAPPED)), 250, True),
        (KnobReading(Request(), 250, entry(**CAPPED)), 300, False),
    ],
)
def test_what_is_in_force_is_not_written_again(found, wanted, expected):
    assert found.holds(wanted) is expected


@pytest.mark.parametrize(
    ("kind", "wanted", "expected"),
    [
        (LIMIT, 300, True),
        (LIMIT, 299, False),
        (REQUEST, 301, True),
        (REQUEST, 299, False),
        (FLOOR, 301, False),
        (FLOOR, 299, False),
        (SWITCH, 301, False),
    ],
)
def test_an_external_value_that_limits_no_less_stays_in_force(kind, wanted, expected):
    assert KnobReading(Register(kind), 300, None).external_suffices(wanted) is expected


def test_an_interrupted_probe_has_replaced_a_suspect_that_is_gone():
    known = entry(500, written=300, read_back=300, suspect=250)
    assert suspected(known, 250) is known
    assert suspected(entry(**CAPPED), 250) == entry(**CAPPED)
    assert suspected(known, 300) == entry(250, written=300, read_back=300, earlier=500)
    above = entry(500, written=300, read_back=300, suspect=400)
    assert suspected(above, 300) == entry(400, written=300, read_back=300)


@pytest.mark.parametrize(
    ("known", "value", "writer", "expected"),
    [
        (
            entry(**CAPPED, pending=200, suspect=1, stands=True),
            200,
            JOULIE,
            entry(written=200, read_back=200, stands=False),
        ),
        (entry(**CAPPED, pending=200, suspect=1), 300, JOULIE, entry(**CAPPED)),
        (entry(250, **CAPPED, stands=True, earlier=500), 300, JOULIE, entry(500, **CAPPED)),
        (entry(250, **CAPPED, stands=True), 300, JOULIE, entry(250, **CAPPED)),
        (entry(250, **CAPPED, earlier=500), 300, JOULIE, entry(250, **CAPPED, earlier=500)),
        (
            entry(250, **CAPPED, stands=True, earlier=500, pending=200),
            250,
            EXTERNAL,
            entry(250, **CAPPED, stands=True, earlier=500),
        ),
    ],
)
def test_a_value_settles_what_was_about_to_be_written(known, value, writer, expected):
    assert settled(known, value, writer) == expected


@pytest.mark.parametrize(
    ("known", "value", "expected"),
    [
        (entry(500, **CAPPED), 250, entry(250, **CAPPED, earlier=500, stands=True)),
        (entry(250, **CAPPED, earlier=500), 240, entry(240, **CAPPED, earlier=500, stands=True)),
        (entry(250, **CAPPED, pending=200, suspect=1), 250, entry(250, **CAPPED, stands=True)),
        (entry(250, **CAPPED, earlier=500), 300, entry(300, **CAPPED, earlier=500, stands=True)),
        (entry(250, **CAPPED, earlier=500), 301, entry(301, **CAPPED, stands=True)),
        (entry(500, **CAPPED, pending=200), 250, entry(250, **CAPPED, stands=True)),
    ],
)
def test_a_lower_external_value_stands_with_what_was_known_before_it(known, value, expected):
    assert standing(known, value) == expected


def test_a_probe_writes_what_was_about_to_be_written_or_what_was():
    assert probe_value(entry(**CAPPED)) == 300
    assert probe_value(entry(**CAPPED, pending=200)) == 200
    with pytest.raises(AssertionError):
        probe_value(entry())


@pytest.mark.parametrize(
    ("knob", "known", "before", "after", "expected"),
    [
        (Register(), entry(**CAPPED, suspect=298), 298, 298, entry(written=300, read_back=298)),
        (Register(), entry(**CAPPED), 290, 300, entry(290, written=300, read_back=300)),
        (Register(), entry(pending=300), 400, 298, entry(400, written=300, read_back=298)),
        # Joulie's request was the lowest: nothing changes.
        (Request(), entry(**CAPPED), 250, 250, entry(written=300, read_back=298)),
        (Request(), entry(**CAPPED), 300, 299, entry(written=300, read_back=299)),
        (Request(), entry(**CAPPED), 298, 280, entry(written=300, read_back=298)),
        (Request(), entry(written=300), 250, 250, entry(written=300, read_back=250)),
        (Request(), entry(**CAPPED, pending=200), 150, 150, entry(written=200, read_back=150)),
        (Request(), entry(**CAPPED, pending=200), 200, 180, entry(written=200, read_back=180)),
        # It was replaced: writing it again raises or changes what is read.
        (Request(), entry(**CAPPED), 250, 300, entry(250, written=300, read_back=300, earlier=500)),
        (Request(), entry(**CAPPED), 400, 300, entry(400, written=300, read_back=300)),
        (Request(explained=(400,)), entry(**CAPPED), 400, 300, entry(500, written=300, read_back=300)),
        (Request(explained=(600,)), entry(**CAPPED), 600, 300, entry(HIGH, written=300, read_back=300)),
        # The platform has lowered it meanwhile, below what was read before.
        (Request(), entry(**CAPPED), 250, 240, entry(written=300, read_back=298)),
        # A lower external value that stood has gone.
        (Request(), entry(250, **CAPPED, stands=True, earlier=500), 300, 300, entry(written=300, read_back=300)),
        # The test of the first reading: more was written than is read.
        (Request(), entry(250, pending=260), 250, 250, entry(HIGH, written=260, read_back=250)),
        (Request(), entry(250, pending=260), 250, 260, entry(250, written=260, read_back=260, earlier=250)),
        (Request(FLOOR), entry(250, pending=260), 250, 250, entry(250, written=260, read_back=250)),
        (Request(), entry(250, written=260, read_back=250), 250, 250, entry(250, written=260, read_back=250)),
    ],
)
def test_a_probe_shows_whose_value_was_in_force(knob, known, before, after, expected):
    assert probed(knob, known, before, after) == expected


def test_a_first_reading_of_a_request_that_nothing_explains_is_tried_with_a_little_more():
    knob = Request(above={250: 260}, explained=(240,))
    assert probe_of_original(knob, 250) == JournalEntry(unit="kHz", original=250, pending=260)
    assert probe_of_original(knob, 240) is None, "the platform explains it"
    assert probe_of_original(knob, HIGH) is None, "there is no more"
    assert probe_of_original(Request(FLOOR, above={250: 260}), 250) is None
    assert probe_of_original(Register(), 250) is None
    assert probe_of_original(Register(REQUEST), 250) is None


@pytest.mark.parametrize(
    ("knob", "known", "value", "expected"),
    [
        (Register(), entry(**CAPPED), 200, ""),
        (Request(), entry(**CAPPED), 297, "a platform limit was below Joulie's"),
        (Request(), entry(**CAPPED), 298, ""),
        (Request(), entry(written=300), 200, ""),
        (Request(above={290: 300}), entry(written=300), 290, "a platform limit was below Joulie's"),
        (Request(above={290: 301}), entry(written=300), 290, ""),
        (Request(above={290: 300}), entry(), 290, ""),
        (Request(explained=(299,)), entry(**CAPPED), 299, "too hot"),
        (Register(REQUEST), entry(written=300), 290, ""),
    ],
)
def test_a_request_that_stays_low_is_explained_by_a_limit_below_joulies_or_by_the_platform(
    knob, known, value, expected
):
    assert held_lower(knob, known, value) == expected


def test_before_a_write_the_value_is_pending_over_the_newest_external_one():
    managed = entry(400, **CAPPED, earlier=500)
    assert intent(KnobReading(Register(), 300, managed, managed=True), 200) == entry(400, **CAPPED, pending=200)
    fresh = JournalEntry(unit="kHz", original=250, pending=200)
    assert intent(KnobReading(Request(), 250, managed), 200) == fresh
    assert intent(KnobReading(Request(), 250, None, managed=True), 200) == fresh


def test_after_a_write_the_pending_value_is_written_and_its_answer_known():
    known = entry(**CAPPED, pending=200, suspect=1, stands=True, earlier=600)
    assert landed(known, 199) == entry(written=200, read_back=199, earlier=600)
