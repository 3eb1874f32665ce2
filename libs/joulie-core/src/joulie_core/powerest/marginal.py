"""Watts that a pod will add to a node.

Guarantees `coefficient * share of the node's threads (or GPUs) * their maximum power`, per subsystem, weighted by the
facility's PUE where one above 1 is given. Kubernetes counts CPU in hardware threads, so the share is one of threads: a
pod that takes all of a node costs the node's maximum. Unknown hardware gets a conservative generic figure,
never free: a missing inventory must not attract pods.
Source: docs/decisions/0002-extender.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.plausible import plausible_value
from joulie_core.power.curves import NodeCurves
from joulie_core.powerest.pod_demand import PodDemand

#: Watts of one hardware thread of a node whose CPU is not known; current server CPUs draw between 1.2 and 8, the most
#: where a core has one thread only.
GENERIC_WATTS_PER_THREAD: Final = 8.0
#: Watts of one GPU of a node whose GPU is not known; current accelerators are between 70 and 1,000.
GENERIC_WATTS_PER_GPU: Final = 700.0
#: Share of what is requested that is used on average: of hardware threads, and of GPUs by pods of each class, since
#: performance workloads drive GPUs harder.
CPU_USE: Final = 0.8
GPU_USE_STANDARD: Final = 0.6
GPU_USE_PERFORMANCE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Share of the maximum power that a fully used thread or GPU really draws."""

    cpu_util: float = CPU_USE
    gpu_util_standard: float = GPU_USE_STANDARD
    gpu_util_performance: float = GPU_USE_PERFORMANCE

    def gpu_util(self, workload_class: WorkloadClass) -> float:
        """Return the GPU coefficient of a workload class."""
        return self.gpu_util_performance if workload_class is WorkloadClass.PERFORMANCE else self.gpu_util_standard


@dataclass(frozen=True, slots=True)
class NodePower:
    """Hardware threads, GPUs and their maximum power, each of the whole node; zero where not known."""

    cpu_threads: float = 0.0
    cpu_max_watts: float = 0.0
    gpu_count: float = 0.0
    gpu_max_watts: float = 0.0
    #: Physical cores: for people to read, no estimate takes them.
    cpu_cores: float = 0.0
    #: Units of a pod's GPU demand that each GPU is handed out in, see `joulie_core.powerest.gpu_share`.
    units_per_gpu: float = 1.0
    #: Power over load and cap; None where it is not known. No estimate of a pod's watts takes it.
    curves: NodeCurves | None = None

    @property
    def watts_per_thread(self) -> float:
        """Maximum watts of one thread; the generic figure where threads or watts are not known."""
        return _share(self.cpu_max_watts, self.cpu_threads, GENERIC_WATTS_PER_THREAD)

    @property
    def watts_per_gpu(self) -> float:
        """Maximum watts of one GPU; the generic figure where GPUs or watts are not known."""
        return _share(self.gpu_max_watts, self.gpu_count, GENERIC_WATTS_PER_GPU)


@dataclass(frozen=True, slots=True)
class Marginal:
    """Watts that one pod adds."""

    cpu_watts: float = 0.0
    gpu_watts: float = 0.0

    @property
    def total_watts(self) -> float:
        """CPU and GPU together."""
        return self.cpu_watts + self.gpu_watts


def marginal_watts(
    demand: PodDemand, power: NodePower, coefficients: Coefficients, pue: float | None = None
) -> Marginal:
    """Return the watts that a pod adds to a node, multiplied by the PUE if that is above 1."""
    weight = pue_weight(pue)
    cpu = coefficients.cpu_util * demand.cpu_cores * power.watts_per_thread
    gpu = coefficients.gpu_util(demand.workload_class) * demand.gpus * power.watts_per_gpu / power.units_per_gpu
    return Marginal(cpu * weight, gpu * weight)


def pue_weight(pue: float | None) -> float:
    """Return the factor by which a watt in the node costs the facility; 1 where the PUE is unknown or not above 1."""
    return pue if pue is not None and pue > 1 else 1.0


def _share(watts: float, parts: float, generic: float) -> float:
    known = watts > 0 and plausible_value(watts) is not None and plausible_value(parts, at_least=1) is not None
    return watts / parts if known else generic
