"""Pods and containers of the runtime's messages, as container policies see them."""

from dataclasses import dataclass, replace
from typing import Final

import structlog

from joulie_containers.nri.proto.nri_pb2 import (
    CONTAINER_CREATED,
    CONTAINER_PAUSED,
    CONTAINER_RUNNING,
    Container,
    LinuxResources,
    PodSandbox,
)
from joulie_containers.resources.hints import HintSource
from joulie_containers.resources.values import MOST_CPU_MILLI, ContainerValues
from joulie_core.containers.container import ContainerId, ContainerInfo, ContainerResources, PodInfo, PodSandboxId
from joulie_core.containers.estimates import (
    CgroupValues,
    ResourcesAnnotationError,
    annotated_resources,
    estimate,
    qos_of,
)
from joulie_core.containers.topology import HardwareTopology

#: Resources of all containers of a pod, as a webhook may write them; more exact than an estimate.
RESOURCES_ANNOTATION: Final = "noderesource.dev/resources"
#: States in which a container uses its CPUs, or is about to.
PRESENT: Final = frozenset({CONTAINER_CREATED, CONTAINER_PAUSED, CONTAINER_RUNNING})

_log = structlog.get_logger()


def pod_info(pod: PodSandbox) -> PodInfo:
    """Return a pod of a message."""
    return PodInfo(
        id=PodSandboxId(pod.id),
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        qos=qos_of(pod.linux.cgroup_parent),
        labels=dict(pod.labels),
        annotations=dict(pod.annotations),
    )


@dataclass(frozen=True, slots=True)
class KnownResources:
    """Resources of a container that are known besides what the runtime shows, which is what was set here."""

    #: Requests and limits before anything was set.
    resources: ContainerResources
    set_values: ContainerValues


class ContainerReader:
    """Reads containers of the runtime's messages, on one host.

    Args:
        hints: finds what is close to devices and mounts.
        memory_capacity_bytes: memory of the node; 0 where it is not known.
    """

    def __init__(self, hints: HintSource, memory_capacity_bytes: int) -> None:
        self._hints = hints
        self._memory_capacity_bytes = memory_capacity_bytes

    def use_host(self, hints: HintSource, memory_capacity_bytes: int) -> None:
        """Read containers on changed hardware from now on."""
        self._hints, self._memory_capacity_bytes = hints, memory_capacity_bytes

    def container(
        self, pod: PodInfo, container: Container, known: KnownResources | None, update: LinuxResources | None = None
    ) -> ContainerInfo:
        """Return a container of a message.

        Args:
            pod: Its pod.
            container: The container.
            known: What an earlier message has shown.
            update: Resources that it is about to get.
        """
        return ContainerInfo(
            id=ContainerId(container.id),
            pod=pod,
            name=container.name,
            created_ns=container.created_at,
            labels=dict(container.labels),
            resources=self._resources(pod, container, known, update),
            hints=self._hints.hints(container),
        )

    def _resources(
        self, pod: PodInfo, container: Container, known: KnownResources | None, update: LinuxResources | None
    ) -> ContainerResources:
        annotation = pod.annotations.get(RESOURCES_ANNOTATION)
        if annotation is not None:
            try:
                annotated = _annotated(annotation, container.name)
            except ResourcesAnnotationError as error:
                title = f"{pod.namespace}/{pod.name}/{container.name}"
                _log.warning("annotation ignored", key=RESOURCES_ANNOTATION, container=title, problem=str(error))
            else:
                if annotated is not None:
                    return annotated
        shown = LinuxResources()
        shown.CopyFrom(container.linux.resources)
        if update is not None:
            shown.MergeFrom(update)
        adjustment = container.linux.oom_score_adj.value if container.linux.HasField("oom_score_adj") else None
        estimated = estimate(_cgroup_values(shown, adjustment), pod.qos, self._memory_capacity_bytes)
        return estimated if known is None else _original_resources(estimated, shown, known, update)


def _annotated(annotation: str, container: str) -> ContainerResources | None:
    """Return what the annotation has for a container; None for nothing. Raise ResourcesAnnotationError."""
    found = annotated_resources(annotation, container)
    if found is not None and max(found.cpu_request_milli, found.cpu_limit_milli or 0) > MOST_CPU_MILLI:
        raise ResourcesAnnotationError(f"{container}: more than {MOST_CPU_MILLI}m CPU are more than any machine has")
    return found


def memory_bytes(topology: HardwareTopology) -> int:
    """Return the memory of a node."""
    return sum(node.capacity_bytes for node in topology.nodes.values())


def _cgroup_values(resources: LinuxResources, oom_score_adj: int | None) -> CgroupValues:
    cpu, memory = resources.cpu, resources.memory
    return CgroupValues(
        cpu_shares=cpu.shares.value if cpu.HasField("shares") else None,
        cpu_quota_us=cpu.quota.value if cpu.HasField("quota") else None,
        cpu_period_us=cpu.period.value if cpu.HasField("period") else None,
        memory_limit_bytes=memory.limit.value if memory.HasField("limit") else None,
        oom_score_adj=oom_score_adj,
    )


def _original_resources(
    resources: ContainerResources, shown: LinuxResources, known: KnownResources, update: LinuxResources | None
) -> ContainerResources:
    """Return requests and limits; those whose value was set here are taken from what was known before."""
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
