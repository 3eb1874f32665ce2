"""Lists and watches of a client, with the times at which they were known to work.

A reflector delivers what changed during an interruption like everything else. This shows its handlers, while they run,
whether that may be so, and since when.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from joulie_api.client import KubeClient
from joulie_api.resources import Resource

#: A pause shorter than this is not an interruption: a watch is reopened within it.
_PAUSE_S: Final = 2.0
#: A server sends what a resumed watch has missed at once.
_REPLAY_S: Final = 1.0


class ObservedWatch:
    """A client for one reflector.

    Args:
        client: lists and watches.
        clock: returns the seconds since the epoch.
        on_gap: called with start and end of each interruption, when it has ended.
    """

    def __init__(
        self, client: KubeClient, *, clock: Callable[[], float], on_gap: Callable[[float, float], None]
    ) -> None:
        self.outage = client.outage
        self._client = client
        self._clock = clock
        self._on_gap = on_gap
        #: When a complete list, a line or the regular end of a watch was last received; None before the first.
        self.contact_s: float | None = None
        #: See `Moment.behind_since_s`.
        self.behind_since_s: float | None = None

    async def list_page(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str,
        field_selector: str,
        limit: int,
        continue_token: str,
        max_bytes: int | None,
    ) -> bytes:
        """Return one page of the collection, raw."""
        self._interrupted()
        return await self._client.list_page(
            res,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            max_bytes=max_bytes,
        )

    @asynccontextmanager
    async def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str,
        field_selector: str,
        timeout_s: int,
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Yield the lines of one watch."""
        async with self._client.watch(
            res,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_s=timeout_s,
        ) as lines:
            self._interrupted()
            opened_s = self._clock()
            if self.behind_since_s is not None:
                self._on_gap(self.behind_since_s, opened_s)
            self.contact_s = opened_s
            yield self._observed(lines, opened_s)

    async def _observed(self, lines: AsyncIterator[bytes], opened_s: float) -> AsyncIterator[bytes]:
        async for line in lines:
            self.contact_s = self._clock()
            if self.contact_s - opened_s > _REPLAY_S:
                self.behind_since_s = None
            yield line
        self.contact_s = self._clock()

    def _interrupted(self) -> None:
        """Note the start of an interruption, unless one has been noted or the pause is short."""
        now_s = self._clock()
        if self.behind_since_s is None and self.contact_s is not None and now_s - self.contact_s > _PAUSE_S:
            self.behind_since_s = self.contact_s
