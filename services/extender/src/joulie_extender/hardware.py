"""Power that a node's hardware can draw: the agent's discovery, else the node's labels and the inventory.

Source: docs/decisions/0002-extender.md.
"""

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import HardwareView, resolve_view, view_from_status
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.node import Node
from joulie_core.power.curves import node_curves
from joulie_core.powerest.gpu_share import units_per_gpu
from joulie_core.powerest.marginal import NodePower


class PowerReader:
    """Reads the maximum power of a node; what is not known stays zero, which the estimate takes for generic."""

    def __init__(self, inventory: Inventory | None = None) -> None:
        self._inventory = inventory or Inventory.load()

    def __call__(self, node: Node | None, status: NodeHardwareStatus | None) -> NodePower:
        """Return the figures of a node of which either may be missing."""
        if node is not None:
            return _power(resolve_view(node, status, self._inventory), node)
        return NodePower() if status is None else _power(view_from_status(status, self._inventory), None)


def _power(view: HardwareView, node: Node | None) -> NodePower:
    return NodePower(
        cpu_threads=view.cpu.threads if view.cpu else 0,
        cpu_max_watts=view.cpu_max_watts,
        gpu_count=view.gpu.count if view.gpu else 0,
        # A generic model's figure is low, as what a node can carry; what a pod draws must not be low as well.
        gpu_max_watts=view.gpu_max_watts if view.gpu and view.gpu.max_is_known else 0,
        cpu_cores=view.cpu.total_cores if view.cpu else 0,
        units_per_gpu=units_per_gpu(node, view.gpu.vendor) if view.gpu else 1,
        curves=node_curves(view),
    )
