"""Metrics of the extender; the names are a contract with dashboards.

Guarantees that a request touches two counters and no per-node series: those are made from the table when they are
scraped and vanish with their node. Source: docs/decisions/0013-conventions.md.
"""

from collections.abc import Iterator
from enum import StrEnum
from http import HTTPStatus
from time import perf_counter
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric

from joulie_api.metrics import NodeSeriesCollector, Registry, gauge
from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.rounding import round_half_away
from joulie_core.scoring.formula import MAX_SCORE
from joulie_extender.node_entry import NodeEntry
from joulie_extender.table import NodeTable

#: From a request of a few hundred names to one of thousands of full nodes.
_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 5.0)


class ErrorReason(StrEnum):
    """Reason why a request was answered with an error."""

    BAD_REQUEST = "bad_request"
    #: Not received and answered in time.
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    #: The bodies of concurrent requests are too large together.
    OVERLOADED = "overloaded"
    #: The cluster is not known yet.
    NOT_SYNCED = "not_synced"
    INTERNAL = "internal"


_REASONS: Final = {
    HTTPStatus.REQUEST_TIMEOUT: ErrorReason.TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ErrorReason.TOO_LARGE,
    HTTPStatus.TOO_MANY_REQUESTS: ErrorReason.OVERLOADED,
    HTTPStatus.SERVICE_UNAVAILABLE: ErrorReason.NOT_SYNCED,
}


def _error_reason(status: int) -> ErrorReason:
    client = status < HTTPStatus.INTERNAL_SERVER_ERROR
    return _REASONS.get(HTTPStatus(status), ErrorReason.BAD_REQUEST if client else ErrorReason.INTERNAL)


class Verb:
    """Count and duration of one kind of request."""

    def __init__(self, name: str, registry: Registry) -> None:
        requests = Counter(
            f"joulie_scheduler_{name}_requests", f"Answered /{name} requests.", ("workload_class",), registry=registry
        )
        durations = Histogram(
            f"joulie_scheduler_{name}_duration_seconds",
            f"Time from the first byte of a /{name} request to its reply.",
            ("workload_class",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._requests = {each: requests.labels(each) for each in WorkloadClass}
        self._durations = {each: durations.labels(each) for each in WorkloadClass}

    def observe(self, workload_class: WorkloadClass, started: float) -> None:
        """Count a request that began at `started`, a reading of `perf_counter`."""
        self._requests[workload_class].inc()
        self._durations[workload_class].observe(perf_counter() - started)


class ExtenderMetrics:
    """All series of the extender."""

    def __init__(self, registry: Registry, table: NodeTable) -> None:
        self.filter = Verb("filter", registry)
        self.prioritize = Verb("prioritize", registry)
        errors = Counter(
            "joulie_scheduler_request_errors",
            "Requests of kube-scheduler that were answered with an error.",
            ("verb", "reason"),
            registry=registry,
        )
        self._errors = {
            f"/{verb}": {each: errors.labels(verb, each) for each in ErrorReason} for verb in ("filter", "prioritize")
        }
        #: The demand that was scored last, by workload class.
        self.last_demands: dict[WorkloadClass, PodDemand] = {}
        self._table = table
        # In the rendering thread: it reads single values of a copied list, and 5,000 nodes would hold up requests.
        registry.register(NodeSeriesCollector(self._node_series, in_thread=True))

    def count_error(self, path: str, status: int) -> None:
        """Count a request that was answered with a status of 400 or more, if it was one of kube-scheduler's."""
        by_reason = self._errors.get(path)
        if by_reason is not None:
            by_reason[_error_reason(status)].inc()

    def _node_series(self) -> Iterator[Metric]:
        entries = list(self._table)
        yield gauge(
            "joulie_scheduler_node_headroom_score",
            "Percent of the node's capped power that is free, pods in flight taken off.",
            ("node",),
            (((each.name,), each.state.headroom_pct()) for each in entries if each.state and not each.stale),
        )
        yield gauge(
            "joulie_scheduler_stale_twin_data",
            "1 where the node's twin is missing or too old.",
            ("node",),
            (((each.name,), float(each.stale)) for each in entries),
        )
        yield gauge(
            "joulie_scheduler_final_node_score",
            "Score that the node would get now for the pod of the class that was scored last.",
            ("node", "workload_class"),
            (
                ((each.name, workload_class), self._score(each, workload_class, demand))
                for workload_class, demand in list(self.last_demands.items())
                for each in entries
            ),
        )

    def _score(self, entry: NodeEntry, workload_class: WorkloadClass, demand: PodDemand) -> int:
        row, config = self._table.row(entry, workload_class), self._table.config
        score = row.score(config.score.size(demand), self._table.terms.perf_pressure) * config.score_max / MAX_SCORE
        return round_half_away(score)
