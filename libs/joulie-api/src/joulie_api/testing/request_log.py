"""The requests an API server has seen, for tests to assert on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

WRITING_VERBS = frozenset({"create", "replace", "patch", "apply", "delete", "bind"})


@dataclass(slots=True)
class Request:
    """One request and what became of it."""

    verb: str
    """get, list, watch, create, replace, patch, apply, delete or bind; `other` for paths that are no resource."""
    method: str
    path: str
    query: Mapping[str, str]
    user_agent: str
    kind: str = ""
    name: str = ""
    namespace: str | None = None
    subresource: str = ""
    content_type: str = ""
    body: bytes = field(default=b"", repr=False)
    status: int = 0
    """The HTTP status answered; 0 while unanswered, and for ever when the connection was broken instead."""

    @property
    def field_manager(self) -> str:
        """The field manager that the client named, else the empty string."""
        return self.query.get("fieldManager", "")

    def json(self) -> Any:
        """The body as Python data; None when there was none."""
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
        """Note a request."""
        self._requests.append(request)

    def clear(self) -> None:
        """Forget everything."""
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
        """Requests that fit; `since` is a length of the journal taken before."""
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
        """Requests that change something, refused ones included."""
        return [
            request
            for request in self.find(kind=kind, name=name, subresource=subresource, since=since)
            if request.verb in WRITING_VERBS and manager in {None, request.field_manager}
        ]
