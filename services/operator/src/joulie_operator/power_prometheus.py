"""Power readings from Prometheus: one query for all nodes, polled in the background.

The query answers watts per node; a counter of joules is turned into watts by the query itself, as in the
default for Kepler. A series names its node by the first of `NODE_LABELS` whose value is a node's name; several series
of one node (its sockets, its zones, its parts) are added up. Where all of them carry `part="cpu"`, the node's GPUs are
not in the sum.

A series of 0 W is a counter that stands still, and no measurement, and neither is one without a number: GPUs of which
one measures nothing are not in the sum, and a sum that lacks any other series would pass for a cooler node, so it is no
reading at all.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

import structlog

from joulie_api.failure_log import FailureLog
from joulie_api.prometheus import PrometheusSample, QueryError
from joulie_core.kinds.node_twin import MeasurementSource
from joulie_core.names import NodeName
from joulie_core.plausible import reading_watts
from joulie_operator.power import PowerSample
from joulie_operator.prometheus import Prometheus

_NODE: Final = "node_name, exported_instance, instance"
#: Packages stay apart, so that one whose counter stands still is seen.
_GROUP: Final = f"sum by ({_NODE}, zone, path, package)"
#: Joules per second are watts. `irate`, because `rate` spreads the first samples of a counter that has just appeared
#: over the whole range, and would call every node almost idle for minutes after its exporter started.
_CPU: Final = (
    f'{_GROUP} (irate(kepler_node_cpu_joules_total{{zone=~"package.*"}}[5m])'
    " or irate(kepler_node_package_joules_total[5m]))"
)
_GPU: Final = f"sum by ({_NODE}) (irate(kepler_node_gpu_joules_total[5m]))"
_PLATFORM: Final = f"{_GROUP} (irate(kepler_node_platform_joules_total[5m]))"
#: Packages and GPUs as Kepler of either generation counts them (from 0.10 on by zone); where it counts no packages, the
#: whole platform. Source: Kepler, metrics documentation.
KEPLER_QUERY: Final = (
    f'label_replace({_CPU}, "part", "cpu", "", "") or label_replace({_GPU}, "part", "gpu", "", "")'
    f" or ({_PLATFORM} unless on ({_NODE}) {_CPU})"
)
#: Label of a series that is about one part of its node only.
PART_LABEL: Final = "part"
CPU_PART: Final = "cpu"
GPU_PART: Final = "gpu"
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
    """Polls the query: `poll` is called at intervals, `reading` is the answer."""

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
        self.interval_s = interval_s
        self._readings: dict[NodeName, PowerSample] = {}
        log = _log.bind(source=source)
        self._query_failures = FailureLog(log, failed="power query failed", recovered="power query recovered")
        self._node_failures = FailureLog(log, failed="power reading failed", recovered="power reading recovered")

    def reading(self, name: NodeName) -> PowerSample | None:
        """Return the latest reading of the node."""
        return self._readings.get(name)

    async def poll(self) -> None:
        """Query once; a failed query leaves the readings as they are, and they age."""
        try:
            samples = await self._prometheus.query(self._query)
        except QueryError as error:
            self._query_failures.failed(error)
            return
        names = self._nodes()
        found: dict[NodeName, list[PrometheusSample]] = {}
        for sample in samples:
            name = node_of(sample, names)
            if name is not None:
                found.setdefault(name, []).append(sample)
        if found or not names:
            self._query_failures.recovered()
        else:
            self._query_failures.failed("no series names a managed node")
        now = asyncio.get_running_loop().time()
        kept = {name: reading for name, reading in self._readings.items() if name in names}
        fresh = {name: self._reading(of_node, now) for name, of_node in found.items()}
        self._report(fresh, names)
        self._readings = kept | {name: reading for name, reading in fresh.items() if reading is not None}

    def _reading(self, samples: list[PrometheusSample], now: float) -> PowerSample | None:
        """Return the sum of a node's series; None where one that has to be in it measures nothing."""
        # An infinite value is a division by zero in the query, and no reading that is too high.
        still = {
            _part(sample)
            for sample in samples
            if reading_watts(sample.value) is None or not math.isfinite(sample.value)
        }
        parts = {_part(sample) for sample in samples} - still
        if still - {GPU_PART} or parts <= {GPU_PART}:
            return None
        # Beyond all numbers it is infinite, and judged as too high; math.fsum would raise.
        watts = sum(sample.value for sample in samples if _part(sample) in parts)
        return PowerSample(watts, now, self._source, with_gpus=parts != {CPU_PART})

    def _report(self, fresh: Mapping[NodeName, PowerSample | None], names: Collection[NodeName]) -> None:
        self._node_failures.retain(lambda subject: subject["node"] in names)
        for name, reading in fresh.items():
            if reading is None:
                self._node_failures.failed("a series has no power above 0 W", node=name)
            else:
                self._node_failures.recovered(node=name)


def _part(sample: PrometheusSample) -> str:
    return sample.labels.get(PART_LABEL, "")


def node_of(sample: PrometheusSample, names: Collection[NodeName]) -> NodeName | None:
    """Return the node that a series is about; a port behind the name does not matter."""
    for label in NODE_LABELS:
        value = sample.labels.get(label, "")
        for text in (value, value.rpartition(":")[0]):
            if text in names:
                return NodeName(text)
    return None
