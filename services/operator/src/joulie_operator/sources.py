"""The power sources and the facility metrics that the settings select, and their polling in the background."""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import NoReturn, Protocol

import aiohttp

from joulie_api.failures import Failures
from joulie_core import labels
from joulie_core.kinds.node_twin import MeasurementSource
from joulie_core.names import NodeName
from joulie_operator.cluster import Cluster
from joulie_operator.facility import Facility, FacilityMetric
from joulie_operator.power import PowerSource
from joulie_operator.power_http import HttpReadings
from joulie_operator.power_prometheus import KEPLER_QUERY, PrometheusReadings
from joulie_operator.prometheus import Prometheus
from joulie_operator.settings import NodePowerSource, PowerSettings


class Polled(Protocol):
    """Source that is polled over the network, at intervals."""

    interval_s: float

    async def poll(self) -> None:
        """Read everything once."""


class PolledSource(PowerSource, Polled, Protocol):
    """A power source that is polled over the network."""


async def poll_forever(
    poll: Callable[[], Awaitable[None]], *, interval_s: float, failures: Failures, work: str
) -> NoReturn:
    """Call `poll` at intervals until cancelled; an unexpected error, counted as that of `work`, ends one call only."""
    loop = asyncio.get_running_loop()
    while True:
        due_at = loop.time() + interval_s
        with failures.contained(work):
            await poll()
        await asyncio.sleep(max(0.0, due_at - loop.time()))


def build_power_sources(
    settings: PowerSettings, session: aiohttp.ClientSession, nodes: Callable[[], AbstractSet[NodeName]]
) -> tuple[PolledSource, ...]:
    """Return the configured source, none for `auto`: the agents' readings come by watch."""
    chosen, interval_s = settings.operator_node_power_source, settings.operator_node_power_poll_interval
    if chosen is NodePowerSource.AUTO:
        return ()
    if chosen is NodePowerSource.HTTP:
        endpoint = settings.operator_node_power_http_endpoint
        return (HttpReadings(session, endpoint, nodes, interval_s=interval_s),)
    kepler = chosen is NodePowerSource.KEPLER
    return (
        PrometheusReadings(
            Prometheus(session, settings.operator_node_power_prometheus_address),
            settings.operator_node_power_prometheus_query or KEPLER_QUERY,
            nodes,
            source=MeasurementSource.KEPLER if kepler else MeasurementSource.PROMETHEUS,
            interval_s=interval_s,
        ),
    )


def build_facility(settings: PowerSettings, session: aiohttp.ClientSession, cluster: Cluster) -> Facility | None:
    """Return the poller of the facility metrics; None where they are off."""
    if not settings.enable_facility_metrics:
        return None
    return Facility(
        Prometheus(session, settings.facility_prometheus_address),
        {
            FacilityMetric.AMBIENT_C: settings.facility_ambient_temp_metric,
            FacilityMetric.IT_WATTS: settings.facility_it_power_metric,
            FacilityMetric.COOLING_WATTS: settings.facility_cooling_power_metric,
            FacilityMetric.ZONE_AMBIENT_C: settings.facility_zone_ambient_metric_template,
            FacilityMetric.RACK_WATTS: settings.facility_rack_power_metric_template,
        },
        zones=lambda: _values(cluster, labels.COOLING_ZONE),
        racks=lambda: _values(cluster, labels.RACK),
        interval_s=settings.facility_poll_interval,
        max_age_s=settings.facility_max_age,
    )


def _values(cluster: Cluster, key: str) -> set[str]:
    return {value for node in cluster.nodes.values() if (value := node.labels.get(key))}
