"""Feed of open pages: everything at first, then once a second what has changed.

Events: `start` (a page forgets what it has), `nodes` (tiles that are new or changed, and names of nodes that have
left), `history` (new entries), `domains` (all power domains, where one has changed) and `state` (once a second: the
time, the role of this replica, its watches). Nothing is computed while no page is open. What waits for a page that
reads slowly is bounded; a page beyond the bound is dropped, reconnects and starts again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

from joulie_api.failures import Failures
from joulie_api.reflector import Reflector
from joulie_core.names import NodeName
from joulie_core.savings import Lever, LeverRate
from joulie_operator.cluster import Cluster
from joulie_operator.pods import PodSummary
from joulie_operator.published import PublishedTarget, PublishedTwin
from joulie_operator.ui.domains import DomainBars
from joulie_operator.ui.history import History
from joulie_operator.ui.subscriber import Subscriber, server_sent
from joulie_operator.ui.tiles import NodeTile, TileInputs, tile_of

T = TypeVar("T")

#: Changes of this time are sent together.
INTERVAL_S: Final = 1.0
#: Pages that may be open at the same time.
MOST_PAGES: Final = 16
#: Tiles of one event: a few milliseconds of the event loop, and of a browser.
SLICE: Final = 250


class TooManyPagesError(Exception):
    """As many pages are open as may be."""


class LiveFeed:
    """Collects changes for the open pages, and sends them.

    Args:
        cluster: nodes and pods.
        targets: live view of the published targets, by node.
        twins: live view of the published twins, by node.
        watches: watches whose state is shown.
        is_leading: whether this replica is the leader.
        wall: the time, seconds since the epoch.
        savings: what each lever saves at the moment; None where that is not estimated.
        domains: the power domains at the moment; None where they are not observed.
        interval_s: time between two deliveries.
    """

    def __init__(
        self,
        cluster: Cluster,
        targets: Mapping[str, PublishedTarget],
        twins: Mapping[str, PublishedTwin],
        *,
        watches: Sequence[Reflector[Any]],
        is_leading: Callable[[], bool],
        failures: Failures,
        wall: Callable[[], float],
        savings: Callable[[], Mapping[Lever, LeverRate]] | None = None,
        domains: Callable[[], DomainBars] | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._savings = savings
        self._domains = domains
        self._bars = DomainBars()
        self._cluster = cluster
        self._targets = targets
        self._twins = twins
        self._watches = watches
        self._is_leading = is_leading
        self._failures = failures
        self._wall = wall
        self._interval_s = interval_s
        self._history = History(wall=wall)
        self._history_sent = 0
        self._pages: set[Subscriber] = set()
        self._opened = asyncio.Event()
        #: What the open pages show.
        self._tiles: dict[str, NodeTile] = {}
        self._changed: set[str] = set()

    @property
    def open_pages(self) -> int:
        """Number of open pages."""
        return len(self._pages)

    def on_object(self, key: str, _old: object, _new: object) -> None:
        """Take a change of an object that is named as its node."""
        if self._pages:
            self._changed.add(key)

    def on_target(self, key: str, old: PublishedTarget | None, new: PublishedTarget | None) -> None:
        """Take a change of a target."""
        self._history.on_target(key, old, new)
        self.on_object(key, old, new)

    def on_pod(self, _key: str, old: PodSummary | None, new: PodSummary | None) -> None:
        """Take a change of a pod."""
        if self._pages:
            self._changed.update(pod.node for pod in (old, new) if pod is not None and pod.node is not None)

    def join(self, page: Subscriber) -> None:
        """Add a page, and queue for it what the others show.

        Raises:
            TooManyPagesError: as many are open as may be.
        """
        if len(self._pages) >= MOST_PAGES:
            raise TooManyPagesError
        if not self._pages:
            # Sent to the first page as changes, a slice at a time.
            self._changed.update(self._cluster.nodes)
            self._history_sent = self._history.latest
        history = [entry for entry in self._history.since(0) if entry.number <= self._history_sent]
        page.put(server_sent("start", {"tileFields": NodeTile.__struct_fields__}))
        page.put(self._state())
        page.put(server_sent("history", history))
        if self._domains is not None:
            self._bars = self._domains()
            page.put(server_sent("domains", self._bars))
        for tiles in _slices(list(self._tiles.values())):
            page.put(_nodes(tiles, ()))
        self._pages.add(page)
        self._opened.set()

    def leave(self, page: Subscriber) -> None:
        """Remove a page."""
        self._pages.discard(page)
        if not self._pages:
            self._opened.clear()
            self._tiles.clear()
            self._changed.clear()

    def close(self) -> None:
        """End all pages."""
        for page in self._pages:
            page.end()

    async def run(self) -> NoReturn:
        """Send changes until cancelled."""
        while True:
            await self._opened.wait()
            with self._failures.contained("live page"):
                await self.deliver()
            await asyncio.sleep(self._interval_s)

    async def deliver(self) -> None:
        """Send the open pages what has changed since the last time."""
        changed, self._changed = sorted(self._changed), set()
        for names in _slices(changed):
            if not self._pages:
                return
            tiles, gone = self._update(names)
            if tiles or gone:
                self._send(_nodes(tiles, gone))
            # The lease is renewed and nodes are reconciled between two slices.
            await asyncio.sleep(0)
        entries = self._history.since(self._history_sent)
        if entries:
            self._history_sent = self._history.latest
            self._send(server_sent("history", entries))
        bars = self._bars if self._domains is None else self._domains()
        if bars != self._bars:
            self._bars = bars
            self._send(server_sent("domains", bars))
        self._send(self._state())

    def _update(self, names: Iterable[str]) -> tuple[list[NodeTile], list[str]]:
        """Compute tiles again; return those that differ, and the names of nodes that have left."""
        tiles: list[NodeTile] = []
        gone: list[str] = []
        for name in names:
            tile = self._tile(NodeName(name))
            if tile is None:
                if self._tiles.pop(name, None) is not None:
                    gone.append(name)
            elif tile != self._tiles.get(name):
                self._tiles[name] = tile
                tiles.append(tile)
        return tiles, gone

    def _tile(self, name: NodeName) -> NodeTile | None:
        node = self._cluster.nodes.get(name)
        if node is None:
            return None
        return tile_of(
            TileInputs(
                node,
                self._cluster.eligibility(name),
                self._cluster.load(name),
                self._targets.get(name),
                self._twins.get(name),
            )
        )

    def _state(self) -> bytes:
        stale = {watch.name: reason for watch in self._watches if (reason := watch.stale_reason()) is not None}
        state: dict[str, Any] = {
            "now": self._wall(),
            "leading": self._is_leading(),
            "performancePods": self._cluster.performance_pods,
            "staleWatches": stale,
        }
        if self._savings is not None:
            state["savings"] = [_saving(lever, rate) for lever, rate in self._savings().items()]
        return server_sent("state", state)

    def _send(self, event: bytes) -> None:
        for page in [page for page in self._pages if not page.put(event)]:
            self.leave(page)


def _saving(lever: Lever, rate: LeverRate) -> dict[str, Any]:
    return {"lever": lever, "watts": rate.watts, "unknownShare": rate.unknown_share}


def _nodes(tiles: Sequence[NodeTile], gone: Sequence[str]) -> bytes:
    return server_sent("nodes", {"tiles": tiles, "gone": gone})


def _slices(items: list[T]) -> Iterable[list[T]]:
    return (items[start : start + SLICE] for start in range(0, len(items), SLICE))
