"""The ledger: sums of savings by hour and by day.

Bounded: hours of 8 days and days of 400 are kept, of those that anything was counted in. Hours and days are those of
UTC. What is older is in the total since the ledger was begun.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from joulie_core.savings.rates import NO_SAVING, EstimateRange, Lever, LeverRate

MOST_HOURS: Final = 8 * 24
MOST_DAYS: Final = 400


class LedgerPeriod(StrEnum):
    """Length of time that one sum is of."""

    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        """Length in seconds."""
        return 3_600 if self is LedgerPeriod.HOUR else 86_400

    @property
    def kept(self) -> int:
        """Most periods that are kept."""
        return MOST_HOURS if self is LedgerPeriod.HOUR else MOST_DAYS


@dataclass(frozen=True, slots=True)
class SavingsSum:
    """Savings of one lever over a time."""

    joules: EstimateRange = NO_SAVING
    #: Seconds that are not counted in `joules`, as nothing is known of them.
    unknown_s: float = 0.0

    def __add__(self, other: "SavingsSum") -> "SavingsSum":
        """Return the sum over both times."""
        return SavingsSum(self.joules + other.joules, self.unknown_s + other.unknown_s)


NO_SUM: Final = SavingsSum()
#: Sums of all levers; one that is not in it has none.
LeverSums = dict[Lever, SavingsSum]


@dataclass(slots=True)
class SavingsLedger:
    """The sums.

    Attributes:
        begun_s: when it was begun, seconds since the epoch.
        until_s: time up to which everything is counted.
        hours: sums by the number of the hour since the epoch.
        days: sums by the number of the day since the epoch.
        total: since the beginning.
    """

    begun_s: float
    until_s: float
    hours: dict[int, LeverSums] = field(default_factory=dict)
    days: dict[int, LeverSums] = field(default_factory=dict)
    total: LeverSums = field(default_factory=dict)

    @staticmethod
    def begin(now_s: float) -> "SavingsLedger":
        """Return an empty ledger."""
        return SavingsLedger(now_s, now_s)

    def add(self, rates: Mapping[Lever, LeverRate], until_s: float) -> LeverSums:
        """Count rates of the time from `self.until_s` on, and return what was added; no time counts twice."""
        added: LeverSums = {}
        for start_s, end_s in _hours(self.until_s, until_s):
            hour, day = (int(start_s // period.seconds) for period in LedgerPeriod)
            for lever in Lever:
                part = _sum_of(rates[lever], end_s - start_s)
                for sums in (self.hours.setdefault(hour, {}), self.days.setdefault(day, {}), self.total, added):
                    sums[lever] = sums.get(lever, NO_SUM) + part
        if until_s > self.until_s:
            self.until_s = until_s
            _keep_newest(self.hours, MOST_HOURS, int(until_s // LedgerPeriod.HOUR.seconds))
            _keep_newest(self.days, MOST_DAYS, int(until_s // LedgerPeriod.DAY.seconds))
        return added

    def add_unknown(self, until_s: float, levers: Iterable[Lever] = tuple(Lever)) -> LeverSums:
        """Count the time from `self.until_s` on as unknown of these levers; of a long time the part that is kept."""
        gone_s = until_s - LedgerPeriod.DAY.seconds * (MOST_DAYS - 1)
        skipped: LeverSums = {}
        if gone_s > self.until_s:
            skipped = {lever: SavingsSum(unknown_s=gone_s - self.until_s) for lever in levers}
            self.total = {lever: self.total.get(lever, NO_SUM) + skipped.get(lever, NO_SUM) for lever in Lever}
            self.until_s = gone_s
        unknown = frozenset(levers)
        rates = {lever: LeverRate(unknown_share=1.0 if lever in unknown else 0.0) for lever in Lever}
        added = self.add(rates, until_s)
        return {lever: added.get(lever, NO_SUM) + skipped.get(lever, NO_SUM) for lever in Lever}

    def since(self, start_s: float) -> LeverSums:
        """Return the sums from the period on that a time is in: by hours as far as they are kept, then by days."""
        first_hour, first_day = (int(start_s // period.seconds) for period in LedgerPeriod)
        newest_hour = int(self.until_s // LedgerPeriod.HOUR.seconds)
        if first_hour > newest_hour - MOST_HOURS:
            found = [sums for hour, sums in self.hours.items() if hour >= first_hour]
        else:
            # Whole days: an hour of the first day is not kept by itself.
            found = [sums for day, sums in self.days.items() if day >= first_day]
        return {lever: sum((sums.get(lever, NO_SUM) for sums in found), NO_SUM) for lever in Lever}


def _sum_of(rate: LeverRate, seconds: float) -> SavingsSum:
    return SavingsSum(rate.watts.times(seconds), rate.unknown_share * seconds)


def _hours(start_s: float, end_s: float) -> Iterable[tuple[float, float]]:
    """Yield the parts of a time that lie in one hour each."""
    length_s = LedgerPeriod.HOUR.seconds
    while start_s < end_s:
        until_s = min(end_s, (start_s // length_s + 1) * length_s)
        yield start_s, until_s
        start_s = until_s


def _keep_newest(periods: dict[int, LeverSums], most: int, newest: int) -> None:
    for number in [number for number in periods if number <= newest - most]:
        del periods[number]
