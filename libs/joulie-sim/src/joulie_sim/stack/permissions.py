"""Comparison of the requests that a service sent to the API server with the permissions of its roles.

Guarantees: verbs are determined as the API server does: server-side apply requires `patch` and `create`, and a status
is a resource of its own. Source: Kubernetes, "Determine the request verb" and "Server-Side Apply".

Limits: `resourceNames` are not evaluated.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from joulie_sim.stack.roles import PERMISSIONS

#: Verbs that each kind of request requires.
_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "get": ("get",),
    "list": ("list",),
    "watch": ("watch",),
    "create": ("create",),
    "evict": ("create",),
    "replace": ("update",),
    "patch": ("patch",),
    "apply": ("patch", "create"),
    "delete": ("delete",),
}


class RecordedRequest(Protocol):
    """A request as `joulie_testing.api` records it."""

    @property
    def verb(self) -> str:
        """Kind of the request, a key of `_VERBS`."""

    @property
    def path(self) -> str:
        """Path of the URL."""

    @property
    def subresource(self) -> str:
        """Subresource; empty for the object itself."""


def denied(service: str, requests: Iterable[RecordedRequest]) -> list[str]:
    """Return what a service requested and its roles do not permit, as `verb resource.group`."""
    allowed = _allowed(service)
    used = {(verb, *_resource(request)) for request in requests for verb in _verbs(request)}
    return sorted(f"{verb} {resource}.{group}".rstrip(".") for verb, group, resource in used - allowed)


def _allowed(service: str) -> set[tuple[str, str, str]]:
    permissions = PERMISSIONS[service]
    return {
        (verb, grant.group, resource)
        for grant in permissions.everything
        for resource in grant.names
        for verb in grant.verbs
    }


def _verbs(request: RecordedRequest) -> tuple[str, ...]:
    verbs = _VERBS.get(request.verb, ())
    # A status cannot be created.
    return verbs[:1] if request.subresource else verbs


def _resource(request: RecordedRequest) -> tuple[str, str]:
    """Return the API group and the resource of a path: `/apis/GROUP/VERSION/[namespaces/NAME/]RESOURCE/...`."""
    parts = request.path.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    if rest[0] == "namespaces" and len(rest) > 2:  # noqa: PLR2004 - the namespace's name and a resource in it
        rest = rest[2:]
    return group, f"{rest[0]}/{request.subresource}" if request.subresource else rest[0]
