"""Metrics of one process, in a registry of its own.

Guarantees: a scrape blocks the event loop only while per-node values are copied; the text is rendered in a thread, and
concurrent scrapes share one rendering. Per-node series come from callbacks at scrape time, so that a series vanishes
with its node and costs nothing between scrapes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

#: The values of the labels, and the value of the series; None is unknown and gives no sample.
Row = tuple[Sequence[str], float | None]


def gauge(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    """Return a gauge for one scrape, with one sample for each row whose value is known."""
    return _filled(GaugeMetricFamily(name, documentation, labels=labels), rows)


def counter(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    """Return a counter for one scrape, as `gauge`; the name ends with `_total`."""
    return _filled(CounterMetricFamily(name, documentation, labels=labels), rows)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, rows: Iterable[Row]) -> Metric:
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


class NodeSeriesCollector(Collector):
    """Series made anew for every scrape from what the process knows at that moment.

    Args:
        families: returns metric families, as `gauge` makes them; called on the event loop's thread, where it may
            read any state without locks.
        in_thread: `families` reads nothing that the loop modifies and may run in the rendering thread instead; for
            tables that are replaced as a whole and would block the loop for long.
    """

    def __init__(self, families: Callable[[], Iterable[Metric]], *, in_thread: bool = False) -> None:
        self._families = families
        self._in_thread = in_thread
        self._prepared: list[Metric] | None = None

    def prepare(self) -> None:
        """Collect what `collect` will yield; called on the loop before rendering."""
        if not self._in_thread:
            self._prepared = list(self._families())

    def collect(self) -> Iterator[Metric]:
        """Yield the prepared families once; without preparation, fresh ones."""
        prepared, self._prepared = self._prepared, None
        yield from self._families() if prepared is None else prepared

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are unknown before the first node is known."""
        return ()


class Registry(CollectorRegistry):
    """A registry that renders itself without blocking the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._node_series: list[NodeSeriesCollector] = []
        self._rendering: asyncio.Task[bytes] | None = None

    def register(self, collector: Collector) -> None:
        """Add a collector.

        Raises:
            DuplicateTimeseries: a series of that name exists.
        """
        super().register(collector)
        if isinstance(collector, NodeSeriesCollector):
            self._node_series.append(collector)

    async def render(self) -> bytes:
        """Return all series in the text format."""
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.create_task(self._render(), name="render metrics")
        # Shielded, because a scraper that disconnects must not cancel the rendering that another one awaits.
        return await asyncio.shield(self._rendering)

    async def _render(self) -> bytes:
        for collector in self._node_series:
            collector.prepare()
        return await asyncio.to_thread(generate_latest, self)


def new_registry(service: str, version: str) -> Registry:
    """Return a registry with `joulie_build_info{service,version}` and the process's memory, CPU and open files."""
    # The creation time of counters is of no use here and doubles the series.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = Registry()
    ProcessCollector(registry=registry)
    info = Gauge(
        "joulie_build_info", "Always 1; service and version are labels.", ("service", "version"), registry=registry
    )
    info.labels(service, version).set(1)
    return registry
