"""kube-scheduler's choice of a node for a job, with or without the extender.

Guarantees kube-scheduler's steps in its order: the nodes that fit, of these a sample, of these what the extender's
filter leaves, and of these one with the highest sum of scores, equals at random. See docs/decisions/0018.
"""

import random
from typing import Final, Protocol

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.kube_scores import EXTENDER_FACTOR, Balance, FitStrategy
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_resources import PlacementRequest, ResourceRow, ResourceRows
from joulie_sim.engine.node_sample import NodeSample

_MILLI: Final = 1000.0


class ExtenderScores(Protocol):
    """Scores of the extender; see `NodeScores`."""

    def scores(self, nodes: Ints, demand: PodDemand) -> Floats:
        """Return a score for each of the nodes, in an array that the caller may write to."""


class KubeScheduler:
    """The choice among the nodes.

    Args:
        machines: the nodes.
        strategy: of NodeResourcesFit.
        nodes_to_score_pct: `percentageOfNodesToScore`.
        seed: of the choice among equal nodes.
        extender: scores of the extender, None without.
        extender_weight: its weight in the scheduler's configuration.
        balance: of NodeResourcesBalancedAllocation, which depends on the release of Kubernetes.
    """

    def __init__(
        self,
        machines: Machines,
        *,
        strategy: FitStrategy,
        nodes_to_score_pct: int,
        seed: int,
        extender: ExtenderScores | None = None,
        extender_weight: int = 1,
        balance: Balance = Balance.IMPROVEMENT,
    ) -> None:
        nodes = len(machines)
        self._resources = ResourceRows(machines, strategy, balance)
        self._sample = NodeSample(nodes, nodes_to_score_pct)
        # Must be reproducible, not cryptographically secure.
        self._random = random.Random(seed)  # noqa: S311
        self._extender = extender
        self._extender_factor = extender_weight * EXTENDER_FACTOR
        #: Nodes that the extender's filter leaves to performance pods.
        self.accepting: Bools = np.ones(nodes, dtype=np.bool_)
        #: Nodes that are powered and take pods; no pod is placed on others.
        self.powered: Bools = np.ones(nodes, dtype=np.bool_)

    def allows(self, request: PlacementRequest) -> Bools:
        """Return which nodes have room for a job and do not refuse it."""
        return self.may_come_to_allow(request) & self.powered

    def may_come_to_allow(self, request: PlacementRequest) -> Bools:
        """Return what `allows` returns while all nodes are powered."""
        fits: Bools = self._resources.row(request).fits
        return fits & self.accepting if request.performance else fits

    def fits_node(self, request: PlacementRequest, node: int) -> bool:
        """Return what `allows` returns for one node."""
        return (
            self._resources.fits_node(request, node)
            and self.powered.item(node)
            and (not request.performance or self.accepting.item(node))
        )

    def room(self, node: int) -> tuple[float, float]:
        """Return the free CPU in thousandths and the free memory in bytes of a node."""
        return self._resources.room(node)

    def left(self, node: int) -> tuple[float, ...]:
        """Return what is free on a node: CPU in thousandths, memory in bytes, pods, GPUs by row."""
        return self._resources.left(node)

    def candidates(self, request: PlacementRequest) -> tuple[Ints, bool]:
        """Return the nodes to be scored, and whether a node was refused; moves the sample on."""
        return self._candidates(request, self._resources.row(request))

    def best(self, nodes: Ints, request: PlacementRequest) -> Ints:
        """Return the nodes with the highest score; at least one node is required."""
        return self._best(nodes, request, self._resources.row(request))

    def choose(self, request: PlacementRequest, extender: ExtenderScores | None = None) -> tuple[int | None, bool]:
        """Return a node for a job, None if it has to wait, and whether a node was refused to it.

        Args:
            request: what the job requests.
            extender: scores for this job alone; None: those for all jobs.
        """
        row = self._resources.row(request)
        nodes, refused = self._candidates(request, row)
        if not len(nodes):
            return None, refused
        best = self._best(nodes, request, row, extender)
        place = 0 if len(best) == 1 else int(self._random.random() * len(best))
        return best.item(place), refused

    def _candidates(self, request: PlacementRequest, row: ResourceRow) -> tuple[Ints, bool]:
        fits = row.fits
        fits &= self.powered
        found = self._sample.take(fits)
        if not request.performance:
            return found, False
        allowed = found.compress(self.accepting.take(found))
        return allowed, len(allowed) < len(found)

    def _best(
        self, nodes: Ints, request: PlacementRequest, row: ResourceRow, extender: ExtenderScores | None = None
    ) -> Ints:
        if len(nodes) == 1:
            return nodes
        # kube-scheduler's total, without what all nodes have in common.
        totals = row.scores(nodes)
        extender = extender or self._extender
        if extender is not None:
            points = extender.scores(nodes, request.demand)
            points *= self._extender_factor
            totals += points
        best: Ints = nodes.take((totals == totals.max()).nonzero()[0])
        return best

    def bind(self, request: PlacementRequest, node: int) -> None:
        """Reserve what a job requests on a node."""
        self._resources.bind(request, node)

    def free(self, request: PlacementRequest, node: int) -> None:
        """Return what a job had reserved."""
        self._resources.free(request, node)


class PlacementRequests:
    """The distinct requests of a workload; most jobs of a trace share one with others.

    Args:
        jobs: the workload.
        gpu_resources: extended resources of the nodes, in the order of their rows.
    """

    def __init__(self, jobs: Jobs, gpu_resources: tuple[str, ...]) -> None:
        columns = (jobs.cpu_milli, jobs.memory_bytes, jobs.gpus, jobs.gpu_resource, jobs.performance.astype(np.int64))
        unique, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        #: Index of each job's request.
        self.of_job: Ints = inverse.reshape(-1).astype(np.int64)
        rows = {
            index: gpu_resources.index(name) for index, name in enumerate(jobs.gpu_resources) if name in gpu_resources
        }
        self.requests = [_request(*map(int, line), rows=rows) for line in unique]

    def __len__(self) -> int:
        return len(self.requests)


def _request(
    cpu_milli: int, memory_bytes: int, gpus: int, gpu_resource: int, performance: int, *, rows: dict[int, int]
) -> PlacementRequest:
    workload_class = WorkloadClass.PERFORMANCE if performance else WorkloadClass.STANDARD
    if gpus and gpu_resource not in rows:
        raise ValueError("a job requests GPUs that no node offers")
    return PlacementRequest(
        cpu_milli=float(cpu_milli),
        memory_bytes=float(memory_bytes),
        gpus=gpus,
        gpu_row=rows[gpu_resource] if gpus else 0,
        demand=PodDemand(cpu_milli / _MILLI, float(gpus), float(memory_bytes), workload_class),
    )
