"""Times of the week of a NodeSleepPolicy as the decision takes them: by the time zone database of this machine."""

from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from joulie_core.kinds import NodeSleepPolicySpec
from joulie_core.kinds.node_sleep_policy import AwakeWindowSpec, Weekday
from joulie_core.sleep import AwakeWindow

_WEEKDAYS: Final = tuple(Weekday)


class UnusableSpec(ValueError):  # noqa: N818 - names the state
    """A policy cannot be used; the message names the field, its value and the way out."""


def windows_of(spec: NodeSleepPolicySpec) -> tuple[AwakeWindow, ...]:
    """Return the windows of a policy.

    Raises:
        UnusableSpec: a time zone is not known.
    """
    return tuple(_window(index, each) for index, each in enumerate(spec.schedules))


def _window(index: int, spec: AwakeWindowSpec) -> AwakeWindow:
    try:
        time_zone = ZoneInfo(spec.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        # OSError: the name is that of a directory of the database, such as Europe, or too long for a file.
        raise UnusableSpec(
            f"schedules[{index}].timeZone: {spec.time_zone!r} is not in the time zone database; "
            "write a name such as Europe/Rome"
        ) from error
    return AwakeWindow(
        weekdays=frozenset(_WEEKDAYS.index(day) for day in spec.days),
        from_minute=_minutes(spec.start),
        to_minute=_minutes(spec.end),
        time_zone=time_zone,
        min_awake=spec.min_awake,
    )


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return 60 * int(hours) + int(minutes)
