"""Time since an event."""

import asyncio


class Stopwatch:
    """Time since the last reset, of the running event loop."""

    def __init__(self) -> None:
        self._now_s = asyncio.get_running_loop().time
        self._started_s = self._now_s()

    def seconds(self) -> float:
        """Return the seconds since the last reset."""
        return self._now_s() - self._started_s

    def reset(self) -> None:
        """Restart at zero."""
        self._started_s = self._now_s()
