"""Storage of the in-process API server: one revision counter, serialized objects, a bounded history of changes.

Guarantees: resourceVersions rise with every change over all kinds; a request for changes after a revision that the
history no longer has is recognized; a list can be paged over a frozen snapshot. Objects are stored as bytes, so that
tens of thousands of them can be listed and streamed without being serialized again. To be used on one event loop.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from joulie_testing.api.kinds import ServedKind
from joulie_testing.api.ownership import Ownership


@dataclass(frozen=True, slots=True)
class Stored:
    """One revision of one object."""

    name: str
    namespace: str | None
    revision: int
    tail: bytes
    """The serialized object from its first field after kind and apiVersion on, closing brace included."""
    labels: Mapping[str, str]
    fields: tuple[str, ...]
    """Values of the kind's selectable fields, in its order; empty where absent."""
    owners: Ownership


#: Whether an object matches the selectors of a list or watch.
Match = Callable[[Stored], bool]


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One entry of a collection's history; by `before` and `after` a watch sees when an object starts to match."""

    revision: int
    before: Stored | None
    after: Stored | None
    last: Stored
    """The object of the event: the new one, or the deleted one at the revision of its deletion."""


@dataclass(slots=True)
class Collection:
    """All objects of one kind and the recent changes to them."""

    kind: ServedKind
    history: int
    objects: dict[str, Stored] = field(default_factory=dict)
    changes: list[StoredChange] = field(default_factory=list)
    dropped: int = 0
    """Number of changes dropped from the history; a stream's position counts from the first change."""
    compacted_revision: int = 0
    """Changes up to this revision can no longer be replayed."""
    wakes: set[asyncio.Event] = field(default_factory=set)
    _sorted: list[str] | None = None

    def record(self, key: str, change: StoredChange) -> None:
        """Apply a change and wake every stream."""
        if change.after is None:
            del self.objects[key]
            self._sorted = None
        else:
            if key not in self.objects:
                self._sorted = None
            self.objects[key] = change.after
        self.changes.append(change)
        # Trimmed in halves, so that the cost per change stays constant.
        if len(self.changes) > 2 * self.history:
            self.forget(len(self.changes) - self.history)
        for wake in self.wakes:
            wake.set()

    def forget(self, count: int) -> None:
        """Drop the oldest `count` changes from the history."""
        if count:
            self.compacted_revision = self.changes[count - 1].revision
            self.dropped += count
            del self.changes[:count]

    def snapshot(self, match: Match | None) -> list[Stored]:
        """Return every matching object, ordered by key."""
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        objects = (self.objects[key] for key in self._sorted)
        return list(objects) if match is None else [stored for stored in objects if match(stored)]

    def position_after(self, revision: int) -> int | None:
        """Return the position at which a stream resumes after `revision`; None if the history no longer has it."""
        if revision < self.compacted_revision:
            return None
        low, high = 0, len(self.changes)
        while low < high:
            middle = (low + high) // 2
            if self.changes[middle].revision <= revision:
                low = middle + 1
            else:
                high = middle
        return self.dropped + low

    def load(self, stored: Stored) -> dict[str, Any]:
        """Return an object as Python data."""
        loaded: dict[str, Any] = msgspec.json.decode(self.kind.prefix + stored.tail)
        return loaded


class Store:
    """All collections and the revision counter they share."""

    def __init__(self, kinds: Iterable[ServedKind], *, history: int) -> None:
        self.revision = 0
        self._history = history
        self._by_path: dict[tuple[str, str, str], Collection] = {}
        self._by_kind: dict[str, Collection] = {}
        self.on_change: Callable[[], None] = lambda: None
        for kind in kinds:
            self.serve(kind)

    def serve(self, kind: ServedKind) -> None:
        """Start storing a kind; keep the objects if it is served already."""
        address = (kind.group, kind.version, kind.plural)
        if address not in self._by_path:
            collection = Collection(kind, self._history)
            self._by_path[address] = collection
            self._by_kind.setdefault(kind.kind, collection)

    @property
    def collections(self) -> Iterable[Collection]:
        """Every collection."""
        return self._by_path.values()

    def find(self, group: str, version: str, plural: str) -> Collection | None:
        """Return a collection by the parts of its path; None if it is not served."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, kind: str) -> Collection:
        """Return the collection of a kind such as `Node`.

        Raises:
            KeyError: the kind is not served.
        """
        if kind not in self._by_kind:
            raise KeyError(f"kind {kind} is not served; known: {', '.join(sorted(self._by_kind))}")
        return self._by_kind[kind]

    def save(self, collection: Collection, key: str, obj: dict[str, Any], owners: Ownership) -> Stored:
        """Store the next revision of an object; set metadata.resourceVersion of `obj`."""
        self.revision += 1
        before = collection.objects.get(key)
        after = _pack(collection.kind, obj, self.revision, owners)
        collection.record(key, StoredChange(self.revision, before, after, after))
        self.on_change()
        return after

    def delete(self, collection: Collection, key: str) -> Stored:
        """Remove an object and return it at the revision of its deletion.

        Raises:
            KeyError: no such object.
        """
        before = collection.objects[key]
        self.revision += 1
        last = _pack(collection.kind, collection.load(before), self.revision, before.owners)
        collection.record(key, StoredChange(self.revision, before, None, last))
        self.on_change()
        return last


def _pack(kind: ServedKind, obj: dict[str, Any], revision: int, owners: Ownership) -> Stored:
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(revision)
    rest = {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}}
    return Stored(
        name=metadata["name"],
        namespace=metadata.get("namespace"),
        revision=revision,
        tail=msgspec.json.encode(rest)[1:],
        labels=metadata.get("labels") or {},
        fields=tuple(_read(obj, path) for path in kind.selectable),
        owners=owners,
    )


def _read(obj: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
