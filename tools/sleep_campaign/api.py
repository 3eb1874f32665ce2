"""The API server of the campaign: the one of tests, without sockets, with evictions as Kubernetes carries them out.

Requests take a short virtual time, so that what others do in between is met. While `away`, none is answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, Self, cast

import aiohttp
import msgspec
from aiohttp import hdrs, web
from aiohttp.base_protocol import BaseProtocol
from multidict import CIMultiDict
from yarl import URL

from joulie_api.client import KubeClient
from joulie_api.errors import TransportError
from joulie_testing.api import FakeApiServer
from joulie_testing.api.request_log import Request
from joulie_testing.api.routing import resolve, verb_of, watch_options
from joulie_testing.api.status import StatusError
from joulie_testing.api.watching import WatchStream

_JSON: Final = "application/json"
#: Of a request, there and back; short, and longer than nothing.
_LATENCY_S: Final = 0.004
#: Of a request to a BMC, and of a reset besides, until it has its effect.
_BMC_S: Final = (0.02, 0.3)
_RESET_S: Final = (0.0, 1.5)
_LIMIT_BYTES: Final = 1 << 20
#: Requests that are kept for a report.
_KEPT_REQUESTS: Final = 20_000

#: Takes namespace and name of a pod that is to be evicted, and returns the status of the answer.
Evict = Callable[[str, str], int]


class CampaignApi(FakeApiServer):
    """The server; `evict` decides about evictions, and `on_write` gets every request that changed something."""

    def __init__(self) -> None:
        super().__init__(history=5_000)
        self.away = False
        self.evict: Evict = lambda _namespace, _name: 404
        self.on_write: Callable[[Request], None] = lambda _request: None
        self._streams: set[asyncio.Task[None]] = set()

    def client(self, user_agent: str, alive: Callable[[], bool] = lambda: True) -> KubeClient:
        """Return a client of a service; it sends nothing once that is not `alive`."""
        return KubeClient(cast(Any, _DirectSession(self, user_agent, alive)))

    def version(self, kind: str, name: str, namespace: str | None = None) -> int:
        """Return the version of an object; 0 where there is none."""
        collection = self._store.of_kind(kind)
        stored = collection.objects.get(collection.kind.key(name, namespace))
        return 0 if stored is None else stored.revision

    def serves(self, kind: str) -> bool:
        """Return whether there are objects of a kind."""
        return kind in {each.kind.kind for each in self._store.collections}

    def changes(self, kind: str) -> int:
        """Return how often objects of a kind were changed."""
        collection = self._store.of_kind(kind)
        return collection.dropped + len(collection.changes)

    def go_away(self) -> None:
        """Answer nothing any more, and break off all watches."""
        self.away = True
        for task in list(self._streams):
            task.cancel()

    async def answer(self, request: "_DirectRequest") -> "_DirectResponse":
        """Answer a request.

        Raises:
            TransportError: the server is away.
        """
        await asyncio.sleep(_LATENCY_S)
        if self.away:
            raise TransportError(f"{request.method} {request.path}: connection refused")
        if len(self.requests) > _KEPT_REQUESTS:
            self.requests.clear()
        if request.query.get("watch"):
            return self._watched(request)
        if request.path.endswith("/eviction"):
            *_, namespace, _pods, name, _eviction = request.path.split("/")
            return self._evicted(namespace, name)
        found = await self._handler.handle(cast(web.Request, request))
        assert isinstance(found, web.Response)
        body = found.body if isinstance(found.body, bytes) else b""
        logged = self.requests[len(self.requests) - 1]
        if request.method != "GET" and found.status < 300:  # noqa: PLR2004 - HTTP's answers of success
            self.on_write(logged)
        return _DirectResponse(found.status, CIMultiDict(found.headers), body)

    def _evicted(self, namespace: str, name: str) -> "_DirectResponse":
        status = self.evict(namespace, name)
        request = Request("evict", "POST", "", {}, "", kind="Pod", name=name, namespace=namespace, status=status)
        self.on_write(request)
        refusal = {"kind": "Status", "status": "Failure", "code": status, "message": "the budget permits no eviction"}
        body = msgspec.json.encode(refusal if status >= 400 else {})  # noqa: PLR2004 - HTTP's errors
        return _DirectResponse(status, CIMultiDict(), body)

    def _watched(self, request: "_DirectRequest") -> "_DirectResponse":
        try:
            route = resolve(self._store, request.path)
            assert verb_of(request.method, route, request.query, "") == "watch"
            stream = WatchStream(self._store, route.collection, watch_options(route, request.query), 60.0)
        except StatusError as refusal:
            return _DirectResponse(refusal.code, CIMultiDict(), msgspec.json.encode(refusal.body))
        response = _DirectResponse(200, CIMultiDict(), None)
        task = asyncio.get_running_loop().create_task(response.follow(stream.run(cast(Any, response))))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        response.task = task
        return response


class _DirectRequest:
    """The part of an aiohttp.web.Request that the server reads."""

    def __init__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> None:
        parsed = URL(url)
        self.method, self.path, self.query = method, parsed.path, parsed.query
        self.headers = CIMultiDict(headers)
        self.content_type = self.headers.get(hdrs.CONTENT_TYPE, _JSON)
        self.transport = None
        self._body = body

    async def read(self) -> bytes:
        """Return the body."""
        return self._body

    async def json(self) -> Any:
        """Return the body, decoded. Raises ValueError."""
        return msgspec.json.decode(self._body)


class _DirectResponse:
    """The part of an aiohttp.ClientResponse that clients read, and of a StreamResponse that a watch writes."""

    def __init__(self, status: int, headers: CIMultiDict[str], body: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        self.status, self.headers = status, headers
        protocol = BaseProtocol(loop)
        # It counts as connected.
        protocol.connection_made(asyncio.Transport())
        self.content = aiohttp.StreamReader(protocol, limit=_LIMIT_BYTES, loop=loop)
        self.task: asyncio.Task[None] | None = None
        self._body = body
        if body is not None:
            self.content.feed_data(body)
            self.content.feed_eof()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    async def follow(self, stream: Awaitable[bool]) -> None:
        """Send a watch until it ends."""
        try:
            await stream
        except asyncio.CancelledError:
            self.content.set_exception(aiohttp.ClientPayloadError("connection reset"))
            raise
        self.content.feed_eof()

    async def write(self, data: bytes) -> None:
        """Take data of a watch."""
        self.content.feed_data(data)

    async def read(self) -> bytes:
        """Return the whole body."""
        return self._body or b""

    def close(self) -> None:
        """End a watch."""
        if self.task is not None:
            self.task.cancel()


class _DirectSession:
    """The session that `KubeClient` sends its requests by."""

    namespace = "default"
    server = "https://campaign"

    def __init__(self, api: CampaignApi, user_agent: str, alive: Callable[[], bool]) -> None:
        self._api = api
        self._alive = alive
        self._user_agent = user_agent

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: Any,
        timeout: object,  # noqa: ARG002, ASYNC109 - answers are never late here
    ) -> _DirectResponse:
        """Send a request. Raises TransportError: there is no answer, or the process is gone."""
        if not self._alive():
            raise TransportError("the process was killed")
        url = str(URL(path).with_query(query)) if query else path
        sent = {**headers, hdrs.USER_AGENT: self._user_agent}
        data = b"" if body is None else msgspec.json.encode(body)
        return await self._api.answer(_DirectRequest(method, url, sent, data))

    async def reload_credentials(self) -> None:
        """Do nothing: there are none."""

    async def close(self) -> None:
        """Do nothing."""


class BmcNetwork:
    """The session of Redfish connections: BMCs by address; `unreachable` are those that do not answer."""

    def __init__(self, dice: Random) -> None:
        self.unreachable: set[str] = set()
        self._dice = dice
        self._asked: dict[str, Callable[[float], None]] = {}
        self._handlers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {}

    def add(self, address: str, application: web.Application, asked: Callable[[float], None]) -> None:
        """Have a BMC answer at an address; `asked` gets the time at which a reset is sent, before it has its effect."""
        (route,) = application.router.routes()
        self._handlers[address] = cast(Any, route.handler)
        self._asked[address] = asked

    def request(
        self,
        method: str,
        url: str,
        *,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        **_options: object,
    ) -> "_PendingAnswer":
        """Send a request, as `aiohttp.ClientSession.request`."""
        return _PendingAnswer(self._answered(method, url, data or b"", headers, timeout.total or 0.0))

    async def _answered(
        self,
        method: str,
        url: str,
        data: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> _DirectResponse:
        address, separator, path = url.partition("/redfish/")
        if address in self.unreachable:
            await asyncio.sleep(timeout_s)
            raise TimeoutError
        if path.endswith("ComputerSystem.Reset"):
            self._asked[address](asyncio.get_running_loop().time())
            await asyncio.sleep(self._dice.uniform(*_RESET_S))
        await asyncio.sleep(self._dice.uniform(*_BMC_S))
        found = await self._handlers[address](
            cast(web.Request, _DirectRequest(method, separator + path, headers, data))
        )
        assert isinstance(found, web.Response)
        body = found.body if isinstance(found.body, bytes) else b""
        return _DirectResponse(found.status, CIMultiDict(found.headers), body)


class _PendingAnswer:
    """A request that is sent when its context is entered."""

    def __init__(self, answer: Awaitable[_DirectResponse]) -> None:
        self._answer = answer

    async def __aenter__(self) -> _DirectResponse:
        return await self._answer

    async def __aexit__(self, *_error: object) -> None:
        return None
