"""Delays after failures. No I/O: time and the random source are arguments."""

from collections.abc import Callable
from typing import Final

_FACTOR: Final = 2.0


class Backoff:
    """Exponential with full jitter, so that many clients of a recovering server do not come back together.

    The defaults are those of client-go's reflector.
    """

    def __init__(
        self,
        chance: Callable[[], float],
        *,
        initial_s: float = 0.8,
        cap_s: float = 30.0,
        reset_after_s: float = 120.0,
    ) -> None:
        """Start with a ceiling of `initial_s`, doubled up to `cap_s`; start over after a time without failure.

        Args:
            chance: uniform in [0, 1), as random.random.
            initial_s: the first wait is shorter.
            cap_s: all waits are shorter.
            reset_after_s: how long without a failure, from the end of a wait.
        """
        self._chance = chance
        self._initial_s = initial_s
        self._cap_s = cap_s
        self._reset_after_s = reset_after_s
        #: The ceiling of the next wait.
        self._ceiling_s = initial_s
        #: End of the last wait, None before the first: the time without failure counts from there.
        self._waited_until: float | None = None

    def next_s(self, now: float) -> float:
        """Return the seconds to wait after a failure at `now`, uniform between 0 and a ceiling that doubles."""
        if self._waited_until is not None and now - self._waited_until >= self._reset_after_s:
            self._ceiling_s = self._initial_s
        wait_s = self._ceiling_s * self._chance()
        self._ceiling_s = min(self._cap_s, self._ceiling_s * _FACTOR)
        self._waited_until = now + wait_s
        return wait_s
