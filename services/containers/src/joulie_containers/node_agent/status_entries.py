"""The entries of this node in `status.nodes` of the objects that configure it.

What is written is compared with the objects as they are watched, so that an entry of an earlier process is corrected or
removed, and an equal one is not written again. While it is not known what became of an object that applies, its entry
stays.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_containers.node_agent.objects import Entry, NodeObject, ObjectKey
from joulie_core.timestamps import rfc3339

_TIMESTAMP: Final = "timestamp"

#: An object, and the resourceVersion at which it was seen.
Seen: TypeAlias = tuple[ObjectKey, str]


class StatusEntries:
    """Wanted entries, and their writer.

    Args:
        client: client of the API server.
        node: name of the node.
        field_manager: owner of what is written.
        objects: returns all objects of all kinds, as watched.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self,
        client: KubeClient,
        node: str,
        *,
        field_manager: str,
        objects: Callable[[], Iterable[NodeObject]],
        wall_time: Callable[[], float],
    ) -> None:
        self._client = client
        self._node = node
        self._field_manager = field_manager
        self._objects = objects
        self._wall_time = wall_time
        #: The objects that apply; None while that is not known.
        self._applying: frozenset[ObjectKey] | None = None
        #: With the uid of the object that it is about: one that takes its name has no entry yet.
        self._wanted: dict[ObjectKey, tuple[str, Entry | None]] = {}
        #: Objects that this process has written an entry of, which the watch may not have delivered yet.
        self._written: set[ObjectKey] = set()

    def apply(self, keys: Iterable[ObjectKey]) -> None:
        """Note which objects apply; entries of others are removed."""
        self._applying = applying = frozenset(keys)
        self._wanted = {key: wanted for key, wanted in self._wanted.items() if key in applying}

    def want(self, each: NodeObject, entry: Entry | None) -> None:
        """Note the entry of an object that applies, without its time; None for no entry."""
        self._wanted[each.key] = each.uid, entry

    def differences(self) -> dict[Seen, Entry | None]:
        """Return the entries that have to be written; None removes one.

        Until the watch has delivered what was written, the result is the same.
        """
        return dict(self._differences())

    async def write(self, entries: Mapping[Seen, Entry | None]) -> None:
        """Write entries; an object that is gone is skipped. Raise KubeError."""
        live = {each.key: each.entry for each in self._objects()}
        for (key, _), entry in entries.items():
            await self._write(key, entry, live.get(key))

    async def withdraw(self) -> None:
        """Remove all entries. Raise KubeError."""
        shown = {each.key for each in self._objects() if each.entry is not None}
        for key in shown | self._written:
            await self._write(key, None, None)

    def _differences(self) -> Iterator[tuple[Seen, Entry | None]]:
        if self._applying is None:
            return
        for each in self._objects():
            if each.key not in self._applying:
                wanted = None
            else:
                uid, wanted = self._wanted.get(each.key, ("", None))
                if uid != each.uid:
                    continue
            if _without_time(each.entry) != _without_time(wanted):
                yield (each.key, each.version), wanted

    async def _write(self, key: ObjectKey, entry: Entry | None, live: Entry | None) -> None:
        new = None if entry is None else _replacing(live, {**entry, _TIMESTAMP: rfc3339(self._wall_time())})
        if new is None:
            self._written.discard(key)
        else:
            self._written.add(key)
        body = {"status": {"nodes": {self._node: new}}}
        try:
            await self._client.merge_patch(
                key.resource, key.name, body, subresource="status", field_manager=self._field_manager
            )
        except NotFound:
            return


def _without_time(entry: Entry | None) -> Entry | None:
    return entry if entry is None else {key: value for key, value in entry.items() if key != _TIMESTAMP}


def _replacing(old: Any, new: Any) -> Any:
    """Return the merge patch that turns one JSON value into another: keys that are gone become null."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**dict.fromkeys(old), **{key: _replacing(old.get(key), value) for key, value in new.items()}}
