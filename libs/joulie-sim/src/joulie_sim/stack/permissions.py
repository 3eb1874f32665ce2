"""Whether what a service asked of the API server is what its roles allow.

Promises the API server's own rules for verbs: a patch that may create by server-side apply needs `create` as well as
`patch`, and a status is a resource of its own. Names of resources (`resourceNames`) are not evaluated.
Source: Kubernetes, "Determine the request verb" and "Server-Side Apply".
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from joulie_sim.stack.roles import PERMISSIONS

#: What a request is called -> the verbs that it takes.
_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "get": ("get",),
    "list": ("list",),
    "watch": ("watch",),
    "create": ("create",),
    "replace": ("update",),
    "patch": ("patch",),
    "apply": ("patch", "create"),
    "delete": ("delete",),
}


class SeenRequest(Protocol):
    """What is needed of a request, as `joulie_api.testing` records it."""

    @property
    def verb(self) -> str:
        """What was asked."""

    @property
    def path(self) -> str:
        """The path of the request."""

    @property
    def subresource(self) -> str:
        """Empty for the object itself."""


def denied(service: str, requests: Iterable[SeenRequest]) -> list[str]:
    """Return the verbs and resources that a service used and its roles do not allow, as `verb resource.group`."""
    allowed = _allowed(service)
    used = {(verb, *_resource(request)) for request in requests for verb in _verbs(request)}
    return sorted(f"{verb} {resource}.{group}".rstrip(".") for verb, group, resource in used - allowed)


def _allowed(service: str) -> set[tuple[str, str, str]]:
    permissions = PERMISSIONS[service]
    return {
        (verb, grant.group, resource)
        for grant in (*permissions.cluster, *permissions.namespace)
        for resource in grant.names
        for verb in grant.verbs
    }


def _verbs(request: SeenRequest) -> tuple[str, ...]:
    verbs = _VERBS.get(request.verb, ())
    # The status of an object that is not there cannot be created.
    return verbs[:1] if request.subresource else verbs


def _resource(request: SeenRequest) -> tuple[str, str]:
    """Return the API group and the resource of a path: `/apis/GROUP/VERSION/[namespaces/NAME/]RESOURCE/...`."""
    parts = request.path.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    if rest[0] == "namespaces" and len(rest) > 2:  # noqa: PLR2004 - the namespace's name and a resource in it
        rest = rest[2:]
    return group, f"{rest[0]}/{request.subresource}" if request.subresource else rest[0]
