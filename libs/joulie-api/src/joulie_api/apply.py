"""Writing to the API server only while allowed and not too much at once; and, with `Applier`, only what differs.

There is one field manager per service, so that each owns its own fields. The fence is checked right before each request
leaves. Nothing is retried: the caller decides the body again at its next tick. Two writes of one object under way
together have no order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final, Protocol

from joulie_api.errors import KubeError, NotFound, NotLeader
from joulie_api.resources import NODES, Resource

#: Requests under way at once. API priority and fairness queues what comes on top anyway; this keeps the queue here.
MAX_IN_FLIGHT: Final = 16


class WriteResult(StrEnum):
    """Result of one intended write; the value of the metrics label."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"


class Writer(Protocol):
    """The part of `joulie_api.client.KubeClient` that is used."""

    async def apply(
        self,
        res: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """Server-side apply, with force."""

    async def merge_patch(self, res: Resource, name: str, body: Mapping[str, Any], *, field_manager: str = "") -> bytes:
        """JSON merge patch."""

    async def delete(self, res: Resource, name: str, namespace: str | None = None) -> None:
        """Delete one object."""


#: Resource, namespace, name, whether it is the status: each is compared with its own predecessor.
_Key = tuple[Resource, str | None, str, bool]


def _always() -> bool:
    return True


def _ignore(_kind: str, _result: WriteResult) -> None:
    return None


class FencedWriter:
    """Requests that write, under one field manager: each is sent, if the fence allows it.

    `guard` is checked right before each request; where it answers False, NotLeader is raised and nothing is sent.
    `on_write` gets the kind and the result of every intended write.
    """

    def __init__(
        self,
        client: Writer,
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
        """Make the server hold `body`: all fields that this service owns, of the object or (`status`) of its status.

        apiVersion, kind and metadata.name are filled in. Fields that another manager owns are taken over.

        Raises:
            NotFound: `status` of an object that does not exist.
            KubeError: any other error of the API server or of the connection; after the latter the write may have
                been made.
            NotLeader: this process must not write.

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
        """Set labels of a Node, or remove those whose value is None; other labels stay. Raises as `apply`."""
        patch = {"metadata": {"labels": dict(labels)}}
        async with self._permission(NODES.kind):
            await self._client.merge_patch(NODES, name, patch, field_manager=self._field_manager)
        self._on_write(NODES.kind, WriteResult.APPLIED)

    async def delete(self, res: Resource, name: str, namespace: str | None = None) -> bool:
        """Delete an object; return False where it did not exist. Raises as `apply`, without NotFound."""
        async with self._permission(res.kind):
            try:
                await self._client.delete(res, name, namespace)
            except NotFound:
                deleted = False
            else:
                deleted = True
        self._on_write(res.kind, WriteResult.DELETED if deleted else WriteResult.ABSENT)
        return deleted

    @asynccontextmanager
    async def _permission(self, kind: str) -> AsyncIterator[None]:
        """A slot, then the fence: nothing may be awaited between the fence's answer and the request."""
        async with self._slots:
            if not self._guard():
                self._on_write(kind, WriteResult.REFUSED)
                raise NotLeader(f"a write of {kind} was refused: this process does not hold the lease")
            try:
                yield
            except KubeError:
                self._on_write(kind, WriteResult.FAILED)
                raise


class Applier:
    """A `FencedWriter` with a memory, for a service without a lease: sends nothing that this process wrote last."""

    def __init__(self, client: Writer, field_manager: str) -> None:
        self._writer = FencedWriter(client, field_manager)
        #: What the server took from this process last. Nothing is here while it is unknown whether a write landed.
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
        """Make the server hold `body`, as `FencedWriter.apply`. Raises as that.

        True when a request was made; False when `body` equals the last one applied and, if the object as last read is
        given as `live`, that still has every field of it.
        """
        key: _Key = (res, namespace, name, status)
        if same(self._last.get(key), body) and (live is None or covers(live, body)):
            return False
        self._last.pop(key, None)
        await self._writer.apply(res, name, body, namespace=namespace, status=status)
        self._last[key] = body
        return True

    async def delete(self, res: Resource, name: str, namespace: str | None = None) -> bool:
        """Delete an object; return False where it did not exist. Raises as `FencedWriter.delete`."""
        self.forget(res, name, namespace)
        return await self._writer.delete(res, name, namespace)

    def forget(self, res: Resource, name: str, namespace: str | None = None) -> None:
        """Write this object at the next apply even if the body is the same: it was changed or deleted by others."""
        for status in (False, True):
            self._last.pop((res, namespace, name, status), None)


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same to the API server: 72 equals 72.0, but true is no number."""
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
    """Whether ``live`` has everything that ``body`` says; other fields of ``live`` are somebody else's."""
    match live, body:
        case Mapping(), Mapping():
            return all(key in live and covers(live[key], value) for key, value in body.items())
        case (list() | tuple(), list() | tuple()):
            return _pairwise(covers, live, body)
        case _:
            return same(live, body)


def _pairwise(compare: Callable[[Any, Any], bool], left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(compare, left, right))
