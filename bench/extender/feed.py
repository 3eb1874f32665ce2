"""An API server that repeats: lists from prepared bytes, and watches to which lines are written as they come in.

The project's in-process API server makes each object anew for each change, which at thousands of changes a second would
measure that server. This one only copies bytes, so that a fraction of a core feeds an extender that uses a whole one.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from cluster import compact, node_names
from traffic import cluster_objects

_SPAWN = multiprocessing.get_context("spawn")
_VERSION: Final = "1000"
_BOOKMARK_S: Final = 30.0


class Feed:
    """The bench's end of the API server."""

    def __init__(self, channel: Connection, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self._channel = channel

    def send(self, resource: str, lines: Sequence[bytes]) -> None:
        """Write lines to the watches of a resource, given by its plural."""
        self._channel.send_bytes(b"%b\n%b\n" % (resource.encode(), b"\n".join(lines)))


@contextmanager
def run_feed(nodes: int, directory: Path) -> Iterator[Feed]:
    """Start the API server of a cluster with so many nodes, in a process of its own."""
    channel, child = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_main, args=(nodes, child), daemon=True)
    process.start()
    try:
        path = directory / "kubeconfig.json"
        path.write_text(json.dumps(_kubeconfig(channel.recv())))
        yield Feed(channel, str(path))
    finally:
        process.terminate()
        process.join()


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "feed", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "feed", "user": {}}],
        "contexts": [{"name": "feed", "context": {"cluster": "feed", "user": "feed"}}],
        "current-context": "feed",
    }


def _main(nodes: int, channel: Connection) -> None:
    asyncio.run(_serve(nodes, channel))


async def _serve(nodes: int, channel: Connection) -> None:
    server = _Server(cluster_objects(node_names(nodes)))
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    asyncio.get_running_loop().add_reader(channel.fileno(), lambda: server.write(channel.recv_bytes()))
    channel.send(runner.addresses[0][1])
    await server.bookmark()


class _Server:
    """Lists and watches by the plural of the resource."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]]) -> None:
        self._lists = {
            plural: compact({"metadata": {"resourceVersion": _VERSION}, "items": [_versioned(each) for each in items]})
            for plural, items in objects.items()
        }
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = {plural: [] for plural in objects}

    def write(self, message: bytes) -> None:
        plural, _, lines = message.partition(b"\n")
        for queue in self._watches[plural.decode()]:
            queue.put_nowait(lines)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        if plural not in self._lists:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if request.query.get("watch") != "true":
            return web.Response(body=self._lists[plural], content_type="application/json")
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches[plural].append(queue)
        try:
            while True:
                await answer.write(await queue.get())
        finally:
            self._watches[plural].remove(queue)

    async def bookmark(self) -> None:
        """Keep the watches alive; runs until the process ends."""
        bookmark = compact({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2000000000"}}})
        while True:
            await asyncio.sleep(_BOOKMARK_S)
            for queues in self._watches.values():
                for queue in queues:
                    queue.put_nowait(bookmark + b"\n")


def _versioned(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"].setdefault("resourceVersion", _VERSION)
    return obj
