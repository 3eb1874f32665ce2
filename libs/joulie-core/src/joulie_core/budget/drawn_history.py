"""Drawn power of one domain, for the baselines of events: minutes of the last hours, quarter hours of the last days.

Guarantees that unknown power never makes a baseline: a minute with a reading that is unknown, without readings, or with
an event in force is not known, nor is a quarter hour with less than 11 known minutes. Times are seconds since the
epoch, days are those of UTC. The stored form is text of bounded length, so that a history outlasts its process.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MINUTE_S: Final = 60
QUARTER_S: Final = 900
DAY_S: Final = 86_400
#: Minutes that are kept, and those of the last hour that have to be known.
MOST_MINUTES: Final = 75
LEAST_MINUTES: Final = 45
#: Days that are looked at, and those that have to be known.
MOST_DAYS: Final = 10
LEAST_DAYS: Final = 3
_HOUR: Final = 60
_LEAST_OF_QUARTER: Final = 11
_QUARTERS_OF_DAY: Final = DAY_S // QUARTER_S
MOST_QUARTERS: Final = (MOST_DAYS + 1) * _QUARTERS_OF_DAY
#: Share of the quarter hours of a day that have to be known.
_LEAST_OF_DAY: Final = 0.75
#: Watts that are stored: more than any site draws.
_MOST_WATTS: Final = 100_000_000_000
_FIGURE: Final = re.compile(r"[0-9]{1,12}")
#: The year 9999.
_MOST_SECONDS: Final = 253_370_764_800


@dataclass(frozen=True, slots=True)
class StoredDrawn:
    """A history as it is stored: whole watts by commas, empty where they are not known, the last one at `until_s`."""

    until_s: float
    minutes: str = ""
    quarters: str = ""
    event_days: tuple[int, ...] = ()


@dataclass(slots=True)
class _Minute:
    number: int
    watts: float = 0.0
    samples: int = 0
    known: bool = True


class DrawnHistory:
    """The history of one domain."""

    def __init__(self) -> None:
        self._minutes: dict[int, float] = {}
        self._quarters: dict[int, float] = {}
        self._event_days: set[int] = set()
        self._open: _Minute | None = None

    @classmethod
    def load(cls, stored: StoredDrawn, now_s: float) -> "DrawnHistory":
        """Return a history from its stored form; what cannot be read, or is not of the past, is not known."""
        found = cls()
        if not 0 <= stored.until_s <= min(now_s, _MOST_SECONDS):
            return found
        found._minutes = _read(stored.minutes, int(stored.until_s // MINUTE_S), MOST_MINUTES)
        found._quarters = _read(stored.quarters, int(stored.until_s // QUARTER_S), MOST_QUARTERS)
        today = int(now_s // DAY_S)
        found._event_days = {day for day in stored.event_days if today - MOST_DAYS <= day <= today}
        found._forget(now_s)
        return found

    def stored(self, now_s: float) -> StoredDrawn:
        """Return what is known of minutes and quarter hours that have ended."""
        return StoredDrawn(
            now_s,
            _text(self._minutes, int(now_s // MINUTE_S), MOST_MINUTES),
            _text(self._quarters, int(now_s // QUARTER_S), MOST_QUARTERS),
            tuple(sorted(self._event_days)),
        )

    def add(self, now_s: float, watts: float | None, *, in_event: bool) -> None:
        """Take a reading.

        Args:
            now_s: its time; not before that of the last one, else the open minute is not known.
            watts: of the whole domain; None: not known.
            in_event: an event is in force that changes what the domain draws.
        """
        number = int(now_s // MINUTE_S)
        if in_event:
            self._event_days.add(int(now_s // DAY_S))
        if self._open is None or self._open.number != number:
            self._close(number)
            self._forget(now_s)
            self._open = _Minute(number)
        self._open.samples += 1
        if watts is None or in_event:
            self._open.known = False
        else:
            self._open.watts += watts

    def last_hour(self, start_s: float) -> float | None:
        """Return the mean of the hour before a time, in watts; None where less than 45 minutes are known."""
        end = int(start_s // MINUTE_S)
        known = [self._minutes[number] for number in range(end - _HOUR, end) if number in self._minutes]
        return math.fsum(known) / len(known) if len(known) >= LEAST_MINUTES else None

    def same_hours(self, start_s: float, end_s: float | None) -> float | None:
        """Return the mean of the same hours of the last ten days, in watts; None where less than three are known.

        Args:
            start_s: begin of the hours.
            end_s: their end; of more than a day, and where there is none, the first day counts.
        """
        end_s = start_s + DAY_S if end_s is None else min(end_s, start_s + DAY_S)
        first, last = int(start_s // QUARTER_S), math.ceil(end_s / QUARTER_S)
        days = [day for back in range(1, MOST_DAYS + 1) if (day := self._day(first, last, back)) is not None]
        return math.fsum(days) / len(days) if len(days) >= LEAST_DAYS else None

    def _day(self, first: int, last: int, back: int) -> float | None:
        """Return the mean of quarter hours so many days before."""
        quarters = range(first - back * _QUARTERS_OF_DAY, last - back * _QUARTERS_OF_DAY)
        if self._event_days & {number // _QUARTERS_OF_DAY for number in quarters}:
            return None
        known = [self._quarters[number] for number in quarters if number in self._quarters]
        return math.fsum(known) / len(known) if known and len(known) >= _LEAST_OF_DAY * len(quarters) else None

    def _close(self, number: int) -> None:
        """End the open minute, and each quarter hour that ends before another minute."""
        minute, self._open = self._open, None
        if minute is None or number < minute.number:
            return
        if minute.known and minute.samples:
            self._minutes[minute.number] = minute.watts / minute.samples
        quarter = minute.number * MINUTE_S // QUARTER_S
        if number * MINUTE_S // QUARTER_S > quarter:
            of_quarter = range(quarter * QUARTER_S // MINUTE_S, (quarter + 1) * QUARTER_S // MINUTE_S)
            known = [self._minutes[each] for each in of_quarter if each in self._minutes]
            if len(known) >= _LEAST_OF_QUARTER:
                self._quarters[quarter] = math.fsum(known) / len(known)

    def _forget(self, now_s: float) -> None:
        minute, quarter, day = int(now_s // MINUTE_S), int(now_s // QUARTER_S), int(now_s // DAY_S)
        self._minutes = dict(_within(self._minutes, minute - MOST_MINUTES, minute))
        self._quarters = dict(_within(self._quarters, quarter - MOST_QUARTERS, quarter))
        self._event_days = {each for each in self._event_days if day - MOST_DAYS <= each <= day}


def _within(figures: Mapping[int, float], first: int, last: int) -> Iterator[tuple[int, float]]:
    return ((number, watts) for number, watts in figures.items() if first <= number <= last)


def _text(figures: Mapping[int, float], end: int, most: int) -> str:
    """Return the figures before `end`, from the first that is known on."""
    known = [number for number in figures if end - most <= number < end]
    if not known:
        return ""
    return ",".join(_whole(figures.get(number)) for number in range(min(known), end))


def _whole(watts: float | None) -> str:
    return "" if watts is None else str(min(round(watts), _MOST_WATTS))


def _read(text: str, end: int, most: int) -> dict[int, float]:
    """Return the figures before `end`; a place that has no whole number is not known."""
    parts: Iterable[str] = text.split(",")[-most:]
    listed = list(parts)
    numbered = enumerate(listed, end - len(listed))
    return {number: float(each) for number, each in numbered if _FIGURE.fullmatch(each)}
