"""`energy_v2`: the fewer joules a node adds for a unit of the pod's work, its idle power included.

50 points for energy: the watts that a thread, or a GPU, of the pod adds at the wall, and its part of the watts that the
node draws while it is idle, over the work that it does in a second. The idle watts are shared by the CPUs, or GPUs,
that pods hold with this one in place: so the pod goes where others are, and a node with few pods empties and can sleep.
Where the pod states how long it runs, the idle watts count only for the part of that time, in ninths, for which no
other pod of the node is stated to run (docs/decisions/0051-stated-run-time.md).
30 points for leaving GPUs usable, and 20 for leaving performance supply, as in `energy_v1`.

Work per second is that of published results (docs/models.md); a model without one counts as the slowest that has one.
What is not known has the highest cost: a node without a twin, or with a stale one, scores 0, and one whose pods, caps
or hardware are not known gets no points for energy. Reasons: docs/decisions/0040-packing-score.md.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.power.chassis import gpus_at_wall
from joulie_core.power.curves import NodeCurves
from joulie_core.power.draw import Draw, draw_under
from joulie_core.powerest.marginal import GENERIC_WATTS_PER_GPU, GENERIC_WATTS_PER_THREAD, NodePower
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.energy_v1 import (
    HIGHEST_COST,
    TENTHS,
    UNKNOWN_ROW,
    EnergyTerms,
    energy_row,
    energy_terms,
    loads,
    watt_shares,
)
from joulie_core.scoring.prepared import AffineRow, PodSize
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot
from joulie_core.stated_time import NINTHS

NAME: Final = "energy_v2"
#: Cores and GPUs of the pod that shares the idle watts: a common size, so that pods of all sizes have equal scores.
_TYPICAL_CORES: Final = 4.0
_TYPICAL_GPUS: Final = 1.0
#: Of a model without a published rate: those of the slowest models that have one, EPYC 7501 and T4.
LEAST_WORK_PER_THREAD: Final = 0.66
LEAST_WORK_PER_GPU: Final = 0.14
_KEPT_TABLES: Final = 8_192


@dataclass(frozen=True, slots=True)
class WorkCost:
    """Joules for a second of the reference's work on one thread, or one GPU, of a node."""

    added: float
    #: With the whole idle power of the node, which `held` devices share.
    idle: float

    def shared_by(self, held: float, own: float, covered: int = 0) -> float:
        """Return the joules where pods hold that many devices, and the pod in question `own` more.

        `covered`: ninths of the pod's run time for which other pods are stated to run there.
        """
        return self.added + self.idle * (1.0 - covered / NINTHS) / (max(0.0, held) + own)


@dataclass(frozen=True, slots=True)
class PackingScore:
    """The policy."""

    name: str = NAME
    unknown_row: AffineRow = UNKNOWN_ROW

    def size(self, demand: PodDemand) -> PodSize:
        """Return the shares of CPUs and of GPUs in the watts of the pod on generic hardware; they sum to 1."""
        return watt_shares(demand)

    def explain(self, node: NodeSituation, demand: PodDemand, cluster: ClusterTerms) -> EnergyTerms:  # noqa: ARG002
        """Return the points for energy, for GPUs and for performance supply."""
        covered = node.covered
        return energy_terms(
            node, demand, cpu_cost=partial(_of_cpus, covered=covered), gpu_cost=partial(_of_gpus, covered=covered)
        )

    def row(self, node: NodeSituation, workload_class: WorkloadClass, trend_scale: float) -> AffineRow:  # noqa: ARG002
        """Return the points by the shares of CPUs and of GPUs in the pod's watts."""
        twin = node.fresh
        if twin is None:
            return self.unknown_row
        power, covered = node.power, node.covered
        cpu, gpu = _of_cpus(twin, power, covered), _of_gpus(twin, power, covered)
        return energy_row(cpu, gpu, twin.schedulable_class, power, workload_class)


def _of_cpus(node: TwinSnapshot, power: NodePower, covered: int) -> float:
    """Return the cost of a pod that uses CPUs only, in [0, 1]."""
    curves, held = power.curves, node.held_cores
    if curves is None or held is None or node.cpu_cap_share is None:
        return HIGHEST_COST
    costs = cpu_costs(curves, power.gpu_count, node.cpu_cap_share)
    joules = [costs[tenth].shared_by(held, _TYPICAL_CORES, covered) for tenth in loads(node, curves)]
    # On a node with GPUs the load of the CPUs is not measured alone: the mean over all loads.
    watts = sum(joules) / len(joules) if curves.gpu is not None else max(joules)
    return _relative(watts, GENERIC_WATTS_PER_THREAD)


def _of_gpus(node: TwinSnapshot, power: NodePower, covered: int) -> float:
    """Return the cost of a pod that uses GPUs only, in [0, 1]."""
    curves, held = power.curves, node.held_gpus
    if curves is None or curves.gpu is None or held is None or node.gpu_cap_share is None:
        return HIGHEST_COST
    cost = gpu_cost(curves, power.gpu_count, node.gpu_cap_share)
    joules = cost.shared_by(held / power.units_per_gpu, _TYPICAL_GPUS, covered)
    return _relative(joules, GENERIC_WATTS_PER_GPU)


@lru_cache(maxsize=_KEPT_TABLES)
def cpu_costs(curves: NodeCurves, gpu_count: float, cap_share: float) -> tuple[WorkCost, ...]:
    """Return the cost of a thread's work in each tenth of the CPU load, under a cap of the CPUs."""
    rate = LEAST_WORK_PER_THREAD if curves.work_per_thread is None else curves.work_per_thread
    idle_watts, cap_watts = curves.packages_watts[0], cap_share * curves.cpu_max_watts
    costs = []
    for tenth in range(TENTHS):
        natural_watts = curves.packages_watts[tenth + 1]
        draw = draw_under(curves.cpu_response, natural_watts, idle_watts, cap_watts=cap_watts)
        added = (curves.wall_watts[tenth + 1] - curves.wall_watts[tenth]) * TENTHS / curves.threads
        added *= _watts_left(draw, natural_watts, idle_watts)
        costs.append(_cost(added, _idle_watts(curves, gpu_count), draw.speed * rate))
    return tuple(costs)


@lru_cache(maxsize=_KEPT_TABLES)
def gpu_cost(curves: NodeCurves, gpu_count: float, cap_share: float) -> WorkCost:
    """Return the cost of a GPU's work under a cap of the GPUs, of a node that has some."""
    gpu = curves.gpu
    assert gpu is not None, "asked for a node with GPUs"
    rate = LEAST_WORK_PER_GPU if gpu.work_per_gpu is None else gpu.work_per_gpu
    draw = draw_under(gpu.response, gpu.natural_watts, gpu.idle_watts, cap_watts=cap_share * gpu.max_watts)
    added = gpus_at_wall(gpu.natural_watts, gpu.max_watts) - gpus_at_wall(gpu.idle_watts, gpu.max_watts)
    added *= _watts_left(draw, gpu.natural_watts, gpu.idle_watts)
    return _cost(added, _idle_watts(curves, gpu_count), draw.speed * rate)


def _watts_left(draw: Draw, natural_watts: float, idle_watts: float) -> float:
    """Return the share of a device's watts above idle that a cap leaves."""
    return (draw.watts - idle_watts) / (natural_watts - idle_watts) if natural_watts > idle_watts else 1.0


def _cost(added_watts: float, idle_watts: float, work_per_s: float) -> WorkCost:
    return WorkCost(added_watts / work_per_s, idle_watts / work_per_s) if work_per_s > 0.0 else WorkCost(inf, 0.0)


def _idle_watts(curves: NodeCurves, gpu_count: float) -> float:
    """Return the watts of an idle node at the wall."""
    gpu = curves.gpu
    gpu_watts = 0.0 if gpu is None else gpus_at_wall(gpu_count * gpu.idle_watts, gpu_count * gpu.max_watts)
    return curves.wall_watts[0] + gpu_watts


def _relative(joules: float, reference: float) -> float:
    """Return a cost below 1, a half at the reference: however empty a node is, one that is emptier costs more."""
    return 1.0 - reference / (reference + joules)
