"""Writing to the API server only what differs, only while allowed, and not too much at once.

Promises: one field manager per service, so that each owns its own fields; no request for an object whose body equals
what this process applied last; the fence is asked right before each request leaves. Not promised: retries (whoever
decides the body decides again at the next tick), nor order between two writes of one object under way together.
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
    """What became of one intended write; the metrics label."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"


class Writer(Protocol):
    """What an applier needs of :class:`joulie_api.client.KubeClient`."""

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


class _Part(StrEnum):
    """What of an object a write is about: each is compared with its own predecessor."""

    OBJECT = "object"
    STATUS = "status"
    LABELS = "labels"


_Key = tuple[Resource, str | None, str, _Part]


def _always() -> bool:
    return True


def _ignore(_kind: str, _result: WriteResult) -> None:
    return None


class Applier:
    """Writes for one service, under one field manager.

    ``guard`` is asked right before each request; when it says no, NotLeader is raised and nothing is sent. ``on_write``
    gets the kind and the result of every intended write.
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
        """Make the server hold ``body``: all fields this service owns, of the object or (``status``) of its status.

        apiVersion, kind and metadata.name are filled in. Fields that somebody else owns are taken over. True when a
        request was made; False when ``body`` equals the last one applied and, if the object as last read is given as
        ``live``, that still has every field of it. Raises NotFound (``status`` of an object that is not there), other
        ApiErrors, TransportError, NotLeader.
        """
        key: _Key = (res, namespace, name, _Part.STATUS if status else _Part.OBJECT)
        if same(self._last.get(key), body) and (live is None or covers(live, body)):
            self._on_write(res.kind, WriteResult.UNCHANGED)
            return False
        named = {"apiVersion": res.api_version, "kind": res.kind, **body}
        named["metadata"] = {**body.get("metadata", {}), "name": name}
        async with self._permission(res.kind):
            self._last.pop(key, None)
            await self._client.apply(
                res,
                name,
                named,
                field_manager=self._field_manager,
                namespace=namespace,
                subresource="status" if status else None,
            )
            self._last[key] = body
        self._on_write(res.kind, WriteResult.APPLIED)
        return True

    async def patch_node_labels(
        self, name: str, labels: Mapping[str, str | None], *, live: Mapping[str, str] | None = None
    ) -> bool:
        """Set labels of a Node, or remove those whose value is None; other labels stay.

        ``live`` are the Node's labels as last read. With them no request is made if they already agree, unless this
        process last wrote something else: then they may be older than that write. Raises as :meth:`apply`.
        """
        key: _Key = (NODES, None, name, _Part.LABELS)
        last = self._last.get(key)
        agreed = last is not None if live is None else all(live.get(label) == value for label, value in labels.items())
        if agreed and (last is None or last == labels):
            self._on_write(NODES.kind, WriteResult.UNCHANGED)
            return False
        async with self._permission(NODES.kind):
            self._last.pop(key, None)
            patch = {"metadata": {"labels": dict(labels)}}
            await self._client.merge_patch(NODES, name, patch, field_manager=self._field_manager)
            self._last[key] = labels
        self._on_write(NODES.kind, WriteResult.APPLIED)
        return True

    async def delete(self, res: Resource, name: str, namespace: str | None = None) -> bool:
        """Delete an object. False when it was not there, which is as good. Raises as :meth:`apply`."""
        self.forget(res, name, namespace)
        async with self._permission(res.kind):
            try:
                await self._client.delete(res, name, namespace)
            except NotFound:
                deleted = False
            else:
                deleted = True
        self._on_write(res.kind, WriteResult.DELETED if deleted else WriteResult.ABSENT)
        return deleted

    def forget(self, res: Resource, name: str, namespace: str | None = None) -> None:
        """Write this object at the next apply even if the body is the same: somebody else changed or deleted it."""
        for part in _Part:
            self._last.pop((res, namespace, name, part), None)

    @asynccontextmanager
    async def _permission(self, kind: str) -> AsyncIterator[None]:
        """A slot, then the fence: nothing may be waited for between the fence's answer and the request."""
        async with self._slots:
            if not self._guard():
                self._on_write(kind, WriteResult.REFUSED)
                raise NotLeader(f"a write of {kind} was refused: this process does not hold the lease")
            try:
                yield
            except KubeError:
                self._on_write(kind, WriteResult.FAILED)
                raise


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
