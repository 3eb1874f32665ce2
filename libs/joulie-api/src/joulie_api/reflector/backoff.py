"""Delays after failures. No I/O: time and the random source are arguments.

Values of client-go's reflector: 0.8 s, doubled up to 30 s, reset after 2 min without failure.
"""

from collections.abc import Callable
from typing import Final

INITIAL_S: Final = 0.8
FACTOR: Final = 2.0
CAP_S: Final = 30.0
RESET_AFTER_S: Final = 120.0


class Backoff:
    """Exponential with full jitter, so that many clients of a recovering server do not come back together."""

    def __init__(self, chance: Callable[[], float]) -> None:
        #: Uniform in [0, 1), as random.random.
        self._chance = chance
        #: The ceiling of the next wait.
        self._ceiling_s = INITIAL_S
        #: End of the last wait, None before the first: the time without failure counts from there.
        self._waited_until: float | None = None

    def next_s(self, now: float) -> float:
        """Return the seconds to wait after a failure at `now`, uniform between 0 and a ceiling that doubles."""
        if self._waited_until is not None and now - self._waited_until >= RESET_AFTER_S:
            self._ceiling_s = INITIAL_S
        wait_s = self._ceiling_s * self._chance()
        self._ceiling_s = min(CAP_S, self._ceiling_s * FACTOR)
        self._waited_until = now + wait_s
        return wait_s
