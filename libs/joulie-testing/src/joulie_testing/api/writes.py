"""Effects of the writing verbs on an object, without HTTP.

Every function takes the target and the request's body and returns the object as stored afterwards. A write that changes
nothing creates no revision and no event. A refusal is a `StatusError`.
Does not validate against a CRD's schema and has no admission; tests of those use a real control plane.
"""

import itertools
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joulie_core.timestamps import rfc3339
from joulie_testing.api.kinds import ServedKind, kinds_of_definition
from joulie_testing.api.ownership import (
    Manager,
    Operation,
    Ownership,
    apply_fields,
    dotted,
    find_conflicts,
    ownable,
    update_owners,
)
from joulie_testing.api.status import StatusError
from joulie_testing.api.storage import Collection, Store, Stored

_FIXED_METADATA = ("name", "namespace", "uid", "creationTimestamp", "generation")
_generated = itertools.count(1)


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The object that a request names."""

    collection: Collection
    name: str
    namespace: str | None
    subresource: str = ""

    @property
    def kind(self) -> ServedKind:
        """The kind of the named object."""
        return self.collection.kind

    @property
    def key(self) -> str:
        """The store's key of the named object."""
        return self.kind.key(self.name, self.namespace)

    def current(self) -> Stored:
        """Return the object as stored.

        Raises:
            StatusError: 404.
        """
        stored = self.collection.objects.get(self.key)
        if stored is None:
            raise StatusError(404, f'{self.kind.plural} "{self.name}" not found')
        return stored


def create(store: Store, target: WriteTarget, body: Mapping[str, Any], manager: str) -> Stored:
    """Create an object (POST) with identity, creation time and, for custom resources, no status.

    Raises:
        StatusError: 409 AlreadyExists; 400 for a body of another kind or without a name.
    """
    kind = target.kind
    check_kind(kind, body)
    obj = prune_nulls(body)
    metadata = obj.setdefault("metadata", {})
    if "name" not in metadata and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{next(_generated):05x}"
    if not metadata.get("name"):
        raise StatusError(422, f"{kind.kind} is invalid: metadata.name: Required value: name or generateName")
    target = WriteTarget(target.collection, metadata["name"], target.namespace)
    if target.key in target.collection.objects:
        raise StatusError(409, f'{kind.plural} "{target.name}" already exists', reason="AlreadyExists")
    if kind.has_status and kind.custom:
        obj.pop("status", None)
    if kind.kind == "Pod":
        obj["status"] = {"phase": "Pending"}
    obj = stamp_new(kind, obj, target.namespace)
    owners = update_owners(None, obj, {}, Manager(manager, Operation.UPDATE))
    return _saved(store, target, obj, owners)


def replace(store: Store, target: WriteTarget, body: Mapping[str, Any], manager: str) -> Stored:
    """Replace an object or its status (PUT).

    Raises:
        StatusError: 409 when metadata.resourceVersion is not the current one; 422 when it is absent but required.
    """
    check_kind(target.kind, body)
    stored = target.current()
    sent = body.get("metadata", {}).get("resourceVersion")
    if not sent and not target.kind.unconditional_update:
        raise StatusError(
            422, f"{target.name}: metadata.resourceVersion: Invalid value: must be specified for an update"
        )
    return _update(store, target, stored, prune_nulls(body), manager)


def merge(store: Store, target: WriteTarget, patch: Mapping[str, Any], manager: str) -> Stored:
    """Merge a patch (RFC 7386), also in place of a strategic merge of maps (labels, annotations).

    Raises:
        StatusError: 409 when the patch has a resourceVersion that is not the current one.
    """
    stored = target.current()
    return _update(store, target, stored, merged(target.collection.load(stored), patch), manager)


def apply(store: Store, target: WriteTarget, body: Mapping[str, Any], manager: str, *, force: bool) -> Stored:
    """Apply the manager's full set of fields server-side; create the object if it does not exist.

    Raises:
        StatusError: 409 that names the other manager when a field conflicts and `force` is false.
    """
    check_kind(target.kind, body)
    if body.get("metadata", {}).get("name") not in {None, target.name}:
        raise StatusError(400, f"metadata.name of the body is not {target.name}")
    if not manager:
        raise StatusError(422, "PatchOptions is invalid: fieldManager: Required value: is required for apply patch")
    entry = Manager(manager, Operation.APPLY, target.subresource)
    wanted = ownable(_visible(target, prune_nulls(body)))
    stored = target.collection.objects.get(target.key)
    if stored is None:
        if target.subresource:
            target.current()
        obj = stamp_new(target.kind, {"metadata": {"name": target.name}}, target.namespace)
        owners = apply_fields(obj, wanted, {}, entry)
        return _saved(store, target, obj, owners)
    before = target.collection.load(stored)
    _check_revision(target, stored, body)
    conflicts = [] if force else find_conflicts(ownable(before), wanted, stored.owners, entry)
    if conflicts:
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f'conflict with "{conflict.manager}"',
                "field": dotted(conflict.path),
            }
            for conflict in conflicts
        ]
        named = "; ".join(f'conflict with "{conflict.manager}": {dotted(conflict.path)}' for conflict in conflicts)
        raise StatusError(409, f"Apply failed with {len(conflicts)} conflict(s): {named}", causes=causes)
    after = target.collection.load(stored)
    owners = apply_fields(after, wanted, stored.owners, entry)
    return _settled(store, target, before, after, owners)


def bind(store: Store, target: WriteTarget, body: Mapping[str, Any], manager: str) -> Stored:
    """Bind a pod to a node: POST pods/NAME/binding, or bindings with the pod's name in the body.

    Raises:
        StatusError: 409 when the pod is bound already.
    """
    target = WriteTarget(target.collection, target.name or body["metadata"]["name"], target.namespace)
    stored = target.current()
    pod = target.collection.load(stored)
    if pod.get("spec", {}).get("nodeName"):
        raise StatusError(409, f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    return merge(store, target, {"spec": {"nodeName": body["target"]["name"]}}, manager)


def evict(store: Store, target: WriteTarget, _body: Mapping[str, Any], _manager: str) -> Stored:
    """Evict a pod, at once: POST pods/NAME/eviction. Budgets are scripted as faults.

    Raises:
        StatusError: 404.
    """
    target.current()
    return store.delete(target.collection, target.key)


def merged(target: Any, patch: Any) -> Any:
    """Return the merge of a patch into a value (RFC 7386): maps merge, null deletes, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def prune_nulls(value: Any) -> Any:
    """Drop null fields at every depth, as the API server does for fields that are not nullable."""
    if isinstance(value, Mapping):
        return {key: prune_nulls(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        return [prune_nulls(item) for item in value]
    return value


def stamp_new(kind: ServedKind, obj: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """Return the object with the fields that the server adds at creation, unless the caller has set them."""
    metadata = dict(obj.get("metadata", {}))
    metadata.setdefault("uid", str(uuid.uuid4()))
    metadata.setdefault("creationTimestamp", rfc3339(time.time(), "seconds"))
    if kind.custom:
        metadata.setdefault("generation", 1)
    if kind.namespaced:
        metadata["namespace"] = namespace or metadata.get("namespace") or "default"
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def check_kind(kind: ServedKind, body: Mapping[str, Any]) -> None:
    """Check that a body is of this kind.

    Raises:
        StatusError: 400.
    """
    stated = (body.get("apiVersion", kind.api_version), body.get("kind", kind.kind))
    if stated != (kind.api_version, kind.kind):
        raise StatusError(400, f"{stated[1]} in {stated[0]} is not {kind.kind} in {kind.api_version}")


def settle(
    store: Store, target: WriteTarget, stored: Stored, candidate: dict[str, Any], manager: Manager | None
) -> Stored:
    """Replace an object without subresource rules; `manager` None leaves ownership unchanged."""
    before = target.collection.load(stored)
    after = {**candidate, "metadata": {**candidate.get("metadata", {})}}
    owners = stored.owners if manager is None else update_owners(before, after, stored.owners, manager)
    return _settled(store, target, before, after, owners)


def _update(store: Store, target: WriteTarget, stored: Stored, candidate: dict[str, Any], manager: str) -> Stored:
    _check_revision(target, stored, candidate)
    before = target.collection.load(stored)
    after = _split(target, before, candidate)
    owners = update_owners(before, after, stored.owners, Manager(manager, Operation.UPDATE, target.subresource))
    return _settled(store, target, before, after, owners)


def _check_revision(target: WriteTarget, stored: Stored, body: Mapping[str, Any]) -> None:
    sent = body.get("metadata", {}).get("resourceVersion")
    if sent and sent != str(stored.revision):
        raise StatusError(
            409,
            f'Operation cannot be fulfilled on {target.kind.plural} "{target.name}": '
            "the object has been modified; please apply your changes to the latest version and try again",
        )


def _split(target: WriteTarget, before: Mapping[str, Any], candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new object: a status write changes the status only, other writes all but the status."""
    if not target.kind.has_status:
        return dict(candidate)
    source, base = (candidate, before) if target.subresource == "status" else (before, candidate)
    result = {key: value for key, value in base.items() if key != "status"}
    if "status" in source:
        result["status"] = source["status"]
    return result


def _visible(target: WriteTarget, body: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an applied body that the target may write."""
    if target.subresource == "status":
        return {"status": body["status"]} if "status" in body else {}
    if target.kind.has_status:
        return {key: value for key, value in body.items() if key != "status"}
    return body


def _settled(
    store: Store, target: WriteTarget, before: dict[str, Any], after: dict[str, Any], owners: Ownership
) -> Stored:
    """Restore fields that clients cannot change, increment the generation, and save unless nothing changed."""
    stored = target.collection.objects[target.key]
    metadata = {**after.get("metadata", {})}
    metadata.pop("managedFields", None)
    for name in (*_FIXED_METADATA, "resourceVersion"):
        if name in before["metadata"]:
            metadata[name] = before["metadata"][name]
    after = {**after, "apiVersion": target.kind.api_version, "kind": target.kind.kind, "metadata": metadata}
    if after == before and owners == stored.owners:
        return stored
    if target.kind.custom and _desired(before) != _desired(after):
        metadata["generation"] = before["metadata"].get("generation", 1) + 1
    return _saved(store, target, after, owners)


def _desired(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}


def _saved(store: Store, target: WriteTarget, obj: dict[str, Any], owners: Ownership) -> Stored:
    if target.kind.kind == "CustomResourceDefinition":
        for kind in kinds_of_definition(obj):
            store.serve(kind)
        obj.setdefault("status", {"conditions": [{"type": "Established", "status": "True"}]})
    return store.save(target.collection, target.key, obj, owners)


def adopt(store: Store, target: WriteTarget, obj: Mapping[str, Any], manager: Manager | None) -> Stored:
    """Store a new object exactly as given, status included, to set up a test."""
    stamped = stamp_new(target.kind, dict(obj), target.namespace)
    owners = update_owners(None, stamped, {}, manager) if manager is not None else {}
    return _saved(store, target, stamped, owners)


def delete(store: Store, target: WriteTarget, options: Mapping[str, Any]) -> Stored:
    """Delete an object, at once and without finalizers.

    Raises:
        StatusError: 404; 409 when a precondition in the options is not met.
    """
    stored = target.current()
    metadata = target.collection.load(stored)["metadata"]
    for name, wanted in options.get("preconditions", {}).items():
        if metadata.get(name) != wanted:
            raise StatusError(409, f"Precondition failed: {name} is {metadata.get(name)}, not {wanted}")
    return store.delete(target.collection, target.key)
