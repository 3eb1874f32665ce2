"""Times as resources carry them: RFC 3339 in UTC, as text and as seconds since the epoch.

A timestamp that cannot be read is unknown (None), and so is one without a zone: it may be off by half a day, so it
gives no age. Source: RFC 3339, section 5.6; Kubernetes API conventions for `metav1.Time` (whole seconds)
and `metav1.MicroTime`.
"""

from datetime import UTC, datetime
from typing import Final, Literal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(epoch_s: float, timespec: Literal["seconds", "milliseconds", "microseconds"] = "milliseconds") -> str:
    """Return a wall-clock time as text with `Z`.

    Args:
        epoch_s: seconds since the epoch, within the years 1 to 9999.
        timespec: digits of the second, the rest is cut off; built-in kinds of Kubernetes take whole seconds, and
            microseconds in a Lease.

    """
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def epoch_seconds(timestamp: str | None) -> float | None:
    """Return the seconds since the epoch; None where the timestamp is absent, unreadable or without a zone."""
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)  # noqa: TID251 - the one place
    except ValueError:
        return None
    # Subtracted and not converted: close to the years 1 and 9999 the same moment in UTC may have no date.
    return (moment - _EPOCH).total_seconds() if moment.tzinfo is not None else None


def age_seconds(timestamp: str | None, now_s: float) -> float:
    """Return the seconds that have passed since then; negative ahead of `now_s`, infinite where the time is unknown."""
    then_s = epoch_seconds(timestamp)
    return float("inf") if then_s is None else now_s - then_s
