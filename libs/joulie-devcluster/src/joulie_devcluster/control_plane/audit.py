"""The requests that the API server got from some users, from its audit log.

The API server's own metrics have verbs and resources, but not who sent a request.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

#: A request is logged once: when its answer is complete, or, since a watch has no end of its own, when it has started.
_COMPLETE: Final = "ResponseComplete"
_STARTED: Final = "ResponseStarted"
_WATCH: Final = "watch"


@dataclass(frozen=True, slots=True, order=True)
class RequestKind:
    """Kind of requests that are counted together."""

    #: `joulie-operator`, without the version.
    user_agent: str
    #: get, list, watch, create, update, patch or delete.
    verb: str
    #: Plural, with the subresource: `nodetwins/status`. Empty for paths that are no resources.
    resource: str

    def __str__(self) -> str:
        return f"{self.user_agent} {self.verb} {self.resource}"


@dataclass(frozen=True, slots=True, order=True)
class UserRequest:
    """A request of a user and its answer, without what it was about in particular."""

    user: str
    #: `joulie-operator`, without the version.
    user_agent: str
    #: As in `RequestKind`.
    verb: str
    #: API group, empty for the core group.
    group: str
    #: As in `RequestKind`.
    resource: str
    #: HTTP status.
    code: int


class _Reference(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    api_group: str = ""


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Event(msgspec.Struct, rename="camel"):
    stage: str
    verb: str
    user: _User = msgspec.field(default_factory=_User)
    user_agent: str = ""
    object_ref: _Reference | None = None
    response_status: _Status = msgspec.field(default_factory=_Status)


_EVENT: Final = msgspec.json.Decoder(_Event)


def audit_policy(users: Sequence[str], groups: Sequence[str] = ()) -> dict[str, object]:
    """Return the audit policy that logs the requests of these users and groups, without bodies, and no others."""
    named = (("users", users), ("userGroups", groups))
    rules = [{"level": "Metadata", key: [str(name) for name in names]} for key, names in named if names]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [*rules, {"level": "None"}],
    }


class AuditLog:
    """The audit log of one API server, read from its start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def take(self) -> Counter[RequestKind]:
        """Count the requests that were logged since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            written = file.read()
        complete = written[: written.rfind(b"\n") + 1]
        self._offset += len(complete)
        return count_requests(complete.splitlines())


def count_requests(lines: Iterable[bytes]) -> Counter[RequestKind]:
    """Count the requests in lines of an audit log.

    Raises:
        msgspec.MsgspecError: a line is not an audit event.
    """
    events = map(_EVENT.decode, lines)
    return Counter(
        _kind_of(event) for event in events if event.stage == (_STARTED if event.verb == _WATCH else _COMPLETE)
    )


def read_requests(path: Path) -> frozenset[UserRequest]:
    """Return the different requests in the log of an API server that has ended. A line that was cut off is ignored.

    Raises:
        msgspec.MsgspecError: a line is not an audit event.
    """
    found: set[UserRequest] = set()
    # Beside it are the parts that the API server has closed when they had 100 MB.
    for part in path.parent.glob(f"{path.stem}*{path.suffix}"):
        with part.open("rb") as file:
            found.update(_request_of(_EVENT.decode(line)) for line in file if line.endswith(b"\n"))
    return frozenset(found)


def _kind_of(event: _Event) -> RequestKind:
    return RequestKind(event.user_agent.partition("/")[0], event.verb, _resource(event.object_ref or _Reference()))


def _request_of(event: _Event) -> UserRequest:
    reference = event.object_ref or _Reference()
    agent, resource = event.user_agent.partition("/")[0], _resource(reference)
    code = event.response_status.code
    return UserRequest(event.user.username, agent, event.verb, reference.api_group, resource, code)


def _resource(reference: _Reference) -> str:
    return "/".join(part for part in (reference.resource, reference.subresource) if part)
