"""Simulated hardware of Kubernetes nodes: from labels and allocatable resources, completed from the inventory.

Every node whose labels or resources describe any hardware gets it; for a model that the inventory does not have, the
vendor's generic one is used. A model whose work per second is not known does that of the reference model.
"""

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import HardwareView, view_from_node
from joulie_core.node import Node
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_sim.physics.parts import ASSUMED_WORK, CpuPart, GpuPart, Hardware


def hardware_of(node: Node, inventory: Inventory) -> Hardware:
    """Return the parts of a node."""
    view = view_from_node(node, inventory)
    return Hardware(cpu=_cpu(node, view), gpu=_gpu(view), memory_bytes=view.memory_bytes)


def _cpu(node: Node, view: HardwareView) -> CpuPart | None:
    if view.cpu is None:
        return None
    return CpuPart(
        model=view.cpu.model,
        vendor=view.cpu.vendor,
        sockets=view.cpu.sockets,
        cores=_allocatable_cores(node) or float(view.cpu.total_cores),
        physical_cores=view.cpu.total_cores,
        max_watts=view.cpu.max_watts_per_socket,
        curve=view.cpu.spec.curve,
        min_cap_watts=view.cpu.min_watts_per_socket,
        max_cap_watts=view.cpu.max_watts_per_socket,
        work_per_thread=view.cpu.work_per_thread or ASSUMED_WORK,
    )


def _gpu(view: HardwareView) -> GpuPart | None:
    if view.gpu is None:
        return None
    return GpuPart(
        model=view.gpu.model,
        vendor=view.gpu.vendor,
        count=view.gpu.count,
        max_watts=view.gpu.max_watts,
        curve=view.gpu.spec.curve,
        min_cap_watts=view.gpu.min_watts,
        max_cap_watts=view.gpu.max_watts,
        default_cap_watts=view.gpu.default_watts,
        work_per_gpu=view.gpu.work_per_gpu or ASSUMED_WORK,
    )


def _allocatable_cores(node: Node) -> float | None:
    """Return the allocatable CPU in hardware threads: what pods can request, and what utilization is a share of."""
    quantity = node.allocatable.get("cpu")
    try:
        cores = float(parse_quantity(quantity)) if quantity is not None else 0.0
    except QuantityError:
        return None
    return cores if cores > 0.0 else None
