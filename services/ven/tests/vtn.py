"""A VTN for tests: OpenADR 3.1 over real HTTP, each request and each answer judged by the specification.

Without the specification nothing is judged. Faults are scripted by `fault`, a function of the request that returns an
answer, or None to answer as usual; what it returns is not judged.
"""

import itertools
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qsl

from aiohttp import web

from joulie_core.timestamps import rfc3339

VEN = ("ven-id", "ven-secret")
BL = ("bl-id", "bl-secret")


class Vtn:
    """One VTN with one program."""

    def __init__(self, specification=None, *, program="dispatch", tls=None):
        self.judge = specification
        self._tls = tls
        self.violations = []
        self.requests = []
        self.events = {}
        self.reports = []
        self.programs = {}
        #: Events that have ended by the clock of this VTN.
        self.transpired = set()
        self.fault = lambda request: None
        self.expires_in = 3600
        self.ahead_s = 0.0
        self.granted = []
        self._tokens = {}
        self._ids = itertools.count(1)
        self._runner = None
        self.url = ""
        self.program = self._stamped("PROGRAM", {"programName": program})
        self.programs[self.program["id"]] = self.program

    async def __aenter__(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", ssl_context=self._tls, port=0).start()
        scheme = "http" if self._tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    def expire(self):
        """End every token."""
        self._tokens.clear()

    def put(self, **event):
        """Publish an event of the program, as business logic would; return its id."""
        made = self._stamped("EVENT", {"programID": self.program["id"], **event})
        self.events[made["id"]] = made
        return made["id"]

    def change(self, event_id, **fields):
        self.events[event_id] = {**self.events[event_id], **fields, "modificationDateTime": _now()}

    def asked(self, path, method="GET"):
        """The queries or bodies of the requests to a path."""
        return [each[2] for each in self.requests if each[:2] == (method, path)]

    def _stamped(self, kind, fields):
        number = next(self._ids)
        stamps = {"createdDateTime": _now(), "modificationDateTime": _now(), "objectType": kind}
        return {"id": f"{kind.lower()}-{number}", **stamps, **fields}

    async def _serve(self, request):
        if (answer := self.fault(request)) is not None:
            self.requests.append((request.method, request.path, None))
            return await answer if hasattr(answer, "__await__") else answer
        query = parse_qsl(request.query_string)
        body = await _body(request)
        self.requests.append((request.method, request.path, query if request.method == "GET" else body))
        if self.judge is not None:
            faults = self.judge.request(
                request.method,
                request.path,
                query=query,
                content_type=request.content_type,
                body=body,
                authorization=request.headers.get("Authorization", ""),
            )
            self.violations += faults
        status, answer = self._answer(request, query, body)
        if self.judge is not None:
            self.violations += self.judge.answer(request.method, request.path, status, answer)
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=self.ahead_s), usegmt=True)
        return web.json_response(answer, status=status, headers={"Date": date})

    def _answer(self, request, query, body):
        path = request.path.strip("/").split("/")
        if path[0] == "auth":
            return self._authorize(request.method, path, body)
        role = self._tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if role is None:
            return 401, _problem(401)
        if request.method == "GET":
            return self._read(path, query)
        if path == ["reports"] and request.method == "POST" and role == VEN[0]:
            self.reports.append(self._stamped("REPORT", body) | {"clientID": role})
            return 201, self.reports[-1]
        return self._written(request.method, path, body) if role == BL[0] else (403, _problem(403))

    def _authorize(self, method, path, body):
        match method, path:
            case "GET", ["auth", "server"]:
                return 200, {"tokenURL": f"{self.url}/auth/token"}
            case "POST", ["auth", "token"]:
                return self._issue(body)
        return 404, _problem(404)

    def _read(self, path, query):
        match path:
            case ["programs"]:
                return 200, _page(list(self.programs.values()), query)
            case ["events"]:
                return 200, _page([each for each in self.events.values() if self._shows(each, query)], query)
            case ["events", event_id] if event_id in self.events:
                return 200, self.events[event_id]
            case ["reports"]:
                wanted = {name: value for name, value in query if name in ("eventID", "clientName")}
                return 200, _page([each for each in self.reports if wanted.items() <= each.items()], query)
        return 404, _problem(404)

    def _written(self, method, path, body):
        """Answer what only business logic may do."""
        match method, path:
            case "POST", ["programs"]:
                made = self._stamped("PROGRAM", body)
                self.programs[made["id"]] = made
                return 201, made
            case "POST", ["events"]:
                made = self._stamped("EVENT", body)
                self.events[made["id"]] = made
                return 201, made
            case "PUT", ["events", event_id] if event_id in self.events:
                self.events[event_id] = {**self._stamped("EVENT", body), "id": event_id}
                return 200, self.events[event_id]
            case "DELETE", ["events", event_id] if event_id in self.events:
                return 200, self.events.pop(event_id)
        return 404, _problem(404)

    def _issue(self, form):
        if (form.get("client_id"), form.get("client_secret")) not in (VEN, BL):
            return 401, _problem(401)
        token = f"token-{next(self._ids)}"
        self._tokens[token] = form["client_id"]
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in}

    def _shows(self, event, query):
        """By program, and by the targets that are requested and granted."""
        wanted = dict(query)
        if event["programID"] != wanted.get("programID", event["programID"]):
            return False
        if wanted.get("active") == "true" and event["id"] in self.transpired:
            return False
        targets = [value for name, value in query if name == "targets"]
        if not event.get("targets"):
            return not targets
        return bool({*targets, *self.granted} & {*event["targets"]})


async def _body(request):
    if not request.can_read_body:
        return None
    if request.content_type == "application/x-www-form-urlencoded":
        return dict(await request.post())
    return await request.json()


def _page(items, query):
    wanted = dict(query)
    skip, limit = int(wanted.get("skip", 0)), int(wanted.get("limit", 50))
    return items[skip : skip + limit]


def _problem(status):
    return {"title": "no", "status": status}


def _now():
    return rfc3339(datetime.now(UTC).timestamp(), "seconds")
