"""The known GPU vendors: how each is recognised in model names, on the PCI bus, in labels and in resources.

A new vendor is one entry here, and a driver in the agent; see docs/extending.md. Source of the PCI vendor IDs: PCI-SIG.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core import labels

#: PCI class and subclass: VGA controllers; 3D and other display controllers; processing accelerators.
_VGA: Final = 0x0300
_DISPLAYS: Final = (0x0302, 0x0380)
_ACCELERATOR: Final = 0x1200


@dataclass(frozen=True, slots=True)
class GpuVendor:
    """One vendor of GPUs."""

    #: As written in NodeHardware and in the inventory.
    name: str
    #: Words in model names that identify the vendor, in lower case: its name and its brands.
    words: tuple[str, ...]
    #: PCI vendor ID.
    pci_id: int
    #: PCI classes that are always a discrete GPU. VGA controllers of Intel and AMD may be part of the processor, and an
    #: accelerator of Intel is not a GPU.
    pci_classes: tuple[int, ...]
    #: Extended resources that count whole GPUs, and shares of GPUs.
    resources: tuple[str, ...]
    shared_resources: tuple[str, ...] = ()
    #: Node label with the model; empty if the vendor's discovery writes none.
    product_label: str = ""


GPU_VENDORS: Final[tuple[GpuVendor, ...]] = (
    GpuVendor(
        name="NVIDIA",
        words=("nvidia", "tesla", "quadro", "geforce", "rtx"),
        pci_id=0x10DE,
        pci_classes=(_VGA, *_DISPLAYS),
        resources=("nvidia.com/gpu",),
        shared_resources=("nvidia.com/gpu.shared",),
        product_label=labels.NVIDIA_GPU_PRODUCT,
    ),
    GpuVendor(
        name="AMD",
        words=("amd", "instinct", "radeon"),
        pci_id=0x1002,
        pci_classes=(*_DISPLAYS, _ACCELERATOR),
        resources=("amd.com/gpu",),
        product_label=labels.AMD_GPU_PRODUCT,
    ),
    GpuVendor(
        name="Intel",
        words=("intel",),
        pci_id=0x8086,
        pci_classes=_DISPLAYS,
        # Both drivers serve discrete GPUs and those that are part of a processor, and the resource does not show which:
        # it counts as a GPU, since a GPU that was left out would have its CPUs capped as those of a CPU node.
        resources=("gpu.intel.com/i915", "gpu.intel.com/xe"),
    ),
)

#: Labels that may hold the GPU model of a node, most trusted first.
GPU_PRODUCT_KEYS: Final[tuple[str, ...]] = (
    labels.HW_GPU_MODEL,
    labels.GPU_PRODUCT,
    *(vendor.product_label for vendor in GPU_VENDORS if vendor.product_label),
)
