"""`energy_v1`: the fewer joules a node adds for a unit of the pod's work, the better.

50 points for energy: the watts that a thread of the pod adds at the wall in the tenth of the load that the node is in,
divided by the speed that the node's cap leaves, relative to 8 W per thread; and for GPUs what a cap saves per unit of
work, relative to the same GPU without a cap. 30 points for leaving GPUs usable: a pod loses them on a node with GPUs by
the share of its watts that are CPUs'. 20 points for leaving performance supply: a standard pod loses them on a node
that supplies performance.

A thread counts as equally fast on every node, and GPUs of all models do equal work per watt: what a pod gains from a
faster model is not known, and a slower GPU must not win for its lower watts alone. What is not known has the highest
cost: a node without a twin, or with a stale one, scores 0. PUE, cooling and trend do not count. Reasons:
docs/decisions/0019-scores.md.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.power.curves import GpuCurve, NodeCurves
from joulie_core.power.draw import draw_under
from joulie_core.powerest.marginal import GENERIC_WATTS_PER_GPU, GENERIC_WATTS_PER_THREAD, NodePower
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.formula import NeutralReason
from joulie_core.scoring.prepared import AffineRow, PodSize
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot

NAME: Final = "energy_v1"
ENERGY_POINTS: Final = 50.0
GPU_POINTS: Final = 30.0
PERFORMANCE_POINTS: Final = 20.0
#: Of a node whose power is not known, relative to generic hardware: no node costs more.
HIGHEST_COST: Final = 1.0
TENTHS: Final = 10
_KEPT_TABLES: Final = 8_192
UNKNOWN_ROW: Final = AffineRow(0.0, 0.0, 0.0, 0.0)
#: Classes of nodes that do not supply performance to new pods.
_NOT_SUPPLYING: Final = frozenset({SchedulableClass.ECO, SchedulableClass.DRAINING})


@dataclass(frozen=True, slots=True)
class EnergyTerms:
    """Points of one node for one pod; none is negative."""

    energy_points: float = 0.0
    gpu_points: float = 0.0
    performance_points: float = 0.0
    #: Set where nothing is known of the node.
    neutral: NeutralReason | None = None
    #: Not a part of this score.
    headroom_pct: float | None = None

    @property
    def by_name(self) -> Mapping[str, float]:
        """The terms by name."""
        return {
            "energy": self.energy_points,
            "gpu": self.gpu_points,
            "performance": self.performance_points,
        }

    @property
    def score(self) -> float:
        """The sum of all terms."""
        return self.energy_points + self.gpu_points + self.performance_points


@dataclass(frozen=True, slots=True)
class EnergyScore:
    """The policy."""

    name: str = NAME
    unknown_row: AffineRow = UNKNOWN_ROW

    def size(self, demand: PodDemand) -> PodSize:
        """Return the shares of CPUs and of GPUs in the watts of the pod on generic hardware; they sum to 1."""
        return watt_shares(demand)

    def explain(self, node: NodeSituation, demand: PodDemand, cluster: ClusterTerms) -> EnergyTerms:  # noqa: ARG002
        """Return the points for energy, for GPUs and for performance supply."""
        return energy_terms(node, demand, cpu_cost=cpu_cost, gpu_cost=gpu_cost)

    def row(self, node: NodeSituation, workload_class: WorkloadClass, trend_scale: float) -> AffineRow:  # noqa: ARG002
        """Return the points by the shares of CPUs and of GPUs in the pod's watts."""
        twin = node.fresh
        if twin is None:
            return self.unknown_row
        cpu, gpu = prepared_costs(twin, node.power)
        return energy_row(cpu, gpu, twin.schedulable_class, node.power, workload_class)


def watt_shares(demand: PodDemand) -> PodSize:
    """Return the shares of CPUs and of GPUs in the watts of a pod on generic hardware; they sum to 1."""
    cpu_watts = demand.cpu_cores * GENERIC_WATTS_PER_THREAD
    gpu_watts = demand.gpus * GENERIC_WATTS_PER_GPU
    total_watts = cpu_watts + gpu_watts
    return (cpu_watts / total_watts, gpu_watts / total_watts) if total_watts > 0 else (1.0, 0.0)


def energy_terms(
    node: NodeSituation,
    demand: PodDemand,
    *,
    cpu_cost: Callable[[TwinSnapshot, NodePower], float],
    gpu_cost: Callable[[TwinSnapshot, NodePower], float],
) -> EnergyTerms:
    """Return the terms of a score that has these costs of a node's CPUs and GPUs, in [0, 1]."""
    twin, power = node.twin, node.power
    if twin is None:
        return EnergyTerms(neutral=NeutralReason.NO_TWIN)
    if node.stale:
        return EnergyTerms(neutral=NeutralReason.STALE_TWIN)
    cpu_share, gpu_share = watt_shares(demand)
    cost = cpu_share * cpu_cost(twin, power) + gpu_share * gpu_cost(twin, power)
    displaced = displaces_performance(twin, demand.workload_class)
    return EnergyTerms(
        energy_points=ENERGY_POINTS * (1.0 - cost),
        gpu_points=GPU_POINTS * (1.0 - (cpu_share if displaces_gpus(power) else 0.0)),
        performance_points=0.0 if displaced else PERFORMANCE_POINTS,
    )


def energy_row(
    cpu: float, gpu: float, node_class: SchedulableClass, power: NodePower, workload_class: WorkloadClass
) -> AffineRow:
    """Return the row of a node with these costs, see `prepared_costs`."""
    base = ENERGY_POINTS + GPU_POINTS
    if not _displaces(node_class, workload_class):
        base += PERFORMANCE_POINTS
    gpus_displaced = GPU_POINTS if displaces_gpus(power) else 0.0
    return AffineRow(base, ENERGY_POINTS * cpu + gpus_displaced, ENERGY_POINTS * gpu, 0.0)


# --- plain form


def cpu_cost(node: TwinSnapshot, power: NodePower) -> float:
    """Return the joules of a thread's second of work over those of generic hardware, in [0, 1]."""
    curves, cap_share = power.curves, node.cpu_cap_share
    if curves is None or cap_share is None:
        return HIGHEST_COST
    costs = [_cost_in(tenth, curves, cap_share) for tenth in loads(node, curves)]
    # On a node with GPUs the load of the CPUs is not measured alone: the mean over all loads.
    return sum(costs) / len(costs) if curves.gpu is not None else max(costs)


def gpu_cost(node: TwinSnapshot, power: NodePower) -> float:
    """Return the joules of a GPU's second of work over those of the same GPU without a cap, in [0, 1]."""
    if power.curves is None or power.curves.gpu is None or node.gpu_cap_share is None:
        return HIGHEST_COST
    return _gpu_cost(power.curves.gpu, node.gpu_cap_share)


def displaces_gpus(power: NodePower) -> bool:
    """Return whether CPUs that a pod takes are missing to GPUs; also where the hardware is not known."""
    return power.gpu_count > 0 or power.curves is None


def displaces_performance(node: TwinSnapshot, workload_class: WorkloadClass) -> bool:
    """Return whether a pod takes what performance pods could use; also where the node's class is not known."""
    return _displaces(node.schedulable_class, workload_class)


def loads(node: TwinSnapshot, curves: NodeCurves) -> range:
    """Return the tenths of the CPU load, 0 to 9, that the node may be in, with the pods in flight."""
    if curves.gpu is not None or node.measured_watts is None:
        return range(TENTHS)
    tenth = tenth_of(curves, node.measured_watts + node.assumed_watts)
    return range(tenth, tenth + 1)


def tenth_of(curves: NodeCurves, packages_watts: float) -> int:
    """Return the tenth of the CPU load, 0 to 9, in which the packages draw that."""
    return min(TENTHS - 1, max(0, bisect_right(curves.packages_watts, packages_watts) - 1))


def _cost_in(tenth: int, curves: NodeCurves, cap_share: float) -> float:
    natural_watts, idle_watts = curves.packages_watts[tenth + 1], curves.packages_watts[0]
    added_watts = (curves.wall_watts[tenth + 1] - curves.wall_watts[tenth]) * TENTHS / curves.threads
    cap_watts = cap_share * curves.cpu_max_watts
    draw = draw_under(curves.cpu_response, natural_watts, idle_watts, cap_watts=cap_watts)
    relative = _relative(draw.watts, draw.speed, natural_watts, idle_watts)
    return min(HIGHEST_COST, added_watts * relative / GENERIC_WATTS_PER_THREAD)


def _gpu_cost(gpu: GpuCurve, cap_share: float) -> float:
    cap_watts = cap_share * gpu.max_watts
    draw = draw_under(gpu.response, gpu.natural_watts, gpu.idle_watts, cap_watts=cap_watts)
    return min(HIGHEST_COST, _relative(draw.watts, draw.speed, gpu.natural_watts, gpu.idle_watts))


def _relative(watts: float, speed: float, natural_watts: float, idle_watts: float) -> float:
    """Return the joules above idle per unit of work under a cap over those without one."""
    if speed <= 0.0:
        return inf
    if natural_watts <= idle_watts:
        return 1.0 / speed
    return (watts - idle_watts) / (natural_watts - idle_watts) / speed


def _displaces(node_class: SchedulableClass, workload_class: WorkloadClass) -> bool:
    return workload_class is WorkloadClass.STANDARD and node_class not in _NOT_SUPPLYING


# --- fast form


@dataclass(frozen=True, slots=True)
class EnergyTable:
    """Costs of one kind of hardware under its caps, by load."""

    #: Package watts at which tenths 1 to 9 begin.
    begins_watts: tuple[float, ...]
    #: By tenth of the CPU load.
    cpu: tuple[float, ...]
    #: Where the load is not known.
    cpu_unknown_load: float
    gpu: float
    #: Whether the CPUs' load can be measured.
    measurable: bool

    def cpu_at(self, measured_watts: float | None, assumed_watts: float) -> float:
        """Return the CPU cost of a node with that power of its packages and of its pods in flight."""
        if measured_watts is None or not self.measurable:
            return self.cpu_unknown_load
        return self.cpu[bisect_right(self.begins_watts, measured_watts + assumed_watts)]


_UNKNOWN_TABLE: Final = EnergyTable((), (), HIGHEST_COST, HIGHEST_COST, measurable=False)


@lru_cache(maxsize=_KEPT_TABLES)
def energy_table(curves: NodeCurves, cpu_cap_share: float | None, gpu_cap_share: float | None) -> EnergyTable:
    """Return the costs of hardware under caps, of which each is None where it is unknown."""
    costs = tuple(
        HIGHEST_COST if cpu_cap_share is None else _cost_in(tenth, curves, cpu_cap_share) for tenth in range(TENTHS)
    )
    gpu = HIGHEST_COST if curves.gpu is None or gpu_cap_share is None else _gpu_cost(curves.gpu, gpu_cap_share)
    return EnergyTable(
        begins_watts=curves.packages_watts[1:TENTHS],
        cpu=costs,
        cpu_unknown_load=max(costs) if curves.gpu is None else sum(costs) / TENTHS,
        gpu=gpu,
        measurable=curves.gpu is None,
    )


def prepared_costs(node: TwinSnapshot, power: NodePower) -> tuple[float, float]:
    """Return `cpu_cost` and `gpu_cost`, from tables."""
    curves = power.curves
    table = _UNKNOWN_TABLE if curves is None else energy_table(curves, node.cpu_cap_share, node.gpu_cap_share)
    return table.cpu_at(node.measured_watts, node.assumed_watts), table.gpu
