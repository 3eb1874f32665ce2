"""Log lines without a logging library: the actuator's memory is counted in single megabytes.

Lines have the format of the other processes: one JSON object with `timestamp`, `level`, `event` and `service`.
"""

import sys
import threading
import time
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from joulie_core.timestamps import rfc3339

SERVICE: Final = "joulie-actuator"
#: Text streams are not safe for several threads (Python, "io", Multi-threading).
_turn: Final = threading.Lock()


class Level(StrEnum):
    """Severity of an event."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Log(Protocol):
    """A destination of events."""

    def __call__(self, event: str, /, *, level: Level = Level.INFO, **details: Any) -> None:
        """Log an event with its fields."""


def write_line(event: str, /, *, level: Level = Level.INFO, **details: Any) -> None:
    """Log an event on standard output."""
    line = {"timestamp": rfc3339(time.time()), "level": level, "event": event, "service": SERVICE, **details}
    text = msgspec.json.encode(line, enc_hook=str).decode() + "\n"
    with _turn:
        sys.stdout.write(text)
        sys.stdout.flush()
