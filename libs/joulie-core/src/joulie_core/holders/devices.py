"""The physical GPU behind the id of a device plugin or the name of a DRA device.

Guarantees that a device which stands for a GPU, and is not found among the node's, is returned as such: it may be any
GPU of its vendor. Other devices, such as network cards of the same vendors, are none of them.
Sources: NVIDIA k8s-device-plugin 0.20.0 (`GPU-<uuid>`, `MIG-<uuid>`, `::<n>` for a share by time-slicing or MPS); GKE's
device plugin (`nvidia0/gi3/vgpu1`); AMD k8s-device-plugin 1.31 (PCI address, `amdgpu_xcp_<n>`; later ones `-slice-<n>`
for a share by time-slicing); NVIDIA DRA driver 25.12.0 (attributes `type`, `uuid`, `parentUUID`) and AMD's (`pciAddr`,
`parentPciAddr`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.hardware.gpu_resources import GpuUnit, gpu_resource
from joulie_core.holders.records import ClaimedDevice, NodeGpu, PluginDevice, SliceDevice
from joulie_core.holders.vendors import ANY_VENDOR, vendor_of

NVIDIA: Final = "NVIDIA"
#: Drivers whose devices are GPUs. Other drivers of the vendors have network cards and channels.
_GPU_DRIVERS: Final = frozenset({"gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"})
#: What follows the id of the device in that of a share.
_SHARE: Final = re.compile(r"::.*|-slice-\d{1,5}$", re.DOTALL)
_GKE: Final = re.compile(r"nvidia(?P<minor>\d{1,5})(?P<part>(?:/gi\d+)?(?:/vgpu\d+)?)")
#: `MIG-GPU-<uuid>/<gpu instance>/<compute instance>`, of drivers before R470.
_OLD_MIG: Final = re.compile(r"MIG-(?P<gpu>GPU-[0-9a-f-]+)/\d+/\d+", re.IGNORECASE)
_GPU_ID: Final = re.compile(r"(?:GPU|MIG)-[0-9a-f-]+(?:/\d+/\d+)?", re.IGNORECASE)
_PCI: Final = re.compile(r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<rest>[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
#: Attributes with the GPU's own identity, of a partition that of the GPU it is a part of: before its own.
_UUIDS: Final = ("parentUUID", "uuid")
_ADDRESSES: Final = ("parentPciAddr", "pciAddr", "pciBusID")


@dataclass(frozen=True, slots=True)
class OfGpu:
    """A device that is a GPU of the node, or a part or share of one."""

    uuid: str
    #: Whether its device plugin gives the GPU to no other pod.
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class OfSomeGpu:
    """A device that is, or is part of, a GPU which was not found on the node."""

    #: ANY_VENDOR: of any vendor.
    vendor: str


#: None: no GPU.
Traced = OfGpu | OfSomeGpu | None


class GpuIndex:
    """The GPUs of a node by all names that devices have for them.

    Args:
        gpus: the GPUs.
        slices: devices of the node's ResourceSlices; of each pool the newest generation counts.
    """

    def __init__(self, gpus: Iterable[NodeGpu], slices: Iterable[SliceDevice] = ()) -> None:
        self._by_uuid: dict[str, NodeGpu] = {}
        self._by_address: dict[str, NodeGpu] = {}
        self._by_minor: dict[int, NodeGpu] = {}
        self._by_partition: dict[str, NodeGpu] = {}
        for gpu in gpus:
            self._by_uuid[gpu.uuid.lower()] = gpu
            if address := _address(gpu.pci_address):
                self._by_address[address] = gpu
            if gpu.minor is not None and gpu.vendor == NVIDIA:
                self._by_minor[gpu.minor] = gpu
            self._by_partition |= {name.lower(): gpu for name in gpu.partitions}
        self._slices = _newest(slices)

    def of_plugin(self, device: PluginDevice) -> Traced:
        """Return the GPU behind a device of a device plugin."""
        resource = gpu_resource(device.resource)
        share = _SHARE.search(device.device_id)
        name = device.device_id[: share.start()] if share else device.device_id
        gpu, whole = self._named(name)
        if gpu is None:
            if resource is None and not _GPU_ID.fullmatch(name):
                return None
            return OfSomeGpu(vendor_of(device.resource))
        device_of_plugin = resource is not None and resource.unit is GpuUnit.DEVICE
        return OfGpu(gpu.uuid, exclusive=device_of_plugin and whole and share is None)

    def of_claim(self, device: ClaimedDevice) -> Traced:
        """Return the GPU behind a device of a claim; no pod has it exclusively, since pods may share a claim."""
        found = self._slices.get((device.driver, device.pool, device.device))
        gpu = self._described(found.attributes) if found is not None else None
        if gpu is not None:
            return OfGpu(gpu.uuid)
        return OfSomeGpu(vendor_of(device.driver)) if device.driver in _GPU_DRIVERS else None

    def _named(self, name: str) -> tuple[NodeGpu | None, bool]:
        """Return the GPU of an id without its share, and whether the id is of the whole GPU."""
        name = name.lower()
        if name in self._by_uuid:
            return self._by_uuid[name], True
        if name in self._by_partition:
            return self._by_partition[name], False
        if of_gke := _GKE.fullmatch(name):
            return self._by_minor.get(int(of_gke["minor"])), not of_gke["part"]
        if of_mig := _OLD_MIG.fullmatch(name):
            return self._by_uuid.get(of_mig["gpu"]), False
        gpu = self._by_address.get(_address(name))
        # The first partition of a GPU has the address of the whole one.
        return gpu, gpu is not None and gpu.partitioned is False

    def _described(self, attributes: Mapping[str, str]) -> NodeGpu | None:
        for attribute in _UUIDS:
            gpu, _ = self._named(attributes.get(attribute, ""))
            if gpu is not None:
                return gpu
        for attribute in _ADDRESSES:
            gpu = self._by_address.get(_address(attributes.get(attribute, "")))
            if gpu is not None:
                return gpu
        return None


def _address(text: str) -> str:
    """Return a PCI address as `0000:c1:00.0`, for NVML writes eight digits of the domain; empty if it is none."""
    found = _PCI.fullmatch(text)
    return f"{int(found['domain'] or '0', 16):04x}:{found['rest'].lower()}" if found else ""


def _newest(slices: Iterable[SliceDevice]) -> Mapping[tuple[str, str, str], SliceDevice]:
    devices = tuple(slices)
    generations: dict[tuple[str, str], int] = {}
    for each in devices:
        pool = (each.driver, each.pool)
        generations[pool] = max(each.generation, generations.get(pool, each.generation))
    return {
        (each.driver, each.pool, each.device): each
        for each in devices
        if each.generation == generations[each.driver, each.pool]
    }


def vendor_of_claim(device: ClaimedDevice) -> str | None:
    """Return the vendor of a device of a driver for GPUs, ANY_VENDOR without one; None of other drivers."""
    return (vendor_of(device.driver) or ANY_VENDOR) if device.driver in _GPU_DRIVERS else None
