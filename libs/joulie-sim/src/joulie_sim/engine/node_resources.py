"""Free and used resources of every node, and what kube-scheduler's resource plugins make of them.

Nodes on which the same is free and used are in the same state, and states recur: each is numbered when first seen,
and fits and scores of a request are computed once for each state, and looked up for each node.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.savings.kube_scores import NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES
from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.kube_scores import (
    FIT_SCORES,
    Balance,
    FitStrategy,
    balance_improvement,
    balanced_allocation,
)
from joulie_sim.engine.machines import Machines

#: States that are kept for each node, and cells of rows: a run of any length and any number of requests stays below
#: 200 MB.
_KEPT_STATES: Final = 8
_KEPT_CELLS: Final = 16_000_000
#: Of a state: first number of what is free, and whether a pod is (the number of free pods matters to nothing else).
_FREE: Final = 4
_POD: Final = _FREE + 2


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """Request of one job; compared by identity, since one object serves all jobs that request the same."""

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
    """Fit and score of every state for one request."""

    __slots__ = ("added", "computed", "fits", "held", "passed_over", "scored_as", "scores", "taken")

    def __init__(self, request: PlacementRequest, resources: int, states: int) -> None:
        cpu, memory = request.cpu_milli, request.memory_bytes
        #: What the request takes of each resource, shape (resources, 1): CPU, memory, a pod, GPUs by row.
        self.taken: Floats = np.zeros((resources, 1))
        self.taken[:3, 0] = cpu, memory, 1.0
        if request.gpus:
            self.taken[3 + request.gpu_row, 0] = request.gpus
        #: What it adds to the used CPU and memory, and what it counts as in scores; shape (2, 1).
        self.added: Floats = self.taken[:2].copy()
        self.scored_as: Floats = np.array([[cpu or NONZERO_CPU_MILLI], [memory or NONZERO_MEMORY_BYTES]])
        #: What a node's state gains with the job in place; pods are counted apart.
        self.held: Floats = np.concatenate((self.added[:, 0], self.scored_as[:, 0], -self.taken[:, 0]))
        self.held[_POD] = 0.0
        self.fits: Bools = np.zeros(states, dtype=np.bool_)
        self.scores: Floats = np.zeros(states)
        #: States that are in it.
        self.computed = 0
        #: Nodes that were computed without it since then.
        self.passed_over = 0


class ResourceRow(NamedTuple):
    """Fits and scores of all nodes for one request, valid until the next change; not to be written to."""

    #: By number.
    fits_by_number: Bools
    scores_by_number: Floats
    #: Of each node.
    numbers: Ints

    @property
    def fits(self) -> Bools:
        """Whether each node has room, in an array that the caller may write to."""
        return self.fits_by_number.take(self.numbers)

    def scores(self, nodes: Ints) -> Floats:
        """Return kube-scheduler's score of each of the nodes; all nodes are in their own order."""
        numbers = self.numbers if len(nodes) == len(self.numbers) else self.numbers.take(nodes)
        return self.scores_by_number.take(numbers)


class ResourceRows:
    """Free and used resources of all nodes.

    Args:
        machines: the nodes.
        strategy: of NodeResourcesFit.
        balance: of NodeResourcesBalancedAllocation.
    """

    def __init__(self, machines: Machines, strategy: FitStrategy, balance: Balance = Balance.IMPROVEMENT) -> None:
        nodes = len(machines)
        self._fit_scores = FIT_SCORES[strategy]
        self._balance = balance
        #: State of each node, whole numbers: CPU and memory that are used; the same with what pods without a request
        #: count as; what is free of each resource, in the order of `RequestRow.taken`.
        self._states: Floats = np.concatenate(
            (
                np.zeros((nodes, _FREE)),
                machines.allocatable.T,
                machines.pods[:, np.newaxis] > 0,
                machines.gpus.reshape(-1, nodes).T,
            ),
            axis=1,
        )
        self._free_pods: list[int] = machines.pods.tolist()
        self._nodes: Ints = np.arange(nodes, dtype=np.int64)
        #: Number of each node's state, and the states in the order of their numbers.
        self._numbers: Ints = np.zeros(nodes, dtype=np.int64)
        self._number_of: dict[bytes, int] = {}
        self._known: Floats = np.zeros((_KEPT_STATES * nodes + 1, self._states.shape[1]))
        #: Requests for the same resources share a row.
        self._rows: dict[tuple[float, float, int, int], RequestRow] = {}
        self._most_rows = max(1, _KEPT_CELLS // len(self._known))
        self._number_anew()

    def row(self, request: PlacementRequest) -> ResourceRow:
        """Return fits and scores for a request."""
        row = self._row(request)
        known, nodes = len(self._number_of), len(self._nodes)
        missing = known - row.computed
        if missing > nodes and row.passed_over + nodes < missing:
            # A request that is rare among states that do not recur: all nodes are less than all states.
            row.passed_over += nodes
            states = self._states.T
            return ResourceRow(self._fits(row, states), self._scores(row, states), self._nodes)
        if missing:
            states = self._known[row.computed : known].T
            row.fits[row.computed : known] = self._fits(row, states)
            row.scores[row.computed : known] = self._scores(row, states)
            row.computed, row.passed_over = known, 0
        return ResourceRow(row.fits, row.scores, self._numbers)

    def fits_node(self, request: PlacementRequest, node: int) -> bool:
        """Return whether a node has room for a job."""
        free = self._states.item
        return bool(
            free(node, _FREE) >= request.cpu_milli
            and free(node, _FREE + 1) >= request.memory_bytes
            and self._free_pods[node] > 0
            and (not request.gpus or free(node, _POD + 1 + request.gpu_row) >= request.gpus)
        )

    def room(self, node: int) -> tuple[float, float]:
        """Return the free CPU in thousandths and the free memory in bytes of a node."""
        return self._states.item(node, _FREE), self._states.item(node, _FREE + 1)

    def left(self, node: int) -> tuple[float, ...]:
        """Return what is free on a node: CPU in thousandths, memory in bytes, pods, GPUs by row."""
        state: list[float] = self._states[node, _FREE:].tolist()
        state[_POD - _FREE] = float(self._free_pods[node])
        return tuple(state)

    def bind(self, request: PlacementRequest, node: int) -> None:
        """Reserve what a job requests on a node."""
        state = self._states[node]
        state += self._row(request).held
        self._free_pods[node] -= 1
        self._changed(node, state)

    def free(self, request: PlacementRequest, node: int) -> None:
        """Return what a job had reserved."""
        state = self._states[node]
        state -= self._row(request).held
        self._free_pods[node] += 1
        self._changed(node, state)

    def _row(self, request: PlacementRequest) -> RequestRow:
        key = (request.cpu_milli, request.memory_bytes, request.gpus, request.gpu_row)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= self._most_rows:
                self._rows.clear()
            row = self._rows[key] = RequestRow(request, self._states.shape[1] - _FREE, len(self._known))
        return row

    def _changed(self, node: int, state: Floats) -> None:
        state[_POD] = 1.0 if self._free_pods[node] > 0 else 0.0
        key = state.tobytes()
        number = self._number_of.get(key)
        if number is None:
            number = len(self._number_of)
            if number == len(self._known):
                self._number_anew()
                return
            self._number_of[key] = number
            self._known[number] = state
        self._numbers[node] = number

    def _number_anew(self) -> None:
        """Give numbers to the present states alone."""
        self._number_of.clear()
        for node, state in enumerate(self._states):
            self._numbers[node] = self._number_of.setdefault(state.tobytes(), len(self._number_of))
        self._known[self._numbers] = self._states
        for row in self._rows.values():
            row.computed = row.passed_over = 0

    @staticmethod
    def _fits(row: RequestRow, states: Floats) -> Bools:
        fits: Bools = np.logical_and.reduce(states[_FREE:] >= row.taken)
        return fits

    def _scores(self, row: RequestRow, states: Floats) -> Floats:
        """Return the sum of kube-scheduler's resource scores; what is free and what is used are all that there is."""
        allocatable = states[:2] + states[_FREE:_POD]
        scores = self._fit_scores(states[2:_FREE] + row.scored_as, allocatable)
        used = states[:2]
        if self._balance is Balance.RESULT:
            scores += balanced_allocation(used + row.added, allocatable)
        else:
            scores += balance_improvement(used, used + row.added, allocatable)
        return scores
