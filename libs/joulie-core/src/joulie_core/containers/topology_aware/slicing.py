"""Choice of the shared CPUs of a pool that become exclusive."""

from joulie_core.containers.cpu_allocator import allocate
from joulie_core.containers.idset import IdSet
from joulie_core.containers.topology import CpuPriority, HardwareTopology
from joulie_core.containers.topology_aware.supply import Supply


class Slicer:
    """Takes CPUs out of pools so that every pool keeps what its containers need."""

    def __init__(self, topology: HardwareTopology) -> None:
        """Choose on this machine."""
        self._topology = topology

    def pick(
        self, supply: Supply, pool: int, count: int, priority: CpuPriority = CpuPriority.NONE, preferred: int = 0
    ) -> int:
        """Return shared CPUs of a pool, as a mask.

        Args:
            supply: What is granted; with the shares that the same container is to have.
            pool: The pool, of which at least `count` CPUs are removable.
            count: How many.
            priority: CPUs to use before others.
            preferred: CPUs to use before all others, as a mask: those that the container has already.
        """
        candidates = supply.tree.pools[pool].cpus & supply.shared
        chosen = self.choose(candidates, count, priority, preferred)
        if all(
            (chosen & supply.tree.pools[below].cpus).bit_count() <= supply.spare(below)
            for below in supply.tree.pools[pool].subtree
        ):
            return chosen
        return self.choose(self._removable(supply, pool, priority, preferred), count, priority, preferred)

    def choose(self, candidates: int, count: int, priority: CpuPriority, preferred: int = 0) -> int:
        """Return `count` of the candidates, the preferred ones first."""
        first = candidates & preferred
        missing = count - first.bit_count()
        if missing <= 0:
            return self._allocate(first, count, priority)
        return first | self._allocate(candidates & ~first, missing, priority)

    def _removable(self, supply: Supply, pool: int, priority: CpuPriority, preferred: int) -> int:
        """Return CPUs of a pool of which any number may be removed, as far as the pools below and itself go."""
        tree = supply.tree.pools
        left = tree[pool].cpus & supply.shared
        result = 0
        for child in tree[pool].children:
            left &= ~tree[child].cpus
            result |= self._removable(supply, child, priority, preferred)
        result |= left
        spare = max(0, supply.spare(pool))
        return result if result.bit_count() <= spare else self.choose(result, spare, priority, preferred)

    def _allocate(self, candidates: int, count: int, priority: CpuPriority) -> int:
        return allocate(self._topology, IdSet.from_mask(candidates), count, priority).mask
