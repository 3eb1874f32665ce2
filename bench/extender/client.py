"""A client like kube-scheduler's: one keep-alive connection, the whole body at once, the whole answer read."""

import http.client
import multiprocessing
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_SPAWN = multiprocessing.get_context("spawn")
#: Requests of a probe that do not count.
_WARM_UP = 20
_HEADERS = {"Content-Type": "application/json"}


class Client:
    """One connection to one extender."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._connection.connect()

    def post(self, path: str, body: bytes) -> tuple[float, bytes]:
        """Return the seconds from the first byte sent to the last one received, and the answer.

        Raises:
            RuntimeError: the status is not 200.
        """
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


class Probe:
    """Requests /healthz repeatedly from its own process: the longest round trip is the event loop's worst stall."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._channel, self._child_channel = _SPAWN.Pipe()

    def __enter__(self) -> Self:
        self._process = _SPAWN.Process(target=_probe, args=(self._url, self._child_channel), daemon=True)
        self._process.start()
        self._channel.recv()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._channel.send("stop")
        self.worst_s = float(self._channel.recv())
        self._process.join()


def _probe(url: str, parent: Connection) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    worst_s, requests = 0.0, 0
    while not parent.poll(0.001):
        started = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        requests += 1
        if requests > _WARM_UP:
            worst_s = max(worst_s, time.perf_counter() - started)
        elif requests == _WARM_UP:
            parent.send("ready")
    parent.send(worst_s)
    connection.close()
