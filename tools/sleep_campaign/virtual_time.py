"""An event loop whose time is virtual: it goes on at once to the next timer where nothing is left to do.

Guarantees that a run is the same for the same seed: work that services hand to a thread is done at once, in the loop.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, Final

#: 2027-01-15T08:00:00Z, a Friday.
START_S: Final = 1_800_000_000.0


class _VirtualSelector(selectors.DefaultSelector):
    """Advances the time instead of waiting."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise RuntimeError("nothing is left to do, and no timer is set")
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the virtual time, in seconds since the loop was made."""
        return self._virtual.now_s

    def run_in_executor(  # type: ignore[override]  # done at once, so that its length is no part of the time
        self, _executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do the work at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the caller's
            future.set_exception(error)
        return future

    def add_signal_handler(self, *_args: Any) -> None:  # type: ignore[override]  # takes anything
        """Leave signals to the campaign, which is interrupted as a whole."""

    def remove_signal_handler(self, _sig: int) -> bool:
        """Do nothing, as no handler was added."""
        return False


class WallClock:
    """A wall clock that people or a time service can set; `offset_s` is its error."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset_s = 0.0

    def time(self) -> float:
        """Return the seconds since the epoch, as this clock has them."""
        return START_S + self._loop.time() + self.offset_s
