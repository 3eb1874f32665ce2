"""Field ownership of server-side apply. No I/O.

Implements the rules that Joulie's services depend on: a value that differs from another manager's is a conflict, and
with force changes its owner; equal values are shared; a field that its manager no longer applies is removed unless it
has another owner; each manager has separate sets for apply, for update and for the status subresource.
Does not read schemas: every list is one atomic value except `conditions`, which is keyed by `type`. Ownership is stored
beside the object and is not published in metadata.managedFields.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Segment = str | tuple[str, str]
Path = tuple[Segment, ...]

_SYSTEM_METADATA = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "generateName"}
)
_MISSING = object()


class Operation(StrEnum):
    """Operation by which a manager came to own its fields."""

    APPLY = "Apply"
    UPDATE = "Update"


@dataclass(frozen=True, slots=True)
class Manager:
    """One entry of an object's ownership."""

    name: str
    operation: Operation
    subresource: str = ""


Ownership = Mapping[Manager, frozenset[Path]]


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that another manager owns with a different value."""

    path: Path
    manager: str


def dotted(path: Path) -> str:
    """Format a path as Kubernetes does: `.status.conditions[type="Planned"].reason`."""
    return "".join(f".{part}" if isinstance(part, str) else f'[{part[0]}="{part[1]}"]' for part in path)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every position below a value that can be owned: scalars, atomic lists, empty maps, conditions by type."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif _is_keyed(path, value):
        for item in value:
            yield from leaves(item, (*path, ("type", item["type"])))
    else:
        yield path, value


def ownable(body: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the leaves of an object that managers may own: all but identity and what the server itself writes."""
    own = {key: value for key, value in body.items() if key not in {"apiVersion", "kind", "metadata"}}
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key not in _SYSTEM_METADATA}
    if metadata:
        own["metadata"] = metadata
    return dict(leaves(own)) if own else {}


def find_conflicts(
    live: Mapping[Path, Any], wanted: Mapping[Path, Any], owners: Ownership, manager: Manager
) -> list[FieldConflict]:
    """Return the fields that another manager owns and that the apply would change."""
    return [
        FieldConflict(path, other.name)
        for other, paths in owners.items()
        if other != manager
        for path in sorted(paths, key=dotted)
        if path in wanted and live.get(path, _MISSING) != wanted[path]
    ]


def apply_fields(
    obj: dict[str, Any], wanted: Mapping[Path, Any], owners: Ownership, manager: Manager
) -> dict[Manager, frozenset[Path]]:
    """Write `wanted` into `obj` in place, remove fields no longer applied, and return the new ownership.

    The caller has checked for conflicts; conflicting fields are taken from their owners.
    """
    live = ownable(obj)
    others = {other: paths for other, paths in owners.items() if other != manager}
    shared = frozenset[Path]().union(*others.values())
    removed = [path for path in owners.get(manager, frozenset()) if path not in wanted and path not in shared]
    for path in sorted(removed, key=_is_identity):
        _remove(obj, path)
    for path, value in wanted.items():
        _set(obj, path, value)
    changed = {path for path, value in wanted.items() if live.get(path, _MISSING) != value}
    result = {other: left for other, paths in others.items() if (left := paths - changed)}
    if wanted:
        result[manager] = frozenset(wanted)
    return result


def update_owners(
    before: Mapping[str, Any] | None, after: Mapping[str, Any], owners: Ownership, manager: Manager
) -> dict[Manager, frozenset[Path]]:
    """Return the ownership after a create, replace or patch: the writer owns exactly what it changed."""
    old = ownable(before) if before is not None else {}
    new = ownable(after)
    changed = frozenset(path for path, value in new.items() if old.get(path, _MISSING) != value)
    gone = old.keys() - new.keys()
    result = {other: left for other, paths in owners.items() if (left := paths - changed - gone)}
    if mine := (owners.get(manager, frozenset()) | changed) - gone:
        result[manager] = mine
    return result


def _is_keyed(path: Path, value: Any) -> bool:
    return (
        bool(path)
        and path[-1] == "conditions"
        and isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and "type" in item for item in value)
    )


def _is_identity(path: Path) -> bool:
    """Return whether a leaf is the key of its list entry; it has to be removed after its siblings."""
    return len(path) > 1 and isinstance(path[-2], tuple) and path[-1] == path[-2][0]


def _child(node: Any, segment: Segment) -> Any:
    if isinstance(segment, str):
        return node.get(segment, _MISSING) if isinstance(node, dict) else _MISSING
    key, value = segment
    found = (item for item in node if item.get(key) == value) if isinstance(node, list) else iter(())
    return next(found, _MISSING)


def _set(obj: dict[str, Any], path: Path, value: Any) -> None:
    node: Any = obj
    for segment, following in itertools.pairwise(path):
        below = _child(node, segment)
        wanted_type = dict if isinstance(following, str) else list
        if not isinstance(below, wanted_type):
            below = wanted_type()
            _put_child(node, segment, below)
        node = below
    if value == {} and isinstance(_child(node, path[-1]), dict):
        return
    _put_child(node, path[-1], value)


def _put_child(node: Any, segment: Segment, value: Any) -> None:
    if isinstance(segment, str):
        node[segment] = value
    elif isinstance(value, dict):
        value[segment[0]] = segment[1]
        node.append(value)


def _remove(obj: dict[str, Any], path: Path) -> None:
    """Delete a leaf and every container that becomes empty, up to the top level."""
    trail: list[Any] = [obj]
    for segment in path[:-1]:
        below = _child(trail[-1], segment)
        if below is _MISSING:
            return
        trail.append(below)
    for node, segment in zip(reversed(trail), reversed(path), strict=True):
        _drop_child(node, segment)
        if node:
            return


def _drop_child(node: Any, segment: Segment) -> None:
    if isinstance(segment, str):
        if isinstance(node, dict):
            node.pop(segment, None)
    else:
        node[:] = [item for item in node if item and item.get(segment[0]) != segment[1]]


def readable(owners: Ownership) -> dict[str, list[str]]:
    """Return the owned fields by manager name, in dotted form and sorted, of all operations together."""
    result: dict[str, set[str]] = {}
    for manager, paths in owners.items():
        result.setdefault(manager.name, set()).update(_dot_all(paths))
    return {name: sorted(paths) for name, paths in result.items()}


def _dot_all(paths: Iterable[Path]) -> Iterator[str]:
    return (dotted(path) for path in paths)
