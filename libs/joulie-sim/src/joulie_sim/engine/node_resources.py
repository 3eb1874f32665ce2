"""What is free and used on every node, and what kube-scheduler's resource plugins make of it."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_sim.engine.arrays import Bools, Floats
from joulie_sim.engine.kube_scores import (
    FIT_SCORES,
    NONZERO_CPU_MILLI,
    NONZERO_MEMORY_BYTES,
    FitStrategy,
    balanced_allocation,
)
from joulie_sim.engine.machines import Machines

#: Changes that are kept, and cells of rows: a run of any length and any number of requests stays below 200 MB.
_KEPT_CHANGES: Final = 10_000
_KEPT_CELLS: Final = 16_000_000
#: First row of what is free.
_FREE: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """What one job requests; compared by identity, since one object serves all jobs that request the same."""

    cpu_milli: float
    memory_bytes: float
    gpus: int
    #: Row of the node's GPUs; 0 without GPUs.
    gpu_row: int
    demand: PodDemand

    @property
    def performance(self) -> bool:
        """Whether it is a performance pod."""
        return self.demand.workload_class is WorkloadClass.PERFORMANCE


class RequestRow:
    """Fit and score of every node for one request."""

    __slots__ = ("added", "epoch", "fits", "held", "scored_as", "scores", "seen", "taken")

    def __init__(self, request: PlacementRequest, resources: int) -> None:
        cpu, memory = request.cpu_milli, request.memory_bytes
        #: What the request takes of each resource, shape (resources, 1): CPU, memory, pods, GPUs by row.
        self.taken: Floats = np.zeros((resources, 1))
        self.taken[:3, 0] = cpu, memory, 1.0
        if request.gpus:
            self.taken[3 + request.gpu_row, 0] = request.gpus
        #: What it adds to the used CPU and memory, and what it counts as in scores; shape (2, 1).
        self.added: Floats = self.taken[:2].copy()
        self.scored_as: Floats = np.array([[cpu or NONZERO_CPU_MILLI], [memory or NONZERO_MEMORY_BYTES]])
        #: What a node's column of `ResourceRows` gains with the job in place.
        self.held: Floats = np.concatenate((self.added[:, 0], self.scored_as[:, 0], -self.taken[:, 0]))
        self.fits: Bools = np.zeros(0, dtype=np.bool_)
        self.scores: Floats = np.zeros(0)
        #: Changes that are in it.
        self.epoch = -1
        self.seen = 0


class ResourceRows:
    """Free and used resources of all nodes.

    A row of fits and scores is kept for each request, and brought up to date only for the nodes that have changed since
    it was last read.

    Args:
        machines: the nodes.
        strategy: of NodeResourcesFit.
    """

    def __init__(self, machines: Machines, strategy: FitStrategy) -> None:
        nodes = len(machines)
        self._fit_scores = FIT_SCORES[strategy]
        self._allocatable = machines.allocatable
        #: Whole numbers. Rows: CPU and memory that are used; the same with what pods without a request count as; what
        #: is free of each resource, in the order of `RequestRow.taken`.
        self._state: Floats = np.concatenate(
            (
                np.zeros((_FREE, nodes)),
                machines.allocatable,
                machines.pods[np.newaxis],
                machines.gpus.reshape(-1, nodes),
            )
        )
        self._rows: dict[PlacementRequest, RequestRow] = {}
        self._most_rows = max(1, _KEPT_CELLS // nodes)
        #: Nodes in the order of their changes; emptied from time to time, which is an epoch.
        self._changes: list[int] = []
        self._epoch = 0

    def row(self, request: PlacementRequest) -> RequestRow:
        """Return fits and scores for a request, valid until the next change; not to be written to."""
        row = self._row(request)
        behind = len(self._changes) - row.seen
        if row.epoch != self._epoch or behind > self._state.shape[1]:
            row.fits, row.scores = self._fits(row, self._state), self._scores(row, self._state, self._allocatable)
        elif behind:
            nodes = np.array(self._changes[row.seen :], dtype=np.int64)
            state = self._state.take(nodes, axis=1)
            row.fits[nodes] = self._fits(row, state)
            row.scores[nodes] = self._scores(row, state, self._allocatable.take(nodes, axis=1))
        row.epoch, row.seen = self._epoch, len(self._changes)
        return row

    def fits_node(self, request: PlacementRequest, node: int) -> bool:
        """Return whether a node has room for a job."""
        free = self._state.item
        return bool(
            free(_FREE, node) >= request.cpu_milli
            and free(_FREE + 1, node) >= request.memory_bytes
            and free(_FREE + 2, node) > 0
            and (not request.gpus or free(_FREE + 3 + request.gpu_row, node) >= request.gpus)
        )

    def room(self, node: int) -> tuple[float, float]:
        """Return the free CPU in thousandths and the free memory in bytes of a node."""
        return self._state.item(_FREE, node), self._state.item(_FREE + 1, node)

    def bind(self, request: PlacementRequest, node: int) -> None:
        """Reserve what a job requests on a node."""
        self._state[:, node] += self._row(request).held
        self._changed(node)

    def free(self, request: PlacementRequest, node: int) -> None:
        """Return what a job had reserved."""
        self._state[:, node] -= self._row(request).held
        self._changed(node)

    def _row(self, request: PlacementRequest) -> RequestRow:
        row = self._rows.get(request)
        if row is None:
            if len(self._rows) >= self._most_rows:
                self._rows.clear()
            row = self._rows[request] = RequestRow(request, len(self._state) - _FREE)
        return row

    def _changed(self, node: int) -> None:
        if len(self._changes) >= _KEPT_CHANGES:
            self._changes.clear()
            self._epoch += 1
        self._changes.append(node)

    @staticmethod
    def _fits(row: RequestRow, state: Floats) -> Bools:
        fits: Bools = np.logical_and.reduce(state[_FREE:] >= row.taken)
        return fits

    def _scores(self, row: RequestRow, state: Floats, allocatable: Floats) -> Floats:
        """Return the sum of kube-scheduler's resource scores."""
        scores = self._fit_scores(state[2:_FREE] + row.scored_as, allocatable)
        scores += balanced_allocation(state[:2] + row.added, allocatable)
        return scores
