"""The nodes with GPUs as the decision to lift limits by class takes them.

Guarantees that a number of GPUs that cannot be read admits every pod, and that GPUs of nodes that take no pods are
neither free nor missing.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Final

from joulie_api.failures import Failures
from joulie_core.class_caps.waiting import GpuNode
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.powerest.gpu_share import gpu_share
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_operator.cluster import Cluster, Eligibility, ManagedHardware

_WORK: Final = "resolve hardware"


class GpuNodes:
    """The nodes of the operator's model of the cluster; what does not change of each is kept.

    Args:
        cluster: the model.
        failures: counts nodes whose hardware cannot be resolved, which are left out.
    """

    def __init__(self, cluster: Cluster, failures: Failures) -> None:
        self._cluster = cluster
        self._failures = failures
        self._kept: dict[NodeName, tuple[Node, ManagedHardware, GpuNode | None]] = {}

    @property
    def stale(self) -> bool:
        """Whether it is not known which pods the nodes have."""
        return self._cluster.pods_unknown

    def current(self) -> Iterator[GpuNode]:
        """Yield every node with GPUs."""
        kept, cluster = self._kept, self._cluster
        for name in kept.keys() - cluster.nodes.keys():
            del kept[name]
        for name, node in cluster.nodes.items():
            with self._failures.contained(_WORK, node=name):
                hardware, known = cluster.hardware(name), kept.get(name)
                if hardware is not None and (known is None or known[0] is not node or known[1] is not hardware):
                    kept[name] = node, hardware, self._gpu_node(node, hardware)
            if name in kept and (found := kept[name][2]) is not None:
                yield replace(found, free=max(0.0, found.total - cluster.load(name).gpus)) if found.total else found

    def _gpu_node(self, node: Node, hardware: ManagedHardware) -> GpuNode | None:
        """Return a node without pods; None for one without GPUs."""
        # With those that are taken out for being unhealthy, which may be back before a pod gets a node.
        offers = {
            each: _count(value) for each, value in {**node.allocatable, **node.capacity}.items() if gpu_share(each)
        }
        gpu = hardware.view.gpu
        if not offers and gpu is None:
            return None
        takes_pods = gpu is not None and self._cluster.eligibility(node.name) is Eligibility.ELIGIBLE
        total = gpu.count * hardware.gpu_units if takes_pods and gpu is not None else 0.0
        return GpuNode(node.name, gpu.model if gpu is not None else "", offers, node.labels, total=total)


def _count(quantity: str) -> float:
    """Return a number of GPUs; infinity for one that cannot be read."""
    try:
        return float(parse_quantity(quantity))
    except QuantityError:
        return inf
