"""An API server inside the test's process: real HTTP on loopback, real semantics, faults on demand.

Promises what Joulie's services can notice of a real server: rising resourceVersions, paged lists, watches with
bookmarks and expiry, optimistic locking, the status subresource, merge patches and server-side apply with ownership.
Does not authenticate, validate schemas, run admission or collect garbage; tests of those run on a real control plane.
Belongs to the event loop it is started in: its Python methods are called from that loop's thread.

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

from joulie_api.testing import writes
from joulie_api.testing.faults import FaultInjector, StreamAction
from joulie_api.testing.http import Handler
from joulie_api.testing.kinds import SERVED
from joulie_api.testing.listing import Lister
from joulie_api.testing.ownership import Manager, Operation, readable
from joulie_api.testing.request_log import RequestLog
from joulie_api.testing.storage import Store

_MAX_BODY_BYTES = 64 * 1024 * 1024
_HOST = "127.0.0.1"


class FakeApiServer:
    """The server, its contents, its faults and its memory of requests.

    Args:
        history: how many changes per kind a watch can be resumed over before it answers 410.
        bookmark_interval_s: how often an open watch gets a bookmark; a real server takes about a minute.
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
        """Listen; after a `stop`, on the same port and with the same contents."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handler.handle)
        # Handlers of watches and half-open answers end when their client goes or the server stops.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening and break every connection; contents, faults and journal stay."""
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
        """Where the server listens."""
        return f"http://{_HOST}:{self._port}"

    @property
    def resource_version(self) -> int:
        """The revision of the latest change."""
        return self._store.revision

    def kubeconfig(self, directory: Path) -> Path:
        """Write a kubeconfig for this server into a directory, for clients in this process or another."""
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
            obj: the object; `kind` tells where it goes.
            manager: who owns the fields this changes; None leaves ownership as it is.
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
        """`put` each of them."""
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
            raise KeyError(f"{kind} {name} is not on the server")
        return self.put(writes.merged(current, patch), manager=manager)

    def remove(self, kind: str, name: str, namespace: str | None = None) -> None:
        """Delete an object.

        Raises:
            KeyError: no such object.
        """
        target = self._target(kind, name, namespace)
        self._store.delete(target.collection, target.key)

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """An object as it is now; None when it is not there."""
        target = self._target(kind, name, namespace)
        stored = target.collection.objects.get(target.key)
        return None if stored is None else target.collection.load(stored)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind, ordered by namespace and name."""
        collection = self._store.of_kind(kind)
        return [collection.load(stored) for stored in collection.snapshot(None)]

    def count(self, kind: str) -> int:
        """How many objects of a kind there are."""
        return len(self._store.of_kind(kind).objects)

    def owners(self, kind: str, name: str, namespace: str | None = None) -> dict[str, list[str]]:
        """Which field manager owns which fields of an object, in dotted form.

        Raises:
            KeyError: no such object.
        """
        target = self._target(kind, name, namespace)
        return readable(target.collection.objects[target.key].owners)

    def compact(self) -> None:
        """Forget all history: a watch from any earlier revision answers 410."""
        for collection in self._store.collections:
            collection.forget(len(collection.changes))
            collection.compacted_revision = self._store.revision

    def expire_continue_tokens(self) -> None:
        """Make every continue token given out so far answer 410."""
        self._lister.expire_tokens()

    def watches(self, kind: str | None = None) -> int:
        """How many watches are open."""
        return sum(kind in {None, stream.kind} for stream in self._handler.streams)

    def disturb_watches(self, action: StreamAction, kind: str | None = None) -> int:
        """Do something to the watches that are open now; returns how many."""
        hit = [stream for stream in self._handler.streams if kind in {None, stream.kind}]
        for stream in hit:
            stream.disturb(action)
        return len(hit)

    async def wait_for(self, condition: Callable[[], object], *, timeout_s: float = 10.0) -> None:
        """Return when the condition holds; it is asked again after each request and each change.

        Raises:
            TimeoutError: it did not come true in time.
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
