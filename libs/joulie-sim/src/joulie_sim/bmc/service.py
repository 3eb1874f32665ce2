"""The HTTP side of a simulated BMC: sessions, tags, errors. The caller serves its application over TLS.

Source: DMTF DSP0266 (Redfish Specification), sections on sessions, ETags and error responses.
"""

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, NoReturn

from aiohttp import web

from joulie_sim.bmc.faults import BmcFault
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import BmcProfile, LimitPlace, TagRule
from joulie_sim.bmc.resources import CONTROL, ENVIRONMENT, POWER, RESET, ROOT, SESSIONS, Body, resources

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LIMIT_PATHS: Final = {LimitPlace.POWER: POWER, LimitPlace.ENVIRONMENT: ENVIRONMENT, LimitPlace.CONTROL: CONTROL}


class SimulatedBmc:
    """A BMC with one server.

    `requests` has method and path of each request; `sessions` the tokens by session; `fault` may be set and removed at
    any time. They are for tests.
    """

    def __init__(self, profile: BmcProfile, server: SimulatedServer, *, user: str, password: str) -> None:
        self.profile = profile
        self.server = server
        self.requests: list[tuple[str, str]] = []
        self.sessions: dict[str, str] = {}
        self.fault: BmcFault | None = None
        self._user = user
        self._password = password
        self._numbers = itertools.count(1)
        self._generation = 0

    def application(self) -> web.Application:
        """Return the application that serves this BMC."""
        app = web.Application(middlewares=[self._middleware])
        app.router.add_get("/redfish", self._versions)
        app.router.add_post(SESSIONS, self._log_in)
        app.router.add_delete(f"{SESSIONS}/{{name}}", self._log_out)
        app.router.add_post(RESET, self._reset)
        app.router.add_patch("/{path:.*}", self._patch)
        app.router.add_get("/{path:.*}", self._get)
        return app

    @web.middleware
    async def _middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        if self.profile.latency_s:
            await asyncio.sleep(self.profile.latency_s)
        if not self._is_open(request) and not self._is_authorized(request):
            response: web.StreamResponse = _error(HTTPStatus.UNAUTHORIZED, "Base.1.16.NoValidSession")
            response.headers["WWW-Authenticate"] = 'Basic realm="Redfish"'
        else:
            response = await self._handle(request, handler)
        response.headers["OData-Version"] = "4.0"
        response.headers["Cache-Control"] = "no-cache"
        return response

    async def _handle(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        fault = self.fault
        if fault is None or not fault.concerns(request.method):
            return await _served(request, handler)
        if fault.carried_out:
            await _served(request, handler)
        fault.met.set()
        if fault.status is None:
            await _never()
        busy = _error(HTTPStatus(fault.status), "Base.1.16.ServiceTemporarilyUnavailable")
        if fault.retry_after_s is not None:
            busy.headers["Retry-After"] = str(fault.retry_after_s)
        return busy

    def _is_open(self, request: web.Request) -> bool:
        path = request.path.rstrip("/")
        return path in {"/redfish", ROOT} or (request.method == "POST" and path == SESSIONS)

    def _is_authorized(self, request: web.Request) -> bool:
        token = request.headers.get("X-Auth-Token")
        if token is not None:
            return token in self.sessions.values()
        expected = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
        return hmac.compare_digest(request.headers.get("Authorization", ""), f"Basic {expected}")

    async def _versions(self, _request: web.Request) -> web.Response:
        return web.json_response({"v1": f"{ROOT}/"})

    async def _log_in(self, request: web.Request) -> web.Response:
        body = await _body(request)
        if (body.get("UserName"), body.get("Password")) != (self._user, self._password):
            return _error(HTTPStatus.UNAUTHORIZED, "Base.1.16.ResourceAtUriUnauthorized")
        if len(self.sessions) >= self.profile.max_sessions:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "Base.1.16.SessionLimitExceeded")
        name, token = str(next(self._numbers)), secrets.token_hex(16)
        self.sessions[name] = token
        path = f"{SESSIONS}/{name}"
        created = {
            "@odata.id": path,
            "@odata.type": "#Session.v1_6_0.Session",
            "Id": name,
            "Name": "Session",
            "UserName": self._user,
        }
        headers = {"X-Auth-Token": token, "Location": path}
        return web.json_response(created, status=HTTPStatus.CREATED, headers=headers)

    async def _log_out(self, request: web.Request) -> web.Response:
        if self.sessions.pop(request.match_info["name"], None) is None:
            return _error(HTTPStatus.NOT_FOUND, "Base.1.16.ResourceMissingAtURI")
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _get(self, request: web.Request) -> web.Response:
        body = self._resource(request)
        if body is None:
            return _error(HTTPStatus.NOT_FOUND, "Base.1.16.ResourceMissingAtURI")
        if self.profile.tags_move:
            self._generation += 1
        return web.json_response(body, headers={"ETag": self._sent_tag(body)})

    async def _reset(self, request: web.Request) -> web.Response:
        if "If-Match" in request.headers:
            return _error(HTTPStatus.PRECONDITION_FAILED, "Base.1.16.PreconditionFailed")
        kind = (await _body(request)).get("ResetType")
        if kind not in self.profile.reset_types:
            return _error(HTTPStatus.BAD_REQUEST, "Base.1.16.ActionParameterNotSupported")
        self.server.reset(str(kind))
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _patch(self, request: web.Request) -> web.Response:
        body = self._resource(request)
        if body is None:
            return _error(HTTPStatus.NOT_FOUND, "Base.1.16.ResourceMissingAtURI")
        if request.path.rstrip("/") != _LIMIT_PATHS.get(self.profile.limit_place):
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, "Base.1.16.OperationNotAllowed")
        refusal = self._tag_refusal(request.headers.get("If-Match"), body)
        if refusal is not None:
            return refusal
        if not self.profile.licensed:
            return _error(HTTPStatus.FORBIDDEN, "iLO.2.14.LicenseKeyRequired")
        return self._set_limit(await _body(request))

    def _set_limit(self, body: Body) -> web.Response:
        limit, known = _requested_limit(self.profile.limit_place, body)
        if not known:
            return _error(HTTPStatus.BAD_REQUEST, "Base.1.16.PropertyUnknown")
        low = 0.0 if self.profile.min_watts is None else self.profile.min_watts
        if limit is not None and not low <= limit <= self.profile.max_watts:
            return _error(HTTPStatus.BAD_REQUEST, "Base.1.16.PropertyValueOutOfRange")
        self.server.limit_watts = limit
        return web.Response(status=HTTPStatus.NO_CONTENT)

    def _tag_refusal(self, sent: str | None, body: Body) -> web.Response | None:
        rule, failed = self.profile.tags, _error(HTTPStatus.PRECONDITION_FAILED, "Base.1.16.PreconditionFailed")
        if sent is None:
            if rule in {TagRule.REQUIRED, TagRule.STRONG_OF_WEAK}:
                return _error(HTTPStatus.PRECONDITION_REQUIRED, "Base.1.16.PreconditionRequired")
            return None
        expected = self._strong_tag(body) if rule is TagRule.STRONG_OF_WEAK else self._sent_tag(body)
        return failed if rule is TagRule.REFUSED or sent not in {expected, "*"} else None

    def _strong_tag(self, body: Body) -> str:
        state = json.dumps(body, sort_keys=True)
        return f'"{hashlib.sha256(f"{self._generation}{state}".encode()).hexdigest()[:16]}"'

    def _sent_tag(self, body: Body) -> str:
        weak = self.profile.tags_move or self.profile.tags is TagRule.STRONG_OF_WEAK
        return f"{'W/' if weak else ''}{self._strong_tag(body)}"

    def _resource(self, request: web.Request) -> Body | None:
        known = resources(self.profile, self.server, sessions=list(self.sessions))
        return known.get(request.path.rstrip("/"))


def _requested_limit(place: LimitPlace, body: Body) -> tuple[float | None, bool]:
    """Return the limit that a PATCH requests, None to switch it off, and whether the PATCH has one."""
    try:
        if place is LimitPlace.POWER:
            return body["PowerControl"][0]["PowerLimit"]["LimitInWatts"], True
        stanza = body["PowerLimitWatts"] if place is LimitPlace.ENVIRONMENT else body
        return (None if stanza.get("ControlMode") == "Disabled" else stanza["SetPoint"]), True
    except (KeyError, IndexError, TypeError):
        return None, False


async def _served(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _error(HTTPStatus(error.status), "Base.1.16.GeneralError")


async def _never() -> NoReturn:
    while True:
        await asyncio.Event().wait()


async def _body(request: web.Request) -> Body:
    try:
        body: Any = await request.json()
    except ValueError:
        raise web.HTTPBadRequest from None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest
    return body


def _error(status: HTTPStatus, code: str) -> web.Response:
    info = {"MessageId": code, "Message": code.rpartition(".")[2], "Severity": "Warning"}
    body = {"error": {"code": code, "message": info["Message"], "@Message.ExtendedInfo": [info]}}
    return web.json_response(body, status=status)
