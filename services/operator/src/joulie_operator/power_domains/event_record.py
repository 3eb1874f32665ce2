"""Record of one event, minute by minute, as its status has it.

Guarantees that a gap is a gap: a minute in which the power of a node was not known has no drawn power, and a minute in
which no operator looked is not there. The list is bounded, and what is dropped is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from joulie_core.budget import TimedLimit
from joulie_core.kinds.power_event import MOST_MINUTES, DrawnQuality, EventMinute, PowerEventStatus
from joulie_core.timestamps import epoch_seconds, rfc3339

#: Time after the ramp up that is recorded.
REBOUND_S: Final = 900.0
MINUTE_S: Final = 60.0
_SHARE: Final = 0.9
_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class EventReading:
    """Power of the domain of an event at one moment, in watts; None: not known, or for the target none is in force."""

    drawn: float | None
    quality: DrawnQuality
    target: float | None = None
    baseline: float | None = None


class EventRecord:
    """The record of one event, which goes on where a status ends."""

    def __init__(self, status: PowerEventStatus) -> None:
        self.minutes: list[EventMinute] = list(status.minutes)
        self.dropped = status.dropped_minutes
        self.seconds_to_90_percent = status.seconds_to_90_percent
        self._number: int | None = None
        self._readings: list[EventReading] = []
        self._lowest: float | None = None

    def take(self, now_s: float, reading: EventReading, event: TimedLimit, *, is_sample: bool) -> None:
        """Take what is known now; of an event that has not started, or long ended, nothing is.

        Args:
            now_s: seconds since the epoch.
            reading: what is known.
            event: the times of the event.
            is_sample: the drawn power was read, and is not that of an earlier look.
        """
        number = int(now_s // MINUTE_S)
        if self._number is not None and number != self._number:
            self._close(self._number)
        if not is_recorded(event, now_s):
            self._number = None
            return
        self._number = number
        if reading.target is not None:
            self._lowest = reading.target if self._lowest is None else min(self._lowest, reading.target)
        if is_sample:
            self._readings.append(reading)
            self._reached(now_s, reading, event)

    def _reached(self, now_s: float, reading: EventReading, event: TimedLimit) -> None:
        drawn, target, baseline = reading.drawn, reading.target, reading.baseline
        if self.seconds_to_90_percent is not None or drawn is None or target is None or baseline is None:
            return
        is_held = now_s >= event.start_s + event.ramp_down_s and (event.end_s is None or now_s < event.end_s)
        if is_held and target < baseline and drawn <= baseline - _SHARE * (baseline - target):
            self.seconds_to_90_percent = round(now_s - event.start_s, 1)

    def _close(self, number: int) -> None:
        drawn = [each.drawn for each in self._readings if each.drawn is not None]
        known = len(drawn) == len(self._readings) > 0
        baseline = next((each.baseline for each in reversed(self._readings) if each.baseline is not None), None)
        self.minutes.append(
            EventMinute(
                start=rfc3339(number * MINUTE_S, "seconds"),
                baseline_watts=_tenth(baseline),
                target_watts=_tenth(self._lowest),
                drawn_watts=_tenth(math.fsum(drawn) / len(drawn)) if known else None,
                samples=len(self._readings),
                quality=_quality(self._readings) if known else DrawnQuality.UNKNOWN,
            )
        )
        surplus = len(self.minutes) - MOST_MINUTES
        if surplus > 0:
            self.dropped += surplus
            del self.minutes[:surplus]
        self._readings, self._lowest, self._number = [], None, None


def is_recorded(event: TimedLimit, now_s: float) -> bool:
    """Return whether minutes are recorded: from the start to a quarter of an hour after the ramp up."""
    until_s = math.inf if event.end_s is None else event.end_s + event.ramp_up_s + REBOUND_S
    return event.start_s <= now_s < until_s and (event.end_s is None or event.end_s > event.start_s)


def mean_error_percent(minutes: Sequence[EventMinute], event: TimedLimit) -> float | None:
    """Return the mean of drawn power above the target while the limit was held, in percent of it; None: no minute."""
    held_s = event.start_s + event.ramp_down_s
    errors = [
        _PERCENT * (each.drawn_watts - each.target_watts) / each.target_watts
        for each in minutes
        if each.drawn_watts is not None and each.target_watts
        if (start_s := epoch_seconds(each.start)) is not None and start_s >= held_s
        if event.end_s is None or start_s + MINUTE_S <= event.end_s
    ]
    return round(math.fsum(errors) / len(errors), 2) if errors else None


def rebound_percent(minutes: Sequence[EventMinute], event: TimedLimit, baseline: float | None) -> float | None:
    """Return how much the highest minute after the ramp up is above the baseline, in percent; None: not known."""
    if event.end_s is None or not baseline:
        return None
    after_s = event.end_s + event.ramp_up_s
    drawn = [
        each.drawn_watts
        for each in minutes
        if each.drawn_watts is not None and (epoch_seconds(each.start) or 0.0) >= after_s
    ]
    return round(_PERCENT * (max(drawn) - baseline) / baseline, 2) if drawn else None


def _quality(readings: Sequence[EventReading]) -> DrawnQuality:
    measured = all(each.quality is DrawnQuality.MEASURED for each in readings)
    return DrawnQuality.MEASURED if measured else DrawnQuality.MODELLED


def _tenth(watts: float | None) -> float | None:
    return None if watts is None else round(watts, 1)
