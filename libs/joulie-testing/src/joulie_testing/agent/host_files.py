"""The files of /sys and /proc that show a topology, as a kernel lays them out: the inverse of reading them.

Layout, names and modes are those of the kernel. Every CPU has a frequency policy of its own. The files are put into a
directory, or kept in memory where a test builds many machines.
"""

import errno
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_actuator.hardware.sysfs import SysfsTree, read_only
from joulie_core.containers.idset import Cpus, IdSet
from joulie_core.containers.topology import HardwareTopology, LogicalCpu, MemoryNode

CPU_ROOT: Final = "sys/devices/system/cpu"
NODE_ROOT: Final = "sys/devices/system/node"
IDLE_STATES: Final = ("POLL", "C1", "C6")
_PREFERENCES: Final = ("default", "performance", "balance_performance", "balance_power", "power")
_READ_ONLY: Final = 0o444
_WRITABLE: Final = 0o644
_LOWEST_KHZ: Final = 800_000
_HIGHEST_KHZ: Final = 3_500_000
_MEMORY_ROOT: Final = "/host"


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file below the root of a host."""

    path: str
    text: str
    mode: int = _READ_ONLY


def host_files(topology: HardwareTopology, idle_states: Sequence[str] = IDLE_STATES) -> Iterator[HostFile]:
    """Return the files of a machine."""
    yield from _cpu_files(topology, idle_states)
    yield from _cache_files(topology)
    yield from _node_files(topology.nodes)


def host_links(topology: HardwareTopology) -> Mapping[str, str]:
    """Return the targets of symbolic links of a machine, from the directory that each is in."""
    return {f"{CPU_ROOT}/cpu{cpu.id}/cpufreq": f"../cpufreq/policy{cpu.id}" for cpu in topology.cpus.values()}


def put_host(root: Path, topology: HardwareTopology, *, idle_states: Sequence[str] = IDLE_STATES) -> None:
    """Write `sys` and `proc` of a machine into a directory that has neither."""
    directories: set[Path] = set()
    for each in host_files(topology, idle_states):
        file = root / each.path
        if file.parent not in directories:
            file.parent.mkdir(parents=True, exist_ok=True)
            directories.add(file.parent)
        file.write_text(each.text, encoding="ascii")
        file.chmod(each.mode)
    for path, target in host_links(topology).items():
        (root / path).symlink_to(target)


def host_in_memory(topology: HardwareTopology) -> tuple[SysfsTree, SysfsTree]:
    """Return `sys` and `proc` of a machine that can be read and not written, without files."""
    calls = _FilesInMemory(topology)
    return SysfsTree(f"{_MEMORY_ROOT}/sys", calls), SysfsTree(f"{_MEMORY_ROOT}/proc", calls)


class _FilesInMemory:
    """A `FileCalls` of read-only files."""

    def __init__(self, topology: HardwareTopology) -> None:
        self._contents = {f"{_MEMORY_ROOT}/{each.path}": each.text.encode() for each in host_files(topology, ())}
        self._links = {
            f"{_MEMORY_ROOT}/{path}/": f"{_MEMORY_ROOT}/{CPU_ROOT}/{target.removeprefix('../')}/"
            for path, target in host_links(topology).items()
        }
        self._entries: dict[str, set[str]] = defaultdict(set)
        for path in self._contents:
            directory, _, name = path.rpartition("/")
            while directory and name not in self._entries[directory]:
                self._entries[directory].add(name)
                directory, _, name = directory.rpartition("/")

    def read(self, path: str) -> bytes:
        try:
            return self._contents[self.real(path)]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file") from None

    def write(self, path: str, content: bytes) -> None:
        del path, content
        raise read_only()

    def check_writable(self, path: str) -> None:
        del path
        raise read_only()

    def entries(self, path: str) -> list[str]:
        return list(self._entries.get(self.real(path), ()))

    def real(self, path: str) -> str:
        for link, target in self._links.items():
            if path.startswith(link):
                return target + path.removeprefix(link)
        return path


def _cpu_files(topology: HardwareTopology, idle_states: Sequence[str]) -> Iterator[HostFile]:
    present = topology.online | topology.offline
    for name, cpus in (
        ("online", topology.online),
        ("offline", topology.offline),
        ("present", present),
        ("possible", present),
        ("isolated", topology.isolated),
    ):
        yield _file(f"{CPU_ROOT}/{name}", cpus)
    if topology.hybrid:
        yield _file("sys/devices/cpu_atom/cpus", topology.efficient)
        yield _file("sys/devices/cpu_core/cpus", topology.online - topology.efficient)
    for number in present:
        yield _file(f"{CPU_ROOT}/cpu{number}/uevent", "")
        for index, state in enumerate(idle_states):
            yield _file(f"{CPU_ROOT}/cpu{number}/cpuidle/state{index}/name", state)
            yield _file(f"{CPU_ROOT}/cpu{number}/cpuidle/state{index}/disable", 0, _WRITABLE)
    for cpu in topology.cpus.values():
        yield from _place_files(cpu, topology)
        yield from _policy_files(cpu)


def _place_files(cpu: LogicalCpu, topology: HardwareTopology) -> Iterator[HostFile]:
    directory = f"{CPU_ROOT}/cpu{cpu.id}/topology"
    yield _file(f"{directory}/physical_package_id", cpu.package)
    yield _file(f"{directory}/die_id", cpu.die)
    yield _file(f"{directory}/core_id", cpu.core)
    yield _file(f"{directory}/core_cpus_list", topology.cores[cpu.core])
    yield _file(f"{directory}/cluster_cpus_list", topology.l2_groups[cpu.l2])


def _policy_files(cpu: LogicalCpu) -> Iterator[HostFile]:
    directory = f"{CPU_ROOT}/cpufreq/policy{cpu.id}"
    yield _file(f"{directory}/related_cpus", cpu.id)
    yield _file(f"{directory}/affected_cpus", cpu.id)
    yield _file(f"{directory}/cpuinfo_min_freq", _LOWEST_KHZ)
    yield _file(f"{directory}/cpuinfo_max_freq", _HIGHEST_KHZ)
    yield _file(f"{directory}/scaling_cur_freq", _LOWEST_KHZ)
    yield _file(f"{directory}/scaling_driver", "intel_pstate")
    yield _file(f"{directory}/scaling_min_freq", _LOWEST_KHZ, _WRITABLE)
    yield _file(f"{directory}/scaling_max_freq", _HIGHEST_KHZ, _WRITABLE)
    yield _file(f"{directory}/scaling_governor", "powersave", _WRITABLE)
    if cpu.base_khz is not None:
        yield _file(f"{directory}/base_frequency", cpu.base_khz)
    yield _file(f"{directory}/energy_performance_available_preferences", " ".join(_PREFERENCES))
    yield _file(f"{directory}/energy_performance_preference", "balance_performance", _WRITABLE)


def _cache_files(topology: HardwareTopology) -> Iterator[HostFile]:
    for index, level, kind, groups in (
        (0, 1, "Data", topology.cores),
        (1, 1, "Instruction", topology.cores),
        (2, 2, "Unified", topology.l2_groups),
        (3, 3, "Unified", topology.l3_groups),
    ):
        for group in groups.values():
            for number in group:
                directory = f"{CPU_ROOT}/cpu{number}/cache/index{index}"
                yield _file(f"{directory}/level", level)
                yield _file(f"{directory}/type", kind)
                yield _file(f"{directory}/shared_cpu_list", group)


def _node_files(nodes: Mapping[int, MemoryNode]) -> Iterator[HostFile]:
    ids = sorted(nodes)
    yield _file(f"{NODE_ROOT}/online", IdSet(ids))
    yield _file(f"{NODE_ROOT}/has_memory", IdSet(node for node in ids if nodes[node].capacity_bytes))
    yield _file(f"{NODE_ROOT}/has_normal_memory", IdSet(node for node in ids if nodes[node].normal))
    for node in nodes.values():
        directory = f"{NODE_ROOT}/node{node.id}"
        yield _file(f"{directory}/cpulist", node.cpus)
        yield _file(f"{directory}/distance", " ".join(str(node.distances[other]) for other in ids))
        kilobytes = node.capacity_bytes // 1024
        text = f"Node {node.id} MemTotal:       {kilobytes} kB\nNode {node.id} MemFree:        {kilobytes // 2} kB"
        yield _file(f"{directory}/meminfo", text)
    total = sum(node.capacity_bytes for node in nodes.values()) // 1024
    yield _file("proc/meminfo", f"MemTotal:       {total} kB\nMemFree:        {total // 2} kB")


def _file(path: str, value: int | str | Cpus, mode: int = _READ_ONLY) -> HostFile:
    return HostFile(path, f"{value}\n", mode)
