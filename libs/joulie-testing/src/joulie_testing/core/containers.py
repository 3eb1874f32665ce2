"""Invented pods and containers."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict, Unpack

from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
    TopologyHint,
)

MIB: Final = 1 << 20


class _Options(TypedDict, total=False):
    """Options that every container may have.

    Its id is its name here; in its pod it is named `main`, and the pod is named like it unless one is named.
    """

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    hints: Sequence[TopologyHint]
    pod: str
    namespace: str
    created_ns: int


def container(
    name: str,
    cpu_milli: int = 0,
    *,
    memory_bytes: int | None = None,
    qos: QosClass = QosClass.BURSTABLE,
    **options: Unpack[_Options],
) -> ContainerInfo:
    """Return a container with a CPU request and a memory limit, whatever is usual for its class."""
    resources = ContainerResources(cpu_request_milli=cpu_milli, memory_limit_bytes=memory_bytes)
    return _container(name, qos, resources, options)


def guaranteed(name: str, cpu_milli: int, memory_mib: int = 0, **options: Unpack[_Options]) -> ContainerInfo:
    """Return a container of a Guaranteed pod: its limits are its requests."""
    resources = ContainerResources(
        cpu_request_milli=cpu_milli,
        cpu_limit_milli=cpu_milli,
        memory_request_bytes=memory_mib * MIB,
        memory_limit_bytes=memory_mib * MIB or None,
    )
    return _container(name, QosClass.GUARANTEED, resources, options)


def burstable(
    name: str,
    cpu_milli: int,
    memory_mib: int = 0,
    *,
    cpu_limit_milli: int | None = None,
    memory_limit_mib: int | None = None,
    **options: Unpack[_Options],
) -> ContainerInfo:
    """Return a container of a Burstable pod; without a limit where none is given."""
    resources = ContainerResources(
        cpu_request_milli=cpu_milli,
        cpu_limit_milli=cpu_limit_milli,
        memory_request_bytes=memory_mib * MIB,
        memory_limit_bytes=None if memory_limit_mib is None else memory_limit_mib * MIB,
    )
    return _container(name, QosClass.BURSTABLE, resources, options)


def best_effort(name: str, **options: Unpack[_Options]) -> ContainerInfo:
    """Return a container of a BestEffort pod: it requests nothing."""
    return _container(name, QosClass.BEST_EFFORT, ContainerResources(), options)


def _container(name: str, qos: QosClass, resources: ContainerResources, options: _Options) -> ContainerInfo:
    pod = options.get("pod", name)
    return ContainerInfo(
        id=ContainerId(name),
        pod=PodInfo(
            id=PodSandboxId(f"sandbox-{pod}"),
            uid=f"uid-{pod}",
            namespace=options.get("namespace", "default"),
            name=pod,
            qos=qos,
            labels=options.get("labels", {}),
            annotations=options.get("annotations", {}),
        ),
        name="main",
        created_ns=options.get("created_ns", 0),
        resources=resources,
        hints=tuple(options.get("hints", ())),
    )
