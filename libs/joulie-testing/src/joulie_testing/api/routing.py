"""Parsing of paths and queries of the Kubernetes API."""

from collections.abc import Mapping
from dataclasses import dataclass

from joulie_testing.api.kinds import ServedKind
from joulie_testing.api.selectors import selector
from joulie_testing.api.status import StatusError
from joulie_testing.api.storage import Collection, Match, Store
from joulie_testing.api.watching import WatchOptions

MERGE_TYPES = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})
APPLY_TYPE = "application/apply-patch+yaml"
#: By method, and whether one object is named.
_VERBS = {
    ("GET", True): "get",
    ("GET", False): "list",
    ("POST", False): "create",
    ("PUT", True): "replace",
    ("DELETE", True): "delete",
}
_CORE = ("api",)
_GROUPED = ("apis",)


@dataclass(frozen=True, slots=True)
class RequestRoute:
    """The target of a path: a collection, an object of it, or a subresource."""

    collection: Collection
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def resolve(store: Store, path: str) -> RequestRoute:
    """Return the resource of a path.

    Raises:
        StatusError: 404, the resource is not served.
    """
    parts = tuple(part for part in path.split("/") if part)
    if parts[:1] == _CORE and len(parts) > 2:  # noqa: PLR2004 - api, version, plural
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == _GROUPED and len(parts) > 3:  # noqa: PLR2004 - apis, group, version, plural
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise StatusError(404, f"no resource at {path}")
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2:  # noqa: PLR2004 - namespaces, its name, plural
        if rest[2] == "status":
            return RequestRoute(_served(store, group, version, "namespaces", path), None, rest[1], "status")
        namespace, rest = rest[1], rest[2:]
    if (group, rest) == ("", ("bindings",)):
        # The older form of binding: the pod's name is in the body.
        return RequestRoute(_served(store, group, version, "pods", path), namespace, "", "binding")
    collection = _served(store, group, version, rest[0], path)
    if collection.kind.namespaced and namespace is None and len(rest) > 1:
        raise StatusError(404, f"{rest[0]} are namespaced: no object at {path}")
    return RequestRoute(collection, namespace, *rest[1:3])


def discovery(store: Store, path: str) -> dict[str, object] | None:
    """Return the resources of `/apis/GROUP/VERSION`; None for another path, or where none are served."""
    parts = path.strip("/").split("/")
    if len(parts) != 3 or parts[:1] != list(_GROUPED):  # noqa: PLR2004 - apis, group, version
        return None
    kinds = [each.kind for each in store.collections if [each.kind.group, each.kind.version] == parts[1:]]
    resources = [{"name": each.plural, "kind": each.kind, "namespaced": each.namespaced} for each in kinds]
    return {"kind": "APIResourceList", "groupVersion": "/".join(parts[1:]), "resources": resources} if kinds else None


def _served(store: Store, group: str, version: str, plural: str, path: str) -> Collection:
    found = store.find(group, version, plural)
    if found is None:
        raise StatusError(404, f"the server could not find the requested resource ({path})")
    return found


def verb_of(method: str, route: RequestRoute, query: Mapping[str, str], content_type: str) -> str:
    """Return the verb of a request as in RBAC and `RequestLog`, with apply distinguished from patch.

    Raises:
        StatusError: 405 or 415.
    """
    if method == "POST" and route.subresource == "binding":
        return "bind"
    if method == "POST" and route.subresource == "eviction":
        return "evict"
    if route.subresource == "proxy":
        return "create" if method == "POST" else "get"
    if method == "PATCH" and route.name:
        return _patch_verb(route.collection.kind, content_type)
    verb = _VERBS.get((method, bool(route.name)))
    if verb is None:
        raise StatusError(405, f"{method} is not supported here")
    return "watch" if verb == "list" and query.get("watch", "") in {"1", "true"} else verb


def _patch_verb(kind: ServedKind, content_type: str) -> str:
    if content_type == APPLY_TYPE:
        return "apply"
    strategic_on_custom = kind.custom and "strategic" in content_type
    if content_type not in MERGE_TYPES or strategic_on_custom:
        raise StatusError(415, f"the body of the request was in an unsupported format: {content_type}")
    return "patch"


def match_of(route: RequestRoute, query: Mapping[str, str]) -> Match | None:
    """Return the selectors of a list or watch, combined with the path's namespace."""
    return selector(
        query.get("labelSelector", ""), query.get("fieldSelector", ""), route.collection.kind, route.namespace
    )


def watch_options(route: RequestRoute, query: Mapping[str, str]) -> WatchOptions:
    """Return the options of a watch.

    Raises:
        StatusError: 400 for a resourceVersion that is not a number, or for invalid selectors.
    """
    announce_initial = query.get("sendInitialEvents") == "true"
    revision = revision_of(query)
    timeout = query.get("timeoutSeconds")
    return WatchOptions(
        revision=None if announce_initial or not revision else revision,
        match=match_of(route, query),
        bookmarks=query.get("allowWatchBookmarks") in {"1", "true"},
        timeout_s=float(timeout) if timeout else None,
        announce_initial=announce_initial,
    )


def revision_of(query: Mapping[str, str]) -> int | None:
    """Return the query's resourceVersion; None if unset.

    Raises:
        StatusError: 400 for a resourceVersion that is not a number.
    """
    text = query.get("resourceVersion", "")
    if text and not text.isdecimal():
        raise StatusError(400, f"resourceVersion: Invalid value: {text!r}")
    return int(text) if text else None
