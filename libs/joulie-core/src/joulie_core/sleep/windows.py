"""Times of the week in which more nodes stay awake."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class AwakeWindow:
    """A time of the week in which more nodes stay awake; it does not go beyond midnight."""

    #: Monday is 0.
    weekdays: frozenset[int]
    #: Minutes since midnight in the time zone; the end is outside.
    from_minute: int
    to_minute: int
    time_zone: tzinfo
    #: Nodes of each group.
    min_awake: int

    def covers(self, from_s: float, to_s: float) -> bool:
        """Return whether a part of the window is between two times, both included."""
        first, last = (datetime.fromtimestamp(at_s, tz=self.time_zone).date() for at_s in (from_s, to_s))
        days = (first + timedelta(days=number) for number in range((last - first).days + 1))
        for day in days:
            # Minutes of the clock, also on days that are longer or shorter.
            midnight = datetime.combine(day, time(), self.time_zone)
            begins, ends = (midnight + timedelta(minutes=each) for each in (self.from_minute, self.to_minute))
            if day.weekday() in self.weekdays and begins.timestamp() <= to_s and from_s < ends.timestamp():
                return True
        return False
