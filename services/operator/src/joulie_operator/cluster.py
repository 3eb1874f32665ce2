"""The cluster as the operator sees it: one model in memory, fed by watches, read by everything that decides.

Each change takes constant work. The counts are right at any moment: performance pods of the cluster and of each node,
requested cores and GPUs of each node, the hardware view and density of each managed node. The listener gets the changes
that may need an action; others (a kubelet's status report, a standard pod) only update the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from joulie_api.failures import Failures
from joulie_api.reflector import LocalCopy
from joulie_core import labels
from joulie_core.gpu_vendors import GPU_PRODUCT_KEYS
from joulie_core.hardware.density import Density, density
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import HardwareView, resolve_view
from joulie_core.kinds.node_hardware import Exactness, NodeHardwareStatus, Origin
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.policy import Candidate
from joulie_core.powerest.gpu_share import units_per_gpu
from joulie_core.sleep_state import OUT_OF_SUPPLY, labels_of
from joulie_operator.pods import PodSummary
from joulie_operator.workqueue import ChangeListener, ChangeScope, ClusterChange

#: Labels that the operator itself writes: changing them changes no hardware view and no eligibility.
OWN_LABELS = frozenset({labels.POWER_PROFILE, labels.DRAINING})
#: Values of the label of nodes that sleep.
_OUT_OF_SUPPLY = labels_of(OUT_OF_SUPPLY)


class Eligibility(Enum):
    """Treatment of a node by the operator."""

    #: Planned and published.
    ELIGIBLE = auto()
    #: Cordoned or put to sleep: left out of the plan, its last target stays published.
    CORDONED = auto()
    #: Reserved, being deleted, or not in the watched selection: what was published for it is removed.
    UNMANAGED = auto()


@dataclass(slots=True)
class PodLoad:
    """Load of one node by the pods that run on it or are bound to it."""

    performance_pods: int = 0
    pods: int = 0
    cpu_cores: float = 0
    gpus: float = 0
    #: Number of the pod that came last, among all that came to the nodes of the cluster.
    last_arrival: int = 0

    def add(self, pod: PodSummary, sign: int) -> None:
        """Count a pod in (1) or out (-1)."""
        self.pods += sign
        self.performance_pods += sign * pod.performance
        if self.pods == 0:
            # Sums of floats drift; an empty node is exactly empty.
            self.cpu_cores = self.gpus = 0
            return
        self.cpu_cores += sign * pod.cpu_cores
        self.gpus += sign * pod.gpus


@dataclass(frozen=True, slots=True)
class ManagedHardware:
    """The hardware of one node."""

    view: HardwareView
    density: Density
    #: The most that the node draws for long, from the hardware or its own inventory entry; None where any part of it is
    #: inferred, as that bounds no measurement.
    max_watts: float | None = None
    #: Units of pods' GPU demands that each GPU is handed out in.
    gpu_units: float = 1


EMPTY = PodLoad()


class Cluster:
    """The model of the cluster.

    `pods` is the watch whose changes arrive at `on_pod`; `on_change` is called after each change that may need an
    action: `PLAN` for nodes and hardware, `DEMAND` for the number of performance pods, `NODE` where the labels that the
    operator writes changed, and where a node got its first performance pod or lost its last.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        pods: LocalCopy[Any],
        on_change: ChangeListener,
        failures: Failures,
        reserved_key: str = labels.RESERVED,
        gpu_product_keys: Sequence[str] = GPU_PRODUCT_KEYS,
    ) -> None:
        self._inventory = inventory
        self._pods = pods
        self._on_change = on_change
        self._failures = failures
        self._reserved_key = reserved_key
        self._gpu_product_keys = tuple(gpu_product_keys)
        self._nodes: dict[NodeName, Node] = {}
        self._reported_hardware: dict[NodeName, NodeHardwareStatus] = {}
        self._hardware: dict[NodeName, ManagedHardware] = {}
        self._loads: dict[NodeName, PodLoad] = {}
        self._arrivals = 0
        self._candidates: list[Candidate] | None = None
        #: Active performance pods, pending ones included.
        self.performance_pods = 0

    @property
    def nodes(self) -> Mapping[NodeName, Node]:
        """Every node of the watched selection."""
        return self._nodes

    def eligibility(self, name: NodeName) -> Eligibility:
        """Return what is to be done with a node."""
        node = self._nodes.get(name)
        if node is None or node.deleting or node.labels.get(self._reserved_key) == "true":
            return Eligibility.UNMANAGED
        out_of_supply = node.unschedulable or node.labels.get(labels.SLEEP_STATE) in _OUT_OF_SUPPLY
        return Eligibility.CORDONED if out_of_supply else Eligibility.ELIGIBLE

    def load(self, name: NodeName) -> PodLoad:
        """Return what is bound to a node; not to be changed by the caller."""
        return self._loads.get(name, EMPTY)

    @property
    def pods_unknown(self) -> bool:
        """Whether the pods of the cluster are not known."""
        return self._pods.is_stale()

    def blocking_pods(self, name: NodeName) -> int | None:
        """Return the active performance pods on a node; None while the pods of the cluster are not known."""
        return None if self.pods_unknown else self.load(name).performance_pods

    def hardware(self, name: NodeName) -> ManagedHardware | None:
        """Return the hardware of a node of the watched selection."""
        hardware = self._hardware.get(name)
        if hardware is None and (node := self._nodes.get(name)) is not None:
            reported = self._reported_hardware.get(name)
            view = resolve_view(node, reported, self._inventory, gpu_product_label_keys=self._gpu_product_keys)
            hardware = self._hardware[name] = ManagedHardware(
                view,
                density(view),
                _known_max_watts(view),
                units_per_gpu(node, view.gpu.vendor) if view.gpu is not None else 1,
            )
        return hardware

    def view(self, name: NodeName) -> HardwareView | None:
        """Return the hardware of a node of the watched selection as models take it."""
        hardware = self.hardware(name)
        return hardware.view if hardware is not None else None

    def candidates(self) -> Sequence[Candidate]:
        """Return the eligible nodes as policies take them; kept until a node or its hardware changes."""
        if self._candidates is None:
            eligible = (name for name in self._nodes if self.eligibility(name) is Eligibility.ELIGIBLE)
            hardware = ((name, self._hardware_if_resolved(name)) for name in eligible)
            self._candidates = [
                Candidate(name, found.density.total, found.view.family) for name, found in hardware if found
            ]
        return self._candidates

    def _hardware_if_resolved(self, name: NodeName) -> ManagedHardware | None:
        """Return the hardware; None where resolving it fails, so that one node does not stop the plan of the others."""
        try:
            return self.hardware(name)
        except Exception as error:  # noqa: BLE001 - counted; that node keeps what is published for it
            self._failures.internal_error("resolve hardware", error, node=name)
            return None

    def on_node(self, key: str, old: Node | None, new: Node | None) -> None:
        """Take a change of a node."""
        name = NodeName(key)
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = new
        if old is not None and new is not None and not _affects_plan(old, new):
            if _own_labels(old) != _own_labels(new):
                self._on_change(ClusterChange(ChangeScope.NODE, name))
            return
        self._hardware.pop(name, None)
        self._candidates = None
        self._on_change(ClusterChange(ChangeScope.PLAN, name))

    def on_hardware(self, key: str, status: NodeHardwareStatus | None) -> None:
        """Take a change of a NodeHardware."""
        name = NodeName(key)
        if status is None:
            self._reported_hardware.pop(name, None)
        else:
            self._reported_hardware[name] = status
        before = self._hardware.pop(name, None)
        # What nothing has read yet is not resolved here: the first list brings thousands at once.
        if name in self._nodes and (before is None or self.hardware(name) != before):
            self._candidates = None
            self._on_change(ClusterChange(ChangeScope.PLAN, name))

    def on_pod(self, _key: str, old: PodSummary | None, new: PodSummary | None) -> None:
        """Take a change of a pod."""
        if old == new:
            return
        demand = self.performance_pods
        nodes = {pod.node for pod in (old, new) if pod is not None and pod.node is not None}
        blocked = {name: self._is_blocked(name) for name in nodes}
        for pod, sign in ((old, -1), (new, 1)):
            if pod is None:
                continue
            self.performance_pods += sign * pod.performance
            if pod.node is not None:
                self._count(pod.node, pod, sign)
        if new is not None and new.node is not None and (old is None or old.node != new.node):
            self._arrivals += 1
            self._loads[new.node].last_arrival = self._arrivals
        # Decisions about a node depend on whether it has performance pods, not on how many.
        for name, before in blocked.items():
            if self._is_blocked(name) is not before:
                self._on_change(ClusterChange(ChangeScope.NODE, name))
        if self.performance_pods != demand:
            self._on_change(ClusterChange(ChangeScope.DEMAND))

    def _is_blocked(self, name: NodeName) -> bool:
        return self.load(name).performance_pods > 0

    def _count(self, name: NodeName, pod: PodSummary, sign: int) -> None:
        load = self._loads.setdefault(name, PodLoad())
        load.add(pod, sign)
        if load.pods == 0:
            del self._loads[name]


def _known_max_watts(view: HardwareView) -> float | None:
    seen = view.origins.cpu is Origin.SEEN and view.origins.gpu is Origin.SEEN
    return view.tdp_watts if seen and view.exactness is Exactness.EXACT else None


def _affects_plan(old: Node, new: Node) -> bool:
    """Return whether anything changed but what the kubelet reports and the operator's own labels."""
    return (
        old.uid != new.uid
        or old.unschedulable != new.unschedulable
        or old.deleting != new.deleting
        or old.allocatable != new.allocatable
        or old.capacity != new.capacity
        or (old.labels != new.labels and _other_labels(old) != _other_labels(new))
    )


def _own_labels(node: Node) -> tuple[str | None, str | None]:
    return node.labels.get(labels.POWER_PROFILE), node.labels.get(labels.DRAINING)


def _other_labels(node: Node) -> dict[str, str]:
    return {key: value for key, value in node.labels.items() if key not in OWN_LABELS}
