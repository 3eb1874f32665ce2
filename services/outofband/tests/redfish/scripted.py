"""A Redfish service whose answers a test writes, without TLS, and which records every request."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from joulie_api.answers import session_options
from joulie_outofband.redfish.connection import BmcAccess, RedfishConnection

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
SESSION = f"{SESSIONS}/1"
SYSTEM = f"{ROOT}/Systems/1"


@dataclass(frozen=True)
class Asked:
    """A request as it was received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def tag(self) -> str | None:
        """`If-Match`."""
        return self.headers.get("If-Match")


@dataclass
class Scripted:
    """Answers by `answer`, except the ones to log in and out; `requests` are all, `asked` those without these two."""

    answer: Callable[[Asked], web.StreamResponse | Awaitable[web.StreamResponse]]
    requests: list[Asked] = field(default_factory=list)
    login: Callable[[], web.Response] = lambda: web.json_response(
        {}, status=201, headers={"X-Auth-Token": "token-1", "Location": SESSION}
    )
    address: str = ""

    @property
    def asked(self) -> list[Asked]:
        """Requests other than logging in and out."""
        return [each for each in self.requests if not each.path.startswith(SESSIONS)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Record a request and answer it."""
        asked = Asked(request.method, request.path, dict(request.headers), await request.read())
        self.requests.append(asked)
        if asked.path.startswith(SESSIONS):
            return self.login() if asked.method == "POST" else web.Response(status=204)
        answer = self.answer(asked)
        return await answer if isinstance(answer, Awaitable) else answer


@asynccontextmanager
async def scripted(answer: Any, **how: Any) -> AsyncIterator[tuple[Scripted, RedfishConnection]]:
    """Serve a script, and connect to it; `answer` is a response's body, or a function of what was asked."""
    script = Scripted(answer if callable(answer) else lambda _: web.json_response(answer))
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        script.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        access = BmcAccess("root", "calvin", ssl.create_default_context())
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), **session_options()) as session:
            yield script, RedfishConnection(session, script.address, access, **{"request_timeout_s": 5.0, **how})
    finally:
        await runner.cleanup()
