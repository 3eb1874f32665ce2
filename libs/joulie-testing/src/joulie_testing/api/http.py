"""HTTP handler of the in-process API server: logs each request and answers it, or performs a scripted fault."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from aiohttp import hdrs, web

from joulie_testing.api import writes
from joulie_testing.api.faults import (
    Action,
    CutMidLine,
    Delay,
    Disconnect,
    EndStream,
    FaultInjector,
    HalfOpen,
    Inject,
    Respond,
)
from joulie_testing.api.kinds import ServedKind
from joulie_testing.api.listing import Lister, metadata_only
from joulie_testing.api.request_log import Request, RequestLog
from joulie_testing.api.routing import RequestRoute, discovery, resolve, verb_of, watch_options
from joulie_testing.api.status import StatusError
from joulie_testing.api.storage import Store, Stored
from joulie_testing.api.watching import WatchStream

_JSON = "application/json"
_PLAIN: dict[str, object] = {
    "/readyz": "ok",
    "/livez": "ok",
    "/healthz": "ok",
    "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0-joulie-testing"},
}
_WRITERS: dict[str, Callable[[Store, writes.WriteTarget, Mapping[str, Any], str], Stored]] = {
    "create": writes.create,
    "bind": writes.bind,
    "evict": writes.evict,
    "replace": writes.replace,
    "patch": writes.merge,
}


class Handler:
    """Serves one store over HTTP."""

    def __init__(
        self, store: Store, lister: Lister, faults: FaultInjector, requests: RequestLog, *, bookmark_interval_s: float
    ) -> None:
        self._store = store
        self._lister = lister
        self._faults = faults
        self._requests = requests
        self.bookmark_interval_s = bookmark_interval_s
        self.streams: set[WatchStream] = set()
        self.on_request: Callable[[], None] = lambda: None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request and log its status."""
        entry = Request(
            verb="other",
            method=request.method,
            path=request.path,
            query=dict(request.query),
            user_agent=request.headers.get(hdrs.USER_AGENT, ""),
            content_type=request.content_type,
            accept=request.headers.get(hdrs.ACCEPT, ""),
            body=await request.read(),
        )
        self._requests.append(entry)
        self.on_request()
        try:
            response = await self._answer(request, entry)
        except StatusError as refusal:
            response = web.json_response(refusal.body, status=refusal.code)
        if request.transport is not None and not request.transport.is_closing():
            entry.status = response.status
        self.on_request()
        return response

    async def _answer(self, request: web.Request, entry: Request) -> web.StreamResponse:
        if request.path in _PLAIN:
            return web.json_response(_PLAIN[request.path])
        if (found := discovery(self._store, request.path)) is not None:
            scripted = self._faults.take(entry.verb, request.path)
            return _scripted(scripted) if isinstance(scripted, Respond) else web.json_response(found)
        route = resolve(self._store, request.path)
        entry.kind, entry.name = route.collection.kind.kind, route.name
        entry.namespace, entry.subresource = route.namespace, route.subresource
        entry.verb = verb_of(request.method, route, request.query, request.content_type)
        action = self._faults.take(entry.verb, request.path)
        if isinstance(action, Respond):
            return _scripted(action)
        if isinstance(action, Disconnect) and not action.after_effect:
            return _break(request)
        if isinstance(action, Delay):
            await asyncio.sleep(action.delay_s)
        return await self._serve(request, route, entry, action)

    async def _serve(
        self, request: web.Request, route: RequestRoute, entry: Request, action: Action | None
    ) -> web.StreamResponse:
        if entry.verb == "watch":
            return await self._watch(request, route, entry, action)
        if isinstance(action, HalfOpen):
            await asyncio.Event().wait()
        response = self._perform(route, entry)
        if isinstance(action, Disconnect):
            return _break(request)
        return await _cut(request, response) if isinstance(action, CutMidLine) else response

    async def _watch(
        self, request: web.Request, route: RequestRoute, entry: Request, action: Action | None
    ) -> web.StreamResponse:
        options = watch_options(route, request.query)
        stream = WatchStream(self._store, route.collection, options, self.bookmark_interval_s)
        if isinstance(action, HalfOpen | CutMidLine | EndStream | Inject):
            stream.disturb(action)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: _JSON})
        await response.prepare(request)
        entry.status = response.status
        self.streams.add(stream)
        self.on_request()
        try:
            if await stream.run(response):
                await response.write_eof()
            else:
                _break(request)
        finally:
            self.streams.discard(stream)
            self.on_request()
        return response

    def _perform(self, route: RequestRoute, entry: Request) -> web.Response:
        """Answer any request but a watch."""
        if entry.verb == "list":
            page = self._lister.page(route, entry.query)
            body = metadata_only(page) if "as=PartialObjectMetadataList" in entry.accept else page
            return web.Response(body=body, content_type=_JSON)
        target = writes.WriteTarget(route.collection, route.name, route.namespace, route.subresource)
        if target.subresource not in _subresources(target.kind):
            raise StatusError(404, f"{target.kind.plural} have no subresource {target.subresource}")
        if entry.verb == "get":
            return _object(target, target.current())
        made_new = entry.verb in {"create", "bind", "evict"} or (
            entry.verb == "apply" and target.key not in target.collection.objects
        )
        return _object(target, self._write(target, entry), status=201 if made_new else 200)

    def _write(self, target: writes.WriteTarget, entry: Request) -> Stored:
        manager = entry.field_manager or entry.user_agent.partition("/")[0]
        body = _body(entry)
        match entry.verb:
            case "apply":
                force = entry.query.get("force") in {"1", "true"}
                return writes.apply(self._store, target, body, entry.field_manager, force=force)
            case "delete":
                return writes.delete(self._store, target, body)
            case verb:
                return _WRITERS[verb](self._store, target, body, manager)


def _subresources(kind: ServedKind) -> set[str]:
    of_pods = {"binding", "eviction"} if kind.kind == "Pod" else set()
    return {""} | ({"status"} if kind.has_status else set()) | of_pods


def _body(entry: Request) -> dict[str, object]:
    if not entry.body and entry.verb == "delete":
        return {}
    try:
        body = msgspec.json.decode(entry.body)
    except ValueError as error:
        raise StatusError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise StatusError(400, "the body is not an object")
    return body


def _object(target: writes.WriteTarget, stored: Stored, *, status: int = 200) -> web.Response:
    return web.Response(body=target.kind.prefix + stored.tail, content_type=_JSON, status=status)


def _scripted(action: Respond) -> web.Response:
    headers = {} if action.retry_after_s is None else {hdrs.RETRY_AFTER: str(action.retry_after_s)}
    return web.Response(body=action.payload(), status=action.status, content_type=action.content_type, headers=headers)


def _break(request: web.Request) -> web.StreamResponse:
    """Reset the connection; the returned response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=200)


async def _cut(request: web.Request, whole: web.Response) -> web.StreamResponse:
    body = bytes(whole.body) if isinstance(whole.body, bytes) else b""
    response = web.StreamResponse(status=whole.status, headers={hdrs.CONTENT_TYPE: _JSON})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    return _break(request)
