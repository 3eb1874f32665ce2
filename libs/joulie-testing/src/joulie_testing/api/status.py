"""Error answers of the API server: `Status` bodies with their HTTP codes."""

from collections.abc import Sequence
from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def status_body(
    code: int,
    *,
    reason: str = "",
    message: str = "",
    causes: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    """Return a `Status` object of a failure, as the API server sends it."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message or f"scripted status {code}",
        "reason": reason or REASONS.get(code, "Unknown"),
        "code": code,
    }
    if causes:
        body["details"] = {"causes": list(causes)}
    return body


class StatusError(Exception):
    """A request that the server refuses; has the Status to answer with."""

    def __init__(self, code: int, message: str, *, reason: str = "", causes: Sequence[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.body = status_body(code, reason=reason, message=message, causes=causes)
