"""A stand-in for a Prometheus server that `kubectl joulie` asks."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

#: Time of all values, in seconds since the epoch: 2026-06-01T18:00:00.5Z.
AT_S: Final = 1780336800.5


def series(figure: str, value: object, **labels: str) -> dict[str, Any]:
    """Return one series of a figure of the answer."""
    return {"metric": {"joulie_figure": figure, **labels}, "value": [AT_S, str(value)]}


def increase_query(metric: str, by: str, matchers: str, figure: str) -> str:
    """Return the query of one figure of a day."""
    increase = f"sum by ({by}) (increase({metric}{{{matchers}}}[86400s]))"
    return f'label_replace({increase}, "joulie_figure", "{figure}", "", "")'


def answer(*found: dict[str, Any], kind: str = "vector") -> bytes:
    """Return the answer with these series."""
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": found}}).encode()


@dataclass
class FakePrometheus:
    """Answers every request with the same, and keeps method, path and query of the requests."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request."""
        self.requests.append((request.method, request.path, dict(request.query)))
        return web.Response(body=self.body, status=self.status, headers=self.headers)
