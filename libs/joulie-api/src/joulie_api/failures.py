"""Failures that were contained: counted by cause, and logged once for each subject until it works again.

Two counters keep apart what an alert must tell apart: `joulie_invalid_input_total` is input of others that cannot be
used, `joulie_internal_errors_total` a defect of Joulie, which is logged with its traceback.
"""

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog
from joulie_core.quantity import QuantityError

_log = structlog.get_logger()

#: Subjects that fail at once and are logged; further ones are counted only.
MAX_SUBJECTS: Final = 1000


class Failures:
    """The contained failures of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._invalid = Counter(
            "joulie_invalid_input_total",
            "Inputs from outside that could not be used and were set aside, by source.",
            ("source",),
            registry=registry,
        )
        self._internal = Counter(
            "joulie_internal_errors_total",
            "Unexpected errors in Joulie's own code that were contained, by the work that failed. "
            "Any is a defect: see the log line with its traceback.",
            ("work",),
            registry=registry,
        )
        self._inputs = FailureLog(
            _log, failed="invalid input set aside", recovered="input valid again", max_subjects=MAX_SUBJECTS
        )
        self._errors = FailureLog(
            _log,
            failed="internal error, will be repeated",
            recovered="works again",
            level=logging.ERROR,
            trace=True,
            max_subjects=MAX_SUBJECTS,
        )

    def invalid_input(self, source: str, problem: KubeError | str, **subject: Any) -> None:
        """Count and log input that is set aside.

        Args:
            source: where it came from, one of few: a resource's full name, `prometheus`, `http-backend`, `bmc`.
            problem: why it cannot be used.
            subject: what it belongs to, such as `node=...`.
        """
        self._invalid.labels(source).inc()
        self._inputs.failed(problem, source=source, **subject)

    def valid_input(self, source: str, **subject: Any) -> None:
        """Note that the input of this subject can be used, or is gone."""
        self._inputs.recovered(source=source, **subject)

    def not_decoded(self, source: str, error: Exception, **subject: Any) -> None:
        """Count and log input that a decoder did not take: as a defect where it raised what no invalid input causes."""
        if isinstance(error, KubeError | QuantityError):
            self.invalid_input(source, str(error), **subject)
        else:
            self.internal_error(f"decode {source}", error, **subject)

    def decoded(self, source: str, **subject: Any) -> None:
        """Note that the input of this subject is decoded again, or that the subject is gone."""
        self.valid_input(source, **subject)
        self.worked(f"decode {source}", **subject)

    def internal_error(self, work: str, error: Exception, **subject: Any) -> None:
        """Count and log an error of Joulie's own that ended the work on one subject."""
        self._internal.labels(work).inc()
        self._errors.failed(error, work=work, **subject)

    def contained(self, work: str, **subject: Any) -> "Contained":
        """End the work on one subject alone: an unexpected error is counted and logged, and not raised.

        A KubeError passes, since callers tell a failed write or a lost lease from a defect.
        """
        return Contained(self, work, subject)

    def worked(self, work: str, **subject: Any) -> None:
        """Note that the work on this subject succeeded, or that the subject is gone."""
        self._errors.recovered(work=work, **subject)

    def forget(self, **subject: Any) -> None:
        """Forget, without logging, every failure of a subject that is gone, whatever its source or work."""
        gone = subject.items()
        for log in (self._inputs, self._errors):
            log.retain(lambda each: not gone <= each.items())


class Contained:
    """The block of `Failures.contained`. A class, since passes over thousands of nodes enter it for each."""

    __slots__ = ("_failures", "_subject", "_work")

    def __init__(self, failures: Failures, work: str, subject: Mapping[str, Any]) -> None:
        self._failures, self._work, self._subject = failures, work, subject

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None:
            self._failures.worked(self._work, **self._subject)
            return False
        if isinstance(error, KubeError) or not isinstance(error, Exception):
            return False
        self._failures.internal_error(self._work, error, **self._subject)
        return True
