"""Servers beside the API server that the services ask: HTTP backends, Prometheus and BMCs, one of each with poison."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from aiohttp import web
from tools.hostile.documents import SINKS, WATTS, control_reply, good_names, prometheus_answer, telemetry
from tools.hostile.grammar import Grammar, Poison

from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import ServedBmc, serve_bmcs

USER: Final = "root"
PASSWORD: Final = "calvin"
#: The BMC that answers with poison, among those by node.
POISONED_BMC: Final = "poisoned"
_CHUNK: Final = 1 << 20
_JSON: Final = "application/json"


def transports(dice: Random, poison: Poison) -> tuple[str, Callable[[web.Request], Any]]:
    """Return how an answer with this poison is sent: mostly as it is, else with hostile headers or a hostile length."""
    raw = poison.raw
    plain: dict[str, Any] = {"body": raw, "content_type": _JSON}
    forms: dict[str, dict[str, Any]] = {
        "gzip that is none": {"body": raw, "headers": {"Content-Encoding": "gzip"}},
        "unknown encoding": {"body": raw, "headers": {"Content-Encoding": "zstd, gzip"}},
        "status 500": {**plain, "status": 500},
        "status 204": {"status": 204},
        "status 401": {**plain, "status": 401},
        "status 599": {**plain, "status": 599},
        "a redirect": {"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}},
        "a redirect to nothing": {"status": 302},
        "unknown charset": {"body": raw, "headers": {"Content-Type": "application/json; charset=\u00fc"}},
        "Latin-1 in headers": {**plain, "headers": {"ETag": "\u00fc\u00e9", "X-Auth-Token": "\u00fc"}},
        "long headers": {**plain, "headers": {"ETag": '"' + "a" * 7_000 + '"', "Location": "/" * 7_000}},
        "odd retry": {**plain, "status": 503, "headers": {"Retry-After": "9" * 40}},
    }
    if dice.randrange(6):
        return "", lambda _request: web.Response(**plain)
    name = dice.choice((*forms, "endless", "a bomb"))
    if name == "endless":
        return name, _endless
    if name == "a bomb":
        return name, lambda _request: web.Response(body=_bomb(), headers={"Content-Encoding": "gzip"})
    return name, lambda _request: web.Response(**forms[name])


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        for _ in range(64):
            await response.write(b" " * _CHUNK)
    return response


@cache
def _bomb() -> bytes:
    return gzip.compress(b" " * (64 * _CHUNK), 1)


class Backends:
    """One HTTP server for telemetry, controls, power readings and Prometheus; `answers` has poison by subject."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[web.Request], Any]] = {}
        #: Requests that were answered with poison, by subject.
        self.asked: dict[str, int] = {}
        #: The newest cap of each node.
        self.caps: dict[str, float] = {}
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application()
        app.router.add_get("/telemetry/{node}", self._telemetry)
        app.router.add_get("/power/{node}", self._power)
        app.router.add_post("/control/{node}", self._control)
        app.router.add_post("/api/v1/query", self._query)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _poisoned(self, subject: str, request: web.Request) -> web.StreamResponse | None:
        answer = self.answers.get(subject)
        if answer is None:
            return None
        self.asked[subject] = self.asked.get(subject, 0) + 1
        found = answer(request)
        return await found if asyncio.iscoroutine(found) else found

    async def _telemetry(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("agent telemetry", request, telemetry(request.match_info["node"]))

    async def _power(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("power source", request, telemetry(request.match_info["node"]))

    async def _control(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        watts = body.get("capWatts", body.get("capWattsPerGpu"))
        if watts is not None:
            self.caps[request.match_info["node"]] = watts
        return await self._answer("agent control", request, control_reply(watts or WATTS))

    async def _answer(self, subject: str, request: web.Request, good: Mapping[str, Any]) -> web.StreamResponse:
        poisoned = await self._poisoned(subject, request) if request.match_info["node"] in SINKS else None
        return poisoned if poisoned is not None else web.json_response(good)

    async def _query(self, request: web.Request) -> web.StreamResponse:
        query = str((await request.post()).get("query", ""))
        poisoned = await self._poisoned("Prometheus", request) if "poisoned" in query else None
        return poisoned if poisoned is not None else web.json_response(prometheus_answer(time.time()))


class PoisonedBmc:
    """The `position`-th answer of the BMC, from when it is armed, is poison."""

    def __init__(self) -> None:
        self._case: tuple[Random, int] | None = None
        #: What was answered last.
        self.label = ""

    def arm(self, dice: Random) -> None:
        """Poison one of the next answers."""
        self._case, self.label = (dice, dice.randrange(8)), ""

    def disarm(self) -> None:
        """Answer as every other BMC."""
        self._case = None

    @web.middleware
    async def middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Serve a request."""
        response: web.Response = await handler(request)
        if self._case is None or request.method == "DELETE":
            return response
        dice, left = self._case
        if left:
            self._case = (dice, left - 1)
            return response
        self._case = None
        body = json.loads(response.body or b"{}") if isinstance(response.body, bytes) else {}
        poison = Grammar(dice).draw(body or {"@odata.id": "/redfish/v1", "Id": "1"})
        name, answer = transports(dice, poison)
        self.label = f"{poison.label} {name} as the answer to {request.method} {request.path}"
        found = answer(request)
        sent = await found if asyncio.iscoroutine(found) else found
        if "X-Auth-Token" in response.headers and not sent.prepared:
            sent.headers.setdefault("X-Auth-Token", response.headers["X-Auth-Token"])
        return sent


@asynccontextmanager
async def serve_all_bmcs(directory: Path) -> AsyncIterator[tuple[dict[str, ServedBmc], PoisonedBmc]]:
    """Serve a BMC for each good node and the poisoned one, all over TLS."""
    profile, clock = PROFILES["openbmc"], time.monotonic
    poisoned = PoisonedBmc()

    def make(name: str) -> SimulatedBmc:
        bmc = _LongLivedBmc(
            profile, SimulatedServer(profile, clock=clock, demand_watts=200.0), user=USER, password=PASSWORD
        )
        if name == POISONED_BMC:
            bmc.middlewares.append(poisoned.middleware)
        return bmc

    async with AsyncExitStack() as stack:
        bmcs = {name: make(name) for name in (*good_names(), POISONED_BMC)}
        yield await stack.enter_async_context(serve_bmcs(bmcs, directory)), poisoned


class _LongLivedBmc(SimulatedBmc):
    """Keeps no list of its requests, and never runs out of sessions."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.middlewares: list[Any] = [self._tidy]

    def application(self) -> web.Application:
        app = super().application()
        app.middlewares.extend(self.middlewares)
        return app

    @web.middleware
    async def _tidy(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.clear()
        if len(self.sessions) >= self.profile.max_sessions - 1:
            self.sessions.pop(next(iter(self.sessions)))
        response: web.StreamResponse = await handler(request)
        return response


class PoisonedIpmi(asyncio.DatagramProtocol):
    """A BMC by IPMI whose every datagram is poison."""

    def __init__(self) -> None:
        self.datagrams: list[bytes] = []
        self.asked = 0
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Answer."""
        self.asked += 1
        for each in self.datagrams:
            assert self._transport is not None
            self._transport.sendto(each or data, addr)

    def arm(self, dice: Random) -> str:
        """Choose the answers to the next requests, and return their name."""
        rmcp = bytes.fromhex("0600ff07")
        pong = rmcp + bytes.fromhex("0610 0000 0000 0000 0009 20 18 c8 81 00 38 8e 04 b5".replace(" ", ""))
        asf = bytes.fromhex("0600ff06000011be4000001000000000000000008100000000000000")
        forms = {
            "4 bytes": [rmcp],
            "nothing": [],
            "1 byte": [b"\x06"],
            "an echo": [b""],
            "three echoes": [b"", b"", b""],
            "ASF": [asf],
            "a pong": [pong],
            "a pong cut": [pong[: dice.randrange(len(pong))]],
            "random": [dice.randbytes(dice.randrange(1, 300))],
            "random session": [rmcp + dice.randbytes(dice.randrange(1, 100))],
            "a flood": [rmcp + dice.randbytes(20)] * 300,
            "a long one": [rmcp + b"\x06" * 40_000],
        }
        name = dice.choice(list(forms))
        self.datagrams = forms[name]
        return f"datagrams/{name}"
