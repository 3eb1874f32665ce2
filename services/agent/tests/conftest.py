"""A scripted HTTP backend, and agents in the test's process: real watches, real HTTP on both sides."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession, web
from prometheus_client.parser import text_string_to_metric_families

from joulie_agent import app as agent_app
from joulie_agent.settings import AgentSettings
from joulie_api.settings import read_settings
from joulie_sim.stack.permissions import denied
from joulie_testing.api import FakeApiServer, make_node, make_node_power_profile, make_telemetry_profile

#: A cap of 60 %, which is 150 W on nodes with FACTS.
ECO_CPU: Final = {"packagePowerCapPctOfMax": 60}
FACTS: Final = {
    "cpu": {"model": "Test CPU", "sockets": 2, "capRange": {"minWattsPerSocket": 100, "maxWattsPerSocket": 250}},
    "gpu": {
        "present": True,
        "count": 4,
        "capRangePerGpu": {"minWatts": 100, "maxWatts": 400, "defaultWatts": 350},
        "capWattsPerGpu": 400,
        "currentCapWatts": 400,
    },
}


@dataclass(slots=True)
class BackendNode:
    """One node behind the backend; a test turns its knobs."""

    cpu_watts: float = 300.0
    gpu_watts: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    cap_watts: float | None = None
    throttle_pct: float = 0.0
    gpu_cap_watts: float | None = None
    #: Whether the throttle is in the telemetry.
    reports_throttle: bool = False
    #: What actions answer instead of doing it: a JSON body, a status code, raw bytes, or an event to wait for.
    script: dict[str, Any] = field(default_factory=dict)
    #: The same for telemetry.
    telemetry: Any = None

    def execute(self, body: dict[str, Any]) -> dict[str, Any]:
        match body["action"]:
            case "rapl.set_power_cap_watts":
                self.cap_watts = body["capWatts"]
                state = {"capWatts": self.cap_watts}
            case "dvfs.set_throttle_pct":
                self.throttle_pct = body["throttlePct"]
                state = {"throttlePct": self.throttle_pct}
            case "gpu.set_power_cap_watts":
                self.gpu_cap_watts = body["capWattsPerGpu"]
                state = {"capWattsPerGpu": self.gpu_cap_watts}
            case action:
                return {"result": "error", "message": f"unknown action {action}"}
        return {"result": "applied", "message": "", "state": state}

    def telemetry_body(self) -> dict[str, Any]:
        cpu = {"packagePowerWatts": self.cpu_watts, **self.facts.get("cpu", {})}
        if self.reports_throttle:
            cpu["throttlePct"] = self.throttle_pct
        answer: dict[str, Any] = {"packagePowerWatts": self.cpu_watts, "cpu": cpu}
        if self.gpu_watts is not None:
            answer["gpu"] = {"powerWatts": self.gpu_watts, **self.facts.get("gpu", {})}
        return answer


class ScriptedBackend:
    """An HTTP backend on loopback, which records its requests."""

    def __init__(self) -> None:
        self.nodes: dict[str, BackendNode] = {}
        #: (node, action) of every control request, "telemetry" for readings, in order.
        self.calls: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self._moved = asyncio.Event()

    def add(self, name: str, **knobs: Any) -> BackendNode:
        node = self.nodes[name] = BackendNode(**knobs)
        return node

    def count(self, node: str, action: str | None = None) -> int:
        return sum(1 for call in self.calls if call[0] == node and action in {None, call[1]})

    async def until(self, condition: Callable[[], object], timeout_s: float = 30.0) -> None:
        """Return when the condition holds; it is checked again after each request."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await self._moved.wait()

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.add_routes([web.get("/telemetry/{node}", self._telemetry), web.post("/control/{node}", self._control)])
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _telemetry(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["node"]
        self._note(request, name, "telemetry")
        node = self.nodes.get(name)
        if node is None:
            return web.json_response({"error": "no such node"}, status=404)
        return await self._answer(node.telemetry, node.telemetry_body)

    async def _control(self, request: web.Request) -> web.StreamResponse:
        name, body = request.match_info["node"], await request.json()
        self.bodies.append(body)
        node = self.nodes.get(name)
        if node is None:
            self._note(request, name, body["action"])
            return web.json_response({"error": "no such node"}, status=404)
        try:
            return await self._answer(node.script.get(body["action"]), lambda: node.execute(body))
        finally:
            self._note(request, name, body["action"])

    def _note(self, request: web.Request, node: str, action: str) -> None:
        self.calls.append((node, action))
        self.headers.append(dict(request.headers))
        self._moved.set()
        self._moved = asyncio.Event()

    async def _answer(self, scripted: Any, act: Callable[[], dict[str, Any]]) -> web.StreamResponse:
        match scripted:
            case None:
                return web.json_response(act())
            case int():
                return web.Response(status=scripted, text="scripted")
            case bytes():
                return web.Response(body=scripted)
            case asyncio.Event():
                await scripted.wait()
                return web.json_response(act())
            case _:
                return web.json_response(scripted)


@pytest.fixture
async def backend() -> AsyncIterator[ScriptedBackend]:
    scripted = ScriptedBackend()
    runner = await scripted.start()
    yield scripted
    await runner.cleanup()


@dataclass(slots=True)
class Agent:
    """A running agent."""

    task: "asyncio.Task[None]"
    metrics_url: str

    async def kill(self) -> None:
        """End it without a chance to clean up."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def get(self, path: str) -> tuple[int, str]:
        async with ClientSession() as session, session.get(self.metrics_url + path) as response:
            return response.status, await response.text()

    async def series(self, node: str) -> dict[str, float]:
        """The series of one node: name and labels other than the node's -> value."""
        _, text = await self.get("/metrics")
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = dict(sample.labels)
                if labels.pop("node", None) == node:
                    rest = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
                    found[f"{sample.name}{{{rest}}}" if rest else sample.name] = sample.value
        return found


@dataclass(slots=True)
class Cluster:
    """The API server, the backend and the agents of one test."""

    api: FakeApiServer
    backend: ScriptedBackend
    directory: Path
    agents: list[Agent] = field(default_factory=list)

    async def start_agent(self, **env: str) -> Agent:
        """Start an agent whose every control goes to the backend, unless the environment overrides it."""
        settings = read_settings(
            AgentSettings,
            {
                "KUBECONFIG": str(self.api.kubeconfig(self.directory)),
                "METRICS_ADDR": "127.0.0.1:0",
                "AGENT_MODE": "pool",
                "RECONCILE_INTERVAL": "100ms",
                "TELEMETRY_CPU_SOURCE": "http",
                "TELEMETRY_CPU_HTTP_ENDPOINT": self.backend.url,
                "TELEMETRY_CPU_CONTROL": "http",
                "TELEMETRY_CPU_CONTROL_HTTP_ENDPOINT": self.backend.url,
                "TELEMETRY_GPU_CONTROL": "http",
                "TELEMETRY_GPU_CONTROL_HTTP_ENDPOINT": self.backend.url,
                **env,
            },
        )
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(agent_app.run(settings, on_start=lambda app: port.set_result(app.metrics_port)))
        await asyncio.wait({task, port}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        agent = Agent(task, f"http://127.0.0.1:{port.result()}")
        self.agents.append(agent)
        return agent

    def add_node(
        self,
        name: str = "n1",
        *,
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        cpu: Mapping[str, Any] | None = ECO_CPU,
        gpu: Mapping[str, Any] | None = None,
        target: bool = True,
        facts: dict[str, Any] = FACTS,
        **knobs: Any,
    ) -> BackendNode:
        """Add a node, its backend and, unless `target` is False, a target with these stanzas."""
        self.api.put(make_node(name, gpus=gpus, labels=labels))
        if target:
            self.set_target(name, cpu=cpu, gpu=gpu)
        return self.backend.add(name, facts=facts, **knobs)

    def set_target(self, node: str, profile: str = "eco", **stanzas: Mapping[str, Any] | None) -> None:
        self.api.put(make_node_power_profile(node, profile, **stanzas))

    def route(self, name: str, endpoint: str, target: Mapping[str, Any], **extra: Any) -> dict[str, Any]:
        """Return a user's profile that routes readings and CPU controls to an endpoint."""
        http = {"type": "http", "http": {"endpoint": endpoint, **extra}}
        return make_telemetry_profile(name, target=target, sources={"cpu": http}, controls={"cpu": http})

    def status(self, node: str, subsystem: str = "cpu") -> dict[str, Any]:
        """The agent's report about one subsystem; empty while there is none."""
        profile = self.api.get("TelemetryProfile", node) or {}
        control: dict[str, Any] = profile.get("status", {}).get("control", {})
        return control.get(subsystem, {})

    async def until_reported(self, node: str, subsystem: str = "cpu", **expected: Any) -> dict[str, Any]:
        """Wait for a report with these fields and return it."""
        try:
            await self.api.wait_for(
                lambda: all(self.status(node, subsystem).get(key) == value for key, value in expected.items())
            )
        except TimeoutError:
            pytest.fail(f"the report is {self.status(node, subsystem)}, not {expected}")
        return self.status(node, subsystem)


@dataclass(frozen=True, slots=True)
class CappedNode:
    """Node n1 with a cap of 150 W in force, and the agent that set it."""

    node: BackendNode
    agent: Agent


@asynccontextmanager
async def _cluster(api: FakeApiServer, backend: ScriptedBackend, directory: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(api, backend, directory)
    try:
        yield cluster
    finally:
        for agent in cluster.agents:
            await agent.kill()


@pytest.fixture
async def cluster(fake_api: FakeApiServer, backend: ScriptedBackend, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with _cluster(fake_api, backend, tmp_path) as made:
        yield made
    # Those that a fault made to fail were allowed or not all the same.
    assert denied("joulie-agent", fake_api.requests) == []


@pytest.fixture
async def capped(cluster: Cluster) -> CappedNode:
    node = cluster.add_node("n1")
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied", enforcedWatts=150)
    return CappedNode(node, agent)
