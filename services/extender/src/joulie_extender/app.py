"""The extender as a process: watches in, answers out.

Guarantees that both ports are open from the start, that /readyz turns good only after the first sync and bad again when
the API server has been silent for too long, and that the heap is frozen once the tables stand, so that a full garbage
collection does not walk them in the middle of a request.
"""

import asyncio
import time
from collections.abc import Callable

import structlog
from aiohttp import web

from joulie_api.app import App, settle_heap
from joulie_api.client import KubeClient
from joulie_api.container_memory import memory_limit_bytes
from joulie_core.scoring.registry import SCORE_POLICIES
from joulie_extender import VERSION
from joulie_extender.bodies import Bodies, BodyLimits
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.debug import Debug
from joulie_extender.direct_front import DirectFront
from joulie_extender.handlers import Handlers
from joulie_extender.hardware import PowerReader
from joulie_extender.metrics import ExtenderMetrics
from joulie_extender.settings import ExtenderSettings
from joulie_extender.table import NodeTable
from joulie_extender.table_config import TableConfig
from joulie_extender.watches import ExtenderWatches

SERVICE = "joulie-extender"

_log = structlog.get_logger()


async def run(settings: ExtenderSettings) -> None:
    """Serve until the process is stopped."""
    async with (
        App(settings, service=SERVICE, version=VERSION) as app,
        await KubeClient.connect(kubeconfig=settings.kubeconfig, user_agent=f"{SERVICE}/{VERSION}") as client,
    ):
        table = make_table(settings)
        feeds = ExtenderWatches(
            client,
            table,
            cache_ttl_s=settings.cache_ttl,
            device_classes=settings.device_class_gpus_json,
            request_log_limit=app.request_log_limit,
        )
        app.health.add_ready("watches", feeds.stale_reason)
        limits = BodyLimits.of_memory(memory_limit_bytes())
        budget = ByteBudget(limits.all_bytes)
        bodies = Bodies(limits.one_bytes, budget)
        metrics = ExtenderMetrics(app.registry, table)
        handlers = Handlers(table, feeds, metrics, bodies)
        endpoints = make_endpoints(handlers, Debug(table, feeds, bodies))
        await app.serve(
            "extender",
            endpoints,
            settings.extender_addr,
            front=DirectFront(handlers.direct(), budget),
            on_error=metrics.count_error,
        )
        for reflector in feeds.reflectors:
            app.report(reflector)
        for name, work in feeds.runs():
            app.spawn(name, work)
        app.spawn("settle", _settle(feeds, table), may_end=True)
        await app.wait()


def make_table(settings: ExtenderSettings, *, wall_clock: Callable[[], float] = time.time) -> NodeTable:
    """Return an empty table with the thresholds of the settings."""
    config = TableConfig(
        coefficients=settings.coefficients,
        staleness_threshold_s=settings.twin_staleness_threshold,
        telemetry_interval_s=settings.telemetry_interval,
        assumed_window_s=settings.assumed_window,
        count_in_flight=settings.count_in_flight,
        weigh_pue=settings.enable_facility_metrics,
        score_max=settings.score_max,
        score=SCORE_POLICIES[settings.score_policy],
    )
    return NodeTable(config, read_power=PowerReader(), wall_clock=wall_clock, clock=asyncio.get_running_loop().time)


def make_endpoints(handlers: Handlers, debug: Debug) -> web.Application:
    """Everything that is served on the extender's own port."""
    endpoints = web.Application()  # `Bodies` limits what is received.
    endpoints.add_routes([*handlers.routes(), *debug.routes()])
    return endpoints


async def _settle(feeds: ExtenderWatches, table: NodeTable) -> None:
    await feeds.wait_synced()
    settle_heap()
    _log.info("synced", nodes=len(table))
