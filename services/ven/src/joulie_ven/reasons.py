"""Reasons why a VTN cannot be used, or one of its events; labels of metrics and fields of log lines."""

from enum import StrEnum


class VtnReason(StrEnum):
    """Reason of the result of a poll."""

    OK = "Ok"
    CREDENTIALS_MISSING = "CredentialsMissing"
    UNREACHABLE = "Unreachable"
    NOT_TRUSTED = "NotTrusted"
    TIMED_OUT = "TimedOut"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    BUSY = "Busy"
    REFUSED = "Refused"
    INVALID_ANSWER = "InvalidAnswer"
    PROGRAM_NOT_FOUND = "ProgramNotFound"
    KUBERNETES_FAILED = "KubernetesFailed"
    INTERNAL_ERROR = "InternalError"


class VtnError(Exception):
    """A request to the VTN failed.

    Args:
        reason: the kind of failure.
        message: details, without credentials and tokens.
        status: the HTTP status, 0 where there was no answer.
        retry_after_s: seconds that the VTN requests to be left alone, 0 if none.
    """

    def __init__(self, reason: VtnReason, message: str, *, status: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s


class EventRefused(Exception):  # noqa: N818 - names the state
    """An event cannot be turned into limits; the message names the field and the reason."""
