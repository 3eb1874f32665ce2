"""Numbers as text. What is unknown is `-`, never 0."""

from typing import Final

UNKNOWN: Final = "-"
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400
_KILO: Final = 1000.0
#: From here on watts of a cluster are written in kW.
_KILOWATTS_FROM: Final = 10_000.0


def watts(value: float | None) -> str:
    """Return whole watts, without the unit."""
    return UNKNOWN if value is None else f"{value:.0f}"


def total_watts(value: float | None) -> str:
    """Return the watts of many nodes, with the unit."""
    if value is None:
        return UNKNOWN
    return f"{value / _KILO:.1f} kW" if value >= _KILOWATTS_FROM else f"{value:.0f} W"


def percent(value: float | None) -> str:
    """Return whole percent."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def points(value: float | None) -> str:
    """Return points of a score, with one digit."""
    return UNKNOWN if value is None else f"{value:.1f}"


def age(seconds: float | None) -> str:
    """Return a duration as kubectl writes ages: `12s`, `4m`, `3h`, `9d`. A time ahead of this clock is `0s`."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE_S:
        return f"{whole}s"
    if whole < 2 * _HOUR_S:
        return f"{whole // _MINUTE_S}m"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S}h"
    return f"{whole // _DAY_S}d"


def word(value: str | None) -> str:
    """Return a word of a resource."""
    return value or UNKNOWN


def flag(value: bool | None) -> str:  # noqa: FBT001 - the value to write
    """Return yes or no."""
    return UNKNOWN if value is None else ("yes" if value else "no")


def counted(number: int, what: str, many: str = "") -> str:
    """Return a number and the noun in its form: `1 node`, `2 nodes`."""
    return f"{number} {what if number == 1 else many or f'{what}s'}"
