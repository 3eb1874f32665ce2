"""The ledger of savings as a ConfigMap: what is written is read, and nothing else."""

import json

import pytest

from joulie_api.errors import DecodeError
from joulie_api.savings import LEDGER_KEY, MOST_BYTES, ledger_manifest, read_ledger
from joulie_core.savings import EstimateRange, Lever, LeverRate, SavingsLedger

DAY_S = 86_400.0
START_S = 20_000 * DAY_S


def _full() -> SavingsLedger:
    ledger = SavingsLedger.begin(START_S)
    rates = {lever: LeverRate(EstimateRange(-12_345.6, 98_765.4, 123_456.7), 0.25) for lever in Lever}
    for day in range(1, 420):
        ledger.add(rates, START_S + day * DAY_S)
    return ledger


def _raw(ledger: object) -> bytes:
    text = ledger if isinstance(ledger, str) else json.dumps(ledger)
    return json.dumps({"data": {LEDGER_KEY: text}}).encode()


def test_what_is_written_is_read():
    ledger = _full()
    found = read_ledger(json.dumps(ledger_manifest(ledger)).encode())
    assert found.hours.keys() == ledger.hours.keys()
    assert found.days.keys() == ledger.days.keys()
    assert (found.begun_s, found.until_s) == (ledger.begun_s, ledger.until_s)
    assert found.total[Lever.SCORE].joules.middle == pytest.approx(ledger.total[Lever.SCORE].joules.middle)
    assert found.total[Lever.SCORE].unknown_s == pytest.approx(ledger.total[Lever.SCORE].unknown_s)
    day = max(ledger.days) - 3
    assert found.days[day][Lever.SLEEP].joules.lower == pytest.approx(ledger.days[day][Lever.SLEEP].joules.lower, abs=1)


def test_a_full_ledger_is_small():
    text = ledger_manifest(_full())["data"][LEDGER_KEY]
    assert len(text) < MOST_BYTES / 4


def test_an_empty_ledger_is_read():
    assert read_ledger(json.dumps(ledger_manifest(SavingsLedger.begin(START_S))).encode()).total == {}


_GOOD = {"version": 1, "begun": START_S, "until": START_S + 60.0}
_DAY = {"sleep": [1.0, 2.0, 3.0, 0.0]}


@pytest.mark.parametrize(
    ("ledger", "problem"),
    [
        ("", "ledger"),
        ("{", "ledger"),
        ("[" * 100_000, "ledger"),
        (" " * (MOST_BYTES + 1), "bytes"),
        ("null", "ledger"),
        ({}, "version"),
        (_GOOD | {"version": 2}, "version 2"),
        (_GOOD | {"until": -1.0}, "ledger"),
        (_GOOD | {"until": 1e300}, "ledger"),
        (_GOOD | {"until": START_S - 1.0}, "before it begins"),
        (_GOOD | {"days": {"20001": _DAY}}, "later than its end"),
        (_GOOD | {"days": {"19600": _DAY}}, "not kept"),
        (_GOOD | {"days": {"x": _DAY}}, "ledger"),
        (_GOOD | {"days": {"20000": {"luck": [1.0, 2.0, 3.0, 0.0]}}}, "ledger"),
        (_GOOD | {"days": {"20000": {"sleep": [1.0, 2.0, 3.0]}}}, "ledger"),
        (_GOOD | {"days": {"20000": {"sleep": [3.0, 2.0, 1.0, 0.0]}}}, "not in order"),
        (_GOOD | {"days": {"20000": {"sleep": [1.0, 2.0, 1e19, 0.0]}}}, "ledger"),
        (_GOOD | {"days": {"20000": {"sleep": [1.0, 2.0, 3.0, -1.0]}}}, "ledger"),
        (_GOOD | {"days": {str(19_000 + day): _DAY for day in range(401)}}, "ledger"),
        (_GOOD | {"total": {"sleep": [1.0, "x", 3.0, 0.0]}}, "ledger"),
        ('{"version": 1, "begun": NaN, "until": NaN}', "ledger"),
    ],
)
def test_anything_else_is_refused(ledger, problem):
    with pytest.raises(DecodeError, match=problem):
        read_ledger(_raw(ledger))


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"data": 1}', b"\xff", b"{}", b'{"data": null}', b'{"data": {"x": ""}}'])
def test_a_config_map_without_a_ledger_is_refused(raw):
    with pytest.raises(DecodeError):
        read_ledger(raw)


def test_fields_of_later_versions_of_the_same_form_are_passed_over():
    assert (
        read_ledger(_raw(_GOOD | {"note": "x", "days": {"20000": _DAY}})).days[20_000][Lever.SLEEP].joules.upper == 3.0
    )
