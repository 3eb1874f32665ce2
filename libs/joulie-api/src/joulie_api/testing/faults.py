"""Scripted misbehaviour of the API server: what goes wrong, for which requests, how often.

A script is an action with a condition (verb, part of the path) and a count; the first script that fits a request is
taken and used up by it. Actions on streams may also be thrown at watches that are already open.
"""

from dataclasses import dataclass

import msgspec

from joulie_api.testing.status import status_body


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer with a status code instead of doing anything."""

    status: int
    retry_after_s: int | None = None
    body: bytes | None = None
    """None: a Status object in JSON, as a real server sends."""
    content_type: str = "application/json"
    reason: str = ""
    message: str = ""

    def payload(self) -> bytes:
        """The bytes of the answer."""
        if self.body is not None:
            return self.body
        return msgspec.json.encode(status_body(self.status, reason=self.reason, message=self.message))


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without an answer."""

    after_effect: bool = False
    """Do what was asked first: the client cannot tell whether its write has landed."""


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Stay connected and say nothing more; a watch may send some lines before."""

    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class CutMidLine:
    """Break the connection in the middle of a line of a watch, or of the body of another answer."""

    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class EndStream:
    """End a watch in good order, without a reason."""

    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, then answer normally."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Inject:
    """Write these lines into a watch, then go on."""

    lines: tuple[bytes, ...]
    end: bool = False
    """End the stream after them."""


StreamAction = HalfOpen | CutMidLine | EndStream | Inject
Action = Respond | Disconnect | Delay | StreamAction


def expired_event(code: int = 410) -> Inject:
    """The ERROR event by which a server says within a stream that it cannot go on."""
    status = status_body(code, message="too old resource version")
    return Inject((msgspec.json.encode({"type": "ERROR", "object": status}),), end=True)


def conflicting_apply(manager: str, field: str = ".spec") -> Respond:
    """The 409 of an apply that meets another manager's field."""
    message = f'Apply failed with 1 conflict: conflict with "{manager}": {field}'
    body = status_body(
        409,
        message=message,
        causes=[{"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": field}],
    )
    return Respond(409, body=msgspec.json.encode(body))


@dataclass(slots=True)
class Script:
    """An action waiting for its requests."""

    action: Action
    verb: str | None
    path: str
    times: int | None
    skip: int
    hits: int = 0
    """How many requests have met this script."""

    @property
    def spent(self) -> bool:
        """Whether it will act no more."""
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
            action: what goes wrong.
            verb: get, list, watch, create, replace, patch, apply or delete; None for any.
            path: a part of the request's path, such as `/nodes` or `/nodes/n1/status`.
            times: for how many requests; None until `clear`.
            skip: how many fitting requests pass unharmed before.

        Raises:
            ValueError: an action that only a watch can suffer, for another verb.
        """
        if isinstance(action, EndStream | Inject) and verb != "watch":
            raise ValueError(f'{type(action).__name__} happens to watches only: say verb="watch"')
        script = Script(action, verb, path, times, skip)
        self._scripts.append(script)
        return script

    def clear(self) -> None:
        """Forget every script: the server behaves."""
        self._scripts.clear()

    def take(self, verb: str, path: str) -> Action | None:
        """The action for a request, counted as used; None when nothing is scripted for it."""
        for script in self._scripts:
            if script.spent or script.verb not in {None, verb} or script.path not in path:
                continue
            if script.skip:
                script.skip -= 1
                continue
            script.hits += 1
            return script.action
        return None
