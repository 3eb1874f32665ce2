"""The tree of pools: the machine, its sockets, dies, NUMA nodes and caches, as far as they differ from each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from joulie_core.containers.idset import Cpus, IdSet, MemoryNodes
from joulie_core.containers.memory import UNKNOWN_DISTANCE
from joulie_core.containers.topology import HardwareTopology, LogicalCpu, MemoryKind, MemoryNode


class PoolLevel(IntEnum):
    """Part of the machine that a pool is, the largest first."""

    SYSTEM = 0
    PACKAGE = 1
    DIE = 2
    NUMA = 3
    L3_CACHE = 4

    @property
    def title(self) -> str:
        """The beginning of the name of a pool."""
        return _TITLES[self]


_TITLES: Final[Mapping[PoolLevel, str]] = {
    PoolLevel.SYSTEM: "root",
    PoolLevel.PACKAGE: "socket",
    PoolLevel.DIE: "die",
    PoolLevel.NUMA: "NUMA node",
    PoolLevel.L3_CACHE: "L3 cache",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One part of the machine."""

    #: Position in the tree: children have lower ids than their parent, and the root has the highest.
    id: int
    name: str
    level: PoolLevel
    #: 0 for the root.
    depth: int
    #: The available CPUs, as a mask; not empty.
    cpus: int
    #: The NUMA nodes of its CPUs, with nodes without CPUs that are nearest to them.
    memory: MemoryNodes
    #: The same without high-bandwidth memory, unless there is no other.
    usual_memory: MemoryNodes
    children: tuple[int, ...]
    #: Itself, its parent, and so on up to the root.
    ancestors: tuple[int, ...]
    #: Itself and all below.
    subtree: tuple[int, ...]

    def memory_for(self, kinds: frozenset[MemoryKind]) -> MemoryNodes:
        """Return the nodes for a request of these kinds: high-bandwidth memory is small, and only for who names it."""
        return self.memory if kinds else self.usual_memory


class PoolTree:
    """The pools of a machine with a set of available CPUs.

    A level is left out where it would not divide the CPUs above it, and so are parts without an available CPU. Every
    two pools are either disjoint or one contains the other.
    """

    def __init__(self, topology: HardwareTopology, available: Cpus) -> None:
        """Build the tree; raises ValueError where no CPU is available."""
        machine = _divided(topology, available)
        pools: list[Pool] = []
        _number(machine, topology, _attached_nodes(topology), pools)
        #: Children before their parents.
        self.pools: tuple[Pool, ...] = _with_ancestors(pools, topology)
        self.root = self.pools[-1]
        self.by_name: Mapping[str, Pool] = {pool.name: pool for pool in self.pools}


class _Part(NamedTuple):
    level: PoolLevel
    label: str
    #: All online CPUs of it, and the available ones of them.
    online: Cpus
    available: Cpus
    parts: "list[_Part]"

    @property
    def name(self) -> str:
        return f"{self.level.title} #{self.label}" if self.label else self.level.title


_KEYS: Final[Mapping[PoolLevel, Callable[[LogicalCpu], tuple[int, ...]]]] = {
    PoolLevel.PACKAGE: lambda cpu: (cpu.package,),
    PoolLevel.DIE: lambda cpu: (cpu.package, cpu.die),
    PoolLevel.NUMA: lambda cpu: (cpu.node,),
    PoolLevel.L3_CACHE: lambda cpu: (cpu.l3,),
}


def _divided(topology: HardwareTopology, available: Cpus) -> _Part:
    usable = available & topology.online
    if not usable:
        raise ValueError("no CPU is available")
    levels = {level: _parts(topology, level, usable) for level in _KEYS}
    packages = levels[PoolLevel.PACKAGE]
    # A machine of one socket is that socket.
    root = packages[0] if len(packages) == 1 else _Part(PoolLevel.SYSTEM, "", topology.online, usable, [])
    _divide(root, levels)
    return root


def _parts(topology: HardwareTopology, level: PoolLevel, usable: Cpus) -> list[_Part]:
    found = []
    for label, cpus in sorted(topology.group(_KEYS[level]).items()):
        with_memory = any(topology.nodes[node].capacity_bytes > 0 for node in topology.nodes_of(cpus))
        if cpus & usable and (with_memory or level is not PoolLevel.NUMA):
            found.append(_Part(level, "/".join(map(str, label)), cpus, cpus & usable, []))
    return found


def _divide(whole: _Part, levels: Mapping[PoolLevel, Sequence[_Part]]) -> None:
    """Divide a part by the first level that has several parts within it, and so on below."""
    for level in PoolLevel:
        within = [part for part in levels.get(level, ()) if level > whole.level and part.online <= whole.online]
        if len(within) > 1:
            whole.parts.extend(within)
            for part in within:
                _divide(part, levels)
            return


def _attached_nodes(topology: HardwareTopology) -> Mapping[int, Sequence[int]]:
    """Return the nodes without CPUs by the nearest node of DRAM that has CPUs."""
    homes = [
        node for node in topology.nodes.values() if node.cpus and node.kind is MemoryKind.DRAM and node.capacity_bytes
    ]
    attached: dict[int, list[int]] = {}
    for node in topology.nodes.values():
        if homes and not node.cpus and node.capacity_bytes:
            home = min(homes, key=lambda other: (_distance(node, other), other.id))
            attached.setdefault(home.id, []).append(node.id)
    return attached


def _distance(one: MemoryNode, other: MemoryNode) -> int:
    """Return twice the distance: tables of firmware may be asymmetric."""
    return one.distances.get(other.id, UNKNOWN_DISTANCE) + other.distances.get(one.id, UNKNOWN_DISTANCE)


def _number(part: _Part, topology: HardwareTopology, attached: Mapping[int, Sequence[int]], pools: list[Pool]) -> int:
    """Append the pools below a part, then its own; return its id. Ancestors and depths are still missing."""
    children = tuple(_number(below, topology, attached, pools) for below in part.parts)
    # A node without an available CPU is left to others, together with its memory.
    nodes = [node for node in topology.nodes_of(part.available) if topology.nodes[node].capacity_bytes > 0]
    memory = IdSet([*nodes, *(below for node in nodes for below in attached.get(node, ()))])
    subtree = (*(each for child in children for each in pools[child].subtree), len(pools))
    pools.append(
        Pool(
            id=len(pools),
            name=part.name,
            level=part.level,
            depth=0,
            cpus=part.available.mask,
            memory=memory,
            usual_memory=memory,
            children=children,
            ancestors=(),
            subtree=subtree,
        )
    )
    return len(pools) - 1


def _with_ancestors(pools: Sequence[Pool], topology: HardwareTopology) -> tuple[Pool, ...]:
    existing = IdSet(node.id for node in topology.nodes.values() if node.capacity_bytes > 0)
    high_bandwidth = IdSet(node.id for node in topology.nodes.values() if node.kind is MemoryKind.HBM)
    finished: dict[int, Pool] = {}
    parents = {child: pool.id for pool in pools for child in pool.children}
    for pool in reversed(pools):
        above = finished[parents[pool.id]] if pool.id in parents else None
        # CPUs without memory of their own use that of the part around them, or any.
        memory = pool.memory or (above.memory if above else existing)
        finished[pool.id] = replace(
            pool,
            depth=above.depth + 1 if above else 0,
            ancestors=(pool.id, *(above.ancestors if above else ())),
            memory=memory,
            usual_memory=memory - high_bandwidth or memory,
        )
    return tuple(finished[number] for number in range(len(pools)))
