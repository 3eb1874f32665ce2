"""Dashboards and alerts on the metrics of a running system, scraped by a real Prometheus."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from tests.e2e.bmc import PASSWORD, USER, put_bmc
from tests.e2e.resource_manager import resource_manager
from tests.e2e.system import System
from tests.e2e.waiting import eventually
from tests.prometheus_server import PrometheusServer, needs_prometheus
from tools.dashboards.boards import BOARDS
from tools.dashboards.panels import all_queries

from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_agent.class_limits.enforcement import EnforcementCounts
from joulie_agent.class_limits.metrics import enforcement_families, limit_families
from joulie_agent.class_limits.shadow import ShadowLimit, ShadowState
from joulie_api.metrics import NodeSeriesCollector, Registry
from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES, POWER_DOMAINS
from joulie_containers.resources.metrics import core_enforcement_series
from joulie_core.class_caps.gpu_limits import GpuLimit, LimitReason
from joulie_core.class_caps.held_limit import HeldLimit
from joulie_core.labels import HW_GPU_COUNT, MANAGED, RACK
from joulie_core.timestamps import rfc3339
from joulie_sim.annotations import DURATION
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import serve_bmc
from joulie_sim.stack.service import JoulieService, Service

pytestmark = [pytest.mark.e2e, needs_prometheus]

_ALERTS = Path(__file__).parents[2] / "helm" / "joulie" / "alerts.yaml"


@pytest_asyncio.fixture
async def resources_port(tmp_path: Path) -> AsyncIterator[int]:
    """The metrics' port of a resource manager."""
    directory = tmp_path / "resources"
    directory.mkdir()
    async with resource_manager(directory) as port:
        yield port


@pytest_asyncio.fixture
async def outofband(system: System, tmp_path: Path) -> AsyncIterator[JoulieService]:
    """The out-of-band service, which has capped one server and powered it on."""
    env = {"BMC_POLL_INTERVAL": "1s", "BMC_TRANSITION_INTERVAL": "1s", "LEASE_RETRY_PERIOD": "500ms"}
    service = await system.stack.start(Service.OUTOFBAND, env=env)
    profile = PROFILES["openbmc"]
    server = SimulatedServer(profile, clock=time.monotonic, on=False)
    node = min(await system.nodes_of(system.agents[0]))
    directory = tmp_path / "bmc"
    async with serve_bmc(SimulatedBmc(profile, server, user=USER, password=PASSWORD), directory) as served:
        cap = {"watts": 300, "expiresAt": rfc3339(time.time() + 600, "seconds")}
        await put_bmc(system.view, served, node, desiredPower="On", cap=cap)

        async def booted() -> None:
            status = json.loads(await system.view.client.get(NODE_BMCS, node)).get("status", {})
            if "pendingBoot" in status:
                info = {"status": {"nodeInfo": {"bootID": "woken"}}}
                await system.view.client.merge_patch(NODES, node, info, subresource="status")
            assert "bootSeconds" in status, status

        await eventually(booted, within_s=30)
        yield service


@pytest_asyncio.fixture
async def class_limits_port() -> AsyncIterator[int]:
    """The port of the series that the agent and the resource manager of a node have while limits by class are set.

    The agents of the system serve simulated nodes, and follow no holders of GPUs, and its resource manager has no
    actuator; the series are made by their code.
    """
    limited = ShadowLimit(
        HeldLimit(GpuLimit(LimitReason.CLOCK_LIMITED, clock_mhz=1_800)),
        effect=None,
        held_mhz=1_980,
        clock_bound=ClockBound.NONE,
        in_force_watts=None,
        in_force_mhz=1_800,
        in_force_known=True,
    )
    enforced = SimpleNamespace(counts=EnforcementCounts(), limited=1, without_consent=0)
    cores = SimpleNamespace(limited=(), without_consent=(), counts=SimpleNamespace(lifts=0, late=0))
    registry = Registry()
    registry.register(NodeSeriesCollector(lambda: core_enforcement_series(cores)))  # type: ignore[arg-type]
    registry.register(NodeSeriesCollector(lambda: limit_families({"gpu-0": ShadowState({"GPU-a": limited})})))
    registry.register(NodeSeriesCollector(lambda: enforcement_families("gpu-0", enforced)))  # type: ignore[arg-type]

    async def scraped(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    served = web.Application()
    served.add_routes([web.get("/metrics", scraped)])
    async with TestServer(served) as server:
        assert server.port is not None
        yield server.port


@pytest_asyncio.fixture
async def prometheus(
    system: System, outofband: JoulieService, resources_port: int, class_limits_port: int, tmp_path: Path
) -> AsyncIterator[PrometheusServer]:
    """Prometheus, which scrapes every service of the system."""
    stack = system.stack
    targets = {
        "operator": [stack.operator.metrics_port],
        "agent": [agent.metrics_port for agent in stack.agents],
        "extender": [stack.extender.metrics_port],
        "simulator": [stack.sim.metrics_port],
        "resources": [resources_port],
        "class-limits": [class_limits_port],
        "outofband": [outofband.metrics_port],
    }
    server = PrometheusServer(tmp_path, targets, rules=[_ALERTS])
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.mark.system(
    operator={
        "POLICY_TYPE": "static_partition",
        "STATIC_HP_FRAC": "0.5",
        "SLEEP_ENABLED": "true",
        "SLEEP_INTERVAL": "500ms",
        "SAVINGS_ENABLED": "true",
        "POWER_DOMAINS": "Enforce",
        "POWER_OVERSUBSCRIPTION": "On",
        "LIFT_CLASS_LIMITS": "true",
    },
    agent={"RECONCILE_INTERVAL": "2s", "POWER_BUDGETS": "On"},
)
async def test_every_query_of_the_dashboards_returns_data(system: System, prometheus: PrometheusServer) -> None:
    policy = {"metadata": {"name": "all"}, "spec": {"nodeSelector": {MANAGED: "true"}, "mode": "Recommend"}}
    body = {"apiVersion": NODE_SLEEP_POLICIES.api_version, "kind": "NodeSleepPolicy", **policy}
    await system.view.client.create(NODE_SLEEP_POLICIES, body)
    await _put_rack(system)
    fast = await system.view.create_pods(4, "fast", cpu="2", workload_class="performance")
    slow = await system.view.create_pods(4, "slow", cpu="2", annotations={DURATION: "1"})
    await eventually(lambda: system.view.placed([*fast, *slow]), within_s=60)

    async def answered() -> None:
        empty = [(board, query) for board, query in all_queries(BOARDS) if not await prometheus.query(query)]
        assert not empty, empty

    await eventually(answered, within_s=90)


async def _put_rack(system: System) -> None:
    """Limit four nodes of known power together, below what they may draw, with a breaker that carries more."""
    for number in range(4):
        await system.view.label(f"epyc-9654-{number}", {HW_GPU_COUNT: "0", RACK: "rack-1"})
    fields: dict[str, Any] = {
        "mode": "Enforce",
        "nodeSelector": {RACK: "rack-1"},
        "limitWatts": 2_500,
        "onLostControl": "Release",
        "oversubscription": {"breaker": [{"loadPercent": 130, "seconds": 60}], "coolingSeconds": 60},
    }
    body = {"apiVersion": POWER_DOMAINS.api_version, "kind": "PowerDomain", "metadata": {"name": "rack-1"}}
    await system.view.client.create(POWER_DOMAINS, {**body, "spec": fields})


async def test_an_alert_names_the_nodes_that_no_agent_serves(system: System, prometheus: PrometheusServer) -> None:
    rules = yaml.safe_load(_ALERTS.read_text())["groups"][0]["rules"]
    expressions = {rule["alert"]: rule["expr"] for rule in rules if "alert" in rule}

    async def firing(alert: str) -> set[str]:
        return {sample["metric"].get("node", "") for sample in await prometheus.query(expressions[alert])}

    async def calm() -> None:
        for alert in ("JoulieAgentAbsent", "JoulieOperatorAbsent", "JoulieExtenderAbsent", "JoulieCapFailed"):
            assert await firing(alert) == set(), alert

    await eventually(calm, within_s=60)
    lost = system.agents[0]
    nodes = await system.nodes_of(lost)
    await lost.stop()

    async def alerted() -> None:
        assert await firing("JoulieAgentAbsent") == nodes

    await eventually(alerted, within_s=60)
