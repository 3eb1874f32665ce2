"""Growing and shrinking of a set of CPUs on the tree of a node's hardware.

The tree has the levels of `TreeLevel`. A new set starts in the deepest part of the tree that has room for all its CPUs.
A set grows outwards: into its own cores, caches, NUMA nodes, dies and packages, in this order. It shrinks where it has
fewest CPUs. So sets stay close together, parts of the machine stay whole, and a set that grows and shrinks again has
the CPUs that it had.

A tree that spreads on physical cores has another level below NUMA nodes: the first threads of all cores, then the
second threads, and so on. A set then grows onto all cores before it uses a second thread of one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final

from joulie_core.containers import cpu_allocator
from joulie_core.containers.cpu_allocator import NotEnoughCpusError
from joulie_core.containers.idset import EMPTY, Cpus, IdSet
from joulie_core.containers.topology import CpuPriority, HardwareTopology, LogicalCpu


class TreeLevel(IntEnum):
    """Levels of the hardware, the whole machine first."""

    SYSTEM = 0
    PACKAGE = 1
    DIE = 2
    NUMA = 3
    L2CACHE = 4
    CORE = 5
    THREAD = 6


@dataclass(frozen=True, slots=True)
class CpuWish:
    """Preferences for the CPUs of a set. No preference makes a request fail."""

    #: CPUs that are preferred over others, the most important set first.
    close: tuple[Cpus, ...] = ()
    #: CPUs that are avoided, the most important set first; less important than `close`.
    far: tuple[Cpus, ...] = ()
    #: Grow where most CPUs are free, instead of where fewest are.
    balance: bool = False
    #: Take one thread of each core before the second of any.
    spread: bool = False
    priority: CpuPriority = CpuPriority.NONE


#: A set that grows fills its own cores first, then its own caches, NUMA nodes and so on.
_OUTWARDS: Final = tuple(level for level in reversed(TreeLevel) if level is not TreeLevel.THREAD)
_OUTWARDS_SPREAD: Final = tuple(level for level in _OUTWARDS if level <= TreeLevel.NUMA)


class CpuTree:
    """The hardware of a node as a tree of CPU sets; immutable."""

    def __init__(self, topology: HardwareTopology) -> None:
        """Group the online CPUs by the levels of `TreeLevel`."""
        self._topology = topology
        self._packed = _Depths(topology, _path)
        self._spread = _Depths(topology, partial(_spread_path, topology.cores))
        self._part_of = {level: self._packed.part_of(level) for level in TreeLevel}

    def around(self, cpus: Cpus, level: TreeLevel) -> Cpus:
        """Return all online CPUs in those parts of a level that have one of these CPUs."""
        part_of, mask = self._part_of[level], 0
        for number in cpus:
            mask |= part_of.get(number, 0)
        return IdSet.from_mask(mask)

    def one_of_each(self, cpus: Cpus, level: TreeLevel) -> Cpus:
        """Return the lowest of these CPUs in each part of a level."""
        first: dict[int, int] = {}
        for number in cpus:
            first.setdefault(self._part_of[level][number], number)
        return IdSet(first.values())

    def grow(self, cpus: Cpus, free: Cpus, count: int, wish: CpuWish) -> Cpus:
        """Return `count` of the free CPUs by which a set should grow.

        Raises:
            NotEnoughCpusError: Fewer than `count` are free.
        """
        candidates = self._preferred(free, count, wish)
        grown = EMPTY
        for level in _OUTWARDS_SPREAD if wish.spread else _OUTWARDS:
            near = candidates - grown
            if level is not TreeLevel.SYSTEM:
                near &= self.around(cpus, level)
            missing = count - len(grown)
            grown |= near if len(near) <= missing else self._choose(cpus | grown, near, missing, wish)
        return grown

    def part_for(self, cpus: Cpus, free: Cpus, count: int, wish: CpuWish) -> Cpus:
        """Return the free CPUs of the best part of the tree that has `count` of them, for a set that has some already.

        Raises:
            NotEnoughCpusError: Fewer than `count` are free.
        """
        return self._local(cpus, self._preferred(free, count, wish), count, wish)

    def shrink(self, cpus: Cpus, free: Cpus, count: int, wish: CpuWish) -> Cpus:
        """Return `count` CPUs of a set that it should release.

        Raises:
            NotEnoughCpusError: The set has fewer than `count`.
        """
        if not 0 <= count <= len(cpus):
            raise NotEnoughCpusError(f"{count} CPUs released of {len(cpus)}")
        released = EMPTY
        for group in _least_wished_first(cpus, wish):
            rest = group
            while rest and len(released) < count:
                rest_fits = len(rest) <= count - len(released)
                leaving = rest if rest_fits else self._furthest(cpus - released, rest, free | released, wish)
                released |= leaving
                rest -= leaving
        return released

    def _preferred(self, free: Cpus, count: int, wish: CpuWish) -> Cpus:
        """Return the free CPUs that meet as many preferences as `count` of them can."""
        if not 0 <= count <= len(free):
            raise NotEnoughCpusError(f"{count} CPUs requested of {len(free)}")
        for close in wish.close:
            if len(free & close) >= count:
                free &= close
        for far in wish.far:
            if len(free - far) >= count:
                free -= far
        usable = 0
        for rank in cpu_allocator.ranked_masks(self._topology, wish.priority):
            usable |= free.mask & rank
            # Being of the wanted priority matters less than being in one package.
            if any((package.mask & usable).bit_count() >= count for package in self._topology.packages.values()):
                return IdSet.from_mask(usable)
        return free

    def _choose(self, cpus: Cpus, free: Cpus, count: int, wish: CpuWish) -> Cpus:
        """Return `count` of more free CPUs, in one part of the tree where possible."""
        local = self._local(cpus, free, count, wish)
        if not wish.spread:
            return cpu_allocator.allocate(self._topology, local, count, wish.priority)
        chosen = EMPTY
        for _ in range(count):
            chosen |= self._local(cpus | chosen, local - chosen, 1, wish)
        return chosen

    def _local(self, cpus: Cpus, free: Cpus, count: int, wish: CpuWish) -> Cpus:
        """Return the free CPUs of the best part of the tree that has `count` of them."""
        tree = self._spread if wish.spread else self._packed
        depth, fitting = tree.deepest_with(free.mask, count)
        fitting = tree.filter(depth, fitting, cpus.mask, most=True)
        fitting = tree.filter(depth, fitting, free.mask, most=wish.balance)
        return IdSet.from_mask(next(mask for mask in tree.parts[depth] if mask & fitting) & free.mask)

    def _furthest(self, cpus: Cpus, among: Cpus, free: Cpus, wish: CpuWish) -> Cpus:
        """Return the one CPU of `among` whose release leaves the set closest together."""
        tree = self._spread if wish.spread else self._packed
        depth = len(tree.parts) - 1
        leaving = tree.filter(depth, among.mask, cpus.mask, most=False)
        leaving = tree.filter(depth, leaving, free.mask, most=not wish.balance)
        return IdSet.from_mask(next(mask for mask in reversed(tree.parts[depth]) if mask & leaving))


class _Depths:
    """The parts of the machine at each depth as masks, in the order of their ids."""

    def __init__(self, topology: HardwareTopology, path: Callable[[LogicalCpu], tuple[int, ...]]) -> None:
        paths = {number: path(cpu) for number, cpu in topology.cpus.items()}
        deepest = max(map(len, paths.values()))
        self.parts: list[list[int]] = []
        for depth in range(deepest + 1):
            groups: dict[tuple[int, ...], int] = {}
            for number, ids in paths.items():
                groups[ids[:depth]] = groups.get(ids[:depth], 0) | 1 << number
            self.parts.append([groups[ids] for ids in sorted(groups)])
        self._largest = [max(mask.bit_count() for mask in masks) for masks in self.parts]

    def part_of(self, depth: int) -> Mapping[int, int]:
        """Return the part at a depth that each CPU is in."""
        return {number: mask for mask in self.parts[depth] for number in IdSet.from_mask(mask)}

    def deepest_with(self, free: int, count: int) -> tuple[int, int]:
        """Return the largest depth with parts that have `count` free CPUs, and the CPUs of these parts."""
        for depth in range(len(self.parts) - 1, 0, -1):
            if self._largest[depth] < count:
                continue
            fitting = 0
            for mask in self.parts[depth]:
                if (mask & free).bit_count() >= count:
                    fitting |= mask
            if fitting:
                return depth, fitting
        return 0, self.parts[0][0]

    def filter(self, depth: int, among: int, counted: int, *, most: bool) -> int:
        """Return those parts among some of a depth that have most, or fewest, of the counted CPUs.

        Counts in the larger parts around them are compared first.
        """
        for masks in self.parts[: depth + 1]:
            best, kept = None, 0
            for mask in masks:
                if mask & among:
                    count = (mask & counted).bit_count()
                    if best is None or (count > best if most else count < best):
                        best, kept = count, mask
                    elif count == best:
                        kept |= mask
            among &= kept
        return among


def _path(cpu: LogicalCpu) -> tuple[int, ...]:
    """Return the ids of the parts that a CPU is in, from the package downwards."""
    return cpu.package, cpu.die, cpu.node, cpu.l2, cpu.core, cpu.id


def _spread_path(cores: Mapping[int, Cpus], cpu: LogicalCpu) -> tuple[int, ...]:
    thread = sorted(cores[cpu.core]).index(cpu.id)
    return cpu.package, cpu.die, cpu.node, thread, cpu.l2, cpu.core, cpu.id


def _least_wished_first(cpus: Cpus, wish: CpuWish) -> list[Cpus]:
    """Return the CPUs in groups; those that meet the fewest and least important preferences first."""
    groups: dict[tuple[bool, ...], list[int]] = {}
    for number in cpus:
        met = (*(number in close for close in wish.close), *(number not in far for far in wish.far))
        groups.setdefault(met, []).append(number)
    return [IdSet(groups[met]) for met in sorted(groups)]
