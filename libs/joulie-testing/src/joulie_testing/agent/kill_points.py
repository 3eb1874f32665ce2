"""A process that is killed at a counted step, for tests of what it leaves behind."""

from collections.abc import Iterator
from contextlib import contextmanager


class Killed(BaseException):
    """The process is gone; nothing may catch this but the test."""


class Fate:
    """Counts the steps at which the process can be killed."""

    def __init__(self) -> None:
        self._steps_left: int | None = None

    def step(self) -> None:
        """Pass a step.

        Raises:
            Killed: the process is killed here.
        """
        if self._steps_left is None:
            return
        self._steps_left -= 1
        if self._steps_left <= 0:
            raise Killed

    @contextmanager
    def killed_at(self, step: int | None) -> Iterator[None]:
        """Kill the process at the n-th step within the block; never for None."""
        self._steps_left = step
        try:
            yield
        finally:
            self._steps_left = None
