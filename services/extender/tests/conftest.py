"""An extender in the test's process: real watches of the in-process API server, real HTTP in front."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from joulie_api.addresses import Address
from joulie_api.claims import no_claims
from joulie_api.client import KubeClient
from joulie_api.http_server import HttpLog, HttpServer
from joulie_api.metrics import Registry
from joulie_api.settings import read_settings
from joulie_api.wire import decode_kind, decode_node
from joulie_core.kinds.node_hardware import NodeHardware
from joulie_extender.app import make_endpoints, make_table
from joulie_extender.bodies import Bodies, BodyLimits
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.debug import Debug
from joulie_extender.direct_front import DirectFront
from joulie_extender.handlers import Handlers
from joulie_extender.metrics import ExtenderMetrics
from joulie_extender.settings import ExtenderSettings
from joulie_extender.table import NodeTable
from joulie_extender.twins import read_twin
from joulie_extender.watches import ExtenderWatches
from joulie_testing.api import FakeApiServer, make_node_hardware, make_node_twin

#: Where the tests' wall clock stands, and what their twins are dated.
NOW_S = 1_800_000_000.0
NOW = datetime.fromtimestamp(NOW_S, UTC).isoformat().replace("+00:00", "Z")


@dataclass
class Clock:
    """A wall clock that stands until it is moved."""

    now_s: float = NOW_S

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Extender:
    """A running extender and everything to look at it with."""

    http: aiohttp.ClientSession
    table: NodeTable
    feeds: ExtenderWatches
    registry: Registry
    clock: Clock
    api: FakeApiServer
    budget: ByteBudget

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Status and decoded answer (text where it is no JSON); bytes are sent as they are."""
        return await _post(self.http, path, body)

    async def scores(self, pod: Mapping[str, Any], *names: str) -> dict[str, int]:
        """Scores as kube-scheduler gets them in its cache-capable mode."""
        status, answer = await self.post("/prioritize", {"Pod": pod, "Nodes": None, "NodeNames": list(names)})
        assert status == 200, answer
        assert [each["Host"] for each in answer] == list(names)
        return {each["Host"]: each["Score"] for each in answer}

    async def wait_for(self, condition: Callable[[], object], *, timeout_s: float = 30.0) -> None:
        """Return when the watches have brought what the condition waits for."""
        async with asyncio.timeout(timeout_s):
            while not condition():  # noqa: ASYNC110 - the table does not report its changes
                await asyncio.sleep(0.005)


@pytest.fixture
def make_twin():
    """A NodeTwin as the operator writes it; None leaves a part out."""

    def make(
        name: str,
        schedulable_class: str | None = "performance",
        *,
        measured: float | None = 300,
        capped: float | None = 600,
        cooling: float | None = 20,
        trend: float = 0,
        updated: str | None = NOW,
        **status: Any,
    ) -> dict[str, Any]:
        return make_node_twin(
            name,
            schedulable_class,
            measured_watts=measured,
            capped_watts=capped,
            tdp_watts=1000,
            trend_watts_per_min=trend,
            last_updated=updated,
            status={"predictedCoolingStressScore": cooling, **status},
        )

    return make


@pytest.fixture
def make_hardware():
    """A NodeHardware as the agent writes it."""

    def make(name: str, *, cores: int = 128, watts: float = 700, gpus: int = 0, gpu_watts: float = 400):
        return make_node_hardware(
            name,
            cpu={
                "sockets": 2,
                "totalCores": cores,
                "capRange": {"minWattsPerSocket": 50, "maxWattsPerSocket": watts / 2},
            },
            gpu={"present": gpus > 0, "count": gpus, "capRangePerGpu": {"minWatts": 100, "maxWatts": gpu_watts}},
        )

    return make


@dataclass
class Feeds:
    """What handlers see of the watches."""

    synced: bool = True
    refreshes: int = 0
    claims: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(gpus=no_claims))

    def refresh(self) -> None:
        self.refreshes += 1

    def stale_reason(self) -> str | None:
        return None if self.synced else "not synced"


@dataclass
class Unwatched:
    """The endpoints without watches and without the limits of connections: what a test enters is in the table."""

    http: TestClient[Any, Any]
    handlers: Handlers
    table: NodeTable
    feeds: Feeds
    bodies: Bodies
    budget: ByteBudget
    registry: Registry

    def put(self, *objects: Mapping[str, Any]) -> None:
        """Enter new objects."""
        for each in objects:
            name, raw = each["metadata"]["name"], msgspec.json.encode(each)
            if each["kind"] == "NodeTwin":
                self.table.on_twin(name, None, read_twin(raw))
            elif each["kind"] == "NodeHardware":
                self.table.on_hardware(name, None, decode_kind(NodeHardware)(raw).model.status)
            else:
                self.table.on_node(name, None, decode_node(raw))

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Return status and decoded answer, or its text where it is no JSON; bytes are sent as they are."""
        return await _post(self.http, path, body)


async def _post(http: Any, path: str, body: Any) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    async with http.post(path, data=BytesIO(raw)) as answer:
        is_json = answer.content_type == "application/json"
        return answer.status, await (answer.json() if is_json else answer.text())


@pytest.fixture
async def unwatched() -> AsyncIterator[Unwatched]:
    table = make_table(read_settings(ExtenderSettings, {}), wall_clock=Clock())
    feeds, registry, budget = Feeds(), Registry(), ByteBudget(1 << 20)
    bodies = Bodies(1 << 19, budget)
    handlers = Handlers(table, feeds, ExtenderMetrics(registry, table), bodies)  # type: ignore[arg-type]
    endpoints = make_endpoints(handlers, Debug(table, feeds, bodies))  # type: ignore[arg-type]
    async with TestClient(TestServer(endpoints)) as http:
        yield Unwatched(http, handlers, table, feeds, bodies, budget, registry)


Start = Callable[..., Awaitable[Extender]]


@pytest.fixture
async def start(fake_api: FakeApiServer, fake_client: KubeClient) -> AsyncIterator[Start]:
    """Starts an extender with the given environment; it has synced unless told not to wait."""
    async with AsyncExitStack() as stack:

        async def run(*, wait: bool = True, **env: str) -> Extender:
            clock = Clock()
            settings = read_settings(ExtenderSettings, env)
            table = make_table(settings, wall_clock=clock)
            feeds = ExtenderWatches(fake_client, table, cache_ttl_s=settings.cache_ttl)
            registry = Registry()
            limits = BodyLimits.of_memory(None)
            budget = ByteBudget(limits.all_bytes)
            bodies = Bodies(limits.one_bytes, budget)
            metrics = ExtenderMetrics(registry, table)
            handlers = Handlers(table, feeds, metrics, bodies)
            endpoints = make_endpoints(handlers, Debug(table, feeds, bodies))
            server = HttpServer(
                endpoints, HttpLog(), front=DirectFront(handlers.direct(), budget), on_error=metrics.count_error
            )
            port = await server.start(Address("127.0.0.1", 0))
            stack.push_async_callback(server.close)
            http = await stack.enter_async_context(aiohttp.ClientSession(f"http://127.0.0.1:{port}"))
            watches = [asyncio.create_task(work, name=name) for name, work in feeds.runs()]
            stack.push_async_callback(_end, watches)
            if wait:
                await asyncio.wait_for(feeds.wait_synced(), 10)
            return Extender(http, table, feeds, registry, clock, fake_api, budget)

        yield run


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
