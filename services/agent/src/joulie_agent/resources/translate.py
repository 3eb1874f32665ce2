"""Pods and containers of the runtime's messages, as container policies see them."""

from dataclasses import dataclass, replace
from typing import Final

from joulie_agent.nri.proto.nri_pb2 import (
    CONTAINER_CREATED,
    CONTAINER_PAUSED,
    CONTAINER_RUNNING,
    Container,
    LinuxResources,
    PodSandbox,
)
from joulie_agent.resources.values import ContainerValues
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
    TopologyHint,
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


@dataclass(frozen=True, slots=True)
class KnownResources:
    """What is known of a container besides what the runtime shows, which is what was set here."""

    #: Requests and limits before anything was set.
    resources: ContainerResources
    set_values: ContainerValues


def container_info(
    pod: PodInfo,
    container: Container,
    known: KnownResources | None,
    update: LinuxResources | None = None,
    hints: tuple[TopologyHint, ...] = (),
) -> ContainerInfo:
    """Return a container of a message.

    Args:
        pod: Its pod.
        container: The container.
        known: What an earlier message has shown.
        update: Resources that it is about to get.
        hints: What is close to its devices and mounts.
    """
    resources = LinuxResources()
    resources.CopyFrom(container.linux.resources)
    if update is not None:
        resources.MergeFrom(update)
    return ContainerInfo(
        id=ContainerId(container.id),
        pod=pod,
        name=container.name,
        created_ns=container.created_at,
        labels=dict(container.labels),
        resources=_original_resources(pod.qos, resources, known, update),
        hints=hints,
    )


def _original_resources(
    qos: QosClass, shown: LinuxResources, known: KnownResources | None, update: LinuxResources | None
) -> ContainerResources:
    """Return requests and limits; those whose value was set here are taken from what was known before."""
    resources = resources_of(qos, shown)
    if known is None:
        return resources
    mine, cpu, memory = known.set_values, shown.cpu, shown.memory
    new = update or LinuxResources()
    if mine.cpu_shares is not None and cpu.shares.value == mine.cpu_shares and not new.cpu.HasField("shares"):
        resources = replace(resources, cpu_request_milli=known.resources.cpu_request_milli)
    if mine.cpu_quota_us is not None and cpu.quota.value == mine.cpu_quota_us and not new.cpu.HasField("quota"):
        resources = replace(resources, cpu_limit_milli=known.resources.cpu_limit_milli)
    limit_bytes = mine.memory_limit_bytes
    if limit_bytes is not None and memory.limit.value == limit_bytes and not new.memory.HasField("limit"):
        resources = replace(
            resources,
            memory_request_bytes=known.resources.memory_request_bytes,
            memory_limit_bytes=known.resources.memory_limit_bytes,
        )
    return resources


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
