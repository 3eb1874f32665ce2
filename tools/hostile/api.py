"""The API servers that poison is planted in: a real one, and one in this process that has what a real one refuses."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol
from uuid import uuid4

import msgspec
from tools.hostile.grammar import Grammar, Poison

from joulie_api.client import MERGE_PATCH, KubeClient
from joulie_api.errors import ApiError, TransportError
from joulie_api.resources import (
    DAEMON_SETS,
    DEVICE_CLASSES,
    NODE_BMCS,
    NODE_HARDWARES,
    NODE_POWER_BUDGETS,
    NODE_POWER_PROFILES,
    NODE_SLEEP_POLICIES,
    NODE_TWINS,
    NODES,
    PODS,
    POWER_DOMAINS,
    POWER_EVENTS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SECRETS,
    TELEMETRY_PROFILES,
    Resource,
)
from joulie_testing.api import FakeApiServer
from joulie_testing.api.faults import expired_event
from joulie_testing.api.storage import Stored, StoredChange

RESOURCES: Mapping[str, Resource] = {
    each.kind: each
    for each in (
        *(NODES, PODS, SECRETS, DAEMON_SETS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES),
        *(NODE_HARDWARES, NODE_POWER_PROFILES, NODE_TWINS, TELEMETRY_PROFILES, NODE_BMCS, NODE_SLEEP_POLICIES),
        *(POWER_DOMAINS, NODE_POWER_BUDGETS, POWER_EVENTS),
    )
}


class Api(Protocol):
    """Where poison is planted."""

    async def plant(self, grammar: Grammar, document: dict[str, Any]) -> tuple[Poison, bool]:
        """Store a poisoned form of a document; return it, and whether it was accepted."""

    async def remove(self, document: dict[str, Any]) -> None:
        """Delete it."""

    async def relist(self) -> None:
        """Have every watch end, so that its client lists again; nothing where that cannot be requested."""


class ForgedApi(FakeApiServer):
    """The server in this process: takes any object as the bytes that it is, as an etcd that was written to directly."""

    def __init__(self) -> None:
        super().__init__(history=2_000, bookmark_interval_s=1.0)

    async def plant(self, grammar: Grammar, document: dict[str, Any]) -> tuple[Poison, bool]:
        """Store a poisoned form as it is."""
        kind, meta = document["kind"], document["metadata"]
        collection, key, before = self._found(document)
        revision = str(self._store.revision + 1)
        identity = {"uid": str(uuid4()), "resourceVersion": revision, "creationTimestamp": "2026-01-01T00:00:00Z"}
        bare = {name: value for name, value in document.items() if name not in {"kind", "apiVersion"}}
        poison = grammar.draw({**bare, "metadata": {**identity, **meta}}, well_formed=True)
        self._store.revision += 1
        after = Stored(
            name=meta["name"],
            namespace=meta.get("namespace"),
            revision=self._store.revision,
            tail=poison.raw[1:],
            labels=meta.get("labels") or {},
            fields=tuple(_selected(document, path) for path in collection.kind.selectable),
            owners={} if before is None else before.owners,
        )
        collection.record(key, StoredChange(self._store.revision, before, after, after))
        self._store.on_change()
        assert kind == collection.kind.kind
        return poison, True

    async def remove(self, document: dict[str, Any]) -> None:
        """Delete an object without reading it."""
        collection, key, before = self._found(document)
        if before is None:
            return
        self._store.revision += 1
        meta = {**document["metadata"], "resourceVersion": str(self._store.revision)}
        tail = json.dumps({"metadata": meta}).encode()[1:]
        gone = replace(before, revision=self._store.revision, tail=tail)
        collection.record(key, StoredChange(self._store.revision, before, None, gone))
        self._store.on_change()

    def stored(self, kind: str) -> list[Stored]:
        """Return the objects of a kind, undecoded."""
        return self._store.of_kind(kind).snapshot(None)

    async def relist(self) -> None:
        """End every watch as one whose version is too old."""
        self.disturb_watches(expired_event())

    def _found(self, document: dict[str, Any]) -> tuple[Any, str, Stored | None]:
        collection, meta = self._store.of_kind(document["kind"]), document["metadata"]
        key = collection.kind.key(meta["name"], meta.get("namespace"))
        return collection, key, collection.objects.get(key)


def _selected(document: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


class RealApi:
    """A real API server, by a client with every right: what it refuses is not planted."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def plant(self, grammar: Grammar, document: dict[str, Any]) -> tuple[Poison, bool]:
        """Create a poisoned form, and for a kind with a status write that, too."""
        resource, meta = RESOURCES[document["kind"]], document["metadata"]
        # What is no JSON is refused before anything looks at it, so that little of it is enough.
        poison = grammar.draw(document, well_formed=grammar.often())
        namespace, name = meta.get("namespace"), meta["name"]
        path, raw = resource.collection_path(namespace), msgspec.Raw(poison.raw)
        created = await self._sent("POST", path, raw)
        if "status" not in document:
            return poison, created
        if not created:
            await self._sent("POST", path, document)
        path = resource.object_path(name, namespace, "status")
        return poison, await self._sent("PATCH", path, raw, content_type=MERGE_PATCH) or created

    async def remove(self, document: dict[str, Any]) -> None:
        """Delete an object, at once."""
        meta = document["metadata"]
        path = RESOURCES[document["kind"]].object_path(meta["name"], meta.get("namespace"))
        await self._sent("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    async def relist(self) -> None:
        """Do nothing: an API server keeps its watches."""

    async def _sent(self, method: str, path: str, body: Any, **options: Any) -> bool:
        try:
            await self._client.request(method, path, body=body, **options)
        except (ApiError, TransportError):
            return False
        return True
