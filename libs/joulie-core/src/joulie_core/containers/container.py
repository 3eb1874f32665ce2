"""Pods and containers of one node, as a container policy sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

ContainerId = NewType("ContainerId", str)
PodSandboxId = NewType("PodSandboxId", str)


class QosClass(StrEnum):
    """Quality of service class of a pod."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInfo:
    """A pod sandbox."""

    id: PodSandboxId
    uid: str
    namespace: str
    name: str
    qos: QosClass
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """Requests and limits of a container. An absent limit is None, an absent request 0."""

    cpu_request_milli: int = 0
    cpu_limit_milli: int | None = None
    memory_request_bytes: int = 0
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyHint:
    """CPUs and memory nodes close to a device or a mount of a container."""

    #: What it is of: `mount:PATH`, `device:PATH` or `resource:NAME`.
    provider: str
    #: Lists of ids, empty where not known.
    cpus: str = ""
    nodes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInfo:
    """A container that is being created or runs."""

    id: ContainerId
    pod: PodInfo
    name: str
    #: Nanoseconds since the epoch; 0 where the runtime does not report it.
    created_ns: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: ContainerResources = ContainerResources()
    hints: tuple[TopologyHint, ...] = ()

    @property
    def qos(self) -> QosClass:
        """The class of its pod."""
        return self.pod.qos

    @property
    def title(self) -> str:
        """`namespace/pod/container`, for messages."""
        return f"{self.pod.namespace}/{self.pod.name}/{self.name}"
