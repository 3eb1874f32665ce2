"""The view of one GPU, where a node has GPUs of several models."""

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import GpuView, view_from_status
from joulie_core.kinds.node_hardware import Exactness, GpuCapRange, GpuDevice, GpuHardware, NodeHardwareStatus


def device_view(device: GpuDevice, inventory: Inventory) -> GpuView | None:
    """Return the view of one GPU; None where not more than its vendor is recognised."""
    match = inventory.find_gpu(device.model)
    if match is None or match.exactness is Exactness.GENERIC:
        return None
    limits = None
    if device.max is not None:
        limits = GpuCapRange(min_watts=device.min or 0.0, max_watts=device.max, default_watts=device.default)
    alone = GpuHardware(present=True, raw_model=device.model, count=1, cap_range_per_gpu=limits)
    return view_from_status(NodeHardwareStatus(gpu=alone), inventory).gpu
