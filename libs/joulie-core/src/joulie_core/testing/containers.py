"""Invented pods and containers."""

from collections.abc import Mapping, Sequence
from typing import Final

from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
    TopologyHint,
)


def container(
    name: str,
    cpu_milli: int = 0,
    *,
    namespace: str = "default",
    pod: str | None = None,
    memory_bytes: int | None = None,
    qos: QosClass = QosClass.BURSTABLE,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    hints: Sequence[TopologyHint] = (),
    created_ns: int = 0,
) -> ContainerInfo:
    """Return a container with this id, in a pod of its own unless one is named.

    Args:
        name: Its id; in its pod it is named `main`.
        cpu_milli: CPU request.
        namespace: Namespace of the pod.
        pod: Id of the pod's sandbox.
        memory_bytes: Memory limit.
        qos: Class of the pod.
        labels: Of the pod.
        annotations: Of the pod.
        hints: Topology hints.
        created_ns: Time of its creation.
    """
    sandbox = pod or f"pod-{name}"
    return ContainerInfo(
        id=ContainerId(name),
        pod=PodInfo(
            id=PodSandboxId(sandbox),
            uid=f"uid-{sandbox}",
            namespace=namespace,
            name=sandbox,
            qos=qos,
            labels=labels or {},
            annotations=annotations or {},
        ),
        name="main",
        created_ns=created_ns,
        resources=ContainerResources(cpu_request_milli=cpu_milli, memory_limit_bytes=memory_bytes),
        hints=tuple(hints),
    )


MIB: Final = 1 << 20
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


def guaranteed(
    name: str,
    cpu_milli: int,
    memory_mib: int = 0,
    *,
    annotations: Mapping[str, str] = _NO_ANNOTATIONS,
    hints: tuple[TopologyHint, ...] = (),
    pod: str | None = None,
    namespace: str = "default",
    created_ns: int = 0,
) -> ContainerInfo:
    """Return a container of a Guaranteed pod: its limits are its requests."""
    resources = ContainerResources(
        cpu_request_milli=cpu_milli,
        cpu_limit_milli=cpu_milli,
        memory_request_bytes=memory_mib * MIB,
        memory_limit_bytes=memory_mib * MIB or None,
    )
    return ContainerInfo(
        id=ContainerId(name),
        pod=_pod(pod or name, namespace, QosClass.GUARANTEED, annotations),
        name="main",
        created_ns=created_ns,
        resources=resources,
        hints=hints,
    )


def burstable(
    name: str,
    cpu_milli: int,
    memory_mib: int = 0,
    *,
    cpu_limit_milli: int | None = None,
    memory_limit_mib: int | None = None,
    annotations: Mapping[str, str] = _NO_ANNOTATIONS,
    hints: tuple[TopologyHint, ...] = (),
    pod: str | None = None,
    namespace: str = "default",
    created_ns: int = 0,
) -> ContainerInfo:
    """Return a container of a Burstable pod; without a limit where none is given."""
    resources = ContainerResources(
        cpu_request_milli=cpu_milli,
        cpu_limit_milli=cpu_limit_milli,
        memory_request_bytes=memory_mib * MIB,
        memory_limit_bytes=None if memory_limit_mib is None else memory_limit_mib * MIB,
    )
    return ContainerInfo(
        id=ContainerId(name),
        pod=_pod(pod or name, namespace, QosClass.BURSTABLE, annotations),
        name="main",
        created_ns=created_ns,
        resources=resources,
        hints=hints,
    )


def best_effort(
    name: str,
    *,
    annotations: Mapping[str, str] = _NO_ANNOTATIONS,
    hints: tuple[TopologyHint, ...] = (),
    pod: str | None = None,
    namespace: str = "default",
    created_ns: int = 0,
) -> ContainerInfo:
    """Return a container of a BestEffort pod: it requests nothing."""
    return ContainerInfo(
        id=ContainerId(name),
        pod=_pod(pod or name, namespace, QosClass.BEST_EFFORT, annotations),
        name="main",
        created_ns=created_ns,
        hints=hints,
    )


def _pod(name: str, namespace: str, qos: QosClass, annotations: Mapping[str, str]) -> PodInfo:
    return PodInfo(
        id=PodSandboxId(f"sandbox-{name}"),
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        qos=qos,
        annotations=annotations,
    )
