"""Energy between two readings of a counter; what a counter does not tell is None, never an estimate."""

from dataclasses import dataclass

from joulie_core.wraps import difference, may_have_lapped


@dataclass(frozen=True, slots=True)
class CounterReading:
    """One reading of an energy counter."""

    at_seconds: float
    joules: float


def from_millijoules(at_seconds: float, millijoules: int) -> CounterReading:
    """Return the reading of a counter of millijoules, as GPU drivers have it."""
    return CounterReading(at_seconds, millijoules / 1000.0)


def joules_between(
    before: CounterReading, after: CounterReading, *, most_watts: float, wraps_at_joules: float | None = None
) -> float | None:
    """Return the joules between two readings; None if the counter does not tell.

    Args:
        before: the earlier reading.
        after: the later one.
        most_watts: more than the device draws for long; a greater difference is a fault of the counter.
        wraps_at_joules: where the counter starts again at zero; None if it does not. A wrap is believed only where the
            device cannot have reached a second one.
    """
    seconds = after.at_seconds - before.at_seconds
    if not seconds > 0.0 or before.joules < 0.0 or after.joules < 0.0:
        return None
    most_joules = most_watts * seconds
    if may_have_lapped(most_joules, wraps_at_joules):
        return None
    joules = difference(before.joules, after.joules, wraps_at_joules)
    return joules if 0.0 <= joules <= most_joules else None
