"""Reading the topology of the host: CPUs, caches, NUMA nodes and memory.

Nothing here fails: what a host does not show is unknown, or assumed where placement needs a value, and every assumption
is stated. A host that shows nothing is one package and one NUMA node.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_actuator.hardware.cpufreq import read_base_khz
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.hardware.topology import CPU_ROOT, read_topology
from joulie_core.containers.idset import EMPTY, Cpus, IdSet, InvalidIdListError
from joulie_core.containers.topology import HardwareTopology, LogicalCpu, MemoryKind, MemoryNode
from joulie_core.control.throttle_plan import CpuCore

NODE_ROOT: Final = "devices/system/node"
_NODE: Final = re.compile(r"node\d+")
_INDEX: Final = re.compile(r"index\d+")
_MEM_TOTAL: Final = re.compile(r"(?:Node +\d+ +)?MemTotal: +(\d{1,15}) kB")
_BYTES_PER_KB: Final = 1024
#: Relative distances that firmware without a table stands for.
_LOCAL, _REMOTE = 10, 20
_L2: Final = 2


@dataclass(frozen=True, slots=True)
class HostReading:
    """The topology of a host, and what in it is not what the host shows."""

    topology: HardwareTopology
    #: For the log, such as `node 1 shows no memory size: ...`.
    assumptions: tuple[str, ...] = ()


def read_host_topology(sys: SysfsTree, proc: SysfsTree) -> HostReading:
    """Read the topology of a host from its `/sys` and `/proc`."""
    return _Reader(sys, proc).read()


class _Reader:
    def __init__(self, tree: SysfsTree, proc: SysfsTree) -> None:
        self._tree = tree
        self._proc = proc
        self._assumptions: list[str] = []

    def read(self) -> HostReading:
        found = read_topology(self._tree)
        places = dict(found.core_of) or self._assumed_places()
        online = IdSet(places)
        unplaced = self._list(f"{CPU_ROOT}/online") - online
        if unplaced:
            self._assume(f"CPUs {unplaced} show no package: they are not used")
        nodes = self._nodes(online)
        node_of = {cpu: node.id for node in nodes.values() for cpu in node.cpus}
        core_of = {cpu: _core(cpu, places) for cpu in places}
        packages: dict[int, int] = {}
        for cpu in online:
            packages.setdefault(places[cpu].package, cpu)
        l2, l3 = self._caches(online)
        cpus = {
            cpu: LogicalCpu(
                id=cpu,
                package=place.package,
                die=place.die,
                node=node_of[cpu],
                core=core_of[cpu],
                l2=l2.get(cpu, core_of[cpu]),
                l3=l3.get(cpu, packages[place.package]),
                efficient=found.hybrid and place.kind == "cpu_atom",
                base_khz=read_base_khz(self._tree, f"{CPU_ROOT}/cpu{cpu}/cpufreq", cpu),
            )
            for cpu, place in places.items()
        }
        if len(l3) < len(cpus):
            self._assume(f"CPUs {online - IdSet(l3)} show no cache that cores share: the package shares one")
        topology = HardwareTopology(
            cpus=cpus, nodes=nodes, isolated=self._list(f"{CPU_ROOT}/isolated") & online, offline=IdSet(found.offline)
        )
        return HostReading(topology, tuple(self._assumptions))

    def _assume(self, message: str) -> None:
        self._assumptions.append(message)

    # --- CPUs ---

    def _assumed_places(self) -> dict[int, CpuCore]:
        """Return the place of each CPU where the host shows none: one package of cores with one thread."""
        online = self._list(f"{CPU_ROOT}/online") or IdSet([0])
        self._assume(f"no CPU shows its package: CPUs {online} are cores of one package")
        return {cpu: CpuCore(0, 0, cpu, "") for cpu in online}

    def _caches(self, online: Cpus) -> tuple[dict[int, int], dict[int, int]]:
        """Return the lowest CPU with the same L2 cache and last-level cache; CPUs that show none are absent."""
        l2: dict[int, int] = {}
        last: dict[int, int] = {}
        for cpu in online:
            if cpu in l2 and cpu in last:
                continue
            levels = self._shared_caches(cpu, online)
            if cpu not in l2:
                # Without caches the kernel may still know which cores are a cluster, which on x86 is the L2 cache.
                cluster = f"{CPU_ROOT}/cpu{cpu}/topology/cluster_cpus_list"
                sharers = levels.get(_L2) or self._sharers(cluster, cpu, online)
                l2 |= dict.fromkeys(sharers - IdSet(l2), cpu)
            if cpu not in last and levels:
                last |= dict.fromkeys(levels[max(levels)] - IdSet(last), cpu)
        return l2, last

    def _shared_caches(self, cpu: int, online: Cpus) -> dict[int, Cpus]:
        """Return the CPUs with the same cache by level, from L2."""
        levels: dict[int, Cpus] = {}
        directory = f"{CPU_ROOT}/cpu{cpu}/cache"
        for index in self._tree.names(directory, _INDEX):
            level = self._tree.read_known(f"{directory}/{index}/level")
            sharers = self._sharers(f"{directory}/{index}/shared_cpu_list", cpu, online)
            if level is not None and level >= _L2 and sharers:
                levels[level] = sharers
        return levels

    def _sharers(self, path: str, cpu: int, online: Cpus) -> Cpus:
        """Return the online CPUs that share something with a CPU; empty where the list does not have the CPU itself."""
        sharers = self._list(path) & online
        return sharers if cpu in sharers else EMPTY

    # --- memory ---

    def _nodes(self, online: Cpus) -> dict[int, MemoryNode]:
        """Return the NUMA nodes; every online CPU is on exactly one."""
        ids = [int(name.removeprefix("node")) for name in self._tree.names(NODE_ROOT, _NODE)]
        shown = self._list(f"{NODE_ROOT}/online")
        ids = [node for node in ids if node in shown] if shown else ids
        if not ids:
            self._assume("no NUMA nodes are shown: all CPUs and all memory are on one")
            return {0: MemoryNode(id=0, capacity_bytes=self._total(), cpus=online, distances={0: _LOCAL})}
        cpus = self._node_cpus(ids, online)
        capacities = self._capacities(ids)
        distances = self._distances(ids)
        ids = [node for node in ids if cpus[node] or capacities[node]]
        normal = self._list(f"{NODE_ROOT}/has_normal_memory") or IdSet(ids)
        kinds = _kinds(cpus, capacities)
        return {
            node: MemoryNode(
                id=node,
                kind=kinds[node],
                capacity_bytes=capacities[node],
                cpus=cpus[node],
                distances={other: distances[node][other] for other in ids},
                normal=node in normal,
            )
            for node in ids
        }

    def _node_cpus(self, ids: list[int], online: Cpus) -> dict[int, Cpus]:
        cpus: dict[int, Cpus] = {}
        rest = online
        for node in ids:
            cpus[node] = self._list(f"{NODE_ROOT}/node{node}/cpulist") & rest
            rest -= cpus[node]
        if rest:
            self._assume(f"CPUs {rest} are on no NUMA node: they are on node {ids[0]}")
            cpus[ids[0]] |= rest
        return cpus

    def _capacities(self, ids: list[int]) -> dict[int, int]:
        known = {node: size for node in ids if (size := self._node_bytes(node)) is not None}
        unknown = [node for node in ids if node not in known]
        if unknown:
            share = max(0, self._total() - sum(known.values())) // len(unknown)
            self._assume(f"nodes {IdSet(unknown)} show no memory size: {share} bytes each, the rest of the machine's")
            known |= dict.fromkeys(unknown, share)
        return known

    def _node_bytes(self, node: int) -> int | None:
        return _bytes(self._tree.read_text(f"{NODE_ROOT}/node{node}/meminfo"))

    def _total(self) -> int:
        # The total is the first line of the file.
        total = _bytes(self._proc.read_text("meminfo"))
        if total is None:
            self._assume("the memory of the machine is not shown: none")
        return total or 0

    def _distances(self, ids: list[int]) -> dict[int, dict[int, int]]:
        """Return the distances between nodes, the same in both directions."""
        rows = {node: self._row(node, ids) for node in ids}
        return {one: {other: (rows[one][other] + rows[other][one] + 1) // 2 for other in ids} for one in ids}

    def _row(self, node: int, ids: list[int]) -> dict[int, int]:
        text = self._tree.read_text(f"{NODE_ROOT}/node{node}/distance")
        words = [] if isinstance(text, HardwareFailure) else text.split()
        if len(words) == len(ids) and all(word.isascii() and word.isdigit() for word in words):
            return dict(zip(ids, map(int, words), strict=True))
        self._assume(f"node {node} shows no distances: all other nodes are equally far")
        return {other: _LOCAL if other == node else _REMOTE for other in ids}

    def _list(self, path: str) -> IdSet:
        """Return a list of ids; empty where it is absent or malformed."""
        text = self._tree.read_text(path)
        if isinstance(text, HardwareFailure):
            return EMPTY
        try:
            return IdSet.parse(text)
        except InvalidIdListError as error:
            self._assume(f"{path} is ignored: {error}")
            return EMPTY


def _bytes(line: str | HardwareFailure) -> int | None:
    """Return the size in the first line of a meminfo."""
    match = None if isinstance(line, HardwareFailure) else _MEM_TOTAL.fullmatch(line)
    return int(match[1]) * _BYTES_PER_KB if match else None


def _core(cpu: int, places: Mapping[int, CpuCore]) -> int:
    """Return the lowest CPU of the core of a CPU: itself where the two CPUs do not show the same core."""
    core = places[cpu].core
    return core if places.get(core) == places[cpu] else cpu


def _kinds(cpus: Mapping[int, Cpus], capacities: Mapping[int, int]) -> dict[int, MemoryKind]:
    """Return the type of memory by node: of nodes without CPUs, the smaller ones have high-bandwidth memory."""
    dram = [capacities[node] for node in cpus if cpus[node] and capacities[node]]
    mean = sum(dram) / len(dram) if dram else 0
    return {
        node: MemoryKind.DRAM if cpus[node] else MemoryKind.HBM if capacities[node] < mean else MemoryKind.PMEM
        for node in cpus
    }
