"""The HTTP side of a simulated BMC: sessions, accounts, tags, errors. The caller serves its application over TLS.

Source: DMTF DSP0266 (Redfish Specification), sections on requests, responses, sessions, privileges and ETags.
"""

import asyncio
import base64
import binascii
import hashlib
import itertools
import json
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, NoReturn

from aiohttp import web

from joulie_sim.bmc.accounts import Account, Accounts, Privilege
from joulie_sim.bmc.faults import BmcFault
from joulie_sim.bmc.limits import LIMIT_PATHS, requested_limit
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.odata import metadata_document, schema_url, service_document
from joulie_sim.bmc.profiles import BmcProfile, TagRule
from joulie_sim.bmc.refusals import RefusedError
from joulie_sim.bmc.resources import ACCOUNTS, METADATA, ODATA, RESET, ROOT, SESSIONS, Body, account, resources, session

#: Serves a request for a resource, which is None where the path has none.
_Handler = Callable[[web.Request, Body], Awaitable[web.Response]]
_VERSIONS: Final = "/redfish"
_READS: Final = frozenset({"GET", "HEAD"})
_ODATA_VERSION: Final = "4.0"


class SimulatedBmc:
    """A BMC with one server.

    `requests` has method and path of each request; `sessions` the tokens by session; `fault` may be set and removed at
    any time. They are for tests.
    """

    def __init__(self, profile: BmcProfile, server: SimulatedServer, *, user: str, password: str) -> None:
        self.profile = profile
        self.server = server
        self.accounts = Accounts(user, password)
        self.requests: list[tuple[str, str]] = []
        self.sessions: dict[str, str] = {}
        self.fault: BmcFault | None = None
        #: Identifier of the account by token.
        self._owners: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._generation = 0

    def application(self) -> web.Application:
        """Return the application that serves this BMC."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path))
        if self.profile.latency_s:
            await asyncio.sleep(self.profile.latency_s)
        try:
            if not _is_open(request):
                self._account(request)
            response = await self._served_unless_faulty(request)
        except RefusedError as refusal:
            response = refusal.response()
        if response.status == HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = 'Basic realm="Redfish"'
        response.headers["OData-Version"] = _ODATA_VERSION
        response.headers["Cache-Control"] = "no-cache"
        return response

    async def _served_unless_faulty(self, request: web.Request) -> web.Response:
        fault = self.fault
        if fault is None or not fault.concerns(request.method):
            return await self._serve(request)
        if fault.carried_out:
            with suppress(RefusedError):
                await self._serve(request)
        fault.met.set()
        if fault.status is None:
            await _never()
        busy = RefusedError(HTTPStatus(fault.status), "ServiceTemporarilyUnavailable").response()
        if fault.retry_after_s is not None:
            busy.headers["Retry-After"] = str(fault.retry_after_s)
        return busy

    async def _serve(self, request: web.Request) -> web.Response:
        # Received first, so that no other request changes anything between what is checked and what is changed.
        await request.read()
        path, known = _path(request), self._resources()
        methods = self._methods(path, known)
        if not methods:
            raise RefusedError(HTTPStatus.NOT_FOUND, "ResourceMissingAtURI", path)
        handler = methods.get(request.method)
        if handler is None:
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "OperationNotAllowed", allow=methods)
        if request.headers.get("OData-Version", _ODATA_VERSION) != _ODATA_VERSION:
            raise RefusedError(HTTPStatus.PRECONDITION_FAILED, "HeaderInvalid", "OData-Version")
        response = await handler(request, known.get(path, {}))
        if request.method in _READS:
            response.headers["Allow"] = ", ".join(methods)
        return response

    def _methods(self, path: str, known: dict[str, Body]) -> dict[str, _Handler]:
        """Return what serves a path, by method; empty if there is nothing."""
        parent, _, name = path.rpartition("/")
        if path == RESET:
            return {"POST": self._reset}
        collections: dict[str, _Handler] = {SESSIONS: self._log_in, ACCOUNTS: self._create_account}
        if parent in collections and name == "Members":
            return {"POST": collections[parent]}
        documents = {_VERSIONS: self._get_versions, ODATA: self._get_odata, METADATA: self._get_metadata}
        read = documents.get(path, self._get if path in known else None)
        if read is None:
            return {}
        found: dict[str, _Handler] = dict.fromkeys(("GET", "HEAD"), read)
        if path in collections:
            found["POST"] = collections[path]
        elif path == LIMIT_PATHS.get(self.profile.limit_place):
            found["PATCH"] = self._patch_limit
        elif parent == SESSIONS:
            found["DELETE"] = self._log_out
        elif parent == ACCOUNTS:
            found["PATCH"] = self._patch_account
            if name != self.accounts.administrator.identifier:
                found["DELETE"] = self._delete_account
        return found

    # --- who asks -----------------------------------------------------------------------------------------------------

    def _account(self, request: web.Request) -> Account:
        """Return the account of a request.

        Raises:
            RefusedError: there is none with these credentials.
        """
        token = request.headers.get("X-Auth-Token")
        if token is not None:
            found = self.accounts.by_id.get(self._owners.get(token, "")) if token in self.sessions.values() else None
        else:
            found = self.accounts.log_in(*_basic(request.headers.get("Authorization", "")))
        if found is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "NoValidSession")
        return found

    def _require(self, request: web.Request, privilege: Privilege, *, own: bool = False) -> None:
        """Raise RefusedError unless the account has a privilege, or the right to change what is its own."""
        found = self._account(request)
        if not (found.may(privilege) or (own and found.may(Privilege.CONFIGURE_SELF))):
            raise RefusedError(HTTPStatus.FORBIDDEN, "InsufficientPrivilege")

    async def _log_in(self, request: web.Request, _body: Body) -> web.Response:
        sent = await _json(request)
        found = self.accounts.log_in(sent.get("UserName"), sent.get("Password"))
        if found is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "ResourceAtUriUnauthorized")
        if len(self.sessions) >= self.profile.max_sessions:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "SessionLimitExceeded")
        name, token = str(next(self._numbers)), secrets.token_hex(16)
        self.sessions[name] = token
        self._owners[token] = found.identifier
        return _created(session(name, found.user), {"X-Auth-Token": token})

    async def _log_out(self, request: web.Request, _body: Body) -> web.Response:
        name = _path(request).rpartition("/")[2]
        owner = self._owners.get(self.sessions[name])
        self._require(request, Privilege.CONFIGURE_MANAGER, own=self._account(request).identifier == owner)
        del self.sessions[name]
        return _done()

    async def _create_account(self, request: web.Request, _body: Body) -> web.Response:
        self._require(request, Privilege.CONFIGURE_USERS)
        return _created(account(self.accounts.create(await _json(request))))

    async def _patch_account(self, request: web.Request, body: Body) -> web.Response:
        found, sent = self.accounts.by_id[body["Id"]], await _json(request)
        own = self._account(request) is found and sent.keys() <= {"Password"}
        self._require(request, Privilege.CONFIGURE_USERS, own=own)
        self._require_tag(request.headers.get("If-Match"), body)
        self.accounts.change(found, sent)
        return _done()

    async def _delete_account(self, request: web.Request, body: Body) -> web.Response:
        self._require(request, Privilege.CONFIGURE_USERS)
        del self.accounts.by_id[body["Id"]]
        return _done()

    # --- what is asked ------------------------------------------------------------------------------------------------

    async def _get_versions(self, _request: web.Request, _body: Body) -> web.Response:
        return web.json_response({"v1": f"{ROOT}/"})

    async def _get_odata(self, _request: web.Request, _body: Body) -> web.Response:
        return web.json_response(service_document(self._resources()[ROOT], METADATA))

    async def _get_metadata(self, _request: web.Request, _body: Body) -> web.Response:
        kinds = (each["@odata.type"] for each in self._resources().values())
        return web.Response(text=metadata_document(kinds), content_type="application/xml")

    async def _get(self, _request: web.Request, body: Body) -> web.Response:
        if self.profile.tags_move:
            self._generation += 1
        headers = {"ETag": self._sent_tag(body), "Link": f"<{schema_url(body['@odata.type'])}>; rel=describedby"}
        return web.json_response(body, headers=headers)

    async def _reset(self, request: web.Request, _body: Body) -> web.Response:
        self._require(request, Privilege.CONFIGURE_COMPONENTS)
        if "If-Match" in request.headers:
            raise RefusedError(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        kind = (await _json(request)).get("ResetType")
        if kind not in self.profile.reset_types:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "ActionParameterNotSupported", str(kind))
        self.server.reset(str(kind))
        return _done()

    async def _patch_limit(self, request: web.Request, body: Body) -> web.Response:
        self._require(request, Privilege.CONFIGURE_COMPONENTS)
        self._require_tag(request.headers.get("If-Match"), body)
        if not self.profile.licensed:
            raise RefusedError(HTTPStatus.FORBIDDEN, "iLO.2.14.LicenseKeyRequired")
        self.server.limit_watts = requested_limit(self.profile, await _json(request))
        return _done()

    def _require_tag(self, sent: str | None, body: Body) -> None:
        """Raise RefusedError unless the tag of a PATCH is as the profile has it."""
        rule = self.profile.tags
        if sent is None:
            if rule in {TagRule.REQUIRED, TagRule.STRONG_OF_WEAK, TagRule.MOVING}:
                raise RefusedError(HTTPStatus.PRECONDITION_REQUIRED, "PreconditionRequired")
            return
        expected = self._strong_tag(body) if rule is TagRule.STRONG_OF_WEAK else self._sent_tag(body)
        taken = {"*"} if rule is TagRule.MOVING else {expected, "*"}
        if rule is TagRule.REFUSED or sent not in taken:
            raise RefusedError(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")

    def _strong_tag(self, body: Body) -> str:
        state = json.dumps(body, sort_keys=True)
        return f'"{hashlib.sha256(f"{self._generation}{state}".encode()).hexdigest()[:16]}"'

    def _sent_tag(self, body: Body) -> str:
        weak = self.profile.tags_move or self.profile.tags is TagRule.STRONG_OF_WEAK
        return f"{'W/' if weak else ''}{self._strong_tag(body)}"

    def _resources(self) -> dict[str, Body]:
        owners = {name: self._owners.get(token, "") for name, token in self.sessions.items()}
        accounts = self.accounts.by_id
        users = {name: accounts[owner].user if owner in accounts else "" for name, owner in owners.items()}
        return resources(self.profile, self.server, sessions=users, accounts=accounts)


def _path(request: web.Request) -> str:
    return request.path.rstrip("/")


def _is_open(request: web.Request) -> bool:
    """Return whether a request needs no credentials."""
    path = _path(request)
    if request.method in _READS:
        return path in {_VERSIONS, ROOT, ODATA, METADATA}
    return request.method == "POST" and path in {SESSIONS, f"{SESSIONS}/Members"}


def _basic(header: str) -> tuple[str, str]:
    """Return user and password of an Authorization header, empty where it has none."""
    kind, _, encoded = header.partition(" ")
    try:
        user, _, password = base64.b64decode(encoded if kind == "Basic" else "").decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _created(body: Body, headers: dict[str, str] | None = None) -> web.Response:
    location = {"Location": body["@odata.id"]}
    return web.json_response(body, status=HTTPStatus.CREATED, headers=location | (headers or {}))


def _done() -> web.Response:
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def _never() -> NoReturn:
    while True:
        await asyncio.Event().wait()


async def _json(request: web.Request) -> Body:
    try:
        body: Any = await request.json()
    except ValueError:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "MalformedJSON") from None
    if not isinstance(body, dict):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "MalformedJSON")
    return body
