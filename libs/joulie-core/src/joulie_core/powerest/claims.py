"""Number of GPUs in a pod's claims: dynamic resource allocation (DRA), where pods do not name extended resources.

A claim requests devices of device classes. Returns the most GPUs that a claim may be: of alternatives the largest, and
an unlisted class counts as a whole GPU for each device, as does a claim that cannot be found; both are returned to the
caller, which logs a warning. Selectors are not read, so a partition counts as a whole GPU. A claim that several pods
share counts for each of them. Source: KEP-4381, resource.k8s.io/v1; DRA drivers of NVIDIA, AMD and Intel.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: GPUs that one device counts as, by device class: those that the vendors' drivers install.
DEVICE_CLASS_GPUS: Final[Mapping[str, float]] = {
    "gpu.nvidia.com": 1.0,
    "mig.nvidia.com": 1.0,
    "vfio.gpu.nvidia.com": 1.0,
    # Channels between nodes of one NVLink domain; no compute power.
    "compute-domain-daemon.nvidia.com": 0.0,
    "compute-domain-default-channel.nvidia.com": 0.0,
    "gpu.amd.com": 1.0,
    "gpu.intel.com": 1.0,
    "tpu.google.com": 1.0,
}
#: What counts for a claim that is not found, and for each device of a class that is not named.
UNKNOWN_GPUS: Final = 1.0
#: Devices of a request for all that its node has: as many as GPU servers commonly hold, where there is no allocation.
ALL_DEVICES: Final = 8
#: Extended resources that the API server serves from devices of a class.
CLASS_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"


def class_of_resource(name: str, class_of: Mapping[str, str]) -> str | None:
    """Return the device class that serves an extended resource; None where none does.

    Args:
        name: of the extended resource.
        class_of: the device class by the name that it gives to its devices (`spec.extendedResourceName`).
    """
    if name.startswith(CLASS_RESOURCE):
        return name.removeprefix(CLASS_RESOURCE)
    return class_of.get(name)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices of one class."""

    device_class: str
    #: None: all that the node has.
    count: int | None = 1
    #: For administration beside the devices' users: it draws nothing more.
    admin: bool = False


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One request of a claim: one of the alternatives is allocated."""

    alternatives: tuple[DeviceRequest, ...]
    #: How many devices were allocated to it; None before the allocation.
    allocated: int | None = None


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """The requests of a ResourceClaim or its template."""

    requests: tuple[ClaimRequest, ...] = ()

    def gpus(self, classes: Mapping[str, float]) -> float:
        """Return the most GPUs that the claim may be; `classes` by name, as in `DEVICE_CLASS_GPUS`."""
        return sum(_most(request, classes) for request in self.requests)

    def unknown_classes(self, classes: Mapping[str, float]) -> frozenset[str]:
        """Return the device classes that are not named."""
        requested = {each.device_class for request in self.requests for each in request.alternatives if not each.admin}
        return frozenset(requested - classes.keys())


def _most(request: ClaimRequest, classes: Mapping[str, float]) -> float:
    return max((_gpus(each, request.allocated, classes) for each in request.alternatives), default=0.0)


def _gpus(request: DeviceRequest, allocated: int | None, classes: Mapping[str, float]) -> float:
    if request.admin:
        return 0.0
    count = request.count
    if count is None:
        count = ALL_DEVICES if allocated is None else allocated
    return count * classes.get(request.device_class, UNKNOWN_GPUS)
