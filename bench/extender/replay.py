"""Pods as kube-scheduler schedules them: two requests each, and every watch event that they cause.

A client in this process sends the requests, takes the best of the answered nodes, and has the events of that pod
written to the watches of an API server in another process. As fast as possible means one pod after another, as
kube-scheduler does it. At a given rate several pods may be under way: the rate then depends on what the extender can
do, and not on how long the client takes between two requests. The extender runs unmodified on one core.
"""

import os
import random
import signal
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from cluster import node_names
from feed import Feed, run_feed
from service import Extender, start_extender
from traffic import POD_EVENTS, PodTraffic, node_json, pods, sample_size, samples, twin_json, watch_line

from joulie_core.timestamps import rfc3339

#: Pods that are scheduled between a pod and each of its events: bindings are asynchronous, and pods live for a while.
_DELAYS: Final = (3, 30, 60, 400, 420)
WARM_UP: Final = 500
#: Pods that are under way at a time where a rate is given.
_PARALLEL: Final = 3
#: Least seconds between two writes of a node's twin by the operator (docs/results/cost-per-pod.md, requests).
_TWIN_INTERVAL_S: Final = 10.0
#: Seconds between two heartbeats of a Node: the kubelet's nodeStatusReportFrequency.
_HEARTBEAT_INTERVAL_S: Final = 300.0
#: What Go's HTTP client writes at once before the rest of a longer request.
_FIRST_WRITE: Final = 4096
_FIRST_VERSION: Final = 10_000
_IDLE_S: Final = 0.3
#: Pods between two samples of the machine's speed.
_GAUGED: Final = 20


class _Score(msgspec.Struct, rename="pascal"):
    host: str
    score: int


_SCORES: Final = msgspec.json.Decoder(list[_Score])


class Connection:
    """One keep-alive connection, written to as Go's HTTP client does."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = parts.netloc.encode()
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: bytes, body: bytes) -> bytes:
        """Return the body of the answer. Raises RuntimeError where the status is not 200."""
        request = (
            b"POST %b HTTP/1.1\r\nHost: %b\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n"
            b"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n%b" % (path, self._host, len(body), body)
        )
        self._socket.sendall(request[:_FIRST_WRITE])
        if len(request) > _FIRST_WRITE:
            self._socket.sendall(request[_FIRST_WRITE:])
        return self._read_answer()

    def _read_answer(self) -> bytes:
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._receive()
        head = received[:end].lower()
        if not head.startswith(b"http/1.1 200 "):
            raise RuntimeError(f"unexpected answer {received[:200]!r}")
        length = int(head.partition(b"content-length:")[2].split(b"\r", 1)[0])
        parts = [received[end + 4 :]]
        missing = length - len(parts[0])
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        return b"".join(parts)

    def _receive(self) -> bytes:
        part = self._socket.recv(1 << 18)
        if not part:
            raise RuntimeError("the extender closed the connection")
        return part

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Gauge:
    """Time that this machine takes for a fixed piece of work over its least, timed again and again.

    Other load on the machine makes every process take more CPU time for the same work, by sharing caches and cores.
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []

    def sample(self) -> None:
        """Time the work once."""
        started = time.thread_time()
        total = 0
        for number in range(20_000):
            total += number % 7
        self._times_s.append(time.thread_time() - started)

    @property
    def interference(self) -> float:
        """Mean time of the work over its least time."""
        return statistics.mean(self._times_s) / min(self._times_s)


@dataclass
class Figures:
    """Results of a replay."""

    nodes: int
    #: Pods a second that were to be sent; 0: as many as possible.
    rate: float
    pods: int = 0
    cpu_s: float = 0.0
    #: Time from the first request until the last watch event was handled.
    elapsed_s: float = 0.0
    #: Time that watch events took after the last reply.
    lag_s: float = 0.0
    rss_mib: float = 0.0
    #: See `Gauge`.
    interference: float = 1.0
    filter_ms: list[float] = field(default_factory=list)
    prioritize_ms: list[float] = field(default_factory=list)

    @property
    def cpu_ms(self) -> float:
        """CPU time of the extender per pod, in milliseconds."""
        return self.cpu_s / self.pods * 1e3

    @property
    def best_cpu_ms(self) -> float:
        """Estimate of the same at the machine's best speed."""
        return self.cpu_ms / self.interference

    def line(self) -> str:
        """One row of the table."""
        quantiles = "".join(
            f"{statistics.median(times):8.2f}{statistics.quantiles(times, n=100)[98]:8.2f}"
            for times in (self.filter_ms, self.prioritize_ms)
        )
        rate = f"{self.rate:.0f}" if self.rate else "most"
        return (
            f"{self.nodes:6}{rate:>7}{self.pods:7}{self.cpu_ms:9.3f}{self.interference:6.2f}{self.best_cpu_ms:9.3f}"
            f"{self.pods / self.elapsed_s:9.0f}{self.lag_s:8.2f}{quantiles}{self.rss_mib:9.0f}"
        )


HEADER: Final = (
    f"{'nodes':>6}{'pods/s':>7}{'pods':>7}{'cpu ms/p':>9}{'slow':>6}{'at best':>9}{'reached':>9}{'lag s':>8}"
    f"{'filter':>8}{'p99':>8}{'prior.':>8}{'p99':>8}{'RSS MiB':>9}"
)


class Replay:
    """kube-scheduler's requests, and what its pods cause in the cluster."""

    def __init__(self, feed: Feed, url: str, names: Sequence[str], candidates: int) -> None:
        self._feed = feed
        self._samples = samples(names, candidates)
        self._dice = random.Random(candidates)
        self._version = _FIRST_VERSION
        self._placed: list[tuple[PodTraffic, bytes]] = []
        self._twins_due = self._heartbeats_due = 0.0
        self._reported_at = time.perf_counter()
        self._twins = [twin_json(name, number) for number, name in enumerate(names)]
        self._nodes = [node_json(name, number) for number, name in enumerate(names)]
        self._url = url
        self._lock = threading.Lock()

    def connect(self) -> Connection:
        """Open a connection; its first request must follow soon, since a server does not wait long for it."""
        return Connection(self._url)

    def schedule(self, pod: PodTraffic, connection: Connection) -> tuple[float, float]:
        """Place a pod, and return the seconds that /filter and /prioritize took. Any thread may call it."""
        body = pod.body(self._samples[len(self._placed) % len(self._samples)])
        started = time.perf_counter()
        filtered = connection.post(b"/filter", body)
        between = time.perf_counter()
        first = filtered.index(b'"NodeNames":') + len(b'"NodeNames":')
        body = pod.body(filtered[first : filtered.index(b"]", first) + 1])
        again = time.perf_counter()
        scores = _SCORES.decode(connection.post(b"/prioritize", body))
        ended = time.perf_counter()
        best = max(each.score for each in scores)
        candidates = [each.host for each in scores if each.score == best]
        with self._lock:
            node = self._dice.choice(candidates)
            self._placed.append((pod, node.encode()))
            self._report(len(self._placed))
        return between - started, ended - again

    def _report(self, number: int) -> None:
        """Send the events that are due when so many pods are placed."""
        self._report_pods(number)
        now = time.perf_counter()
        elapsed_s, self._reported_at = now - self._reported_at, now
        self._twins_due += elapsed_s * len(self._twins) / _TWIN_INTERVAL_S
        self._heartbeats_due += elapsed_s * len(self._nodes) / _HEARTBEAT_INTERVAL_S
        if twins := int(self._twins_due):
            self._twins_due -= twins
            self._feed.send("nodetwins", [self._measured(self._dice.choice(self._twins)) for _ in range(twins)])
        if heartbeats := int(self._heartbeats_due):
            self._heartbeats_due -= heartbeats
            self._feed.send("nodes", [self._renewed(self._dice.choice(self._nodes)) for _ in range(heartbeats)])

    def _report_pods(self, number: int) -> None:
        lines = []
        for event, delay in enumerate(_DELAYS):
            if 0 <= number - delay < len(self._placed):
                pod, node = self._placed[number - delay]
                self._version += 1
                lines.append(pod.line(event, node, self._version))
        if lines:
            self._feed.send("pods", lines)

    def _measured(self, changed: dict[str, Any]) -> bytes:
        """Return the event of a twin with a new measurement, which differs by what a pod or two draw."""
        power = changed["status"]["powerMeasurement"]
        share = power["measuredNodePowerW"] / power["nodeCappedPowerW"] + self._dice.uniform(-0.05, 0.05)
        power["measuredNodePowerW"] = round(min(0.9, max(0.1, share)) * power["nodeCappedPowerW"], 1)
        changed["status"]["lastUpdated"] = rfc3339(time.time())
        return self._renewed(changed)

    def _renewed(self, changed: dict[str, Any]) -> bytes:
        self._version += 1
        return watch_line("MODIFIED", changed, self._version)


@contextmanager
def run_replay(nodes: int, candidates: int | None, launcher: Sequence[str] = ()) -> Iterator[tuple[Replay, Extender]]:
    """Start an extender on a cluster of `nodes`; requests name `candidates`, by default as many as kube-scheduler's."""
    names = node_names(nodes)
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        feed = stack.enter_context(run_feed(nodes, Path(directory)))
        arguments = (feed.kubeconfig, launcher) if launcher else (feed.kubeconfig,)
        extender = stack.enter_context(start_extender(*arguments))
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(extender.pid, cores[:1])
        yield Replay(feed, extender.url, names, candidates or sample_size(nodes)), extender


def measure(
    replay: Replay, extender: Extender, *, nodes: int, rate: float, count: int, profiled: bool = False
) -> Figures:
    """Return the figures of `count` pods, after a warm-up in which all kinds of events begin to arrive.

    `profiled`: the extender runs under `sampler.py`, which is to begin with the measurement.
    """
    traffic = list(pods(0, WARM_UP + count))
    with closing(replay.connect()) as connection:
        for pod in traffic[:WARM_UP]:
            replay.schedule(pod, connection)
    figures = Figures(nodes, rate, count)
    if profiled:
        os.kill(extender.pid, signal.SIGUSR1)
    gauge = Gauge()
    cpu_s, started = extender.cpu_s, time.perf_counter()
    waiting, next_pod = enumerate(traffic[WARM_UP:]), threading.Lock()

    def send() -> None:
        with closing(replay.connect()) as connection:
            while True:
                with next_pod:
                    number, pod = next(waiting, (count, None))
                if pod is None:
                    return
                if rate:
                    time.sleep(max(0.0, started + number / rate - time.perf_counter()))
                filter_s, prioritize_s = replay.schedule(pod, connection)
                figures.filter_ms.append(filter_s * 1e3)
                figures.prioritize_ms.append(prioritize_s * 1e3)
                if number % _GAUGED == 0:
                    gauge.sample()

    connections = _PARALLEL if rate else 1
    with ThreadPoolExecutor(connections) as senders:
        for sender in [senders.submit(send) for _ in range(connections)]:
            sender.result()
    replied = time.perf_counter()
    idle_since = _wait_idle(extender)
    figures.cpu_s = extender.cpu_s - cpu_s
    figures.elapsed_s = max(idle_since, replied) - started
    figures.lag_s = max(0.0, idle_since - replied)
    figures.interference = gauge.interference
    figures.rss_mib = extender.rss_mib
    return figures


def _wait_idle(extender: Extender) -> float:
    """Wait until the extender uses no CPU, and return since when."""
    used, since = extender.cpu_s, time.perf_counter()
    while time.perf_counter() - since < _IDLE_S:
        time.sleep(0.01)
        if extender.cpu_s != used:
            used, since = extender.cpu_s, time.perf_counter()
    return since


assert len(_DELAYS) == len(POD_EVENTS)
