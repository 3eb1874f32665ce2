"""The cluster as the operator sees it: one model in memory, fed by watches, read by everything that decides.

Promises constant work per change and counts that are right at any moment: performance pods of the cluster and of each
node, requested cores and GPUs of each node, the hardware view and density of each managed node. Tells its listener
which changes may alter a plan; changes that cannot (a kubelet's status report, a standard pod) are taken silently.
It reads nothing by itself and writes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from joulie_core import labels
from joulie_core.hardware.density import Density, density
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import HardwareView, resolve_view
from joulie_core.kinds.node_hardware import Exactness, NodeHardwareStatus, Origin
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.policy import Candidate
from joulie_core.powerest.gpu_share import units_per_gpu
from joulie_operator.published import PodSummary

#: Labels that the operator itself writes: changing them changes no hardware view and no eligibility.
OWN_LABELS = frozenset({labels.POWER_PROFILE, labels.DRAINING})


class Eligibility(Enum):
    """What the operator does with a node."""

    #: Planned and published.
    ELIGIBLE = auto()
    #: Cordoned: left out of the plan, its last target stays published.
    CORDONED = auto()
    #: Reserved, leaving, or not in the watched selection: nothing of ours may stay on it.
    UNMANAGED = auto()


@dataclass(slots=True)
class PodLoad:
    """What runs on one node, or is bound to it."""

    performance_pods: int = 0
    pods: int = 0
    cpu_cores: float = 0
    gpus: float = 0

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
    #: The most that the node draws for long, where hardware or its own inventory entry tells it; None where any part of
    #: it is inferred, as that bounds no measurement.
    max_watts: float | None = None
    #: Units of pods' GPU demands that each GPU is handed out in.
    gpu_units: float = 1


EMPTY = PodLoad()


class Cluster:
    """The model, with two listeners to be set by who decides.

    `on_change(name)`: something changed that may alter a plan; None where no single node is concerned.
    `on_relabel(name)`: the labels that the operator writes changed on a node, by its own write or by somebody else's.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        reserved_key: str = labels.RESERVED,
        gpu_product_keys: Sequence[str] = labels.GPU_PRODUCT_KEYS,
    ) -> None:
        self._inventory = inventory
        self._reserved_key = reserved_key
        self._gpu_product_keys = tuple(gpu_product_keys)
        self.on_change: Callable[[NodeName | None], None] = lambda _name: None
        self.on_relabel: Callable[[NodeName], None] = lambda _name: None
        self._nodes: dict[NodeName, Node] = {}
        self._hardware: dict[NodeName, NodeHardwareStatus] = {}
        self._machines: dict[NodeName, ManagedHardware] = {}
        self._loads: dict[NodeName, PodLoad] = {}
        self._candidates: list[Candidate] | None = None
        #: Active performance pods, pending ones included.
        self.performance_pods = 0

    @property
    def nodes(self) -> Mapping[NodeName, Node]:
        """Every node of the watched selection."""
        return self._nodes

    def standing(self, name: NodeName) -> Eligibility:
        """Say what is to be done with a node."""
        node = self._nodes.get(name)
        if node is None or node.deleting or node.labels.get(self._reserved_key) == "true":
            return Eligibility.UNMANAGED
        return Eligibility.CORDONED if node.unschedulable else Eligibility.ELIGIBLE

    def load(self, name: NodeName) -> PodLoad:
        """Return what is bound to a node; not to be changed by the caller."""
        return self._loads.get(name, EMPTY)

    def machine(self, name: NodeName) -> ManagedHardware | None:
        """Return the hardware of a node of the watched selection."""
        machine = self._machines.get(name)
        if machine is None and (node := self._nodes.get(name)) is not None:
            status = self._hardware.get(name)
            view = resolve_view(node, status, self._inventory, gpu_product_label_keys=self._gpu_product_keys)
            machine = self._machines[name] = ManagedHardware(
                view,
                density(view),
                _told_max_watts(view),
                units_per_gpu(node, view.gpu.vendor) if view.gpu is not None else 1,
            )
        return machine

    def candidates(self) -> Sequence[Candidate]:
        """Return the eligible nodes as policies take them; kept until a node or its hardware changes."""
        if self._candidates is None:
            eligible = (name for name in self._nodes if self.standing(name) is Eligibility.ELIGIBLE)
            machines = ((name, self.machine(name)) for name in eligible)
            self._candidates = [
                Candidate(name, machine.density.total, machine.view.family) for name, machine in machines if machine
            ]
        return self._candidates

    def on_node(self, key: str, old: Node | None, new: Node | None) -> None:
        """Take a change of a node."""
        name = NodeName(key)
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = new
        if old is not None and new is not None and _same_to_us(old, new):
            if _own_labels(old) != _own_labels(new):
                self.on_relabel(name)
            return
        self._machines.pop(name, None)
        self._candidates = None
        self.on_change(name)

    def on_hardware(self, key: str, status: NodeHardwareStatus | None) -> None:
        """Take a change of a NodeHardware."""
        name = NodeName(key)
        if status is None:
            self._hardware.pop(name, None)
        else:
            self._hardware[name] = status
        before = self._machines.pop(name, None)
        if name in self._nodes and self.machine(name) != before:
            self._candidates = None
            self.on_change(name)

    def on_pod(self, _key: str, old: PodSummary | None, new: PodSummary | None) -> None:
        """Take a change of a pod."""
        if old == new:
            return
        for pod, sign in ((old, -1), (new, 1)):
            if pod is None:
                continue
            self.performance_pods += sign * pod.performance
            if pod.node is not None:
                self._count(pod.node, pod, sign)
        self._report_pod(old, new)

    def _count(self, name: NodeName, pod: PodSummary, sign: int) -> None:
        load = self._loads.setdefault(name, PodLoad())
        load.add(pod, sign)
        if load.pods == 0:
            del self._loads[name]

    def _report_pod(self, old: PodSummary | None, new: PodSummary | None) -> None:
        """Only performance pods alter a plan: by their number, and by the nodes they block."""
        places = {pod.node for pod in (old, new) if pod is not None and pod.performance}
        for name in places:
            self.on_change(name)


def _told_max_watts(view: HardwareView) -> float | None:
    seen = view.origins.cpu is Origin.SEEN and view.origins.gpu is Origin.SEEN
    return view.tdp_watts if seen and view.exactness is Exactness.EXACT else None


def _same_to_us(old: Node, new: Node) -> bool:
    """Say whether nothing changed but what the kubelet reports or what we wrote ourselves."""
    return (
        old.uid == new.uid
        and old.unschedulable == new.unschedulable
        and old.deleting == new.deleting
        and old.allocatable == new.allocatable
        and old.capacity == new.capacity
        and (old.labels == new.labels or _foreign_labels(old) == _foreign_labels(new))
    )


def _own_labels(node: Node) -> tuple[str | None, str | None]:
    return node.labels.get(labels.POWER_PROFILE), node.labels.get(labels.DRAINING)


def _foreign_labels(node: Node) -> dict[str, str]:
    return {key: value for key, value in node.labels.items() if key not in OWN_LABELS}
