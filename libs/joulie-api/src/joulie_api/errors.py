"""Errors of requests to a Kubernetes API server, as one hierarchy.

Every call of `joulie_api.client.KubeClient` returns the server's answer or raises a `KubeError`. An answer that is not
2xx is an `ApiError` of the subclass for its status; no answer at all (refused, reset, timed out) is a `TransportError`,
with the library's exception chained as its cause.
"""

from http import HTTPStatus
from typing import Final

import msgspec

_EXCERPT_CHARACTERS: Final = 200
_SERVER_ERROR_FLOOR: Final = 500


class KubeError(Exception):
    """Base of all errors of requests to the API server."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigError(KubeError):
    """The API server cannot be reached for lack of configuration: kubeconfig or in-cluster files missing or invalid."""


class TransportError(KubeError):
    """The request got no complete answer: whether a write succeeded is unknown. The cause is chained."""


class StreamBrokenError(TransportError):
    """An open watch was interrupted."""


class IdleTimeoutError(StreamBrokenError):
    """A watch sent nothing, not even a bookmark, for longer than a live watch can."""


class DecodeError(KubeError):
    """The answer cannot be decoded as the expected object. The cause is chained."""


class AnswerTooLarge(KubeError):  # noqa: N818 - names the state
    """The answer exceeds the size that the caller accepts; the rest of it is not received."""


class NotLeader(KubeError):  # noqa: N818 - names the state
    """A write was not sent, because this process does not hold the lease."""


class LeadershipLost(KubeError):  # noqa: N818 - names the event
    """The lease could not be renewed in time, or another process holds it: this process must exit."""


class ApiError(KubeError):
    """The API server refused: `status` is the HTTP code, `reason` the reason in its Status body ("" if none)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}" if self.reason else f"{self.status}: {self.message}"


class Unauthorized(ApiError):  # noqa: N818 - the API server's reason, as are the following
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):  # noqa: N818
    """403: an RBAC rule is missing; the message names verb and resource."""


class NotFound(ApiError):  # noqa: N818
    """404: no such object, or no such kind (the CRD is not installed)."""


class Conflict(ApiError):  # noqa: N818
    """409: the object has changed since the version that the request is based on."""


class AlreadyExists(Conflict):
    """409 with reason AlreadyExists: an object of that name exists."""


class Gone(ApiError):  # noqa: N818
    """410: the resourceVersion or continue token is older than the server's history."""


class Invalid(ApiError):  # noqa: N818
    """422: the object violates the schema or a validation rule."""


class TooManyRequests(ApiError):  # noqa: N818
    """429: the server is overloaded; `retry_after_s` is the delay it requests, 0 if none."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(status, reason, message)
        self.retry_after_s = retry_after_s


class ServerError(ApiError):
    """5xx: the server or its backend failed; `retry_after_s` as in `TooManyRequests`."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(status, reason, message)
        self.retry_after_s = retry_after_s


class _Details(msgspec.Struct):
    retryAfterSeconds: float | None = None  # noqa: N815 - wire name


class Status(msgspec.Struct):
    """The part of `v1.Status` that Joulie reads; also the object of a watch's ERROR event."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None

    @property
    def retry_after_s(self) -> float:
        """The delay that the body requests, in seconds; 0 if none."""
        return (self.details.retryAfterSeconds or 0.0) if self.details else 0.0


_STATUS_DECODER: Final = msgspec.json.Decoder(Status)

_BY_CODE: Final[dict[int, type[ApiError]]] = {
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Gone,
    HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
}


def api_error(code: int, body: bytes, *, retry_after_header: str | None = None) -> ApiError:
    """Return the exception for an answer with HTTP status `code`.

    `body` is a `v1.Status` in JSON, or anything that a proxy sends: then its first characters are the message. A
    Retry-After header in seconds takes precedence over the body's; a date there is ignored (Kubernetes sends seconds).
    """
    try:
        status = _STATUS_DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # A proxy may send anything. Not `decoding.decode`, which needs the errors of this module.
        status = Status()
    if not status.message and not status.reason:
        status.message = body[:_EXCERPT_CHARACTERS].decode(errors="replace")
    return error_of_status(code, status, retry_after_header=retry_after_header)


def error_of_status(code: int, status: Status, *, retry_after_header: str | None = None) -> ApiError:
    """Return the exception for a Status object, from an error answer or from a watch's ERROR event."""
    reason, message = status.reason or "", status.message or "no message"
    header = retry_after_header or ""
    retry_after_s = float(header) if header.isascii() and header.isdecimal() else status.retry_after_s
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(code, reason, message, retry_after_s)
    if code >= _SERVER_ERROR_FLOOR:
        return ServerError(code, reason, message, retry_after_s)
    if code == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists(code, reason, message)
    return _BY_CODE.get(code, ApiError)(code, reason, message)
