"""Metrics of the data centre: ambient temperature, IT and cooling power, by zone and by rack where they are known.

Polled from Prometheus in the background. A failed query keeps the last good value, which is unknown once it is older
than `max_age_s`; a metric that is not configured is unknown.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

import structlog

from joulie_api.failure_log import FailureLog
from joulie_api.prometheus import QueryError
from joulie_core.twin import LinearPue, MeasuredPue, PueModel
from joulie_core.twin.pue import HIGHEST_PLAUSIBLE
from joulie_operator.prometheus import Prometheus

#: Queries of zones and racks under way at once.
IN_FLIGHT = 8

_log = structlog.get_logger()


class FacilityMetric(StrEnum):
    """A metric of the facility that can be queried."""

    AMBIENT_C = "ambient"
    IT_WATTS = "it_power"
    COOLING_WATTS = "cooling_power"
    ZONE_AMBIENT_C = "zone_ambient"
    RACK_WATTS = "rack_power"


@dataclass(frozen=True, slots=True)
class MetricScope:
    """One metric of the whole facility (no name), of a cooling zone, or of a rack."""

    metric: FacilityMetric
    name: str = ""


class Facility:
    """The latest values; `run` is a task, the other methods return what it read last."""

    def __init__(
        self,
        prometheus: Prometheus,
        queries: Mapping[FacilityMetric, str],
        *,
        zones: Callable[[], Collection[str]],
        racks: Callable[[], Collection[str]],
        interval_s: float,
        max_age_s: float,
    ) -> None:
        self._prometheus = prometheus
        self._queries = {metric: query for metric, query in queries.items() if query}
        self._zones = zones
        self._racks = racks
        self.interval_s = interval_s
        self._max_age_s = max_age_s
        self._values: dict[MetricScope, tuple[float, float]] = {}
        self._failures = FailureLog(
            _log, failed="facility metric unavailable", recovered="facility metric available again"
        )
        self._pue_failures = FailureLog(
            _log, failed="facility PUE implausible", recovered="facility PUE plausible again"
        )

    def ambient_c(self, zone: str | None, now: float) -> float | None:
        """Return the ambient temperature of a zone, else of the facility; None where both are unknown."""
        local = self._value(MetricScope(FacilityMetric.ZONE_AMBIENT_C, zone), now) if zone else None
        return local if local is not None else self._value(MetricScope(FacilityMetric.AMBIENT_C), now)

    def rack_watts(self, rack: str, now: float) -> float | None:
        """Return the measured draw of a rack."""
        return self._value(MetricScope(FacilityMetric.RACK_WATTS, rack), now)

    def pue(self, now: float) -> PueModel:
        """Return the measured PUE, or the model where the facility's power was never configured."""
        if not self._queries.keys() >= {FacilityMetric.IT_WATTS, FacilityMetric.COOLING_WATTS}:
            return LinearPue()
        it_watts, cooling_watts = (
            self._value(MetricScope(metric), now) for metric in (FacilityMetric.IT_WATTS, FacilityMetric.COOLING_WATTS)
        )
        return MeasuredPue(it_watts, cooling_watts)

    def age_s(self, scope: MetricScope, now: float) -> float | None:
        """Return the age of a value; None where there is none."""
        value = self._values.get(scope)
        return None if value is None else now - value[1]

    async def poll(self) -> None:
        """Query every configured metric once."""
        scopes = self._scopes()
        for gone in self._values.keys() - set(scopes):
            del self._values[gone]
        self._failures.retain(lambda subject: MetricScope(subject["metric"], subject["scope"]) in scopes)
        slots = asyncio.Semaphore(IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            for scope, query in scopes.items():
                group.create_task(self._query(scope, query, slots))
        self._judge_pue(asyncio.get_running_loop().time())

    def _judge_pue(self, now: float) -> None:
        """Log measurements that make no PUE, which is unknown meanwhile."""
        measured = self.pue(now)
        if isinstance(measured, MeasuredPue) and not measured.plausible:
            self._pue_failures.failed(
                f"{measured.it_watts} W of IT and {measured.cooling_watts} W of cooling power make no PUE between 1 and"
                f" {HIGHEST_PLAUSIBLE:g}",
                cause="implausible",
            )
        else:
            self._pue_failures.recovered()

    def _scopes(self) -> dict[MetricScope, str]:
        scopes: dict[MetricScope, str] = {}
        for metric, query in self._queries.items():
            match metric:
                case FacilityMetric.ZONE_AMBIENT_C:
                    scopes |= {MetricScope(metric, zone): query.replace("{zone}", zone) for zone in self._zones()}
                case FacilityMetric.RACK_WATTS:
                    scopes |= {MetricScope(metric, rack): query.replace("{rack}", rack) for rack in self._racks()}
                case FacilityMetric.AMBIENT_C | FacilityMetric.IT_WATTS | FacilityMetric.COOLING_WATTS:
                    scopes[MetricScope(metric)] = query
        return scopes

    async def _query(self, scope: MetricScope, query: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                value = await self._prometheus.value(query)
            except QueryError as error:
                self._failures.failed(error, metric=scope.metric, scope=scope.name)
                return
        self._failures.recovered(metric=scope.metric, scope=scope.name)
        self._values[scope] = (value, asyncio.get_running_loop().time())

    def _value(self, scope: MetricScope, now: float) -> float | None:
        value = self._values.get(scope)
        return value[0] if value is not None and now - value[1] <= self._max_age_s else None
