"""Cgroup settings of a container, as values and as the messages of the runtime."""

from dataclasses import dataclass
from typing import Final

from joulie_containers.nri.proto.nri_pb2 import LinuxResources
from joulie_core.containers.idset import Cpus, IdSet, MemoryNodes

#: Most CPUs of one container, in thousandths; no machine has as many. A quota of them is one that the kernel takes, and
#: their sum over all containers of a node fits into 64 bits.
MOST_CPU_MILLI: Final = 1 << 36
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
        return self is other or (
            (self.cpus is None or self.cpus == other.cpus)
            and (self.memory is None or self.memory == other.memory)
            and (self.cpu_shares is None or self.cpu_shares == other.cpu_shares)
            and (self.cpu_quota_us is None or self.cpu_quota_us == other.cpu_quota_us)
            and (self.memory_limit_bytes is None or self.memory_limit_bytes == other.memory_limit_bytes)
        )

    def over(self, other: "ContainerValues") -> "ContainerValues":
        """Return what is set here, and for the rest what is set there."""
        if (
            (other.cpus is None or self.cpus is not None)
            and (other.memory is None or self.memory is not None)
            and (other.cpu_shares is None or self.cpu_shares is not None)
            and (other.cpu_quota_us is None or self.cpu_quota_us is not None)
            and (other.memory_limit_bytes is None or self.memory_limit_bytes is not None)
        ):
            return self  # hundreds of containers share it
        return ContainerValues(
            cpus=other.cpus if self.cpus is None else self.cpus,
            memory=other.memory if self.memory is None else self.memory,
            cpu_shares=other.cpu_shares if self.cpu_shares is None else self.cpu_shares,
            cpu_quota_us=other.cpu_quota_us if self.cpu_quota_us is None else self.cpu_quota_us,
            memory_limit_bytes=other.memory_limit_bytes if self.memory_limit_bytes is None else self.memory_limit_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationClasses:
    """Classes that a container was created with, which stay as long as it runs; None is none."""

    rdt: str | None = None
    blockio: str | None = None


NO_CLASSES: Final = CreationClasses()
UNSET: Final = ContainerValues()


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
