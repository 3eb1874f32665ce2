"""What the services' roles grant, compared with what the services requested during a session of tests.

The requests are those of the API servers' audit logs, of every cluster of the session. Tests that use a service's
credentials themselves do that as `joulie-tests`, and do not count.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from joulie_api.permissions import SERVICES
from joulie_devcluster.control_plane.audit import UserRequest
from joulie_sim.stack.roles import PERMISSIONS
from joulie_sim.stack.stack import NAMESPACE

#: The services' users, and those of the chart's service accounts.
USERS: Final = tuple(PERMISSIONS)
GROUPS: Final = (f"system:serviceaccounts:{NAMESPACE}",)

_TESTS: Final = "joulie-tests"
#: Programs that have the account of another, since they are in its pod.
_ACCOUNT_OF: Final = {"joulie-containers": "joulie-agent"}


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """A verb of a service on a resource."""

    service: str
    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.service}: {self.verb} {self.resource}.{self.group}".rstrip(".")


def granted() -> frozenset[Use]:
    """Return every verb that a role of the chart grants. The simulator's is for development only."""
    return frozenset(
        Use(f"joulie-{service}", verb, grant.group, resource)
        for service, permissions in SERVICES.items()
        for grant in permissions.everything
        for resource in grant.names
        for verb in grant.verbs
    )


def used(requests: Iterable[UserRequest]) -> frozenset[Use]:
    """Return every verb that a service used and was permitted."""
    return frozenset(use for request in requests if not _is_refused(request) for use in _uses(request))


def refused(requests: Iterable[UserRequest]) -> list[str]:
    """Return the services' requests that were answered with 403 and never permitted to the same user, as text.

    An API server that has just started, or has just got a role, refuses what the role grants until its own cache of
    roles has it, and so does one whose roles are deleted before the service ends. Both pass by, a missing grant does
    not.
    """
    mine = {request for request in requests if request.user_agent != _TESTS}
    permitted = {_without_code(request) for request in mine if not _is_refused(request)}
    found = {request for request in mine if _is_refused(request) and _without_code(request) not in permitted}
    return sorted(f"{each.user}, {Use(each.user_agent, each.verb, each.group, each.resource)}" for each in found)


def _without_code(request: UserRequest) -> UserRequest:
    return replace(request, code=0)


def _is_refused(request: UserRequest) -> bool:
    return request.code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def _uses(request: UserRequest) -> Iterator[Use]:
    service = _ACCOUNT_OF.get(request.user_agent, request.user_agent)
    if service not in USERS:
        return
    yield Use(service, request.verb, request.group, request.resource)
    # A server-side apply that creates takes both verbs; the log has the request's.
    if request.verb == "patch" and request.code == HTTPStatus.CREATED:
        yield Use(service, "create", request.group, request.resource)
