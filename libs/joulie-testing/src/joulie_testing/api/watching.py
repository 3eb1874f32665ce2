"""Watch streams of the in-process API server.

Guarantees what a reflector relies on: every change after the given resourceVersion once and in order; ADDED and DELETED
when an object starts or stops matching a selector; bookmarks at an interval and before the timeout ends the stream; an
ERROR event with code 410 when the history no longer has the revision. Scripted actions replace the regular end.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from aiohttp import web

from joulie_testing.api.faults import CutMidLine, EndStream, HalfOpen, Inject, StreamAction, expired_event
from joulie_testing.api.storage import Collection, Match, Store, Stored, StoredChange


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The query of a watch."""

    revision: int | None
    """None: start with an ADDED event for every existing object."""
    match: Match | None
    bookmarks: bool = False
    timeout_s: float | None = None
    announce_initial: bool = False
    """`sendInitialEvents`: a bookmark marks the end of the initial ADDED events."""


class WatchStream:
    """One open watch: reads the collection's history and writes lines until something ends it."""

    def __init__(self, store: Store, collection: Collection, options: WatchOptions, bookmark_interval_s: float) -> None:
        self._store = store
        self._collection = collection
        self._options = options
        self._bookmark_interval_s = bookmark_interval_s
        self._wake = asyncio.Event()
        self._action: StreamAction | None = None
        self._sent = 0
        self._position = 0

    @property
    def kind(self) -> str:
        """The kind being watched."""
        return self._collection.kind.kind

    def disturb(self, action: StreamAction) -> None:
        """Perform an action as soon as the stream has sent its `after_lines`, counted from the start."""
        self._action = action
        self._wake.set()

    async def run(self, response: web.StreamResponse) -> bool:
        """Serve until the end; return False when the connection is to be reset rather than closed."""
        self._collection.wakes.add(self._wake)
        try:
            return await self._serve(response)
        finally:
            self._collection.wakes.discard(self._wake)

    async def _serve(self, response: web.StreamResponse) -> bool:
        loop = asyncio.get_running_loop()
        deadline = None if self._options.timeout_s is None else loop.time() + self._options.timeout_s
        bookmark_at = loop.time() + self._bookmark_interval_s
        lines = self._begin()
        if lines is None:
            self.disturb(expired_event())
            lines = []
        while True:
            outcome = await self._emit(response, lines)
            if outcome is not None:
                return outcome
            now = loop.time()
            if deadline is not None and now >= deadline:
                await self._write(response, [self._bookmark()] if self._options.bookmarks else [])
                return True
            lines = []
            if self._options.bookmarks and now >= bookmark_at:
                lines = [self._bookmark()]
                bookmark_at = now + self._bookmark_interval_s
            else:
                await self._sleep(deadline, bookmark_at if self._options.bookmarks else None)
            pending = self._pending()
            if pending is None:
                self.disturb(expired_event())
            else:
                lines = [*pending, *lines]

    def _begin(self) -> list[bytes] | None:
        if self._options.revision is not None:
            position = self._collection.position_after(self._options.revision)
            if position is None:
                return None
            self._position = position
            return self._pending()
        self._position = self._collection.dropped + len(self._collection.changes)
        objects = self._collection.snapshot(self._options.match)
        lines = [self._line(b"ADDED", stored) for stored in objects]
        if self._options.announce_initial:
            lines.append(self._bookmark(initial_end=True))
        return lines

    def _pending(self) -> list[bytes] | None:
        """Return lines of the changes since the last call; None when the history no longer has all of them."""
        start = self._position - self._collection.dropped
        if start < 0:
            return None
        changes = self._collection.changes[start:]
        self._position += len(changes)
        return [line for change in changes if (line := self._line_of(change)) is not None]

    def _line_of(self, change: StoredChange) -> bytes | None:
        match = self._options.match
        was = change.before is not None and (match is None or match(change.before))
        is_now = change.after is not None and (match is None or match(change.after))
        if is_now:
            return self._line(b"MODIFIED" if was else b"ADDED", change.last)
        return self._line(b"DELETED", change.last) if was else None

    def _line(self, event: bytes, stored: Stored) -> bytes:
        return b'{"type":"%b","object":%b%b}' % (event, self._collection.kind.prefix, stored.tail)

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        kind = self._collection.kind
        metadata: dict[str, object] = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        shown = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        return msgspec.json.encode({"type": "BOOKMARK", "object": shown})

    async def _emit(self, response: web.StreamResponse, lines: list[bytes]) -> bool | None:
        """Write lines and perform a scripted action; return the result of `run` if the stream has ended, else None."""
        action = self._action
        match action:
            case None:
                await self._write(response, lines)
                return None
            case Inject():
                self._action = None
                await self._write(response, [*lines, *action.lines])
                return True if action.end else None
            case _:
                left = action.after_lines - self._sent
                await self._write(response, lines[: max(0, left)])
                return await self._break(response, action) if len(lines) >= left else None

    async def _break(self, response: web.StreamResponse, action: HalfOpen | CutMidLine | EndStream) -> bool:
        match action:
            case HalfOpen():
                # Ends when the client disconnects or the server stops; both cancel this handler.
                await asyncio.Event().wait()
                raise AssertionError("unreachable")
            case CutMidLine():
                await response.write(b'{"type":"MODIFIED","object":{"kind":"')
                return False
            case EndStream():
                return True

    async def _write(self, response: web.StreamResponse, lines: Iterable[bytes]) -> None:
        batch = list(lines)
        if batch:
            self._sent += len(batch)
            await response.write(b"\n".join(batch) + b"\n")

    async def _sleep(self, deadline: float | None, bookmark_at: float | None) -> None:
        ends = [moment for moment in (deadline, bookmark_at) if moment is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(ends) if ends else None):
                await self._wake.wait()
        self._wake.clear()
