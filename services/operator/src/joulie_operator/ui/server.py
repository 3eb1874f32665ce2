"""HTTP of the live page: its files and its events. GET only, same origin only; see `joulie_operator.ui.access`."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Final

import msgspec
from aiohttp import hdrs, web

from joulie_api.http_server import lift_time_limit
from joulie_core.kinds.held_devices import DeviceReport
from joulie_operator.ui.access import SECURITY_HEADERS, refusal_of
from joulie_operator.ui.feed import LiveFeed, TooManyPagesError
from joulie_operator.ui.subscriber import BACKLOG_BYTES, Subscriber

#: Where the page is.
PATH: Final = "/ui/"
#: After a lost connection a page connects again after this time, in milliseconds.
RECONNECT_MS: Final = 2000

_TYPES: Final = MappingProxyType(
    {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    static = files("joulie_operator.ui") / "static"
    return {each.name: each.read_bytes() for each in static.iterdir()}


class PageServer:
    """The routes of the page.

    Args:
        feed: what open pages are sent.
        devices: returns the GPUs of a node, by its name; None where its agent does not report them.
        hosts: names, besides localhost and addresses, under which the page is reached.
        backlog_bytes: what may wait for one page.
    """

    def __init__(
        self,
        feed: LiveFeed,
        devices: Callable[[str], Sequence[DeviceReport] | None],
        *,
        hosts: Collection[str] = (),
        backlog_bytes: int = BACKLOG_BYTES,
    ) -> None:
        self._feed = feed
        self._devices = devices
        self._hosts = frozenset(host.lower() for host in hosts)
        self._backlog_bytes = backlog_bytes
        self._files = page_files()

    def application(self) -> web.Application:
        """Return what is served."""
        endpoints = web.Application(middlewares=[self._check])
        endpoints.on_response_prepare.append(_secure)
        endpoints.on_shutdown.append(self._shut_down)
        endpoints.add_routes(
            [
                web.get("/", _redirect),
                web.get(PATH.rstrip("/"), _redirect),
                web.get(f"{PATH}events", self._serve_events, allow_head=False),
                web.get(PATH + "devices/{node:[^/]+}", self._serve_devices, allow_head=False),
                web.get(PATH + "{file:[^/]*}", self._serve_file),
            ]
        )
        return endpoints

    @web.middleware
    async def _check(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        refused = refusal_of(request.headers, self._hosts)
        if refused is not None:
            return web.Response(status=403, text=f"{refused}\n")
        return await handler(request)

    async def _serve_file(self, request: web.Request) -> web.Response:
        name = request.match_info["file"] or "index.html"
        content = self._files.get(name)
        if content is None:
            raise web.HTTPNotFound
        kind = _TYPES[name[name.rindex(".") :]]
        return web.Response(body=content, content_type=kind, charset="utf-8", headers={hdrs.CACHE_CONTROL: "no-cache"})

    async def _serve_devices(self, request: web.Request) -> web.Response:
        found = self._devices(request.match_info["node"])
        body = {"devices": None if found is None else [each.dump() for each in found]}
        return web.Response(
            body=msgspec.json.encode(body), content_type="application/json", headers={hdrs.CACHE_CONTROL: "no-store"}
        )

    async def _serve_events(self, request: web.Request) -> web.StreamResponse:
        page = Subscriber(lambda: _abort(request), backlog_bytes=self._backlog_bytes)
        try:
            self._feed.join(page)
        except TooManyPagesError:
            return web.Response(status=503, text="too many pages are open\n", headers={hdrs.RETRY_AFTER: "10"})
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
        lift_time_limit(request)
        try:
            await response.prepare(request)
            await response.write(b"retry: %d\n\n" % RECONNECT_MS)
            while (event := await page.next()) is not None:
                await response.write(event)
        finally:
            self._feed.leave(page)
        return response

    async def _shut_down(self, _endpoints: web.Application) -> None:
        self._feed.close()


async def _redirect(_request: web.Request) -> web.Response:
    # Relative, for proxies that serve the page below a path of their own.
    return web.Response(status=308, headers={hdrs.LOCATION: PATH.lstrip("/")})


async def _secure(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
