"""The lines of one watch, as they arrive.

A watch that is silent for too long ends, and so does one that outlasts its own time: both are checked by one timer for
each such period. aiohttp's own limits set and cancel a timer for each piece of data, which costs more than reading it.
"""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp

from joulie_api._kubernetes import describe
from joulie_api.errors import IdleTimeoutError, KubeError, StreamBrokenError


async def read_lines(
    response: aiohttp.ClientResponse, path: str, *, idle_s: float, total_s: float
) -> AsyncGenerator[bytes]:
    """Yield complete lines; drop what follows the last newline of a broken stream.

    Raises:
        IdleTimeoutError: no data for `idle_s`.
        StreamBrokenError: the stream breaks, or has not ended after `total_s`.
    """
    limits = _Limits(response.content, path, idle_s, total_s)
    rest = b""
    try:
        while chunk := await response.content.readany():
            limits.heard()
            *complete, rest = (rest + chunk).split(b"\n")
            for line in complete:
                if line:
                    yield line
    except (aiohttp.ClientError, OSError) as error:
        raise StreamBrokenError(f"watch of {path}: {describe(error)}") from error
    finally:
        limits.stop()


class _Limits:
    """Ends the reading of a stream with an error once one of its limits is exceeded."""

    def __init__(self, content: aiohttp.StreamReader, path: str, idle_s: float, total_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._content = content
        self._path = path
        self._idle_s = idle_s
        self._heard_at = self._loop.time()
        self._ends_at = self._heard_at + total_s
        self._heard_bytes = content.total_bytes
        self._timer = self._loop.call_at(self._due_at, self._check)

    @property
    def _due_at(self) -> float:
        return min(self._heard_at + self._idle_s, self._ends_at)

    def heard(self) -> None:
        """Note that data has arrived."""
        self._heard_at = self._loop.time()
        self._heard_bytes = self._content.total_bytes

    def stop(self) -> None:
        """End the check."""
        self._timer.cancel()

    def _check(self) -> None:
        if self._content.total_bytes != self._heard_bytes:
            # It waits to be read, because this process is slow.
            self.heard()
        now = self._loop.time()
        if now >= self._ends_at:
            self._end(StreamBrokenError(f"watch of {self._path}: not ended in time"))
        elif now >= self._due_at:
            self._end(IdleTimeoutError(f"watch of {self._path}: no data"))
        else:
            self._timer = self._loop.call_at(self._due_at, self._check)

    def _end(self, error: KubeError) -> None:
        self._content.set_exception(error)
