"""Jobs that wait for room, by what they request.

Jobs of the same request wait in one line: where the first of them does not fit, none does. So a change of one node
costs a comparison per kind of request and not per job.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.node_resources import PlacementRequest


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
