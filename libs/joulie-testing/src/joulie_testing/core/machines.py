"""Topologies of invented machines, and a hypothesis strategy over them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import hypothesis.strategies as st

from joulie_core.containers.idset import EMPTY, Cpus, IdSet
from joulie_core.containers.topology import HardwareTopology, LogicalCpu, MemoryKind, MemoryNode

GIB: Final = 1 << 30
#: Relative distances as firmware reports them.
SAME_NODE, SAME_PACKAGE, OTHER_PACKAGE = 10, 12, 21
#: What a memory-only node adds to the distance of the node that it is attached to.
ATTACHED: Final = 7
#: Efficient cores share their L2 cache in fours.
EFFICIENT_CLUSTER: Final = 4


@dataclass(frozen=True, slots=True)
class AttachedMemory:
    """A NUMA node without CPUs."""

    kind: MemoryKind
    #: The node with CPUs that it is next to.
    near: int = 0
    capacity_bytes: int = 64 * GIB
    normal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineShape:
    """A machine in a few numbers."""

    packages: int = 1
    dies_per_package: int = 1
    nodes_per_die: int = 1
    #: Performance cores of each NUMA node.
    cores_per_node: int = 4
    threads_per_core: int = 1
    #: Efficient cores of each NUMA node; they have one thread.
    efficient_per_node: int = 0
    #: How many cores share a last-level cache; 0 for all of a NUMA node.
    cores_per_l3: int = 0
    memory_per_node_bytes: int = 32 * GIB
    attached: tuple[AttachedMemory, ...] = ()
    #: Number CPUs n, n + cores, ... on one core, instead of n, n + 1, ...
    siblings_apart: bool = True
    #: Number cores alternately on the packages.
    alternate_packages: bool = False
    #: The distance between neighbouring ids.
    id_step: int = 1
    #: Ids that are present and not online.
    offline: Cpus = EMPTY
    isolated: Cpus = EMPTY
    #: The first so many performance cores of each node have a base frequency of their own.
    fast_cores_per_node: int = 0
    base_khz: int | None = 2_000_000
    fast_base_khz: int = 2_600_000

    def topology(self) -> HardwareTopology:
        """Return the machine; raises ValueError where no CPU would be online."""
        threads = dict(self._threads())
        online = IdSet(threads) - self.offline
        if not online:
            raise ValueError("no CPU is online")
        lowest: dict[tuple[object, ...], int] = {}
        for number in online:
            for group in threads[number].groups(self):
                lowest.setdefault(group, number)
        hybrid = len({threads[number].efficient for number in online}) > 1
        cpus = {number: self._cpu(number, threads[number], lowest, hybrid=hybrid) for number in online}
        return HardwareTopology(
            cpus=cpus,
            nodes=self._nodes(cpus),
            isolated=self.isolated & online,
            offline=self.offline & IdSet(threads),
        )

    @property
    def nodes_with_cpus(self) -> int:
        """Number of NUMA nodes that have CPUs; they come first."""
        return self.packages * self.dies_per_package * self.nodes_per_die

    def package_of(self, node: int) -> int:
        """Return the package of a NUMA node with CPUs."""
        return node // (self.dies_per_package * self.nodes_per_die)

    def _cpu(
        self, number: int, thread: "_Thread", lowest: "dict[tuple[object, ...], int]", *, hybrid: bool
    ) -> LogicalCpu:
        core, l2, l3 = (lowest[group] for group in thread.groups(self))
        fast = not thread.efficient and thread.core < self.fast_cores_per_node
        return LogicalCpu(
            id=number,
            package=self.package_of(thread.node),
            die=thread.node // self.nodes_per_die % self.dies_per_package,
            node=thread.node,
            core=core,
            l2=l2,
            l3=l3,
            efficient=hybrid and thread.efficient,
            base_khz=self.fast_base_khz if fast and self.base_khz else self.base_khz,
        )

    def _threads(self) -> "Iterator[tuple[int, _Thread]]":
        """Return the threads by id."""
        cores = [
            (node, core)
            for node in range(self.nodes_with_cpus)
            for core in range(self.cores_per_node + self.efficient_per_node)
        ]
        if self.alternate_packages:
            per_package = len(cores) // self.packages
            cores = [
                cores[package * per_package + index] for index in range(per_package) for package in range(self.packages)
            ]
        threads = [
            _Thread(node, core, thread, core >= self.cores_per_node)
            for node, core in cores
            for thread in range(1 if core >= self.cores_per_node else self.threads_per_core)
        ]
        if self.siblings_apart:
            threads.sort(key=lambda thread: thread.thread)
        return ((index * self.id_step, thread) for index, thread in enumerate(threads))

    def _nodes(self, cpus: dict[int, LogicalCpu]) -> dict[int, MemoryNode]:
        total = self.nodes_with_cpus + len(self.attached)
        nodes = {
            node: MemoryNode(
                id=node,
                capacity_bytes=self.memory_per_node_bytes,
                cpus=IdSet(cpu.id for cpu in cpus.values() if cpu.node == node),
                distances={other: self._distance(node, other) for other in range(total)},
            )
            for node in range(self.nodes_with_cpus)
        }
        for node, memory in enumerate(self.attached, self.nodes_with_cpus):
            nodes[node] = MemoryNode(
                id=node,
                kind=memory.kind,
                capacity_bytes=memory.capacity_bytes,
                distances={other: self._distance(node, other) for other in range(total)},
                normal=memory.normal,
            )
        return nodes

    def _distance(self, one: int, other: int) -> int:
        if one == other:
            return SAME_NODE
        detour = sum(ATTACHED for node in (one, other) if node >= self.nodes_with_cpus)
        homes = [
            node if node < self.nodes_with_cpus else self.attached[node - self.nodes_with_cpus].near
            for node in (one, other)
        ]
        if homes[0] == homes[1]:
            return SAME_NODE + detour
        same = self.package_of(homes[0]) == self.package_of(homes[1])
        return (SAME_PACKAGE if same else OTHER_PACKAGE) + detour


class _Thread(NamedTuple):
    node: int
    #: Performance cores of a node come before its efficient cores.
    core: int
    thread: int
    efficient: bool

    def groups(self, shape: MachineShape) -> tuple[tuple[object, ...], ...]:
        """Return names for its core, L2 cache and last-level cache."""
        core = ("core", self.node, self.core)
        cluster = (self.core - shape.cores_per_node) // EFFICIENT_CLUSTER
        l2 = ("l2", self.node, "cluster", cluster) if self.efficient else ("l2", self.node, self.core)
        l3 = ("l3", self.node, self.core // shape.cores_per_l3 if shape.cores_per_l3 else 0)
        return core, l2, l3


#: Two packages of 64 cores with two threads each, in eight caches per package: a large server.
LARGE: Final = MachineShape(
    packages=2, cores_per_node=64, threads_per_core=2, cores_per_l3=8, memory_per_node_bytes=384 * GIB
)
#: Eight performance and eight efficient cores: a hybrid processor.
HYBRID: Final = MachineShape(cores_per_node=8, threads_per_core=2, efficient_per_node=8)
#: Two packages of two NUMA nodes, each with persistent memory attached.
TIERED: Final = MachineShape(
    packages=2,
    nodes_per_die=2,
    cores_per_node=7,
    threads_per_core=2,
    attached=tuple(AttachedMemory(MemoryKind.PMEM, near, 128 * GIB) for near in range(4)),
)


@st.composite
def shapes(draw: st.DrawFn, *, most_cores_per_node: int = 6) -> MachineShape:
    """Return shapes with at least one online CPU and normal memory, of up to some hundred CPUs.

    They include hybrid processors, one to four threads per core, offline and isolated CPUs, ids far above 1,024, and
    memory-only nodes.
    """
    cores = draw(st.integers(1, most_cores_per_node))
    efficient = draw(st.sampled_from((0, 0, 0, 1, 4, 6)))
    packages, dies, nodes = draw(st.integers(1, 3)), draw(st.sampled_from((1, 1, 2))), draw(st.sampled_from((1, 1, 2)))
    memory = draw(st.sampled_from((4, 16, 64))) * GIB
    shape = MachineShape(
        packages=packages,
        dies_per_package=dies,
        nodes_per_die=nodes,
        cores_per_node=cores,
        threads_per_core=draw(st.integers(1, 4)),
        efficient_per_node=efficient,
        cores_per_l3=draw(st.sampled_from((0, 1, 2, 4))),
        memory_per_node_bytes=memory,
        attached=tuple(draw(st.lists(_attached(packages * dies * nodes, memory), max_size=3))),
        siblings_apart=draw(st.booleans()),
        alternate_packages=draw(st.booleans()),
        id_step=draw(st.sampled_from((1, 1, 1, 3, 97))),
        fast_cores_per_node=draw(st.sampled_from((0, 0, 1, cores))),
        base_khz=draw(st.sampled_from((None, 2_000_000))),
    )
    present = list(shape.topology().online)
    offline = (
        IdSet(draw(st.lists(st.sampled_from(present), max_size=len(present) - 1, unique=True)))
        if draw(st.booleans())
        else EMPTY
    )
    isolated = IdSet(draw(st.lists(st.sampled_from(present), max_size=4)))
    return replace(shape, offline=offline, isolated=isolated)


def machines(*, most_cores_per_node: int = 6) -> st.SearchStrategy[HardwareTopology]:
    """Return the machines of `shapes`."""
    return shapes(most_cores_per_node=most_cores_per_node).map(MachineShape.topology)


def _attached(nodes: int, memory: int) -> st.SearchStrategy[AttachedMemory]:
    near = st.integers(0, nodes - 1)
    # High-bandwidth memory is smaller than the DRAM of a node.
    hbm = st.builds(AttachedMemory, st.just(MemoryKind.HBM), near, st.sampled_from((memory // 4, memory // 2)))
    pmem = st.builds(
        AttachedMemory, st.just(MemoryKind.PMEM), near, st.sampled_from((memory, 4 * memory)), st.booleans()
    )
    return st.one_of(hbm, pmem)
