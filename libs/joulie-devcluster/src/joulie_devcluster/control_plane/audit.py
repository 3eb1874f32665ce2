"""Counts of the requests that the API server got from some users, from its audit log.

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
    """What requests have in common that are counted together."""

    #: `joulie-operator`, without the version.
    user_agent: str
    #: get, list, watch, create, update, patch or delete.
    verb: str
    #: Plural, with the subresource: `nodetwins/status`. Empty for paths that are no resources.
    resource: str

    def __str__(self) -> str:
        return f"{self.user_agent} {self.verb} {self.resource}"


class _Reference(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Event(msgspec.Struct, rename="camel"):
    stage: str
    verb: str
    user_agent: str = ""
    object_ref: _Reference | None = None


_EVENT: Final = msgspec.json.Decoder(_Event)


def audit_policy(users: Sequence[str]) -> dict[str, object]:
    """Return the audit policy that logs the requests of these users, without bodies, and no others."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [str(user) for user in users]}, {"level": "None"}],
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


def _kind_of(event: _Event) -> RequestKind:
    reference = event.object_ref or _Reference()
    resource = "/".join(part for part in (reference.resource, reference.subresource) if part)
    return RequestKind(event.user_agent.partition("/")[0], event.verb, resource)
