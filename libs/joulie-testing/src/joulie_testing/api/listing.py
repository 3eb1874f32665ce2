"""Lists: pages cut from a frozen snapshot, with continue tokens that can expire."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from joulie_testing.api.routing import RequestRoute, match_of, revision_of
from joulie_testing.api.status import StatusError
from joulie_testing.api.storage import Store, Stored

_KEPT_SNAPSHOTS = 64


@dataclass(frozen=True, slots=True)
class _Snapshot:
    revision: int
    objects: list[Stored]


class Lister:
    """Answers list requests; keeps the snapshots of the continue tokens it has issued."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: OrderedDict[str, _Snapshot] = OrderedDict()
        self._issued = 0

    def expire_tokens(self) -> None:
        """Make every continue token issued so far answer 410."""
        self._snapshots.clear()

    def page(self, route: RequestRoute, query: Mapping[str, str]) -> bytes:
        """Return one page of a list, serialized.

        Raises:
            StatusError: 410 for an expired continue token; 504 for a resourceVersion from the future.
        """
        limit = int(query.get("limit") or 0)
        if token := query.get("continue", ""):
            name, _, offset = token.rpartition(".")
            snapshot = self._snapshots.get(name)
            if snapshot is None:
                raise StatusError(410, "The provided continue parameter is too old to display a consistent list result")
            start = int(offset)
        else:
            wanted = revision_of(query) or 0
            if wanted > self._store.revision:
                cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                raise StatusError(
                    504, f"Too large resource version: {wanted}, current: {self._store.revision}", causes=[cause]
                )
            snapshot = _Snapshot(self._store.revision, route.collection.snapshot(match_of(route, query)))
            start, name = 0, ""
        end = start + limit if limit else len(snapshot.objects)
        metadata: dict[str, object] = {"resourceVersion": str(snapshot.revision)}
        if end < len(snapshot.objects):
            metadata["continue"] = f"{name or self._keep(snapshot)}.{end}"
            metadata["remainingItemCount"] = len(snapshot.objects) - end
        return _render(route, metadata, snapshot.objects[start:end])

    def _keep(self, snapshot: _Snapshot) -> str:
        self._issued += 1
        name = f"snapshot-{self._issued}"
        self._snapshots[name] = snapshot
        while len(self._snapshots) > _KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return name


def _render(route: RequestRoute, metadata: dict[str, object], objects: list[Stored]) -> bytes:
    kind = route.collection.kind
    head = msgspec.json.encode({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata})[:-1]
    # Items of built-in lists come without kind and apiVersion, those of custom resources with them.
    opening = kind.prefix if kind.custom else b"{"
    items = b",".join([opening + stored.tail for stored in objects])
    return b'%b,"items":[%b]}' % (head, items)


def metadata_only(page: bytes) -> bytes:
    """Return a page as a server answers a request for PartialObjectMetadataList."""
    whole = msgspec.json.decode(page)
    items = [{"metadata": item["metadata"]} for item in whole["items"]]
    kept = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": whole["metadata"]}
    return msgspec.json.encode({**kept, "items": items})
