"""One open page: the server-sent events that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

#: What may wait for one page. All of 10,000 nodes are 2 MB, a second's changes of 5,000 nodes at rest 20 KB.
BACKLOG_BYTES: Final = 8 << 20

_ENCODER: Final = msgspec.json.Encoder()


class Subscriber:
    """A bounded queue of events, which never waits to be filled; `abort` closes the connection at once."""

    def __init__(self, abort: Callable[[], None], *, backlog_bytes: int = BACKLOG_BYTES) -> None:
        self._abort = abort
        self._backlog_bytes = backlog_bytes
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._ended = False

    def put(self, event: bytes) -> bool:
        """Queue an event; False, and the connection is aborted, where too much waits already."""
        if self._bytes + len(event) > self._backlog_bytes:
            self.end()
            self._abort()
            return False
        self._waiting.append(event)
        self._bytes += len(event)
        self._wake.set()
        return True

    def end(self) -> None:
        """Have `next` return None from now on."""
        self._ended = True
        self._waiting.clear()
        self._wake.set()

    async def next(self) -> bytes | None:
        """Wait for the next event and return it; None after the end."""
        while not self._waiting:
            if self._ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        event = self._waiting.popleft()
        self._bytes -= len(event)
        return event


def server_sent(name: str, data: object) -> bytes:
    """Return a server-sent event whose data is JSON."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _ENCODER.encode(data))
