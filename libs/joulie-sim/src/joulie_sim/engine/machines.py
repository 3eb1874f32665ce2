"""The nodes of a simulation: what they offer, and what hardware they have.

Nodes are in kube-scheduler's order from here on; an index stands for a node everywhere in the engine. Nodes whose
labels and resources describe the same hardware share one view, so that a decision of `joulie_core` is made once for
all of them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from joulie_core.hardware.density import density
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import HardwareView, view_from_node
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.policy import Candidate
from joulie_core.power.curves import node_curves
from joulie_core.powerest.gpu_share import units_per_gpu
from joulie_core.powerest.marginal import NodePower
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_core.savings.kube_scores import zone_order
from joulie_sim.engine.arrays import Floats, Ints
from joulie_sim.hardware import hardware_of
from joulie_sim.physics.parts import ASSUMED_WORK, Hardware
from joulie_sim.workload.item import WorkItem

_ZONE_LABELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_DEFAULT_PODS: Final = "110"


class MachineError(Exception):
    """A node cannot be simulated; the message has its name and the reason."""


@dataclass(frozen=True, slots=True)
class HardwareGroup:
    """Nodes of the same hardware, as Joulie sees it and as it is simulated."""

    view: HardwareView
    hardware: Hardware
    power: NodePower
    density: float


@dataclass(frozen=True, slots=True, eq=False)
class Machines:
    """All nodes, in kube-scheduler's order."""

    names: tuple[NodeName, ...]
    #: Region and zone of each node.
    zones: tuple[str, ...]
    groups: tuple[HardwareGroup, ...]
    #: Index of each node's group.
    group: Ints
    #: CPU in thousandths and memory in bytes, shape (2, nodes).
    allocatable: Floats
    pods: Ints
    #: GPUs that can be requested, one row for each of `gpu_resources`.
    gpus: Ints
    gpu_resources: tuple[str, ...]

    @property
    def mean_work_per_thread(self) -> float:
        """Work per second of a hardware thread of the cluster in the mean, over that of the reference model."""
        return float(np.average(self._work_per_s(gpus=False), weights=self.allocatable[0]))

    @property
    def mean_work_per_gpu(self) -> Floats:
        """The same of a GPU, for each of `gpu_resources`."""
        work_per_s = self._work_per_s(gpus=True)
        return np.array([np.average(work_per_s, weights=row) if row.any() else ASSUMED_WORK for row in self.gpus])

    @property
    def slowest_share(self) -> float:
        """Work per second of the slowest devices of the cluster, over that of the mean ones of their kind."""
        shares = [float(self._work_per_s(gpus=False).min()) / self.mean_work_per_thread]
        for row, mean in zip(self.gpus, self.mean_work_per_gpu, strict=True):
            shares += [float(self._work_per_s(gpus=True)[row > 0].min(initial=mean) / mean)]
        return min(shares)

    @property
    def unrated(self) -> dict[str, int]:
        """Number of nodes by CPU or GPU model whose work per second is not published, and taken as the reference's."""
        unrated: Counter[str] = Counter()
        for index in self.group.tolist():
            view = self.groups[index].view
            if view.cpu is not None and view.cpu.work_per_thread is None:
                unrated[view.cpu.model] += 1
            if view.gpu is not None and view.gpu.work_per_gpu is None:
                unrated[view.gpu.model] += 1
        return dict(sorted(unrated.items()))

    def work_of(self, items: Iterable[WorkItem]) -> tuple[WorkItem, ...]:
        """Return items with the work that the mean device of the cluster does in their `work_s`."""
        per_gpu = dict(zip(self.gpu_resources, self.mean_work_per_gpu.tolist(), strict=True))
        per_thread = self.mean_work_per_thread

        def work_per_s(item: WorkItem) -> float:
            return per_gpu.get(item.gpu_resource, ASSUMED_WORK) if item.gpus else per_thread

        return tuple(replace(item, work_s=item.work_s * work_per_s(item)) for item in items)

    def _work_per_s(self, *, gpus: bool) -> Floats:
        return np.array([group.hardware.work_per_s(gpus=gpus) for group in self.groups])[self.group]

    def __len__(self) -> int:
        return len(self.names)

    def candidates(self) -> list[Candidate]:
        """Return the nodes as policies take them."""
        groups = [self.groups[index] for index in self.group]
        return [
            Candidate(name, group.density, group.view.family) for name, group in zip(self.names, groups, strict=True)
        ]


def machines_of(nodes: Sequence[Node], inventory: Inventory) -> Machines:
    """Return the nodes of a cluster, in kube-scheduler's order.

    Raises:
        MachineError: there is no node, a name occurs twice, or a node offers no CPU or memory or has unknown CPUs.
    """
    if not nodes:
        raise MachineError("there are no nodes")
    zones = [":".join(node.labels.get(key, "") for key in _ZONE_LABELS) for node in nodes]
    order = zone_order(zones)
    ordered = [nodes[index] for index in order]
    names = tuple(node.name for node in ordered)
    if len(set(names)) < len(names):
        raise MachineError("two nodes have the same name")
    resources = tuple(sorted({key for node in ordered for key in node.allocatable if key.endswith("/gpu")}))
    of_node = [_group(node, inventory) for node in ordered]
    places = {group: index for index, group in enumerate(dict.fromkeys(of_node))}
    return Machines(
        names=names,
        zones=tuple(zones[index] for index in order),
        groups=tuple(places),
        group=np.array([places[group] for group in of_node], dtype=np.int64),
        allocatable=np.array(
            [
                [1000.0 * _amount(node, "cpu") for node in ordered],
                [_amount(node, "memory") for node in ordered],
            ]
        ),
        pods=np.array([int(_quantity(node, "pods", _DEFAULT_PODS)) for node in ordered], dtype=np.int64),
        gpus=np.array(
            [[int(_quantity(node, key, "0")) for node in ordered] for key in resources], dtype=np.int64
        ).reshape(len(resources), len(ordered)),
        gpu_resources=resources,
    )


def _group(node: Node, inventory: Inventory) -> HardwareGroup:
    view = view_from_node(node, inventory)
    if view.cpu is None:
        raise MachineError(f"node {node.name}: neither labels nor resources tell its CPUs")
    return HardwareGroup(view, hardware_of(node, inventory), _power(view, node), density(view).total)


def _power(view: HardwareView, node: Node) -> NodePower:
    return NodePower(
        cpu_threads=view.cpu.threads if view.cpu else 0,
        cpu_max_watts=view.cpu_max_watts,
        gpu_count=view.gpu.count if view.gpu else 0,
        gpu_max_watts=view.gpu_max_watts,
        cpu_cores=view.cpu.total_cores if view.cpu else 0,
        units_per_gpu=units_per_gpu(node, view.gpu.vendor) if view.gpu else 1,
        curves=node_curves(view),
    )


def _amount(node: Node, resource: str) -> float:
    amount = _quantity(node, resource, "0")
    if amount <= 0:
        raise MachineError(f"node {node.name}: it offers no {resource}")
    return amount


def _quantity(node: Node, resource: str, default: str) -> float:
    written = node.allocatable.get(resource, default)
    try:
        return float(parse_quantity(written))
    except QuantityError as error:
        raise MachineError(f"node {node.name}: {resource} {written!r}: {error}") from error
