"""Facts about a node's hardware, for each source by itself: the agent's discovery, and the node's own description.

Guarantees that only facts of the source are returned: an absent, zero or unreadable value is None. Putting sources
together, and filling gaps, is `joulie_core.hardware.view`.
Source: docs/decisions/0011-facts.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from joulie_core.gpu_vendors import GPU_VENDORS
from joulie_core.hardware.gpu_resources import gpu_resource, is_partitioned, physical_gpus, plain_product
from joulie_core.hardware.inventory import CpuSpec, GpuSpec, Inventory, Match
from joulie_core.kinds.bounds import MOST_CPUS, MOST_GPUS, MOST_MEMORY_BYTES, MOST_SOCKETS
from joulie_core.kinds.node_hardware import CpuHardware, FactOrigins, GpuHardware, NodeHardwareStatus, Origin
from joulie_core.labels import (
    HW_CPU_CORES,
    HW_CPU_MODEL,
    HW_CPU_SOCKETS,
    HW_GPU_COUNT,
    INTEL_GPU_COUNT,
    NFD_CPU_MODEL_PREFIX,
    NFD_PCI_PREFIX,
    NVIDIA_GPU_COUNT,
)
from joulie_core.node import Node
from joulie_core.plausible import HIGHEST_VALUE
from joulie_core.quantity import QuantityError, parse_quantity


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """CPUs as one source sees them; watts are per package."""

    origin: Origin = Origin.SEEN
    match: Match[CpuSpec] | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: float | None = None
    base_ghz: float | None = None
    min_watts: float | None = None
    max_watts: float | None = None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """GPUs as one source sees them; watts are per GPU."""

    origin: Origin = Origin.SEEN
    #: False: the source reports that there is none; None: it does not report.
    present: bool | None = None
    match: Match[GpuSpec] | None = None
    #: What the source calls the model.
    names: tuple[str, ...] = ()
    vendor: str | None = None
    #: At least one.
    count: int | None = None
    #: The fewest that the node's resources stand for; at least one.
    offered: int | None = None
    min_watts: float | None = None
    max_watts: float | None = None
    default_watts: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one source."""

    cpu: CpuFacts = field(default_factory=CpuFacts)
    gpu: GpuFacts = field(default_factory=GpuFacts)
    memory_bytes: int | None = None
    memory_origin: Origin = Origin.SEEN


_LONGEST_NUMBER: Final = 9
_NFD_GPU_VENDORS: Final = {f"{vendor.pci_id:04x}": vendor.name for vendor in GPU_VENDORS}
_PCI_DISPLAY: Final = "03"
#: PCI classes of GPUs that drive no screen. Only these count for Intel, whose id alone may be any part of the board.
_NFD_INTEL_GPU_CLASSES: Final = ("0302", "0380")


def facts_from_status(status: NodeHardwareStatus, inventory: Inventory) -> Facts:
    """Return what the agent discovered, and where it has it from."""
    memory = status.memory.total_bytes if status.memory else None
    origins = (status.quality and status.quality.facts) or FactOrigins()
    return Facts(
        _cpu_discovered(status.cpu, inventory, origins.cpu or Origin.SEEN) if status.cpu else CpuFacts(),
        _gpu_discovered(status.gpu, inventory, origins.gpu or Origin.SEEN) if status.gpu else GpuFacts(),
        memory or None,
        origins.memory or Origin.SEEN,
    )


def _cpu_discovered(cpu: CpuHardware, inventory: Inventory, origin: Origin) -> CpuFacts:
    limits, landmarks = cpu.cap_range, cpu.landmarks
    base_mhz = landmarks.base_freq_mhz if landmarks else None
    return CpuFacts(
        origin=origin,
        match=inventory.find_cpu(cpu.raw_model) or inventory.find_cpu(cpu.model) or inventory.find_cpu(cpu.vendor),
        sockets=cpu.sockets or None,
        cores=cpu.total_cores or cpu.cores_per_socket * cpu.sockets or None,
        threads=cpu.threads or None,
        base_ghz=base_mhz / 1000 if base_mhz else None,
        min_watts=limits.min_watts_per_socket or None if limits else None,
        max_watts=limits.max_watts_per_socket or None if limits else None,
    )


def _gpu_discovered(gpu: GpuHardware, inventory: Inventory, origin: Origin) -> GpuFacts:
    limits = gpu.cap_range_per_gpu
    return GpuFacts(
        origin=origin,
        present=gpu.present,
        match=inventory.find_gpu(gpu.raw_model) or inventory.find_gpu(gpu.model) or inventory.find_gpu(gpu.vendor),
        names=tuple(name for name in (gpu.raw_model, gpu.model) if name),
        vendor=gpu.vendor or None,
        count=gpu.count or len(gpu.devices) or None,
        min_watts=limits.min_watts or None if limits else None,
        max_watts=limits.max_watts or None if limits else None,
        default_watts=limits.default_watts or None if limits else None,
    )


def facts_from_node(node: Node, inventory: Inventory, gpu_product_label_keys: Sequence[str]) -> Facts:
    """Return the facts in the node's labels and resources."""
    memory = _quantity(node.allocatable, "memory", MOST_MEMORY_BYTES)
    return Facts(
        CpuFacts(
            origin=Origin.LABELLED,
            match=_labelled_cpu(node.labels, inventory),
            sockets=_whole(node.labels, HW_CPU_SOCKETS, MOST_SOCKETS),
            cores=_whole(node.labels, HW_CPU_CORES),
            threads=_quantity(node.allocatable, "cpu", MOST_CPUS),
        ),
        _labelled_gpus(node, inventory, gpu_product_label_keys),
        int(memory) if memory else None,
        Origin.LABELLED,
    )


def _labelled_cpu(labels: Mapping[str, str], inventory: Inventory) -> Match[CpuSpec] | None:
    match = inventory.find_cpu(labels.get(HW_CPU_MODEL, ""))
    if match:
        return match
    family = _whole(labels, f"{NFD_CPU_MODEL_PREFIX}family")
    model = _whole(labels, f"{NFD_CPU_MODEL_PREFIX}id")
    if family is None or model is None:
        return None
    return inventory.find_cpu_by_id(labels.get(f"{NFD_CPU_MODEL_PREFIX}vendor_id", ""), family, model)


def _labelled_gpu(labels: Mapping[str, str], inventory: Inventory, keys: Sequence[str]) -> Match[GpuSpec] | None:
    matches = (inventory.find_gpu(labels[key]) for key in keys if labels.get(key))
    return next((match for match in matches if match), None)


def _labelled_gpus(node: Node, inventory: Inventory, keys: Sequence[str]) -> GpuFacts:
    vendor, offered = _offered(node)
    count = _labelled_count(node.labels)
    return GpuFacts(
        origin=Origin.LABELLED,
        present=None if count is None else count > 0,
        match=_labelled_gpu(node.labels, inventory, keys),
        names=tuple(plain_product(node.labels[key]) for key in keys if node.labels.get(key)),
        vendor=vendor or _nfd_vendor(node.labels),
        count=count or None,
        offered=offered,
    )


def _labelled_count(labels: Mapping[str, str]) -> int | None:
    """Return the number of physical GPUs in the labels; None where there is none, or of partitions."""
    stated = _whole(labels, HW_GPU_COUNT, MOST_GPUS)
    if stated is not None:
        return stated
    found = None if is_partitioned(labels) else _whole(labels, NVIDIA_GPU_COUNT, MOST_GPUS)
    return _whole(labels, INTEL_GPU_COUNT, MOST_GPUS) if found is None else found


def _offered(node: Node) -> tuple[str | None, int | None]:
    """Return who made most of the GPUs that the node's resources stand for, and how many of those there are.

    A resource of zero is no proof of absence: the driver may be down, or all GPUs be cut into slices.
    """
    counts: dict[str, int] = {}
    # A GPU that is unhealthy, or not given to pods, is in the node all the same.
    for resources in (node.allocatable, node.capacity):
        quantities = {
            name: _quantity(resources, name, HIGHEST_VALUE) or 0.0
            for name in resources
            if gpu_resource(name) is not None
        }
        for vendor, count in physical_gpus(quantities, node.labels).items():
            counts[vendor] = max(counts.get(vendor, 0), min(count, MOST_GPUS))
    if not counts:
        return None, None
    vendor = max(counts, key=lambda each: counts[each])
    return vendor, counts[vendor]


def _nfd_vendor(labels: Mapping[str, str]) -> str | None:
    present = sorted(key for key, value in labels.items() if key.startswith(NFD_PCI_PREFIX) and value == "true")
    vendors = (_pci_gpu_vendor(key.removeprefix(NFD_PCI_PREFIX)) for key in present)
    return next((vendor for vendor in vendors if vendor), None)


def _pci_gpu_vendor(device: str) -> str | None:
    """Return the vendor of a GPU that NFD saw: `<vendor>.present` or `<class>_<vendor>[_...].present`."""
    if not device.endswith(".present"):
        return None
    parts = device.removesuffix(".present").split("_")
    pci_class, pci_vendor = (parts[0], parts[1]) if len(parts) > 1 else ("", parts[0])
    vendor = _NFD_GPU_VENDORS.get(pci_vendor)
    if vendor == "Intel":
        return vendor if pci_class in _NFD_INTEL_GPU_CLASSES else None
    return vendor if pci_class[:2] in ("", _PCI_DISPLAY) else None


def _whole(labels: Mapping[str, str], key: str, most: int = MOST_CPUS) -> int | None:
    """Return a label's whole number; none where it is larger than any machine has."""
    text = labels.get(key, "")
    if not (text.isascii() and text.isdigit()) or len(text) > _LONGEST_NUMBER:
        return None
    return int(text) if int(text) <= most else None


def _quantity(resources: Mapping[str, str], name: str, most: float) -> float | None:
    """Return a resource's quantity; None where it is absent, none, invalid, or more than any machine has."""
    if name not in resources:
        return None
    try:
        quantity = float(parse_quantity(resources[name]))
    except QuantityError:
        return None
    return quantity if 0 < quantity <= most else None
