"""Metrics of one process, in a registry of its own.

Promises that a scrape holds the event loop only while per-node values are copied: text is made in a thread, and two
scrapes at once share one rendering. Per-node series come from callbacks at scrape time, so that a series vanishes with
its node and the hot paths pay nothing for them.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class NodeSeriesCollector(Collector):
    """Series made anew for every scrape from what the process knows at that moment.

    Args:
        families: returns metric families such as `GaugeMetricFamily`; called on the event loop's thread, where it may
            read any state without locks.
        in_thread: it copies nothing that the loop changes and may run in the rendering thread instead; for tables that
            are replaced whole and would hold the loop for long.
    """

    def __init__(self, families: Callable[[], Iterable[Metric]], *, in_thread: bool = False) -> None:
        self._families = families
        self._in_thread = in_thread
        self._prepared: list[Metric] | None = None

    def prepare(self) -> None:
        """Collect now what `collect` will hand out; called on the loop before rendering."""
        if not self._in_thread:
            self._prepared = list(self._families())

    def collect(self) -> Iterator[Metric]:
        """The prepared families once; without preparation, fresh ones."""
        prepared, self._prepared = self._prepared, None
        yield from self._families() if prepared is None else prepared

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are not known before the first node is."""
        return ()


class Registry(CollectorRegistry):
    """A registry that renders itself without holding the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._node_series: list[NodeSeriesCollector] = []
        self._rendering: asyncio.Task[bytes] | None = None

    def register(self, collector: Collector) -> None:
        """Add a collector.

        Raises:
            DuplicateTimeseries: a series of that name is there already.
        """
        super().register(collector)
        if isinstance(collector, NodeSeriesCollector):
            self._node_series.append(collector)

    async def render(self) -> bytes:
        """All series in the text format."""
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.create_task(self._render(), name="render metrics")
        # Shielded, because a scraper that hangs up must not spoil the rendering another one waits for.
        return await asyncio.shield(self._rendering)

    async def _render(self) -> bytes:
        for collector in self._node_series:
            collector.prepare()
        return await asyncio.to_thread(generate_latest, self)


def new_registry(service: str, version: str) -> Registry:
    """A registry with `joulie_build_info{service,version}` and the process's memory, CPU and file descriptors."""
    # When a counter began is of no use here and doubles the series.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = Registry()
    ProcessCollector(registry=registry)
    info = Gauge("joulie_build_info", "Always 1; the labels tell what runs.", ("service", "version"), registry=registry)
    info.labels(service, version).set(1)
    return registry
