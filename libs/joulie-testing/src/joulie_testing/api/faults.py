"""Scripted faults of the API server.

A script is an action with a condition (verb, part of the path) and a count; a request uses the first script that
matches. Actions on streams can also be applied to open watches.
"""

from dataclasses import dataclass

import msgspec

from joulie_testing.api.status import status_body


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer with a status code, without performing the request."""

    status: int
    retry_after_s: int | None = None
    body: bytes | None = None
    """None: a Status object in JSON, as a real server sends."""
    content_type: str = "application/json"
    reason: str = ""
    message: str = ""

    def payload(self) -> bytes:
        """Return the body of the answer."""
        if self.body is not None:
            return self.body
        return msgspec.json.encode(status_body(self.status, reason=self.reason, message=self.message))


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without an answer."""

    after_effect: bool = False
    """Perform the request first: the client cannot know whether its write succeeded."""


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Keep the connection and send nothing more; a watch may send some lines before."""

    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class CutMidLine:
    """Reset the connection in the middle of a line of a watch, or of the body of another answer."""

    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class EndStream:
    """End a watch regularly, before its timeout."""

    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, then answer normally."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Inject:
    """Write these lines into a watch, then continue."""

    lines: tuple[bytes, ...]
    end: bool = False
    """End the stream after them."""


StreamAction = HalfOpen | CutMidLine | EndStream | Inject
Action = Respond | Disconnect | Delay | StreamAction


def expired_event(code: int = 410) -> Inject:
    """Return the ERROR event by which a server ends a watch whose resourceVersion is too old."""
    status = status_body(code, message="too old resource version")
    return Inject((msgspec.json.encode({"type": "ERROR", "object": status}),), end=True)


def conflicting_apply(manager: str, field: str = ".spec") -> Respond:
    """Return the 409 of an apply that conflicts with another manager's field."""
    message = f'Apply failed with 1 conflict: conflict with "{manager}": {field}'
    body = status_body(
        409,
        message=message,
        causes=[{"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": field}],
    )
    return Respond(409, body=msgspec.json.encode(body))


@dataclass(slots=True)
class Script:
    """An action and the requests that it applies to."""

    action: Action
    verb: str | None
    path: str
    times: int | None
    skip: int
    hits: int = 0
    """Number of requests that used this script."""

    @property
    def spent(self) -> bool:
        """Whether it has been used as often as it may."""
        return self.times is not None and self.hits >= self.times


class FaultInjector:
    """The scripts of one server."""

    def __init__(self) -> None:
        self._scripts: list[Script] = []

    def add(
        self, action: Action, *, verb: str | None = None, path: str = "", times: int | None = 1, skip: int = 0
    ) -> Script:
        """Script an action.

        Args:
            action: the fault.
            verb: get, list, watch, create, replace, patch, apply or delete; None for any.
            path: a part of the request's path, such as `/nodes` or `/nodes/n1/status`.
            times: number of requests; None is all until `clear`.
            skip: number of matching requests that are answered normally before.

        Raises:
            ValueError: the action applies to watches only, and the verb is another.
        """
        if isinstance(action, EndStream | Inject) and verb != "watch":
            raise ValueError(f'{type(action).__name__} applies to watches only: set verb="watch"')
        script = Script(action, verb, path, times, skip)
        self._scripts.append(script)
        return script

    def clear(self) -> None:
        """Remove all scripts."""
        self._scripts.clear()

    def take(self, verb: str, path: str) -> Action | None:
        """Return the action for a request and count it as used; None if no script matches."""
        for script in self._scripts:
            if script.spent or script.verb not in {None, verb} or script.path not in path:
                continue
            if script.skip:
                script.skip -= 1
                continue
            script.hits += 1
            return script.action
        return None
