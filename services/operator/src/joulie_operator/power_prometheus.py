"""Power readings from Prometheus: one query for all nodes, polled in the background.

The query answers watts per node; a counter of joules is turned into watts by the query itself (`rate`), as in the
default for Kepler. A series names its node by the first of `NODE_LABELS` whose value is a node's name; several series
of one node (its sockets, its zones) are added up.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import structlog

from joulie_core.kinds.node_twin import MeasurementSource
from joulie_core.names import NodeName
from joulie_operator.power import Reading
from joulie_operator.prometheus import Prometheus, QueryError, Sample

#: Joules per second are watts. Kepler 0.10 and later, CPU packages of a node.
KEPLER_QUERY: Final = 'sum by (node_name) (rate(kepler_node_cpu_joules_total{zone=~"package.*"}[2m]))'
#: Where exporters and scrape configurations put the node's name, most specific first.
NODE_LABELS: Final = (
    "node",
    "node_name",
    "nodename",
    "kubernetes_node",
    "exported_node",
    "exported_instance",
    "instance",
)

_log = structlog.get_logger()


class PrometheusReadings:
    """Polls the query; `run` is a task, `reading` the answer."""

    def __init__(
        self,
        prometheus: Prometheus,
        query: str,
        nodes: Callable[[], Collection[NodeName]],
        *,
        source: MeasurementSource,
        interval_s: float,
    ) -> None:
        self._prometheus = prometheus
        self._query = query
        self._nodes = nodes
        self._source = source
        self._interval_s = interval_s
        self._readings: dict[NodeName, Reading] = {}
        self._problem: str | None = None

    def reading(self, name: NodeName) -> Reading | None:
        """Return the latest reading of the node."""
        return self._readings.get(name)

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            await self.poll()
            await asyncio.sleep(self._interval_s)

    async def poll(self) -> None:
        """Ask once; a failed query leaves the readings as they are, and they age."""
        try:
            samples = await self._prometheus.query(self._query)
        except QueryError as error:
            self._report(str(error))
            return
        names = self._nodes()
        watts: dict[NodeName, float] = {}
        for sample in samples:
            name = node_of(sample, names)
            if name is not None:
                watts[name] = watts.get(name, 0.0) + sample.value
        self._report(None if watts or not names else "no series names a managed node")
        now = asyncio.get_running_loop().time()
        kept = {name: reading for name, reading in self._readings.items() if name in names}
        self._readings = kept | {name: Reading(value, now, self._source) for name, value in watts.items()}

    def _report(self, problem: str | None) -> None:
        """Log a change of the problem, not each poll."""
        if problem == self._problem:
            return
        self._problem = problem
        if problem is None:
            _log.info("power query works", source=self._source)
        else:
            _log.warning("power query has no answer", source=self._source, problem=problem)


def node_of(sample: Sample, names: Collection[NodeName]) -> NodeName | None:
    """Return the node that a series is about; a port behind the name does not matter."""
    for label in NODE_LABELS:
        value = sample.labels.get(label, "")
        for text in (value, value.rpartition(":")[0]):
            if text in names:
                return NodeName(text)
    return None
