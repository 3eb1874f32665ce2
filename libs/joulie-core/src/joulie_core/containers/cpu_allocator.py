"""Choice of CPUs out of a set of candidates.

A request stays within one package where one has room, uses the CPUs of the wanted priority before others, and is then
narrowed level by level: die, NUMA node, last-level cache, L2 cache, whole idle cores, threads. On each level the part
with the least room that suffices is taken, so that larger parts stay whole for larger requests; where none suffices,
the largest parts are used up first. Ties go to the lowest CPU, so equal arguments give equal CPUs.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from joulie_core.containers.idset import Cpus, IdSet
from joulie_core.containers.topology import CpuPriority, HardwareTopology


class NotEnoughCpusError(ValueError):
    """There are fewer candidates than CPUs requested."""


#: Which priorities to use, best first.
_ORDER: Final[Mapping[CpuPriority, tuple[CpuPriority, ...]]] = {
    CpuPriority.HIGH: (CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW),
    CpuPriority.NORMAL: (CpuPriority.NORMAL, CpuPriority.LOW, CpuPriority.HIGH),
    CpuPriority.LOW: (CpuPriority.LOW, CpuPriority.NORMAL, CpuPriority.HIGH),
}


def allocate(
    topology: HardwareTopology, candidates: Cpus, count: int, priority: CpuPriority = CpuPriority.NONE
) -> Cpus:
    """Return `count` of the candidates that are close to each other and leave the others usable.

    Args:
        topology: The machine.
        candidates: CPUs to choose from; those that are not online do not count.
        count: 0 or more.
        priority: Which CPUs to use before others; `NONE` prefers only the performance cores of a hybrid machine.

    Raises:
        NotEnoughCpusError: Where fewer than `count` candidates are online.
    """
    free = candidates.mask & topology.online.mask
    if not 0 <= count <= free.bit_count():
        raise NotEnoughCpusError(f"{count} CPUs requested of {free.bit_count()}")
    if count == free.bit_count():
        return IdSet.from_mask(free)
    ranks = ranked_masks(topology, priority)
    free = _one_package(topology, free, count, ranks)
    taken = 0
    for rank in ranks:
        rest = count - taken.bit_count()
        taken |= _of_one_rank(topology, free & rank, min(rest, (free & rank).bit_count()), taken)
    return IdSet.from_mask(taken)


def release(topology: HardwareTopology, held: Cpus, count: int, priority: CpuPriority = CpuPriority.NONE) -> Cpus:
    """Return the `count` CPUs to release, so that what `allocate` would choose of the held ones is kept.

    Held CPUs that are no longer online are released besides.

    Raises:
        NotEnoughCpusError: Where fewer than `count` are held.
    """
    return held - allocate(topology, held, len(held & topology.online) - count, priority)


def ranked_masks(topology: HardwareTopology, priority: CpuPriority) -> tuple[int, ...]:
    """Return the online CPUs in groups as masks, the preferred first; every CPU is in exactly one."""
    if priority is CpuPriority.NONE:
        efficient = topology.efficient
        return ((topology.online - efficient).mask, efficient.mask)
    return tuple(topology.priorities[wanted].mask for wanted in _ORDER[priority])


def _one_package(topology: HardwareTopology, free: int, count: int, ranks: Sequence[int]) -> int:
    """Return the free CPUs of the best package that has enough of them, or all where none has."""
    idle = _idle(topology, free)
    best: tuple[tuple[int, ...], tuple[int, ...], int] | None = None
    for package in _parts(topology.packages.values(), free, 0):
        if package.size >= count:
            # What would come from worse ranks decides first.
            usable, worse = _best_ranks(package.free, count, ranks)
            part = package._replace(free=usable, size=usable.bit_count())
            found = (worse, _fit(topology, part, idle, count), usable)
            best = min(best, found) if best else found
    return best[-1] if best else free


def _best_ranks(free: int, count: int, ranks: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Return the free CPUs of as many ranks as are needed, and what is missing up to each rank, the worst first."""
    usable = 0
    missing: list[int] = []
    for rank in ranks:
        if usable.bit_count() < count:
            usable |= free & rank
        missing.append(max(0, count - usable.bit_count()))
    return usable, tuple(reversed(missing))


def _of_one_rank(topology: HardwareTopology, free: int, count: int, taken: int) -> int:
    """Return `count` of the free CPUs, near those taken already."""
    if count in (0, free.bit_count()):
        return free if count else 0
    levels = (topology.packages.values(), topology.dies.values(), topology.node_groups.values())
    chosen, local = _narrow(topology, levels, free, count, taken)
    idle, whole = _idle(topology, free), count - count % topology.threads_per_core
    if chosen & ~idle and 0 < whole <= idle.bit_count():
        # Several parts are needed in any case: then whole cores of them, and others for the rest only.
        chosen, local = _narrow(topology, levels, idle, whole, taken)
        chosen |= _whole_cores(topology, local, whole - chosen.bit_count(), taken | chosen)
        local = free & ~chosen
    chosen |= _whole_cores(topology, local, count - chosen.bit_count(), taken | chosen)
    return chosen | _threads(topology, local & ~chosen, count - chosen.bit_count(), taken | chosen)


def _whole_cores(topology: HardwareTopology, free: int, count: int, taken: int) -> int:
    """Return at most `count` CPUs, all threads of idle cores; fewer where a further core would be too large."""
    idle = _idle(topology, free)
    if idle.bit_count() <= count:
        return idle
    chosen, local = _narrow(topology, (topology.l3_groups.values(), topology.l2_groups.values()), idle, count, taken)
    for core in topology.cores.values():
        if core.mask & local == core.mask and chosen.bit_count() + len(core) <= count:
            chosen |= core.mask
    return chosen


def _threads(topology: HardwareTopology, free: int, count: int, taken: int) -> int:
    """Return `count` of the free CPUs from cores that are in use already where there are such."""
    near = sum(group.mask for group in topology.l3_groups.values() if group.mask & taken)
    cores = _parts(topology.cores.values(), free, near)
    # A core that is idle and larger than the rest would lose its other threads.
    cores.sort(key=lambda core: (core.idle and core.size > count, not core.free & near, core.size, _lowest(core.free)))
    chosen = 0
    for core in cores:
        chosen |= IdSet.from_mask(core.free).lowest(count - chosen.bit_count()).mask
    return chosen


def _narrow(
    topology: HardwareTopology, levels: Iterable[Iterable[Cpus]], free: int, count: int, taken: int
) -> tuple[int, int]:
    """Return the CPUs of parts that are used up because no part of a level suffices, and the part for the rest."""
    used = 0
    idle = _idle(topology, free)
    for level in levels:
        parts = deque(sorted(_parts(level, free, taken), key=lambda part: (-part.size, _lowest(part.free))))
        while parts[0].size < count:
            largest = parts.popleft()
            used |= largest.free
            count -= largest.size
        fitting = [part for part in parts if part.size >= count]
        free = min(fitting, key=lambda part: _fit(topology, part, idle, count)).free
    return used, free


class _Part(NamedTuple):
    """The free CPUs of a package, die, node, cache or core."""

    free: int
    size: int
    #: How many of its CPUs have been taken for the same request.
    taken: int
    #: Whether all of its CPUs are free.
    idle: bool


def _parts(groups: Iterable[Cpus], free: int, taken: int) -> list[_Part]:
    return [
        _Part(part, part.bit_count(), (group.mask & taken).bit_count(), part == group.mask)
        for group in groups
        if (part := group.mask & free)
    ]


def _idle(topology: HardwareTopology, free: int) -> int:
    """Return the CPUs of cores whose threads are all free."""
    idle = 0
    for core in topology.cores.values():
        if core.mask & free == core.mask:
            idle |= core.mask
    return idle


def _fit(topology: HardwareTopology, part: _Part, idle: int, count: int) -> tuple[int, ...]:
    """Return how well a part that has `count` CPUs suits the request; less is better."""
    whole_cores = count - count % topology.threads_per_core
    idle_cpus = (part.free & idle).bit_count()
    # CPUs that would share a core with another user, and whether the last threads take an idle core.
    sharing = max(0, whole_cores - idle_cpus)
    breaks_core = count > whole_cores and part.size - idle_cpus < count - whole_cores
    return (-part.taken, sharing, breaks_core, part.size, _lowest(part.free))


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length()
