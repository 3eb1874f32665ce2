"""Nodes and pods of the shadow placement: what there is, what is held, and kube-scheduler's score of a node."""

from dataclasses import dataclass

from joulie_core.names import NodeName
from joulie_core.savings.kube_scores import NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES, default_score
from joulie_core.savings.node_loads import NodeLoadModel


@dataclass(frozen=True, slots=True)
class ShadowNode:
    """One managed node: what pods may request of it, and its model."""

    name: NodeName
    #: Allocatable.
    cpu_milli: float
    memory_bytes: float
    pods: float
    #: GPUs of one kind, in units of pods' demands; `gpu_kind` tells those apart that a pod cannot exchange.
    gpus: float = 0.0
    gpu_kind: str = ""
    zone: str = ""
    #: Whether any pod may come: it has no taint, and its hardware is known. Else only pods that are really there.
    open: bool = True
    #: None where its hardware is unknown.
    model: NodeLoadModel | None = None


@dataclass(frozen=True, slots=True)
class ShadowPod:
    """One pod that has started."""

    #: Where it really is.
    node: NodeName
    cpu_milli: float
    memory_bytes: float = 0.0
    gpus: float = 0.0
    #: Whether it could be nowhere else for all that is known.
    fixed: bool = False


class ShadowRoom:
    """Room of one node: load of the pods that are there in the shadow, and of those that really are."""

    __slots__ = (
        *("cores", "cpu", "gpus", "gpus_held", "memory", "node", "plain_cores", "plain_gpus", "pods"),
        *("real_cores", "real_gpus", "real_pods", "scored_cpu", "scored_memory"),
    )

    def __init__(self, node: ShadowNode) -> None:
        self.node = node
        self.pods = self.real_pods = 0
        self.cpu = self.memory = self.scored_cpu = self.scored_memory = self.gpus_held = 0.0
        #: Load by the work that is done, and by requests.
        self.cores = self.gpus = self.plain_cores = self.plain_gpus = 0.0
        self.real_cores = self.real_gpus = 0.0

    def has_room(self, pod: ShadowPod) -> bool:
        """Return whether the pod may come."""
        node = self.node
        return (
            node.open
            and self.cpu + pod.cpu_milli <= node.cpu_milli
            and self.memory + pod.memory_bytes <= node.memory_bytes
            and self.pods < node.pods
            and (not pod.gpus or self.gpus_held + pod.gpus <= node.gpus)
        )

    def score(self, pod: ShadowPod) -> float:
        """Return kube-scheduler's score with the pod in place."""
        node, scored_cpu, scored_memory = self.node, *_scored(pod)
        return default_score(
            (node.cpu_milli, self.cpu, self.cpu + pod.cpu_milli),
            (node.memory_bytes, self.memory, self.memory + pod.memory_bytes),
            (self.scored_cpu + scored_cpu, self.scored_memory + scored_memory),
        )

    def hold(self, pod: ShadowPod, factor: float, sign: int) -> None:
        """Count a pod in (1) or out (-1) that is here in the shadow; `factor` is what its load counts as."""
        scored_cpu, scored_memory = _scored(pod)
        self.pods += sign
        self.cpu += sign * pod.cpu_milli
        self.memory += sign * pod.memory_bytes
        self.scored_cpu += sign * scored_cpu
        self.scored_memory += sign * scored_memory
        self.gpus_held += sign * pod.gpus
        self.plain_cores += sign * pod.cpu_milli / 1000.0
        self.plain_gpus += sign * pod.gpus
        self.cores += sign * factor * pod.cpu_milli / 1000.0
        self.gpus += sign * factor * pod.gpus
        if not self.pods:
            # Sums of floats drift; an empty node is exactly empty.
            self.cpu = self.memory = self.scored_cpu = self.scored_memory = self.gpus_held = 0.0
            self.cores = self.gpus = self.plain_cores = self.plain_gpus = 0.0

    def hold_really(self, pod: ShadowPod, sign: int) -> None:
        """Count a pod in (1) or out (-1) that is really here."""
        self.real_pods += sign
        self.real_cores += sign * pod.cpu_milli / 1000.0
        self.real_gpus += sign * pod.gpus
        if not self.real_pods:
            self.real_cores = self.real_gpus = 0.0


def _scored(pod: ShadowPod) -> tuple[float, float]:
    return pod.cpu_milli or NONZERO_CPU_MILLI, pod.memory_bytes or NONZERO_MEMORY_BYTES
