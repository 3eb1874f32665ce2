"""Resources that a pod demands of a node, by Kubernetes' own rule.

Guarantees the effective request that kube-scheduler itself reserves: per resource the sum over containers and sidecars,
or the largest moment of the start-up phase if that is more, plus the pod's overhead. A container's limit stands in for
a request it does not make, as the API server defaults it. While a container is resized in place, the largest of what it
requests, what the kubelet has allocated and what is in force counts. CPU and memory that are requested for the pod as a
whole stand for those of its containers. A pod that requests no CPU still uses some, so it counts as a small fixed
share. GPUs, their partitions and their shares count as the part of a GPU that they are at most. Does not judge whether
the pod fits.
Source: docs/decisions/0013-conventions.md; KEP-753 for sidecars; KEP-1287 for resizes in place; KEP-2837 for the
resources of whole pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.pod import Container, Pod
from joulie_core.powerest.claims import CLASS_RESOURCE, UNKNOWN_GPUS, class_of_resource
from joulie_core.powerest.gpu_share import gpu_share
from joulie_core.quantity import parse_quantity

#: Cores that a pod without any CPU request is taken to use.
DEFAULT_CPU_CORES: Final[Mapping[WorkloadClass, Decimal]] = {
    WorkloadClass.STANDARD: Decimal("0.25"),
    WorkloadClass.PERFORMANCE: Decimal("0.5"),
}
_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class PodDemand:
    """Effective demand of one pod: CPU, GPUs of any vendor, bytes; and how hard it will drive them."""

    #: Kubernetes' unit of CPU, which is one hardware thread and not a physical core.
    cpu_cores: float
    #: A partition of a GPU is a fraction.
    gpus: float = 0.0
    memory_bytes: float = 0.0
    workload_class: WorkloadClass = WorkloadClass.STANDARD


def pod_demand(pod: Pod, workload_class: WorkloadClass, claimed_gpus: float = 0.0) -> PodDemand:
    """Return the demand of a pod; negative quantities, which Kubernetes refuses, count as none.

    Args:
        pod: the pod.
        workload_class: how it is to be treated.
        claimed_gpus: what the pod's claims are in GPUs, see `joulie_core.powerest.claims`.

    Raises:
        QuantityError: a quantity of CPU, memory or GPUs cannot be read.
    """
    overhead = _quantity(pod.overhead, "cpu")
    cpu = (_of_whole_pod(pod, "cpu") or DEFAULT_CPU_CORES[workload_class]) + overhead
    return PodDemand(float(cpu), float(_gpus(pod)) + claimed_gpus, float(requested(pod, "memory")), workload_class)


def requested(pod: Pod, resource: str) -> Decimal:
    """Return what kube-scheduler reserves of one resource for a pod, its overhead included; 0 where it requests none.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    return _of_whole_pod(pod, resource) + _quantity(pod.overhead, resource)


def gpu_resources(pod: Pod) -> tuple[str, ...]:
    """Return the extended resources of a pod that are GPUs, their partitions or their shares."""
    return tuple(name for name in dict.fromkeys(_resource_names(pod)) if gpu_share(name))


def other_extended_resources(pod: Pod) -> tuple[str, ...]:
    """Return the extended resources of a pod whose names do not show that they are GPUs; a device class may."""
    return tuple(name for name in dict.fromkeys(_resource_names(pod)) if "/" in name and _is_open(name))


def class_resource_gpus(pod: Pod, classes: Mapping[str, float], class_of: Mapping[str, str]) -> float:
    """Return the GPUs of a pod's extended resources that are served by device classes, beside those of `pod_demand`.

    Args:
        pod: the pod.
        classes: GPUs that a device counts as, by device class; a whole GPU in one that is not listed.
        class_of: the device class by the extended resource that it serves.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    total = _ZERO
    for name in other_extended_resources(pod):
        device_class = class_of_resource(name, class_of)
        if device_class is not None:
            gpus = Decimal(classes.get(device_class, UNKNOWN_GPUS))
            total += (gpus - gpu_share(name)) * _effective(pod, name)
    return float(total)


def _is_open(name: str) -> bool:
    # The API server's own name for a class counts by the well-known classes, unless the setting says otherwise.
    return name.startswith(CLASS_RESOURCE) or not gpu_share(name)


def _gpus(pod: Pod) -> Decimal:
    return sum((gpu_share(name) * _effective(pod, name) for name in gpu_resources(pod)), _ZERO)


def _resource_names(pod: Pod) -> Iterable[str]:
    for container in (*pod.containers, *pod.init_containers):
        yield from container.requests
        yield from container.limits


def _of_whole_pod(pod: Pod, resource: str) -> Decimal:
    """Return the pod's own request; without one that of its containers; without those its own limit."""
    if resource in pod.requests:
        return _quantity(pod.requests, resource)
    return _effective(pod, resource) or _quantity(pod.limits, resource)


def _effective(pod: Pod, resource: str) -> Decimal:
    """Sum over containers and sidecars, or the largest moment of the start-up phase if that is more."""
    running = sum((_request(container, resource) for container in pod.containers), _ZERO)
    sidecars = _ZERO
    starting = _ZERO
    # Init containers run one after another, each beside the sidecars that were started before it.
    for container in pod.init_containers:
        request = _request(container, resource)
        if container.sidecar:
            sidecars += request
            starting = max(starting, sidecars)
        else:
            starting = max(starting, sidecars + request)
    return max(running + sidecars, starting)


def _request(container: Container, resource: str) -> Decimal:
    source = container.requests if resource in container.requests else container.limits
    # What is being given up in place is in use until the kubelet has taken it: Kubernetes counts the largest as well.
    return max(_quantity(each, resource) for each in (source, *container.held))


def _quantity(quantities: Mapping[str, str], resource: str) -> Decimal:
    written = quantities.get(resource)
    return _ZERO if written is None else max(parse_quantity(written), _ZERO)
