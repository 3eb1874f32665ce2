"""CPUs, caches and memory of one node, as placement sees them. Values only; the agent reads them from the host."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from joulie_core.containers.idset import EMPTY, Cpus, IdSet, MemoryNodes

Key = TypeVar("Key", bound=Hashable)


class MemoryKind(StrEnum):
    """Type of the memory of a NUMA node."""

    DRAM = "DRAM"
    PMEM = "PMEM"
    HBM = "HBM"


class CpuPriority(StrEnum):
    """Priority of a CPU, by how fast it is beside others of its package; also what a container or balloon prefers."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    #: No preference; a CPU is never of this priority.
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalCpu:
    """One online CPU."""

    id: int
    package: int
    #: Unique within the package.
    die: int = 0
    #: Its NUMA node; 0 on a machine without NUMA nodes.
    node: int = 0
    #: The lowest CPU of its physical core.
    core: int
    #: The lowest CPU that shares its L2 cache; the core where the kernel shows no caches.
    l2: int
    #: The lowest CPU that shares its last-level cache; that of the package where the kernel shows no caches.
    l3: int
    #: A core of the efficient kind of a hybrid processor.
    efficient: bool = False
    #: Base frequency; None where not known.
    base_khz: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNode:
    """One NUMA node. A node without CPUs is memory only."""

    id: int
    kind: MemoryKind = MemoryKind.DRAM
    capacity_bytes: int
    #: CPUs of the node that are online.
    cpus: Cpus = EMPTY
    #: Relative distance to each node, 10 to itself.
    distances: Mapping[int, int]
    #: Whether the kernel may place its own data there; false where all memory of the node is movable.
    normal: bool = True


@dataclass(frozen=True, kw_only=True)
class HardwareTopology:
    """The online CPUs and the memory of a node."""

    cpus: Mapping[int, LogicalCpu]
    #: At least one: a machine without NUMA nodes is one node of all memory.
    nodes: Mapping[int, MemoryNode]
    #: CPUs that the kernel does not schedule on by itself (`isolcpus`).
    isolated: Cpus = EMPTY
    #: CPUs that are present and offline.
    offline: Cpus = EMPTY

    @cached_property
    def online(self) -> Cpus:
        """All online CPUs."""
        return IdSet(self.cpus)

    @cached_property
    def hybrid(self) -> bool:
        """Whether there are cores of two kinds."""
        return len({cpu.efficient for cpu in self.cpus.values()}) > 1

    @cached_property
    def packages(self) -> Mapping[int, Cpus]:
        """CPUs by package."""
        return self.group(lambda cpu: cpu.package)

    @cached_property
    def dies(self) -> Mapping[tuple[int, int], Cpus]:
        """CPUs by package and die."""
        return self.group(lambda cpu: (cpu.package, cpu.die))

    @cached_property
    def node_groups(self) -> Mapping[int, Cpus]:
        """CPUs by NUMA node; a node without CPUs is absent."""
        return self.group(lambda cpu: cpu.node)

    @cached_property
    def l3_groups(self) -> Mapping[int, Cpus]:
        """CPUs by the lowest CPU that shares their last-level cache."""
        return self.group(lambda cpu: cpu.l3)

    @cached_property
    def l2_groups(self) -> Mapping[int, Cpus]:
        """CPUs by the lowest CPU that shares their L2 cache."""
        return self.group(lambda cpu: cpu.l2)

    @cached_property
    def cores(self) -> Mapping[int, Cpus]:
        """CPUs by the lowest CPU of their physical core."""
        return self.group(lambda cpu: cpu.core)

    @cached_property
    def threads_per_core(self) -> int:
        """The largest number of online threads of a core."""
        return max(map(len, self.cores.values()), default=1)

    @cached_property
    def efficient(self) -> Cpus:
        """CPUs of the efficient kind of a hybrid machine."""
        return IdSet(cpu.id for cpu in self.cpus.values() if cpu.efficient) if self.hybrid else EMPTY

    @cached_property
    def priorities(self) -> Mapping[CpuPriority, Cpus]:
        """CPUs by priority: high, normal and low, of which two may be empty.

        In a package whose CPUs differ in their base frequency, the slowest are low and the others high. Efficient cores
        are low in any case and not compared with the others. Energy performance preferences do not count: CPU classes
        set them, so they follow from placements.
        """
        low = self.efficient
        high = EMPTY
        for package in self.packages.values():
            speeds = {cpu: khz for cpu in package - self.efficient if (khz := self.cpus[cpu].base_khz) is not None}
            slowest = IdSet(cpu for cpu, khz in speeds.items() if khz == min(speeds.values()))
            if len(slowest) < len(speeds):
                low |= slowest
                high |= IdSet(speeds) - slowest
        return {CpuPriority.HIGH: high, CpuPriority.NORMAL: self.online - high - low, CpuPriority.LOW: low}

    def nodes_of(self, cpus: Cpus) -> MemoryNodes:
        """Return the NUMA nodes that the CPUs are on."""
        return IdSet(node.id for node in self.nodes.values() if not node.cpus.isdisjoint(cpus))

    def group(self, key: Callable[[LogicalCpu], Key]) -> Mapping[Key, Cpus]:
        """Return the online CPUs by a key, in the order of the lowest CPU of each group."""
        groups: dict[Key, list[int]] = {}
        for number in sorted(self.cpus):
            groups.setdefault(key(self.cpus[number]), []).append(number)
        return {name: IdSet(members) for name, members in groups.items()}
