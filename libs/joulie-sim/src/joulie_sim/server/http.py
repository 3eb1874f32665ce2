"""The simulator's HTTP interface.

    GET    /telemetry/{node}   power, caps, hardware facts         404 unknown node
    POST   /control/{node}     set a cap or a throttle             400 malformed, 404 unknown node
    GET    /state              all nodes, jobs, energy, completed work
    PUT    /faults/{node}      inject a fault into a node (or `*`), for tests; 400 malformed
    DELETE /faults/{node}      remove its faults

Answers are JSON, also errors: `{"result": "error", "message": ...}`. Protocol: docs/decisions/0013-conventions.md,
"HTTP backend".
"""

import asyncio
import time
from collections import Counter
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web

from joulie_core.timestamps import rfc3339
from joulie_sim.server import render
from joulie_sim.server.control import MalformedControlError, Result, control_state, parse_control
from joulie_sim.server.faults import Effect, FaultTarget, InjectedFault, InjectedFaults, MalformedFaultError
from joulie_sim.server.simulator import Simulator

#: Requests are a few hundred bytes.
MAX_BODY_BYTES: Final = 64 * 1024

_log = structlog.get_logger()


class HttpBackend:
    """The routes. `control_results` counts answers by action and result, for metrics."""

    def __init__(self, simulator: Simulator, *, speed: float) -> None:
        self.faults = InjectedFaults()
        self.control_results: Counter[tuple[str, str]] = Counter()
        self._simulator = simulator
        self._speed = speed

    def routes(self) -> list[web.RouteDef]:
        """Return all routes."""
        return [
            web.get("/telemetry/{node}", self.telemetry),
            web.post("/control/{node}", self.control),
            web.get("/state", self.state),
            web.put("/faults/{node}", self.put_fault),
            web.delete("/faults/{node}", self.clear_faults),
        ]

    async def telemetry(self, request: web.Request) -> web.Response:
        """Serve GET /telemetry/{node}."""
        name = request.match_info["node"]
        fault = self.faults.find(name, FaultTarget.TELEMETRY)
        if fault is not None:
            await asyncio.sleep(fault.delay_seconds)
            if fault.effect is not Effect.SLOW:
                return _refusal(500, fault.message)
        node = self._simulator.read(name)
        if node is None:
            return _refusal(404, f"no node {name}")
        return _json(render.telemetry(node, written_at=_wall_time()))

    async def control(self, request: web.Request) -> web.Response:
        """Serve POST /control/{node}."""
        name = request.match_info["node"]
        try:
            wanted = parse_control(name, await request.read())
        except MalformedControlError as error:
            return _refusal(400, str(error))
        fault = self.faults.find(name, FaultTarget(wanted.action))
        if fault is not None:
            answer = await self._faulty(name, fault)
            if answer is not None:
                self.control_results[wanted.action, answer[0]] += 1
                return answer[1]
        outcome = self._simulator.control(name, wanted)
        node = self._simulator.read(name)
        if outcome is None or node is None:
            return _refusal(404, f"no node {name}")
        self.control_results[wanted.action, outcome.result] += 1
        _log.debug("control", node=name, action=wanted.action, value=wanted.value, result=outcome.result)
        state = control_state(node.hardware, node.controls)
        return _json({"result": outcome.result, "message": outcome.message, "state": state})

    async def state(self, _request: web.Request) -> web.Response:
        """Serve GET /state."""
        return _json(render.cluster_state(self._simulator, speed=self._speed))

    async def put_fault(self, request: web.Request) -> web.Response:
        """Serve PUT /faults/{node}."""
        try:
            fault = self.faults.put(request.match_info["node"], await request.read())
        except MalformedFaultError as error:
            return _refusal(400, str(error))
        _log.info("fault set", node=request.match_info["node"], target=fault.target, effect=fault.effect)
        return _json(fault)

    async def clear_faults(self, request: web.Request) -> web.Response:
        """Serve DELETE /faults/{node}."""
        self.faults.clear(request.match_info["node"])
        _log.info("faults cleared", node=request.match_info["node"])
        return web.Response(status=204)

    async def _faulty(self, name: str, fault: InjectedFault) -> tuple[str, web.Response] | None:
        """Return the result and answer of a fault, after its delay; None if the node answers itself."""
        await asyncio.sleep(fault.delay_seconds)
        if fault.effect is Effect.SLOW:
            return None
        if fault.effect is Effect.BROKEN:
            return Effect.BROKEN, _refusal(500, fault.message)
        node = self._simulator.read(name)
        if node is None:
            return Result.ERROR, _refusal(404, f"no node {name}")
        state = control_state(node.hardware, node.controls)
        return fault.effect, _json({"result": fault.effect, "message": fault.message, "state": state})


def _json(body: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _refusal(status: int, message: str) -> web.Response:
    body = msgspec.json.encode({"result": Result.ERROR, "message": message})
    return web.Response(status=status, body=body, content_type="application/json")


def _wall_time() -> str:
    return rfc3339(time.time())
