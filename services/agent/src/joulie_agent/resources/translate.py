"""Pods and containers of the runtime's messages, as container policies see them."""

from typing import Final

from joulie_agent.nri.proto.nri_pb2 import (
    CONTAINER_CREATED,
    CONTAINER_PAUSED,
    CONTAINER_RUNNING,
    Container,
    LinuxResources,
    PodSandbox,
)
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)

#: States in which a container uses its CPUs, or is about to.
PRESENT: Final = frozenset({CONTAINER_CREATED, CONTAINER_PAUSED, CONTAINER_RUNNING})


def pod_info(pod: PodSandbox) -> PodInfo:
    """Return a pod of a message."""
    return PodInfo(
        id=PodSandboxId(pod.id),
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        qos=_qos(pod.linux.cgroup_parent),
        labels=dict(pod.labels),
        annotations=dict(pod.annotations),
    )


def _qos(cgroup_parent: str) -> QosClass:
    """Return the class that the kubelet's name of the parent cgroup has; it names no class for Guaranteed."""
    if "besteffort" in cgroup_parent:
        return QosClass.BEST_EFFORT
    return QosClass.BURSTABLE if "burstable" in cgroup_parent else QosClass.GUARANTEED


def container_info(pod: PodInfo, container: Container, resources: LinuxResources | None = None) -> ContainerInfo:
    """Return a container of a message.

    Args:
        pod: Its pod.
        container: The container.
        resources: What it is about to have; None is what the message has.
    """
    return ContainerInfo(
        id=ContainerId(container.id),
        pod=pod,
        name=container.name,
        created_ns=container.created_at,
        labels=dict(container.labels),
        resources=resources_of(pod.qos, container.linux.resources if resources is None else resources),
    )


def merged(before: LinuxResources, update: LinuxResources) -> LinuxResources:
    """Return resources after an update, which leaves what it does not have."""
    result = LinuxResources()
    result.CopyFrom(before)
    result.MergeFrom(update)
    return result


#: cgroup values for one CPU, and the lowest share, which the kubelet sets for a request of 0.
_SHARES_PER_CPU: Final = 1024
_LOWEST_SHARES: Final = 2
_DEFAULT_PERIOD_US: Final = 100_000


def resources_of(qos: QosClass, resources: LinuxResources) -> ContainerResources:
    """Return requests and limits from cgroup values, which are all that a runtime shows."""
    cpu, memory = resources.cpu, resources.memory
    shares = cpu.shares.value if cpu.shares.value > _LOWEST_SHARES else 0
    quota_us, period_us = cpu.quota.value, cpu.period.value or _DEFAULT_PERIOD_US
    limit_bytes = memory.limit.value if memory.limit.value > 0 else None
    return ContainerResources(
        cpu_request_milli=round(shares * 1000 / _SHARES_PER_CPU),
        cpu_limit_milli=round(quota_us * 1000 / period_us) if quota_us > 0 else None,
        memory_request_bytes=(limit_bytes or 0) if qos is QosClass.GUARANTEED else 0,
        memory_limit_bytes=limit_bytes,
    )
