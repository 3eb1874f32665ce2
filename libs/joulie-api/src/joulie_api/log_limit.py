"""A limit for log lines whose number others determine, such as those about requests from the network."""

import time
from collections.abc import Callable


class LogLimit:
    """Admits one line per interval and counts the others, so that the next line can state how many there were."""

    def __init__(self, interval_s: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next_at = float("-inf")
        self._suppressed = 0

    def admit(self) -> int | None:
        """Return the number of lines suppressed since the last admitted one; None where this one is suppressed."""
        now = self._clock()
        if now < self._next_at:
            self._suppressed += 1
            return None
        suppressed, self._suppressed = self._suppressed, 0
        self._next_at = now + self._interval_s
        return suppressed
