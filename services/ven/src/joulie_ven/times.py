"""Times of an OpenADR event: each interval as a window in seconds since the epoch.

No I/O. Refused by name: durations in months or years, which have no fixed length, except for `P9999Y`, which stands for
a window without end; negative durations; times without a zone.
Source: OpenADR 3.1.0, User Guide 7.3 and 7.4, and `duration` in `openadr3.yaml`.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from joulie_core.text import printable
from joulie_core.timestamps import epoch_seconds
from joulie_ven.reasons import EventRefused
from joulie_ven.wire import IntervalPeriod, VtnEvent, VtnInterval

FOREVER: Final = float("inf")
_INFINITE: Final = "P9999Y"
_DURATION: Final = re.compile(
    r"P(?=\d|T\d)(?:(?P<years>\d{1,6})Y)?(?:(?P<months>\d{1,6})M)?(?:(?P<count>\d{1,6})(?P<unit>[DW]))?"
    r"(?:T(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_SECONDS: Final = {"D": 86400.0, "W": 7 * 86400.0}
#: The beginning of time stands for now, or for directly after the interval before.
_BEGINNING: Final = "0001-01-01"
#: Starts and ends beyond the year 9999 cannot be written.
_LAST_S: Final = 253402300000.0
_MOST_SHOWN: Final = 64


@dataclass(frozen=True, slots=True)
class Window:
    """Time that an interval covers: from `start_s` to before `end_s`, which is infinite where there is no end."""

    index: int
    """Position of the interval in its event."""
    start_s: float
    end_s: float


def parse_duration(text: str | None, field: str) -> float:
    """Return the seconds of an ISO 8601 duration, infinite for `P9999Y`; 0, the default of OpenADR, where absent.

    Raises:
        EventRefused: it is none, or it is in months or years.
    """
    if text is None:
        return 0.0
    if text == _INFINITE:
        return FOREVER
    match = _DURATION.fullmatch(text)
    if match is None:
        raise EventRefused(f"{field}: {printable(text, _MOST_SHOWN)!r} is not a duration of ISO 8601 above zero")
    if int(match["years"] or 0) or int(match["months"] or 0):
        raise EventRefused(f"{field}: {text} is in years or months, which have no fixed length")
    days_s = int(match["count"] or 0) * _SECONDS[match["unit"] or "D"]
    return days_s + int(match["hours"] or 0) * 3600 + int(match["minutes"] or 0) * 60 + float(match["seconds"] or 0)


def windows(event: VtnEvent, *, seen_s: float, ven: str) -> tuple[Window, ...]:
    """Return the windows of the intervals of an event, in their order, without empty ones.

    Args:
        event: the event.
        seen_s: when this VEN first read the event: the start of an event that starts now.
        ven: name of the VEN, from which the share of `randomizeStart` follows, so that a restart changes no start.

    Raises:
        EventRefused: a time cannot be read, or an interval has no start.
    """
    found = tuple(_windows(event, seen_s, ven))
    if event.duration is None or not found:
        return found
    span_s = parse_duration(event.duration, "duration")
    end_s = found[0].start_s + span_s
    if end_s > max(each.end_s for each in found):
        raise EventRefused(f"duration: {event.duration} repeats the intervals, which is not supported")
    cut = (Window(each.index, each.start_s, min(each.end_s, end_s)) for each in found)
    return tuple(each for each in cut if each.start_s < each.end_s)


def _windows(event: VtnEvent, seen_s: float, ven: str) -> Iterator[Window]:
    default = event.interval_period
    shift_s, previous_end_s = 0.0, None
    for index, interval in enumerate(event.intervals or ()):
        own, field = interval.interval_period, f"intervals[{index}].intervalPeriod"
        if own is None and default is None:
            raise EventRefused(f"{field}: absent, and the event has no intervalPeriod either")
        spread = _randomized(interval, default if index == 0 else None)
        if spread is not None:
            shift_s = _share(ven, event.id, index) * parse_duration(spread, f"{field}.randomizeStart")
            if abs(shift_s) == FOREVER:
                raise EventRefused(f"{field}.randomizeStart: has no end")
        start_s = _absolute(own, f"{field}.start")
        if start_s is None and previous_end_s is None:
            start_s = _absolute(default, "intervalPeriod.start")
            if start_s is None:
                start_s = seen_s if _says_now(own) or _says_now(default) else None
        if start_s is not None:
            start_s += shift_s
        elif previous_end_s is not None:
            start_s = previous_end_s
        else:
            raise EventRefused(f"{field}.start: absent, and the event's intervalPeriod has none either")
        previous_end_s = start_s + _length_s(own, default, field)
        if start_s < previous_end_s:
            _check(start_s, previous_end_s, field)
            yield Window(index, start_s, previous_end_s)


def _randomized(interval: VtnInterval, default: IntervalPeriod | None) -> str | None:
    own = interval.interval_period.randomize_start if interval.interval_period is not None else None
    return own if own is not None else (default.randomize_start if default is not None else None)


def _length_s(own: IntervalPeriod | None, default: IntervalPeriod | None, field: str) -> float:
    if own is not None and own.duration is not None:
        return parse_duration(own.duration, f"{field}.duration")
    return parse_duration(default.duration if default is not None else None, "intervalPeriod.duration")


def _says_now(period: IntervalPeriod | None) -> bool:
    return period is not None and period.start is not None and period.start.startswith(_BEGINNING)


def _absolute(period: IntervalPeriod | None, field: str) -> float | None:
    """Return the start, None where there is none, or the beginning of time."""
    if period is None or period.start is None or _says_now(period):
        return None
    start_s = epoch_seconds(period.start)
    if start_s is None:
        raise EventRefused(f"{field}: {printable(period.start, _MOST_SHOWN)!r} is not a time of RFC 3339 with a zone")
    return start_s


def _check(start_s: float, end_s: float, field: str) -> None:
    if start_s < 0 or start_s > _LAST_S or (end_s != FOREVER and end_s > _LAST_S):
        raise EventRefused(f"{field}: is not within the years 1970 to 9999")


def _share(ven: str, event: str, index: int) -> float:
    """Return a number in [-1, 1) that is the same for the same interval, and spread evenly over VENs and events."""
    digest = hashlib.sha256(f"{ven}\0{event}\0{index}".encode(errors="replace")).digest()
    return int.from_bytes(digest[:8]) / 2**63 - 1


def iso_duration(seconds: float) -> str:
    """Return whole seconds as a duration of ISO 8601."""
    return f"PT{int(seconds)}S"
