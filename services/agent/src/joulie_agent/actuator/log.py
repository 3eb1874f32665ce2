"""Log lines without a logging library: the actuator's memory is counted in single megabytes.

Promises the shape of the other processes' lines: one JSON object with `timestamp`, `level`, `event` and `service`.
"""

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

SERVICE: Final = "joulie-actuator"


class Level(StrEnum):
    """Severity of an event."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Log(Protocol):
    """Where events go."""

    def __call__(self, event: str, /, *, level: Level = Level.INFO, **details: Any) -> None:
        """Tell an event."""


def write_line(event: str, /, *, level: Level = Level.INFO, **details: Any) -> None:
    """Tell an event on standard output."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"timestamp": now, "level": level, "event": event, "service": SERVICE, **details}
    sys.stdout.write(msgspec.json.encode(line, enc_hook=str).decode() + "\n")
    sys.stdout.flush()
