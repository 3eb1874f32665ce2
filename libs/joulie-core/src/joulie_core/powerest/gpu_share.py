"""Share of a GPU that a pod's extended resources are, and number of units in which a node offers its GPUs.

A pod's request is read without a node, since one demand is scored against every node. So a resource counts as the most
of a GPU that it may be: a partition by the compute slices in its name, a share of a GPU as all of it, and a resource
that is a GPU by its name and has no size there as a whole GPU. A node that offers its GPUs in shares, or in
partitions under the name of whole GPUs, is known by its labels; then each unit there costs its part of the watts, and a
node of which all is requested costs its maximum, not several times that. Source: joulie_core.hardware.gpu_resources;
NVIDIA MIG user guide, supported profiles.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final

from joulie_core.hardware.gpu_resources import MIG_SLICES, GpuResource, GpuUnit, gpu_resource, gpus_per_unit
from joulie_core.node import Node
from joulie_core.powerest.claims import CLASS_RESOURCE, DEVICE_CLASS_GPUS, UNKNOWN_GPUS

_NOTHING: Final = Decimal(0)
_WHOLE: Final = Decimal(1)
#: Named like partitions of a GPU, whatever follows.
_LIKE_PARTITIONS: Final = re.compile(r"nvidia\.com/mig-.+|amd\.com/[a-z]px_nps\d+")
_MIG_MEMORY: Final = re.compile(r"nvidia\.com/mig-(?:[1-9]c\.)?(?P<profile>[1-9]g\.\d+gb).*")
#: Profiles of GPUs with four compute slices instead of seven: A30 (24 GB) and RTX PRO 6000 (96 GB). A profile that
#: GPUs of either kind have counts as the larger part.
_FOUR_SLICES: Final = 4
_OF_FOUR: Final = frozenset({"1g.6gb", "2g.12gb", "4g.24gb", "1g.24gb", "2g.48gb", "4g.96gb"})


@lru_cache(maxsize=1024)
def gpu_share(name: str) -> Decimal:
    """Return the most of a GPU that one unit of an extended resource may be; 0 for one that is no GPU."""
    resource = gpu_resource(name)
    if name.startswith(CLASS_RESOURCE):
        return Decimal(DEVICE_CLASS_GPUS.get(name.removeprefix(CLASS_RESOURCE), UNKNOWN_GPUS))
    if resource is None:
        return _WHOLE if _LIKE_PARTITIONS.fullmatch(name) else _NOTHING
    if resource.slices_per_gpu is not None:
        # The size of a share is known from its node only.
        return Decimal(resource.slices) / resource.slices_per_gpu if resource.unit is GpuUnit.PARTITION else _WHOLE
    memory = _MIG_MEMORY.fullmatch(name)
    per_gpu = _FOUR_SLICES if memory and memory["profile"] in _OF_FOUR else MIG_SLICES
    return min(_WHOLE, Decimal(resource.slices) / per_gpu)


def units_per_gpu(node: Node | None, vendor: str) -> float:
    """Return into how many units of `gpu_share` a node divides each GPU beyond the resource's name.

    1 for a node that offers whole GPUs, that does not say, or that offers partitions by their own names as well: a
    unit must not become cheaper than it is.
    """
    if node is None or any(_is_partition(name) for name in node.allocatable):
        return 1.0
    whole = GpuResource(_DEVICE_OF.get(vendor, ""), vendor, GpuUnit.DEVICE)
    share = gpus_per_unit(whole, node.labels)
    return max(1.0, 1 / share) if share else 1.0


_DEVICE_OF: Final[Mapping[str, str]] = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}


def _is_partition(name: str) -> bool:
    resource = gpu_resource(name)
    return resource is not None and (resource.unit is GpuUnit.PARTITION or resource.slices_per_gpu is None)
