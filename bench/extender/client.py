"""A client like kube-scheduler's: one keep-alive connection, the whole body at once, the whole answer read."""

import http.client
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_HEADERS = {"Content-Type": "application/json"}


class Client:
    """One connection to one extender."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._connection.connect()

    def post(self, path: str, body: bytes) -> tuple[float, bytes]:
        """Seconds from the first byte sent to the last one received, and the answer. Raises if it is no 200."""
        started = time.perf_counter()
        self._connection.request("POST", path, body, _HEADERS)
        answer = self._connection.getresponse()
        content = answer.read()
        took = time.perf_counter() - started
        if answer.status != 200:
            raise RuntimeError(f"{self.url}{path}: {answer.status} {content[:200]!r}")
        return took, content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()


@dataclass
class Probe:
    """Asks /healthz again and again on its own connection: the worst round trip is the event loop's worst stall."""

    url: str
    worst_s: float = 0.0

    def __enter__(self) -> Self:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _ask(self) -> None:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        while not self._done.wait(0.001):
            started = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            self.worst_s = max(self.worst_s, time.perf_counter() - started)
        connection.close()
