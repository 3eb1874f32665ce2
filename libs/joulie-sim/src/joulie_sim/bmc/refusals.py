"""Refusals of a simulated BMC, with the messages of DMTF's Base registry."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

_REGISTRY: Final = "Base.1.16"


class RefusedError(Exception):
    """A request that is refused with a message of the registry, or of a vendor's where the key has dots."""

    def __init__(self, status: HTTPStatus, key: str, *arguments: str, allow: Iterable[str] = ()) -> None:
        super().__init__(key)
        self.status = status
        self.message_id = key if "." in key else f"{_REGISTRY}.{key}"
        self.arguments = arguments
        self.allow = tuple(allow)

    def response(self) -> web.Response:
        """Return the answer."""
        name = self.message_id.rpartition(".")[2]
        text = f"{name}: {', '.join(self.arguments)}" if self.arguments else name
        info: dict[str, Any] = {"MessageId": self.message_id, "Message": text, "Severity": "Warning"}
        if self.arguments:
            info["MessageArgs"] = list(self.arguments)
        body = {"error": {"code": self.message_id, "message": text, "@Message.ExtendedInfo": [info]}}
        headers = {"Allow": ", ".join(self.allow)} if self.allow else {}
        return web.json_response(body, status=self.status, headers=headers)
