"""TopologyAwarePolicy: configuration of the topology-aware policy."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from joulie_core.containers.container import QosClass
from joulie_core.containers.topology import CpuPriority
from joulie_core.kinds.base import NO_EFFECT, Kind
from joulie_core.kinds.container_policy import (
    ContainerPolicyResource,
    Interrupts,
    PlacementPolicySpec,
    policy_kind,
)
from joulie_core.kinds.cpu_class import ClassName


class BurstLevel(StrEnum):
    """Part of the machine that a Burstable container without a limit may spread over."""

    SYSTEM = "system"
    PACKAGE = "package"
    DIE = "die"
    NUMA = "numa"
    L2_CACHE = "l2cache"
    L3_CACHE = "l3cache"
    CORE = "core"
    THREAD = "thread"


class TopologyAwarePolicySpec(PlacementPolicySpec):
    """Options of the topology-aware policy."""

    pin_cpu: Annotated[bool, Field(alias="pinCPU")] = True
    """Whether containers are restricted to the CPUs that they are granted."""
    pin_memory: bool = True
    """Whether containers are restricted to the memory nodes that they are granted."""
    prefer_isolated_cpus: Annotated[bool, Field(alias="preferIsolatedCPUs")] = True
    """Whether a Guaranteed container of one to two CPUs gets a CPU that the kernel isolates, where there is one."""
    prefer_shared_cpus: Annotated[bool, Field(alias="preferSharedCPUs")] = False
    """Whether Guaranteed containers run on shared CPUs only."""
    colocate_pods: bool = False
    """Whether containers of a pod are placed close to each other."""
    colocate_namespaces: bool = False
    """Whether containers of a namespace are placed close to each other."""
    default_cpu_priority: Annotated[CpuPriority, Field(alias="defaultCPUPriority")] = CpuPriority.NONE
    """Priority of the CPUs that exclusive CPUs are taken from first."""
    unlimited_burstable: BurstLevel = BurstLevel.PACKAGE
    """Part of the machine for Burstable containers without a CPU limit."""
    shared_pool_cpu_class: Annotated[ClassName | None, Field(alias="sharedPoolCPUClass")] = None
    """CPU class of shared CPUs."""
    reserved_pool_cpu_class: Annotated[ClassName | None, Field(alias="reservedPoolCPUClass")] = None
    """CPU class of reserved CPUs."""
    default_exclusive_cpu_class: Annotated[ClassName | None, Field(alias="defaultExclusiveCPUClass")] = None
    """CPU class of exclusive CPUs of containers without an annotation about it."""
    namespace_scheduling_classes: Annotated[dict[str, ClassName], Field(max_length=64, default_factory=dict)]
    """Scheduling classes of containers without an annotation about it, by namespace."""
    pod_qos_scheduling_classes: Annotated[
        dict[str, ClassName], Field(max_length=3, default_factory=dict, alias="podQoSSchedulingClasses")
    ]
    """Scheduling classes of other containers, by the quality of service class of their pod."""
    controllable_interrupts: Annotated[Interrupts, NO_EFFECT] = ()
    """Accepted for compatibility; has no effect, since interrupts are moved for balloons only."""

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        cpu = self.classes_by_name
        scheduling = {each.name for each in self.scheduling_classes}
        problems = [
            *_undefined("sharedPoolCPUClass", self.shared_pool_cpu_class, "cpuClasses", cpu),
            *_undefined("reservedPoolCPUClass", self.reserved_pool_cpu_class, "cpuClasses", cpu),
            *_undefined(
                "defaultExclusiveCPUClass", self.default_exclusive_cpu_class, "cpuClasses", self.classes_by_name
            ),
        ]
        for namespace, name in self.namespace_scheduling_classes.items():
            problems += _undefined(f"namespaceSchedulingClasses.{namespace}", name, "schedulingClasses", scheduling)
        for qos, name in self.pod_qos_scheduling_classes.items():
            if qos not in QosClass.__members__.values():
                problems.append(f"podQoSSchedulingClasses: {qos!r} is not one of {', '.join(QosClass)}")
            problems += _undefined(f"podQoSSchedulingClasses.{qos}", name, "schedulingClasses", scheduling)
        if problems:
            raise ValueError("; ".join(problems))
        return self


class TopologyAwarePolicy(ContainerPolicyResource):
    """Configuration of the topology-aware policy: each container on the smallest part of the machine that suits it."""

    info: ClassVar[Kind] = policy_kind("TopologyAwarePolicy", "tap", TopologyAwarePolicySpec)

    spec: TopologyAwarePolicySpec


def _undefined(field: str, name: str | None, where: str, defined: Collection[str]) -> list[str]:
    if name is None or name in defined:
        return []
    known = f"; defined are {', '.join(sorted(defined))}" if defined else ""
    return [f"{field}: {name!r} is not defined in {where}{known}"]
