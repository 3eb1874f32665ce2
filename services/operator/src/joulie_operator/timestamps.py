"""Times as resources carry them: RFC 3339, UTC."""

from datetime import UTC, datetime


def rfc3339(wall: float, *, timespec: str = "milliseconds") -> str:
    """Return a wall-clock time (seconds since the epoch); built-in kinds of Kubernetes take whole `seconds` only."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def seconds_of(timestamp: str) -> float:
    """Return the wall-clock time of a timestamp; one that cannot be read lies before all times."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return float("-inf")
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
