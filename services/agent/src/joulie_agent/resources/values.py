"""What is set for a container in its cgroup, as values and as the messages of the runtime."""

from dataclasses import dataclass, fields
from typing import Final

from joulie_agent.nri.proto.nri_pb2 import ContainerUpdate, LinuxResources
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import Cpus, IdSet, MemoryNodes

#: Period of a CPU quota that is set here, the kernel's default.
PERIOD_US: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerValues:
    """Values of one container; None is not set here, or not known."""

    cpus: Cpus | None = None
    memory: MemoryNodes | None = None
    #: In the scale of `cpu.shares`, 2 to 262144.
    cpu_shares: int | None = None
    #: CPU time per `PERIOD_US`; -1 is no limit.
    cpu_quota_us: int | None = None
    memory_limit_bytes: int | None = None

    def fulfilled_by(self, other: "ContainerValues") -> bool:
        """Return whether all that is set here is equal there."""
        return all((value := getattr(self, name)) is None or value == getattr(other, name) for name in _NAMES)

    def over(self, other: "ContainerValues") -> "ContainerValues":
        """Return what is set here, and for the rest what is set there."""
        merged = {
            name: value if (value := getattr(self, name)) is not None else getattr(other, name) for name in _NAMES
        }
        return ContainerValues(**merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationClasses:
    """Classes that a container was created with, which stay as long as it runs; None is none."""

    rdt: str | None = None
    blockio: str | None = None


NO_CLASSES: Final = CreationClasses()
UNSET: Final = ContainerValues()
_NAMES: Final = tuple(field.name for field in fields(ContainerValues))


def to_resources(values: ContainerValues) -> LinuxResources:
    """Return the message that sets the values and leaves everything else."""
    resources = LinuxResources()
    if values.cpus is not None:
        resources.cpu.cpus = str(values.cpus)
    if values.memory is not None:
        resources.cpu.mems = str(values.memory)
    if values.cpu_shares is not None:
        resources.cpu.shares.value = values.cpu_shares
    if values.cpu_quota_us is not None:
        resources.cpu.quota.value = values.cpu_quota_us
        resources.cpu.period.value = PERIOD_US
    if values.memory_limit_bytes is not None:
        resources.memory.limit.value = values.memory_limit_bytes
    return resources


def to_update(container: ContainerId, values: ContainerValues, *, must_succeed: bool) -> ContainerUpdate:
    """Return the message that updates a container."""
    update = ContainerUpdate(container_id=container, ignore_failure=not must_succeed)
    update.linux.resources.CopyFrom(to_resources(values))
    return update


def read_values(resources: LinuxResources) -> ContainerValues:
    """Return what a message of the runtime sets.

    Raises:
        InvalidIdListError: A list of CPUs or memory nodes is malformed.
    """
    cpu, memory = resources.cpu, resources.memory
    quota_us = None
    if cpu.HasField("quota"):
        period_us = cpu.period.value or PERIOD_US
        quota_us = cpu.quota.value if cpu.quota.value <= 0 else cpu.quota.value * PERIOD_US // period_us
    return ContainerValues(
        cpus=IdSet.parse(cpu.cpus) if cpu.cpus else None,
        memory=IdSet.parse(cpu.mems) if cpu.mems else None,
        cpu_shares=cpu.shares.value if cpu.HasField("shares") else None,
        cpu_quota_us=quota_us,
        memory_limit_bytes=memory.limit.value if memory.HasField("limit") else None,
    )
