"""The ledger: joules by hour and day, time that is unknown, and bounds of both."""

from joulie_core.savings import EstimateRange, Lever, LeverRate, SavingsLedger, SavingsSum
from joulie_core.savings.ledger import MOST_DAYS, MOST_HOURS
from joulie_core.savings.rates import NO_SAVING, UNKNOWN_RATE

HOUR_S, DAY_S = 3_600.0, 86_400.0
START_S = 1_000 * DAY_S
_RATES = {
    Lever.SLEEP: LeverRate(EstimateRange(1.0, 2.0, 3.0)),
    Lever.CAPS: UNKNOWN_RATE,
    Lever.SCORE: LeverRate(EstimateRange(-2.0, -1.0, 0.0), unknown_share=0.5),
}


def test_a_rate_counts_in_the_hours_and_days_that_its_time_is_in():
    ledger = SavingsLedger.begin(START_S - 600.0)
    ledger.add(_RATES, START_S + 300.0)
    assert [sums[Lever.SLEEP].joules.middle for sums in ledger.hours.values()] == [1_200.0, 600.0]
    assert [sums[Lever.SLEEP].joules.middle for sums in ledger.days.values()] == [1_200.0, 600.0]
    assert list(ledger.days) == [999, 1_000]
    assert ledger.total[Lever.SCORE] == SavingsSum(EstimateRange(-1_800.0, -900.0, 0.0), 450.0)
    assert ledger.total[Lever.CAPS] == SavingsSum(NO_SAVING, 900.0)


def test_what_was_added_is_returned():
    ledger = SavingsLedger.begin(START_S)
    added = ledger.add(_RATES, START_S + 10.0)
    assert added[Lever.SLEEP] == SavingsSum(EstimateRange(10.0, 20.0, 30.0))


def test_no_time_counts_twice():
    ledger = SavingsLedger.begin(START_S)
    ledger.add(_RATES, START_S + 10.0)
    assert ledger.add(_RATES, START_S + 10.0) == {}
    assert ledger.add(_RATES, START_S - 3_600.0) == {}
    assert ledger.until_s == START_S + 10.0
    assert ledger.total[Lever.SLEEP].joules.middle == 20.0


def test_a_gap_is_unknown_and_saves_nothing():
    ledger = SavingsLedger.begin(START_S)
    added = ledger.add_unknown(START_S + 600.0)
    assert added == dict.fromkeys(Lever, SavingsSum(NO_SAVING, 600.0))
    assert ledger.total == added


def test_a_gap_of_years_takes_bounded_work_and_counts_whole():
    ledger = SavingsLedger.begin(START_S)
    ledger.add(_RATES, START_S + 60.0)
    added = ledger.add_unknown(START_S + 4_000 * DAY_S)
    assert added[Lever.SLEEP].unknown_s == 4_000 * DAY_S - 60.0
    assert ledger.total[Lever.SLEEP].unknown_s == 4_000 * DAY_S - 60.0
    assert ledger.total[Lever.SLEEP].joules.middle == 120.0
    assert len(ledger.days) <= MOST_DAYS


def test_hours_of_eight_days_and_days_of_four_hundred_are_kept():
    ledger = SavingsLedger.begin(START_S)
    for day in range(1, MOST_DAYS + 50):
        ledger.add(_RATES, START_S + day * DAY_S)
    assert len(ledger.hours) == MOST_HOURS - 1
    assert len(ledger.days) == MOST_DAYS - 1
    assert ledger.total[Lever.SLEEP].joules.middle == 2.0 * (MOST_DAYS + 49) * DAY_S


def test_a_recent_time_is_summed_by_hours_and_an_earlier_one_by_days():
    ledger = SavingsLedger.begin(START_S)
    ledger.add(_RATES, START_S + 20 * DAY_S)
    now_s = ledger.until_s
    assert ledger.since(now_s - 2 * HOUR_S)[Lever.SLEEP].joules.middle == 2.0 * 2 * HOUR_S
    # The hour that the time is in counts whole.
    assert ledger.since(now_s - 2 * HOUR_S + 60.0)[Lever.SLEEP].joules.middle == 2.0 * 2 * HOUR_S
    assert ledger.since(now_s - 10.5 * DAY_S)[Lever.SLEEP].joules.middle == 2.0 * 11 * DAY_S
    assert ledger.since(0.0)[Lever.SLEEP] == ledger.total[Lever.SLEEP]
