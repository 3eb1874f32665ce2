"""The costliest bodies that are known, and how long each keeps a running extender from answering a probe.

Prints a table: the body, its size, the CPU time of the longest turn of the event loop that reading it takes, the
longest answer of /healthz while it is sent `--at-once` times at the same time, which a busy machine lengthens, the
highest memory of the process, and the answers. Each kind of body has a process of its own.
Source: docs/decisions/0002-extender.md.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from select import select

import aiohttp
from tools.fuzz.client import HOST, Connection
from tools.fuzz.target import Target, run_target

from joulie_api.claims import no_claims
from joulie_devcluster.host.usage import peak_mib
from joulie_extender.bodies import Bodies
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.requests import BadRequestError

_MIB = 1024 * 1024
_PROBE_PAUSE_S = 0.002
_TIMEOUT_S = 120.0
_NODE = b'{"metadata":{"name":"node-1","annotations":{"x":"%b"}}}'
_CONTAINER = (
    b'{"name":"c-1","image":"b","resources":{"requests":{"cpu":"1"}},"terminationMessagePath":"/dev/termination-log",'
    b'"terminationMessagePolicy":"File","imagePullPolicy":"Always"}'
)


@dataclass(frozen=True, slots=True)
class Measured:
    """The effect of one kind of body."""

    name: str
    size_bytes: int
    turn_s: float
    answers: Counter[str]
    longest_probe_s: float
    rss_mib: float

    @property
    def line(self) -> str:
        """A row of the table."""
        answers = " ".join(f"{count}x{status}" for status, count in sorted(self.answers.items()))
        turn_ms, probe_ms = self.turn_s * 1000, self.longest_probe_s * 1000
        figures = f"{self.size_bytes / _MIB:7.1f} {turn_ms:8.0f} {probe_ms:9.0f} {self.rss_mib:8.0f}"
        return f"{self.name:34} {figures}  {answers}"


def worst_bodies() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield names and makers of bodies."""
    for mib in (1.5, 40.0):
        size = int(mib * _MIB)
        for name, body in _KINDS.items():
            yield f"{name}, {mib:g} MiB", partial(body, size)
    yield "5,000 full nodes of 10 KB", lambda: _with_nodes(_list(_NODE % (b"x" * 10_000), 50_000_000))
    yield "nodes of 1 MiB, 100 MiB", lambda: _with_nodes(_list(_NODE % (b"x" * _MIB), 100 * _MIB))
    yield "one node of 100 MiB", lambda: _with_nodes(_list(_NODE % (b"x" * (100 * _MIB)), 101 * _MIB))


def _list(item: bytes, size: int) -> bytes:
    return b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]"


def _with_pod(spec: bytes, candidates: bytes = b'"NodeNames":["node-1"]') -> bytes:
    return b'{"Pod":{"metadata":{},"spec":%b},%b}' % (spec, candidates)


def _with_nodes(items: bytes) -> bytes:
    return _with_pod(b"{}", b'"Nodes":{"metadata":{},"items":%b},"NodeNames":null' % items)


def _affinity(terms: bytes) -> bytes:
    return (
        b'{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":%b}}}}'
        % terms
    )


def _members(template: bytes, size: int) -> bytes:
    return b"{" + b",".join(template % number for number in range(size // (len(template) + 4))) + b"}"


_KINDS: dict[str, Callable[[int], bytes]] = {
    "containers {}": lambda size: _with_pod(b'{"containers":%b}' % _list(b"{}", size)),
    "containers of 160 bytes": lambda size: _with_pod(b'{"containers":%b}' % _list(_CONTAINER, size)),
    "terms of node affinity": lambda size: _with_pod(_affinity(_list(b"{}", size))),
    "requests of a container": lambda size: _with_pod(
        b'{"containers":[{"resources":{"requests":%b}}]}' % _members(b'"a.b/%d":"1"', size)
    ),
    "claims": lambda size: _with_pod(b'{"resourceClaims":%b}' % _list(b'{"name":"a"}', size)),
    "names": lambda size: _with_pod(b"{}", b'"NodeNames":%b' % _list(b'"a"', size)),
    "members of the body": partial(_members, b'"a%d":1'),
    "items in one go": lambda size: _with_pod(b"{}", b'"Nodes":{"items":%b}' % _list(b"1", size)),
    "nodes of 25 bytes": lambda size: _with_nodes(_list(b'{"metadata":{"name":"a"}}', size)),
}


async def measure(target: Target, name: str, body: bytes, at_once: int) -> Measured:
    """Send a body some times at once, and probe until all are answered."""
    url = f"http://{HOST}:{target.ports['extender']}/filter"
    timeout = aiohttp.ClientTimeout(_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        # A process of its own, which does not wait while this one sends.
        prober = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tools.fuzz.worst", "--probe", str(target.ports["extender"])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert prober.stdout is not None
        await prober.stdout.readline()
        answers = Counter(await asyncio.gather(*[_send(session, url, body) for _ in range(at_once)]))
        longest, _ = await prober.communicate(b"end\n")
    return Measured(name, len(body), longest_turn_s(body), answers, float(longest), peak_mib(target.pid))


def longest_turn_s(body: bytes) -> float:
    """Return the CPU time of the longest turn of an event loop while a body is read."""
    longest_s = 0.0
    reading = Bodies(1 << 30, ByteBudget(1 << 30)).read(bytearray(body), no_claims)
    with suppress(StopIteration, BadRequestError):
        while True:
            started = time.thread_time()
            try:
                reading.send(None)
            finally:
                longest_s = max(longest_s, time.thread_time() - started)
    return longest_s


async def _send(session: aiohttp.ClientSession, url: str, body: bytes) -> str:
    headers = {"Content-Length": str(len(body))}
    try:
        async with session.post(url, data=_parts(body), headers=headers) as answer:
            async for _ in answer.content.iter_any():
                pass
            return str(answer.status)
    except (aiohttp.ClientError, ConnectionError):
        return "closed"


async def _parts(body: bytes) -> AsyncIterator[bytes]:
    for first in range(0, len(body), _MIB):
        yield body[first : first + _MIB]


def probe(port: int) -> None:
    """Request /healthz again and again until a line comes in, and print the longest time of an answer in seconds."""
    request = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    longest_s = 0.0
    with closing(Connection(port, timeout_s=_TIMEOUT_S)) as connection:
        print("ready", flush=True)
        while not select([sys.stdin], [], [], _PROBE_PAUSE_S)[0]:
            started = time.perf_counter()
            connection.exchange([request])
            longest_s = max(longest_s, time.perf_counter() - started)
    print(longest_s)


async def main(at_once: int, only: str) -> None:
    """Measure and print."""
    print(f"{'body':34} {'MiB':>7} {'turn ms':>8} {'probe ms':>9} {'peak MiB':>8}  answers to {at_once}")
    for name, make in worst_bodies():
        if only in name:
            async with run_target() as target:
                print((await measure(target, name, make(), at_once)).line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=10, help="requests with the same body at the same time")
    parser.add_argument("--only", default="", help="part of the names of the bodies to measure")
    parser.add_argument("--probe", type=int, help="request /healthz of a port only")
    arguments = parser.parse_args()
    if arguments.probe:
        probe(arguments.probe)
    else:
        asyncio.run(main(arguments.at_once, arguments.only))
