"""The extended resources that stand for GPUs, and how much of a physical GPU one unit of each is.

One table for all services: what a node offers and what a pod requests are read by the same names. A unit is a whole
device, a partition of one (MIG, AMD compute partitions), or a share of one (time-slicing, MPS) that other pods use too.
The size of a partition is part of its name; the number of shares is known from the node's labels only, and without
them the answer is None: unknown, and neither a whole GPU nor nothing.

Does not promise the number of GPUs behind partitions to be exact: a GPU that is partly cut up shows fewer of them, so
the count is the lowest that fits. Resources that are no GPU (monitoring, memory and tiles of Intel's plugin, vGPUs and
passed-through functions for virtual machines) are not in the table.
Sources: NVIDIA k8s-device-plugin and GPU feature discovery; AMD k8s-device-plugin, resource naming strategies; Intel
device plugins for Kubernetes, GPU plugin; GKE, GPU sharing.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from joulie_core.gpu_vendors import GPU_VENDORS
from joulie_core.labels import (
    AMD_PARTITION_KEYS,
    GKE_PARTITION,
    GKE_SHARES,
    NVIDIA_GPU_PRODUCT,
    NVIDIA_GPU_REPLICAS,
)


class GpuUnit(StrEnum):
    """Part of a GPU that one unit of a resource is."""

    DEVICE = "device"
    PARTITION = "partition"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class GpuResource:
    """One extended resource that stands for GPUs."""

    name: str
    #: As the inventory spells it.
    vendor: str
    unit: GpuUnit
    #: Compute slices of one GPU that a partition takes; 1 for a device and a share.
    slices: int = 1
    #: Compute slices of one GPU; None where it follows from the model (MIG).
    slices_per_gpu: int | None = 1


#: Compute slices of a GPU with MIG: seven, on A30 and RTX PRO 6000 four.
MIG_SLICES: Final = 7
_MIG_SLICES_OF: Final = {"A30": 4, "RTX-PRO-6000": 4}
#: Compute partitions of an AMD Instinct MI300 by mode; CPX is one for each of the eight compute dies.
_AMD_PARTITIONS: Final = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}

#: `1g.10gb`, `1g.10gb.me` (with the media engines), `1c.3g.20gb` (one compute slice of a partition of three).
_MIG_PROFILE: Final = r"(?:(?P<c>[1-9])c\.)?(?P<g>[1-9])g\.\d+gb(?:\.(?!shared)[a-z]+)*"
_MIG_RESOURCE: Final = re.compile(rf"nvidia\.com/mig-{_MIG_PROFILE}(?P<shared>\.shared)?")
_MIG_PRODUCT: Final = re.compile(rf"-MIG-{_MIG_PROFILE}(?=-SHARED|$)", re.IGNORECASE)
_AMD_RESOURCE: Final = re.compile(r"amd\.com/(?P<mode>[a-z]px)_nps\d+")
_WHOLE: Final = {name: vendor.name for vendor in GPU_VENDORS for name in vendor.resources}
_SHARED: Final = {name: vendor.name for vendor in GPU_VENDORS for name in vendor.shared_resources}


@lru_cache(maxsize=1024)
def gpu_resource(name: str) -> GpuResource | None:
    """Return what an extended resource stands for; None for one that is no GPU."""
    if name in _WHOLE:
        return GpuResource(name, _WHOLE[name], GpuUnit.DEVICE)
    if name in _SHARED:
        return GpuResource(name, _SHARED[name], GpuUnit.SHARE)
    mig = _MIG_RESOURCE.fullmatch(name)
    if mig:
        unit = GpuUnit.SHARE if mig["shared"] else GpuUnit.PARTITION
        return GpuResource(name, "NVIDIA", unit, int(mig["c"] or mig["g"]), None)
    amd = _AMD_RESOURCE.fullmatch(name)
    if amd and amd["mode"] in _AMD_PARTITIONS:
        parts = _AMD_PARTITIONS[amd["mode"]]
        unit = GpuUnit.PARTITION if parts > 1 else GpuUnit.DEVICE
        return GpuResource(name, "AMD", unit, 1, parts)
    return None


def gpus_per_unit(resource: GpuResource, labels: Mapping[str, str]) -> float | None:
    """Return how much of a physical GPU one unit of a resource is on a node with these labels.

    None where the node shares its GPUs and does not say by how many. Without the labels of a node (an empty mapping)
    this is the answer for an unshared, unpartitioned node; a partition's size comes from the resource's name.
    """
    shares = _shares(resource, labels)
    if shares is None:
        return None
    size = _size(resource, labels)
    return size.slices / size.per_gpu / shares


def physical_gpus(quantities: Mapping[str, float], labels: Mapping[str, str]) -> Mapping[str, int]:
    """Return the lowest number of physical GPUs that offer these quantities, by vendor; vendors without one are absent.

    Shares whose number per GPU is unknown count as one GPU in all: there is at least one.
    """
    known = ((gpu_resource(name), quantity) for name, quantity in quantities.items() if quantity > 0)
    offers = [(resource, quantity) for resource, quantity in known if resource is not None]
    vendors = dict.fromkeys(resource.vendor for resource, _ in offers)
    return {vendor: _lowest([offer for offer in offers if offer[0].vendor == vendor], labels) for vendor in vendors}


def is_partitioned(labels: Mapping[str, str]) -> bool:
    """Return whether the node offers partitions under the name of whole GPUs, so that labels count those as well."""
    return _partition_by_labels("NVIDIA", labels) is not None or _partition_by_labels("AMD", labels) is not None


def plain_product(product: str) -> str:
    """Return a product label without what feature discovery appends to it for partitions and shares."""
    return _MIG_PRODUCT.sub("", product.removesuffix("-SHARED"))


@dataclass(frozen=True, slots=True)
class _Size:
    """A part of a GPU, in compute slices."""

    slices: int
    per_gpu: int


def _lowest(offers: Iterable[tuple[GpuResource, float]], labels: Mapping[str, str]) -> int:
    whole, slices, widest, per_gpu, unknown = 0.0, 0.0, 0, 1, 0
    for resource, quantity in offers:
        size, shares = _size(resource, labels), _shares(resource, labels)
        if shares is None:
            unknown = 1
        elif size.slices == size.per_gpu:
            whole += quantity / shares
        else:
            # Two partitions of three slices fill a GPU of seven: what is left over takes no third one.
            parts, per_gpu = quantity / shares, size.per_gpu
            slices += parts * size.slices
            widest = max(widest, math.ceil(parts / (size.per_gpu // size.slices)))
    return max(math.ceil(whole) + max(math.ceil(slices / per_gpu), widest), unknown)


def _size(resource: GpuResource, labels: Mapping[str, str]) -> _Size:
    if resource.slices_per_gpu is None:
        return _Size(resource.slices, max(_mig_slices(labels), resource.slices))
    if resource.unit is not GpuUnit.PARTITION:
        return _partition_by_labels(resource.vendor, labels) or _Size(resource.slices, resource.slices_per_gpu)
    return _Size(resource.slices, resource.slices_per_gpu)


def _partition_by_labels(vendor: str, labels: Mapping[str, str]) -> _Size | None:
    """Return the one kind of partition that a node offers under the name of whole GPUs; None where it does not."""
    by_vendor: Mapping[str, Callable[[Mapping[str, str]], _Size | None]] = {"NVIDIA": _mig_of, "AMD": _amd_of}
    read = by_vendor.get(vendor)
    return read(labels) if read else None


def _mig_of(labels: Mapping[str, str]) -> _Size | None:
    product = _MIG_PRODUCT.search(labels.get(NVIDIA_GPU_PRODUCT, ""))
    profile = product or re.fullmatch(_MIG_PROFILE, labels.get(GKE_PARTITION, ""))
    if profile is None:
        return None
    slices = int(profile["c"] or profile["g"])
    return _Size(slices, max(_mig_slices(labels), slices))


def _amd_of(labels: Mapping[str, str]) -> _Size | None:
    mode = next((labels[key].partition("_")[0].lower() for key in AMD_PARTITION_KEYS if key in labels), "")
    parts = _AMD_PARTITIONS.get(mode, 1)
    return _Size(1, parts) if parts > 1 else None


def _mig_slices(labels: Mapping[str, str]) -> int:
    product = labels.get(NVIDIA_GPU_PRODUCT, "").upper()
    found = (
        count for model, count in _MIG_SLICES_OF.items() if re.search(rf"(?<![A-Z0-9]){model}(?![A-Z0-9])", product)
    )
    return next(found, MIG_SLICES)


def _shares(resource: GpuResource, labels: Mapping[str, str]) -> int | None:
    """Return into how many shares each unit is divided; None where it is and the number is unknown."""
    if resource.vendor != "NVIDIA":
        return 1
    # A partition has its own number of replicas, as `nvidia.com/mig-1g.5gb.replicas`.
    own = f"{resource.name.removesuffix('.shared')}.replicas"
    for key in (own, NVIDIA_GPU_REPLICAS, GKE_SHARES):
        text = labels.get(key, "")
        # GPU feature discovery writes 0 for a node without GPUs.
        if text.isascii() and text.isdigit() and int(text) > 0:
            return int(text)
    return None if resource.unit is GpuUnit.SHARE else 1
