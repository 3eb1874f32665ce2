"""Fuzz the extender's HTTP: mutated bodies, headers, raw sockets and slow clients, against the real process.

    just fuzz                          one million bodies
    just fuzz --bodies 20000 --seed 7

Prints a line of progress every few seconds, and fails for any answer of 5xx, a connection closed on a well-formed
request, memory that grows, a process that ends, or a log of more than a line a second. A seed gives the same requests
again.
"""

import argparse
import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from tools.fuzz.client import Connection, SlowClients, send_raw
from tools.fuzz.mutator import HEADERS, PATHS, Mutator, request
from tools.fuzz.target import Target, run_target

#: Requests sent at once on one connection.
_BATCH = 20
#: Batches from one request with odd headers, on raw bytes, or slow to the next.
_ODD_EVERY = 5
_PROGRESS_S = 5.0
#: Memory may grow by this after the first tenth: the allocator's slack, and a body of the largest kind.
_GROWTH_MIB = 24.0
#: Lines beyond one a second: those of the start, and warnings once per cause.
_LINES = 10
#: Failures after which it ends.
_ENOUGH = 20


@dataclass
class Findings:
    """Answers that came back, and those that should not have."""

    bodies: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    odd_answers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    duration_s: float = 0.0
    log_lines: int = 0
    slow_ended: int = 0

    def check_growth(self) -> None:
        """Compare the memory after the first tenth with the largest later."""
        settled = self.rss_mib[len(self.rss_mib) // 10 :]
        if max(settled) - settled[0] > _GROWTH_MIB:
            self.failures.append(f"memory grew from {settled[0]:.0f} to {max(settled):.0f} MiB")

    def check_log(self, lines: Sequence[str]) -> None:
        """Compare the number of lines with the duration."""
        self.log_lines = len(lines)
        if self.log_lines > self.duration_s + _LINES:
            self.failures.append(f"{self.log_lines} log lines in {self.duration_s:.0f} s: {''.join(lines[:20])}")

    def report(self) -> str:
        """Return the result in a few lines."""
        rss = self.rss_mib
        lines = [
            f"{self.bodies} bodies in {self.duration_s:.0f} s: {dict(sorted(self.answers.items()))}",
            f"odd headers and raw sockets: {dict(sorted(self.odd_answers.items()))}",
            f"memory {rss[0]:.0f} MiB at first, {max(rss):.0f} at most, {rss[-1]:.0f} at last",
            f"slow clients ended {self.slow_ended}, log lines {self.log_lines}",
            *(f"FAILED: {failure}" for failure in self.failures),
        ]
        return "\n".join(lines)


class Fuzzer:
    """Sends from a thread of its own; `stop` ends it early."""

    def __init__(self, target: Target, seed: int, bodies: int) -> None:
        self.findings = Findings()
        self.stop = threading.Event()
        self._target = target
        self._port = target.ports["extender"]
        self._bodies = bodies
        self._mutator = Mutator(seed)
        #: One for each path, since a server may serve some paths differently and stays with it on a connection.
        self._connections = {path: Connection(self._port) for path in PATHS}
        self._slow = SlowClients(self._port, 30)

    def run(self) -> None:
        """Send everything."""
        started = time.monotonic()
        every = max(1, self._bodies // _BATCH // 200)
        number = 0
        while self._continues():
            self._send_batch()
            if number % _ODD_EVERY == 0:
                self._send_odd()
            if number % every == 0:
                self.findings.rss_mib.append(self._target.rss_mib)
                self._slow.step(request(b"/filter", b"{" * 100)[:-50])
            number += 1
        self._end(time.monotonic() - started)

    def _continues(self) -> bool:
        found = self.findings
        unfinished = found.bodies < self._bodies and len(found.failures) < _ENOUGH
        return unfinished and self._target.running and not self.stop.is_set()

    def _end(self, duration_s: float) -> None:
        found = self.findings
        found.slow_ended = self._slow.ended
        self._slow.close()
        statuses = [
            status for path in PATHS for status in self._exchange(path, [request(path, self._mutator.valid_body())])
        ]
        if statuses != [200] * len(PATHS):
            found.failures.append(f"well-formed requests at the end: {statuses}")
        for connection in self._connections.values():
            connection.close()
        if self._target.running:
            found.rss_mib.append(self._target.rss_mib)
        found.duration_s = duration_s

    def _send_batch(self) -> None:
        size = min(_BATCH, self._bodies - self.findings.bodies)
        bodies = [self._mutator.body() for _ in range(size)]
        path = self._mutator.dice.choice(PATHS)
        requests = [request(path, body) for body in bodies]
        statuses = self._exchange(path, requests)
        self.findings.bodies += size
        self.findings.answers.update(map(str, statuses))
        for sent, status in zip(requests, statuses, strict=False):
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self.findings.failures.append(f"{status} for {sent[:2000]!r}")

    def _exchange(self, path: bytes, requests: list[bytes]) -> list[int]:
        connection = self._connections[path]
        try:
            return connection.exchange(requests)
        except OSError as error:
            self.findings.failures.append(f"{error} in {[sent[:300] for sent in requests]}")
            connection.close()
            self._connections[path] = Connection(self._port)
            return []

    def _send_odd(self) -> None:
        dice, mutator = self._mutator.dice, self._mutator
        with_headers = request(dice.choice(PATHS), mutator.valid_body(), *dice.sample(HEADERS, dice.randint(1, 3)))
        for raw in (with_headers, mutator.raw()):
            try:
                statuses = send_raw(self._port, raw, leave=dice.choice((True, False, False)))
            except TimeoutError:
                self.findings.failures.append(f"neither answered nor closed: {raw[:2000]!r}")
                continue
            self.findings.odd_answers.update(statuses)
            if any(status.startswith("5") for status in statuses):
                self.findings.failures.append(f"{dict(statuses)} for {raw[:2000]!r}")


async def fuzz(*, bodies: int, seed: int, progress: bool = False) -> Findings:
    """Run one campaign and return what was found."""
    async with run_target() as target:
        fuzzer = await asyncio.to_thread(Fuzzer, target, seed, bodies)
        work = asyncio.create_task(asyncio.to_thread(fuzzer.run))
        try:
            while not (await asyncio.wait({work}, timeout=_PROGRESS_S))[0]:
                if progress:
                    _show(fuzzer.findings, target, bodies)
        finally:
            fuzzer.stop.set()
        await work
        findings = fuzzer.findings
        if not target.running:
            findings.failures.append("the process ended")
    findings.check_growth()
    findings.check_log(target.lines)
    return findings


def _show(findings: Findings, target: Target, bodies: int) -> None:
    rss = findings.rss_mib[-1] if findings.rss_mib else 0.0
    line = f"{findings.bodies}/{bodies} {dict(findings.answers)} odd {dict(findings.odd_answers)}"
    print(f"{line} rss {rss:.0f} MiB files {target.open_files} log {len(target.lines)}", flush=True)


def main() -> int:
    """Fuzz as the command line says; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bodies", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    findings = asyncio.run(fuzz(bodies=options.bodies, seed=options.seed, progress=True))
    print(findings.report())
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
