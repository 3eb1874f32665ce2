"""Invented pods and containers."""

from collections.abc import Mapping, Sequence

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
