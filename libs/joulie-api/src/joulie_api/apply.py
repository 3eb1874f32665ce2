"""Writes to the API server: only while permitted, a limited number at a time, and with `Applier` only differences.

There is one field manager per service, so that each owns its own fields. The fence is checked right before each request
is sent. Nothing is retried: the caller computes the body again at its next tick. Concurrent writes of one object have
no order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final

from joulie_api.client import KubeClient
from joulie_api.errors import KubeError, NotFound, NotLeader
from joulie_api.resources import NODES, Resource

#: Concurrent requests. API priority and fairness would queue any excess at the server; this keeps the queue here.
MAX_IN_FLIGHT: Final = 16
#: Kind of an eviction, which is no object.
_EVICTION: Final = "Eviction"


class WriteResult(StrEnum):
    """Result of one intended write; the value of the metrics label."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"


#: Resource, namespace, name, whether it is the status: each is compared with its own last write.
_Key = tuple[Resource, str | None, str, bool]


def _always() -> bool:
    return True


def _ignore(_kind: str, _result: WriteResult) -> None:
    return None


class FencedWriter:
    """Writes under one field manager, sent only if the fence permits.

    `guard` is called right before each request; if it returns False, NotLeader is raised and nothing is sent.
    `on_write` receives the kind and the result of every intended write.
    """

    def __init__(
        self,
        client: KubeClient,
        field_manager: str,
        *,
        guard: Callable[[], bool] = _always,
        on_write: Callable[[str, WriteResult], None] | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._client = client
        self._field_manager = field_manager
        self._guard = guard
        self._on_write = _ignore if on_write is None else on_write
        self._slots = asyncio.Semaphore(max_in_flight)

    async def apply(
        self,
        res: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        status: bool = False,
    ) -> None:
        """Apply `body`: all fields that this service owns, of the object or (`status`) of its status.

        apiVersion, kind and metadata.name are filled in. Fields of other managers are taken over.

        Raises:
            NotFound: `status` of an object that does not exist.
            KubeError: any other error of the API server or of the connection; after the latter the write may have
                succeeded.
            NotLeader: `guard` returned False.
        """
        named = {"apiVersion": res.api_version, "kind": res.kind, **body}
        named["metadata"] = {**body.get("metadata", {}), "name": name}
        async with self._permission(res.kind):
            await self._client.apply(
                res,
                name,
                named,
                field_manager=self._field_manager,
                namespace=namespace,
                subresource="status" if status else None,
            )
        self._on_write(res.kind, WriteResult.APPLIED)

    async def patch_node_labels(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a Node, or remove those whose value is None; other labels stay. Raise as `apply`."""
        patch = {"metadata": {"labels": dict(labels)}}
        async with self._permission(NODES.kind):
            await self._client.merge_patch(NODES, name, patch, field_manager=self._field_manager)
        self._on_write(NODES.kind, WriteResult.APPLIED)

    async def patch(self, res: Resource, name: str, body: Mapping[str, Any]) -> None:
        """Apply a JSON merge patch; with a `metadata.resourceVersion` only to that version. Raise as `apply`.

        Raises:
            Conflict: the object has another resourceVersion.
        """
        async with self._permission(res.kind):
            await self._client.merge_patch(res, name, body, field_manager=self._field_manager)
        self._on_write(res.kind, WriteResult.APPLIED)

    async def create(self, res: Resource, name: str, body: Mapping[str, Any]) -> None:
        """Create a cluster-scoped object; apiVersion, kind and metadata.name are filled in. Raise as `apply`.

        Raises:
            AlreadyExists: an object of that name exists.
        """
        named = {"apiVersion": res.api_version, "kind": res.kind, **body}
        named["metadata"] = {**body.get("metadata", {}), "name": name}
        async with self._permission(res.kind):
            await self._client.create(res, named)
        self._on_write(res.kind, WriteResult.APPLIED)

    async def evict(self, name: str, namespace: str) -> None:
        """Evict a pod. Raise as `joulie_api.client.KubeClient.evict`, and NotLeader."""
        async with self._permission(_EVICTION):
            await self._client.evict(name, namespace)
        self._on_write(_EVICTION, WriteResult.APPLIED)

    async def delete(self, res: Resource, name: str, namespace: str | None = None, *, version: str = "") -> bool:
        """Delete an object; return False if it did not exist. Raise as `apply`, without NotFound.

        Raises:
            Conflict: a `version` is given, and the object has another resourceVersion.
        """
        async with self._permission(res.kind):
            try:
                await self._client.delete(res, name, namespace, version=version)
            except NotFound:
                deleted = False
            else:
                deleted = True
        self._on_write(res.kind, WriteResult.DELETED if deleted else WriteResult.ABSENT)
        return deleted

    @asynccontextmanager
    async def _permission(self, kind: str) -> AsyncIterator[None]:
        """Wait for a slot, then check the fence: nothing may be awaited between the check and the request."""
        async with self._slots:
            if not self._guard():
                self._on_write(kind, WriteResult.REFUSED)
                raise NotLeader(f"write of {kind} not sent: this process does not hold the lease")
            try:
                yield
            except KubeError:
                self._on_write(kind, WriteResult.FAILED)
                raise


async def write_each(works: Iterator[Coroutine[Any, Any, None]], *, concurrency: int) -> None:
    """Await writes in their order, `concurrency` at a time.

    Raises:
        NotLeader: one of them has raised it; those that had not begun are left out.
    """
    lost: list[NotLeader] = []

    async def work() -> None:
        for each in works:
            try:
                if lost:
                    each.close()
                else:
                    await each
            except NotLeader as error:
                lost.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
    if lost:
        raise lost[0]


class Applier:
    """A writer for services without a lease, which does not repeat this process's last write of an object."""

    def __init__(self, client: KubeClient, field_manager: str) -> None:
        self._writer = FencedWriter(client, field_manager)
        #: What the server last accepted from this process. Has no entry while it is unknown whether a write succeeded.
        self._last: dict[_Key, Mapping[str, Any]] = {}

    async def apply(
        self,
        res: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        status: bool = False,
        live: Mapping[str, Any] | None = None,
    ) -> bool:
        """Apply `body` as `FencedWriter.apply` does, unless nothing differs. Raise as that.

        Returns:
            True when a request was made; False when `body` equals the last one applied and, if the object as last read
            is given as `live`, that still has every field of it.
        """
        key: _Key = (res, namespace, name, status)
        if same(self._last.get(key), body) and (live is None or covers(live, body)):
            return False
        self._last.pop(key, None)
        await self._writer.apply(res, name, body, namespace=namespace, status=status)
        self._last[key] = body
        return True

    async def delete(self, res: Resource, name: str, namespace: str | None = None) -> bool:
        """Delete an object; return False if it did not exist. Raise as `FencedWriter.delete`."""
        self.forget(res, name, namespace)
        return await self._writer.delete(res, name, namespace)

    def forget(self, res: Resource, name: str, namespace: str | None = None) -> None:
        """Write this object at the next apply even if the body is the same: another client changed or deleted it."""
        for status in (False, True):
            self._last.pop((res, namespace, name, status), None)


def same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are the same to the API server: 72 equals 72.0, but true is not a number."""
    match left, right:
        case Mapping(), Mapping():
            return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
        case (list() | tuple(), list() | tuple()):
            return _pairwise(same, left, right)
        case bool(), _:
            return left is right
        case _, bool():
            return False
        case _:
            return bool(left == right)


def covers(live: Any, body: Any) -> bool:
    """Return whether `live` contains everything in `body`; other fields of `live` belong to other managers."""
    match live, body:
        case Mapping(), Mapping():
            return all(key in live and covers(live[key], value) for key, value in body.items())
        case (list() | tuple(), list() | tuple()):
            return _pairwise(covers, live, body)
        case _:
            return same(live, body)


def _pairwise(compare: Callable[[Any, Any], bool], left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(compare, left, right))
