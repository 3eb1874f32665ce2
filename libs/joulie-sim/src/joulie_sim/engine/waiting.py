"""Jobs that wait for room, by what they request.

Jobs of the same request wait in one line: where the first of them does not fit, none does. So a change of one node
costs a comparison per kind of request and not per job.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import Final

import numpy as np

from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.node_resources import PlacementRequest

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
_FIRST_BACKOFF_S: Final = 1.0
_LONGEST_BACKOFF_S: Final = 10.0


class WaitingJobs:
    """The lines; jobs are numbered in order of arrival."""

    def __init__(self, requests: Sequence[PlacementRequest]) -> None:
        self._lines: list[deque[int]] = [deque() for _ in requests]
        self._waiting: Bools = np.zeros(len(requests), dtype=np.bool_)
        self._cpu: Floats = np.array([request.cpu_milli for request in requests])
        self._memory: Floats = np.array([request.memory_bytes for request in requests])
        self._kinds = 0
        self.jobs = 0

    def add(self, request: int, job: int) -> None:
        """Let a job wait that is later than all in its line."""
        line = self._lines[request]
        if not line:
            self._waiting[request] = True
            self._kinds += 1
        line.append(job)
        self.jobs += 1

    def first(self, request: int) -> int | None:
        """Return the first job of a line."""
        line = self._lines[request]
        return line[0] if line else None

    def pop(self, request: int) -> int:
        """Remove the first job of a line."""
        line = self._lines[request]
        job = line.popleft()
        if not line:
            self._waiting[request] = False
            self._kinds -= 1
        self.jobs -= 1
        return job

    def below(self, cpu_milli: float, memory_bytes: float) -> list[int]:
        """Return the lines whose jobs request no more than that, the one with the earliest job first."""
        if not self._kinds:
            return []
        fits: Ints = np.flatnonzero(self._waiting & (self._cpu <= cpu_milli) & (self._memory <= memory_bytes))
        return sorted(fits.tolist(), key=lambda request: self._lines[request][0])

    def lines(self) -> list[int]:
        """Return the lines in which jobs wait."""
        lines: list[int] = np.flatnonzero(self._waiting).tolist()
        return lines

    def earliest(self, most: int) -> list[int]:
        """Return the lines of that many jobs, in order of arrival; a line occurs once for each of its jobs."""
        firsts = ((job, line) for line in self.lines() for job in islice(self._lines[line], most))
        return [line for _, line in heapq.nsmallest(most, firsts)]


class BackOff:
    """kube-scheduler's back-off of lines, of whose first job the filter has refused a node; one time for each line."""

    def __init__(self) -> None:
        #: (time, line) at which the first of a line is tried again.
        self._retries: list[tuple[float, int]] = []
        #: Failed attempts of the first of a line.
        self._attempts: dict[int, int] = {}
        self._lines: set[int] = set()

    def next_s(self) -> float:
        """Return when a line is to be tried again; infinity if none is."""
        return self._retries[0][0] if self._retries else inf

    def refused(self, line: int, now_s: float) -> None:
        """Let the back-off of a line begin, unless it has."""
        if line in self._lines:
            return
        attempts = self._attempts[line] = self._attempts.get(line, 0) + 1
        wait_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(attempts - 1, 10))
        self._lines.add(line)
        heapq.heappush(self._retries, (now_s + wait_s, line))

    def placed(self, line: int) -> None:
        """Forget the failed attempts of a line of which a job was placed."""
        self._attempts.pop(line, None)

    def pop(self) -> int:
        """End the back-off that is next, and return its line."""
        _, line = heapq.heappop(self._retries)
        self._lines.discard(line)
        return line
