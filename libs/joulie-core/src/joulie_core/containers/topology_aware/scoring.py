"""Choice of the pool for a container: rules in order, of which the first that distinguishes pools decides."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from joulie_core.containers.cpu_allocator import ranked_masks
from joulie_core.containers.idset import EMPTY, MemoryNodes
from joulie_core.containers.memory import MemoryAllocator, MemoryRequest
from joulie_core.containers.topology import CpuPriority, HardwareTopology
from joulie_core.containers.topology_aware.ledger import PoolLedger
from joulie_core.containers.topology_aware.need import ContainerNeed, CpuNeed, Hint
from joulie_core.containers.topology_aware.pools import Pool, PoolLevel, PoolTree
from joulie_core.containers.topology_aware.supply import Supply
from joulie_core.kinds.topology_aware_policy import BurstLevel

#: What a pool is worth to a container; the larger the better.
Score: TypeAlias = float
Rule: TypeAlias = Callable[[Pool], Score]

_LEVELS: Final = {
    BurstLevel.SYSTEM: PoolLevel.SYSTEM,
    BurstLevel.PACKAGE: PoolLevel.PACKAGE,
    BurstLevel.DIE: PoolLevel.DIE,
    BurstLevel.NUMA: PoolLevel.NUMA,
}
#: Levels below are no pools; the smallest pools stand for them.
_SMALLEST: Final = PoolLevel.L3_CACHE


def fits(supply: Supply, pool: Pool, cpu: CpuNeed) -> bool:
    """Return whether a pool can grant the CPUs: really, by CPUs that can be taken out of it, not by numbers."""
    if cpu.users and (supply.counts[pool.id] < 1 or supply.grantable[pool.id] < cpu.milli):
        return False
    if not cpu.exclusive or has_isolated(supply, pool, cpu):
        return True
    return not cpu.isolated_only and supply.removable(pool.id, cpu.milli, cpu.users) >= cpu.exclusive


def has_isolated(supply: Supply, pool: Pool, cpu: CpuNeed) -> bool:
    """Return whether isolated CPUs are wanted and the pool has enough of them."""
    return cpu.isolated and (pool.cpus & supply.isolated).bit_count() >= cpu.exclusive


class PoolChooser:
    """Chooses pools on one machine."""

    def __init__(self, topology: HardwareTopology, tree: PoolTree, memory: MemoryAllocator) -> None:
        """Precompute what depends on the machine only."""
        self._topology = topology
        self._tree = tree
        self._memory = memory
        self._normal = topology.priorities[CpuPriority.NORMAL].mask
        self._mixed = self._normal != topology.online.mask
        #: CPUs of all priorities but the worst one, then of the best one, by wanted priority.
        self._better = {
            priority: (best | next_best, best)
            for priority in topology.priorities
            for best, next_best, _ in (ranked_masks(topology, priority),)
        }
        self._reach = {level: _reach(tree, _LEVELS.get(level, _SMALLEST)) for level in BurstLevel}

    def choose(
        self,
        ledger: PoolLedger,
        need: ContainerNeed,
        request: MemoryRequest | None,
        affinity: Sequence[float] | None = None,
        previous: int | None = None,
    ) -> Pool | None:
        """Return the best pool that can grant a container's CPUs, None where there is none.

        Args:
            ledger: What is granted.
            need: What the container needs.
            request: Its memory, with any affinity; None where its memory is not restricted.
            affinity: Worth of each pool by the containers that this one wants to be near to or far from.
            previous: The pool that the container has had, which is kept where it still can grant the CPUs.
        """
        supply = ledger.supply
        pools = [pool for pool in self._tree.pools if fits(supply, pool, need.cpu)]
        if previous is not None:
            kept = next((pool for pool in pools if pool.id == previous), None)
            if kept is not None:
                return kept
        for rule in self._rules(ledger, need, request, affinity):
            if len(pools) <= 1:
                break
            scores = [rule(pool) for pool in pools]
            best = max(scores)
            pools = [pool for pool, score in zip(pools, scores, strict=True) if score == best]
        return pools[0] if pools else None

    def _rules(
        self, ledger: PoolLedger, need: ContainerNeed, request: MemoryRequest | None, affinity: Sequence[float] | None
    ) -> Iterator[Rule]:
        supply, cpu = ledger.supply, need.cpu
        if cpu.isolated:
            yield lambda pool: has_isolated(supply, pool, cpu)
        if cpu.users and not cpu.milli:
            # A container without a request fits everywhere, and belongs where something is left.
            yield lambda pool: supply.grantable[pool.id] >= 1
        if affinity is not None:
            yield lambda pool: affinity[pool.id]
        if need.hints:
            yield lambda pool: hint_score(pool, need.hints)
        offers = None if request is None else _Offers(self._memory, ledger, request)
        if offers is not None:
            yield from self._memory_rules(offers, need)
        yield from self._burst_rules(supply, need)
        if offers is not None:
            yield lambda pool: -len(offers.of(pool) or self._tree.root.memory)
            # Rather than widening the memory of a container that runs.
            yield lambda pool: offers.free_bytes(pool) >= need.memory.size_bytes
        yield from self._last_rules(supply, cpu)

    def _memory_rules(self, offers: "_Offers", need: ContainerNeed) -> Iterator[Rule]:
        yield lambda pool: offers.of(pool) is not None
        if need.memory.kinds:
            # Of the wanted kinds, and of the pool itself.
            yield lambda pool: self._memory.kinds_of((offers.of(pool) or EMPTY) & pool.memory) == need.memory.kinds
        limit = need.memory.limit_bytes
        if limit is not None and limit > need.memory.size_bytes:
            yield lambda pool: offers.free_bytes(pool) >= limit
        elif limit is None and need.burst_level is not None:
            reach = self._reach[need.burst_level]
            yield lambda pool: reach[pool.id] >= _WIDER

    def _burst_rules(self, supply: Supply, need: ContainerNeed) -> Iterator[Rule]:
        limit = need.burst_milli
        if limit is not None:
            # Where no pool has the whole limit, the one that comes nearest to it.
            yield lambda pool: min(limit, supply.grantable[pool.id])
        elif need.burst_level is not None:
            reach = self._reach[need.burst_level]
            yield lambda pool: reach[pool.id]
            # A request above the level gets the smallest part around it, not the machine, where most is left.
            yield lambda pool: pool.depth if reach[pool.id] == _WIDER else 0
            yield lambda pool: supply.grantable[pool.id]

    def _last_rules(self, supply: Supply, cpu: CpuNeed) -> Iterator[Rule]:
        if cpu.exclusive and cpu.priority is not CpuPriority.NONE:
            # Using no CPU of the worst priority counts before using those of the best one, as it does for single CPUs.
            for usable in self._better[cpu.priority]:
                yield partial(_count, supply.shared & usable, cpu.exclusive)
        yield lambda pool: pool.depth
        if not cpu.exclusive:
            users = supply.users
            yield lambda pool: sum(users[child] for child in pool.children) - users[pool.id]
            yield lambda pool: supply.grantable[pool.id]
            return
        if cpu.isolated:
            yield lambda pool: (pool.cpus & supply.isolated).bit_count()
        if self._mixed and cpu.priority is CpuPriority.NONE:
            normal = self._normal
            yield lambda pool: (pool.cpus & supply.shared & normal).bit_count()
        yield lambda pool: supply.removable(pool.id)


def _count(usable: int, most: int, pool: Pool) -> Score:
    """Return how many of `most` CPUs a pool has among usable ones."""
    return min(most, (pool.cpus & usable).bit_count())


def hint_score(pool: Pool, hints: Sequence[Hint]) -> Score:
    """Return how much of a pool is close to everything that hints are of: 1 for all of it."""
    score = 1.0
    for hint in hints:
        pool_ids, close = (pool.cpus, hint.cpus) if hint.cpus else (pool.memory.mask, hint.nodes)
        score *= (pool_ids & close).bit_count() / pool_ids.bit_count() if pool_ids else 0
    return score


#: How a pool compares with the part of the machine that a container may spread over.
_EXACT: Final = 2
_WIDER: Final = 1
_NARROWER: Final = 0


def _reach(tree: PoolTree, level: PoolLevel) -> tuple[int, ...]:
    """Return for each pool how it compares with a level; the pool around stands for a level that is left out."""
    result = []
    for pool in tree.pools:
        if pool.level > level and pool is not tree.root:
            result.append(_NARROWER)
        elif any(tree.pools[child].level <= level for child in pool.children):
            result.append(_WIDER)
        else:
            result.append(_EXACT)
    return tuple(result)


class _Offers:
    """Memory that pools offer for one request; pools with the same nodes offer the same."""

    def __init__(self, memory: MemoryAllocator, ledger: PoolLedger, request: MemoryRequest) -> None:
        self._memory = memory
        self._state = ledger.memory
        self._request = request
        self._found: dict[int, MemoryNodes | None] = {}
        self._free: dict[int, int] = {}

    def of(self, pool: Pool) -> MemoryNodes | None:
        near = pool.memory_for(self._request.kinds)
        key = near.mask
        if key not in self._found:
            self._found[key] = self._memory.offer(self._state, self._request, near)
        return self._found[key]

    def free_bytes(self, pool: Pool) -> int:
        offered = self.of(pool)
        if offered is None:
            return 0
        if offered.mask not in self._free:
            self._free[offered.mask] = self._memory.free_bytes(self._state, offered)
        return self._free[offered.mask]
