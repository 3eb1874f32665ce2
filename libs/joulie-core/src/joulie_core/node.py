"""The parts of a Kubernetes Node that Joulie reads.

A view made of values: the Kubernetes client decodes into it, every decision takes it. It keeps only what some decision
reads, so that 5,000 nodes stay small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joulie_core.names import NodeName


@dataclass(frozen=True, slots=True)
class Node:
    """One Kubernetes Node."""

    name: NodeName
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    #: Kubernetes quantities as they are written, by resource name.
    allocatable: Mapping[str, str] = field(default_factory=dict)
    #: The same before anything is set aside or taken out for being unhealthy; extended resources only.
    capacity: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    #: `status.nodeInfo.bootID`, of any length; empty: not known.
    boot_id: str = ""
    #: It has a taint that keeps pods away, beside those of sleeping nodes and of Kubernetes' node controller.
    tainted: bool = False
