"""Failures in the log: one line for each new cause, one line when it works again, nothing for each retry.

A cause is short and stable: the type of the exception, or the text of a problem that has none. The caller names the
cause of a problem whose text varies (an age, an address). While something fails each of its causes is logged once, so
that two that alternate do not fill the log.

The actuator, which logs without structlog, does not use it: it logs every restored knob.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

_Key = frozenset[tuple[str, Any]]


class Logger(Protocol):
    """The part of a structlog logger that is used."""

    def log(self, level: int, event: str, /, **fields: Any) -> Any:
        """Log an event."""


@dataclass(slots=True)
class _Failure:
    #: The latest problem.
    problem: str
    #: All that were logged.
    causes: set[str] = field(default_factory=set)


class FailureLog:
    """The failures of one kind of work, by `subject`: fields of the log line, such as the node's name.

    Threads may use one at the same time.
    """

    __slots__ = ("_failed", "_failures", "_level", "_log", "_max_subjects", "_recovered", "_trace")

    def __init__(
        self,
        log: Logger,
        *,
        failed: str,
        recovered: str,
        level: int = logging.WARNING,
        trace: bool = False,
        max_subjects: float = math.inf,
    ) -> None:
        """Log the event `failed` at `level`, with the exception's traceback if `trace`, and `recovered` at info.

        `max_subjects` bounds memory and log where others determine how many subjects fail: while that many do, further
        ones are not logged.
        """
        self._log = log
        self._failed = failed
        self._recovered = recovered
        self._level = level
        self._trace = trace
        self._max_subjects = max_subjects
        self._failures: dict[_Key, _Failure] = {}

    def failed(self, problem: BaseException | str, /, *, cause: str | None = None, **subject: Any) -> None:
        """Log the problem, unless its cause was logged since the subject last worked."""
        is_error = isinstance(problem, BaseException)
        kind = type(problem).__name__ if is_error else ""
        text = str(problem) or kind
        cause = cause or kind or text
        key = _key(subject)
        failure = self._failures.get(key)
        if failure is None:
            if len(self._failures) >= self._max_subjects:
                return
            failure = self._failures[key] = _Failure(text)
        failure.problem = text
        if cause in failure.causes:
            return
        failure.causes.add(cause)
        trace = {"exc_info": problem} if self._trace and is_error else {}
        self._log.log(self._level, self._failed, **subject, cause=cause, problem=text, **trace)

    def recovered(self, **subject: Any) -> None:
        """Log that the subject works again, if it had failed."""
        if self._failures and self._failures.pop(_key(subject), None) is not None:
            self._log.log(logging.INFO, self._recovered, **subject)

    def problem(self, **subject: Any) -> str | None:
        """Return the latest problem of a subject; None where it works."""
        failure = self._failures.get(_key(subject))
        return None if failure is None else failure.problem

    def retain(self, keep: Callable[[Mapping[str, Any]], bool]) -> None:
        """Forget the subjects for which `keep` is false, since they are gone, without logging."""
        # Over a copy: another thread may add a subject meanwhile.
        for key in list(self._failures):
            if not keep(dict(key)):
                self._failures.pop(key, None)


def _key(subject: Mapping[str, Any]) -> _Key:
    return frozenset(subject.items())
