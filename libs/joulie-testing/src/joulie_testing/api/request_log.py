"""Log of the requests that the API server received, for assertions in tests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

WRITING_VERBS = frozenset({"create", "replace", "patch", "apply", "delete", "bind"})


@dataclass(slots=True)
class Request:
    """One request and its result."""

    verb: str
    """get, list, watch, create, replace, patch, apply, delete or bind; `other` for paths that are not resources."""
    method: str
    path: str
    query: Mapping[str, str]
    user_agent: str
    kind: str = ""
    name: str = ""
    namespace: str | None = None
    subresource: str = ""
    content_type: str = ""
    accept: str = ""
    body: bytes = field(default=b"", repr=False)
    status: int = 0
    """The HTTP status of the answer; 0 while unanswered, and if the connection was reset instead."""

    @property
    def field_manager(self) -> str:
        """The field manager that the client sent, else empty."""
        return self.query.get("fieldManager", "")

    def json(self) -> Any:
        """Return the body as Python data; None if there was none."""
        return msgspec.json.decode(self.body) if self.body else None


class RequestLog:
    """Every request since the start or the last `clear`, oldest first."""

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def __getitem__(self, index: int) -> Request:
        return self._requests[index]

    def append(self, request: Request) -> None:
        """Add a request."""
        self._requests.append(request)

    def clear(self) -> None:
        """Remove all requests."""
        self._requests.clear()

    def find(
        self,
        *,
        verb: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        since: int = 0,
    ) -> list[Request]:
        """Return the requests that match; `since` is an earlier length of the log."""
        return [
            request
            for request in self._requests[since:]
            if (verb is None or request.verb == verb)
            and (kind is None or request.kind == kind)
            and (name is None or request.name == name)
            and (subresource is None or request.subresource == subresource)
        ]

    def writes(
        self,
        *,
        kind: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        manager: str | None = None,
        since: int = 0,
    ) -> list[Request]:
        """Return the requests with a writing verb that match, refused ones included."""
        return [
            request
            for request in self.find(kind=kind, name=name, subresource=subresource, since=since)
            if request.verb in WRITING_VERBS and manager in {None, request.field_manager}
        ]
