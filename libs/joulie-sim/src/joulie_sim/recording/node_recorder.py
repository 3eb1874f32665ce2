"""The nodes of a recording: what they offer, and the labels that describe their hardware and their place."""

from collections.abc import Callable, Mapping
from typing import Final

from joulie_core import labels as keys
from joulie_core.gpu_vendors import GPU_PRODUCT_KEYS
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.node import Node
from joulie_core.powerest.gpu_share import gpu_share
from joulie_sim.engine.node_lists import NodeLine
from joulie_sim.recording.pseudonyms import Pseudonyms

#: What decisions about a node read. No other label is written: others may contain names.
_LABELS: Final = frozenset(
    {
        *(keys.MANAGED, keys.RESERVED, keys.RACK, keys.COOLING_ZONE, keys.HW_KIND),
        *(keys.HW_CPU_MODEL, keys.HW_CPU_SOCKETS, keys.HW_CPU_CORES, keys.HW_GPU_MODEL, keys.HW_GPU_COUNT),
        *GPU_PRODUCT_KEYS,
        *(keys.NVIDIA_GPU_COUNT, keys.NVIDIA_GPU_REPLICAS, keys.INTEL_GPU_COUNT),
        *(keys.GKE_SHARES, keys.GKE_PARTITION, *keys.AMD_PARTITION_KEYS),
        *("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/arch"),
    }
)
_PREFIXES: Final = (keys.NFD_CPU_MODEL_PREFIX, keys.NFD_PCI_PREFIX)
_RESOURCES: Final = frozenset({"cpu", "memory", "pods"})


class NodeRecorder:
    """The nodes that exist.

    Args:
        names: names of nodes in lines.
        write: takes a line for each new node and for each that offers something else.
    """

    def __init__(self, *, names: Pseudonyms, write: Callable[[NodeLine], None]) -> None:
        self._names = names
        self._write = write
        self._inventory = Inventory.load()
        self._lines: dict[str, NodeLine] = {}
        self._gpu_models: dict[str, str | None] = {}
        #: Whether a node has a label of Joulie's operator.
        self.under_joulie = False

    def __len__(self) -> int:
        return len(self._lines)

    def gpu_model(self, node: str) -> str | None:
        """Return the model of a node's GPUs; None where it has none or is unknown."""
        return self._gpu_models.get(node)

    def change(self, key: str, new: Node | None) -> None:
        """Take a change of a node."""
        if new is None:
            # Its model stays for its pods, which end after it.
            self._lines.pop(key, None)
            return
        self.under_joulie |= keys.POWER_PROFILE in new.labels
        line = NodeLine(self._names.node(new.name), recorded_labels(new.labels), _resources(new.allocatable))
        if self._lines.get(key) == line:
            return
        self._lines[key] = line
        view = view_from_node(new, self._inventory)
        self._gpu_models[key] = view.gpu.model if view.gpu else None
        self._write(line)


def recorded_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that describe hardware and place."""
    return {key: value for key, value in labels.items() if key in _LABELS or key.startswith(_PREFIXES)}


def _resources(allocatable: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in allocatable.items() if key in _RESOURCES or gpu_share(key)}
