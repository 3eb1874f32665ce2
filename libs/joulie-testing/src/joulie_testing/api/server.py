"""An in-process API server for tests: real HTTP on loopback, real semantics, scripted faults.

Implements what Joulie's services depend on: rising resourceVersions, paged lists, watches with bookmarks and expiry,
optimistic locking, the status subresource, merge patches and server-side apply with ownership.
Does not authenticate, validate schemas, run admission or collect garbage; tests of those use a real control plane.
Its Python methods must be called from the thread of the event loop it is started in.

    async with FakeApiServer() as server:
        server.put(make_node("n1"))
        client = await KubeClient.connect(kubeconfig=str(server.kubeconfig(tmp_path)), user_agent="test")
        server.faults.add(Respond(429, retry_after_s=1), verb="list", path="/nodes")
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from joulie_testing.api import writes
from joulie_testing.api.faults import FaultInjector, StreamAction
from joulie_testing.api.http import Handler
from joulie_testing.api.kinds import SERVED
from joulie_testing.api.listing import Lister
from joulie_testing.api.ownership import Manager, Operation, readable
from joulie_testing.api.request_log import RequestLog
from joulie_testing.api.storage import Store

_MAX_BODY_BYTES = 64 * 1024 * 1024
_HOST = "127.0.0.1"


class FakeApiServer:
    """The server, its objects, its faults and its log of requests.

    Args:
        history: changes per kind over which a watch can be resumed before it answers 410.
        bookmark_interval_s: interval of an open watch's bookmarks; about a minute on a real server.
    """

    def __init__(self, *, history: int = 20_000, bookmark_interval_s: float = 60.0) -> None:
        self.faults = FaultInjector()
        self.requests = RequestLog()
        self._store = Store(SERVED, history=history)
        self._lister = Lister(self._store)
        self._handler = Handler(
            self._store, self._lister, self.faults, self.requests, bookmark_interval_s=bookmark_interval_s
        )
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._moved = asyncio.Event()
        self._store.on_change = self._move
        self._handler.on_request = self._move

    async def start(self) -> None:
        """Listen; after a `stop`, on the same port and with the same objects."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handler.handle)
        # Handlers of watches and half-open answers end when their client disconnects or the server stops.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening and reset every connection; keep objects, faults and logged requests."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """URL of the server."""
        return f"http://{_HOST}:{self._port}"

    @property
    def resource_version(self) -> int:
        """The revision of the latest change."""
        return self._store.revision

    def kubeconfig(self, directory: Path) -> Path:
        """Write a kubeconfig of this server into a directory and return its path."""
        path = directory / "kubeconfig.json"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
        path.write_bytes(msgspec.json.encode(content))
        return path

    def put(self, obj: Mapping[str, Any], *, manager: str | None = None) -> dict[str, Any]:
        """Create or replace an object, status included, and return it as stored.

        Args:
            obj: the object; its `kind` determines the collection.
            manager: owner of the changed fields; None leaves ownership unchanged.
        """
        target = self._target(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))
        entry = Manager(manager, Operation.UPDATE) if manager else None
        stored = target.collection.objects.get(target.key)
        if stored is None:
            stored = writes.adopt(self._store, target, obj, entry)
        else:
            stored = writes.settle(self._store, target, stored, dict(obj), entry)
        return target.collection.load(stored)

    def put_all(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Create or replace each object."""
        for obj in objects:
            self.put(obj)

    def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        manager: str | None = None,
    ) -> dict[str, Any]:
        """Merge into an object, status included (null deletes), and return it as stored.

        Raises:
            KeyError: no such object.
        """
        current = self.get(kind, name, namespace)
        if current is None:
            raise KeyError(f"{kind} {name} does not exist")
        return self.put(writes.merged(current, patch), manager=manager)

    def remove(self, kind: str, name: str, namespace: str | None = None) -> None:
        """Delete an object.

        Raises:
            KeyError: no such object.
        """
        target = self._target(kind, name, namespace)
        self._store.delete(target.collection, target.key)

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """Return an object; None if it does not exist."""
        target = self._target(kind, name, namespace)
        stored = target.collection.objects.get(target.key)
        return None if stored is None else target.collection.load(stored)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """Return all objects of a kind, ordered by namespace and name."""
        collection = self._store.of_kind(kind)
        return [collection.load(stored) for stored in collection.snapshot(None)]

    def count(self, kind: str) -> int:
        """Return the number of objects of a kind."""
        return len(self._store.of_kind(kind).objects)

    def owners(self, kind: str, name: str, namespace: str | None = None) -> dict[str, list[str]]:
        """Return the fields of an object by field manager, in dotted form.

        Raises:
            KeyError: no such object.
        """
        target = self._target(kind, name, namespace)
        return readable(target.collection.objects[target.key].owners)

    def compact(self) -> None:
        """Drop all history: a watch from any earlier revision answers 410."""
        for collection in self._store.collections:
            collection.forget(len(collection.changes))
            collection.compacted_revision = self._store.revision

    def expire_continue_tokens(self) -> None:
        """Make every continue token issued so far answer 410."""
        self._lister.expire_tokens()

    def watches(self, kind: str | None = None) -> int:
        """Return the number of open watches."""
        return sum(kind in {None, stream.kind} for stream in self._handler.streams)

    def disturb_watches(self, action: StreamAction, kind: str | None = None) -> int:
        """Apply an action to the watches that are open, and return their number."""
        hit = [stream for stream in self._handler.streams if kind in {None, stream.kind}]
        for stream in hit:
            stream.disturb(action)
        return len(hit)

    async def wait_for(self, condition: Callable[[], object], *, timeout_s: float = 30.0) -> None:
        """Wait until the condition holds; it is checked after each request and each change.

        Raises:
            TimeoutError: it does not hold in time.
        """
        async with asyncio.timeout(timeout_s):
            while not condition():
                await self._moved.wait()

    def _target(self, kind: str, name: str, namespace: str | None) -> writes.WriteTarget:
        collection = self._store.of_kind(kind)
        return writes.WriteTarget(collection, name, (namespace or "default") if collection.kind.namespaced else None)

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
