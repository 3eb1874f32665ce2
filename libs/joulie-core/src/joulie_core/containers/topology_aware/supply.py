"""Supply of every pool: what it has granted and what it can still grant.

Shared CPUs of a pool are the CPUs of it that are no container's exclusive ones. Containers that use shared CPUs of a
pool leave so many CPUs in it as their requests add up to, and at least one. Pools are disjoint or contain each other,
so this holds for all of them together exactly where it holds for each one.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from joulie_core.containers.topology_aware.pools import PoolTree


@dataclass(frozen=True, kw_only=True)
class Supply:
    """CPUs of a machine with grants; a value. CPU sets are masks, shares are in thousandths of a CPU."""

    tree: PoolTree
    #: CPUs that containers share, in any pool.
    shared: int
    #: CPUs that the kernel isolates and no container has.
    isolated: int
    #: What all reserved CPUs together can still grant.
    reserved_milli: int
    #: By pool: shares granted in it and below, and how many containers use its shared CPUs or those below.
    granted: tuple[int, ...]
    users: tuple[int, ...]
    #: How many CPUs stay shared although no container uses them yet.
    awaited: int = 0

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of shared CPUs of each pool."""
        shared = self.shared
        return tuple([(pool.cpus & shared).bit_count() for pool in self.tree.pools])

    @cached_property
    def grantable(self) -> tuple[int, ...]:
        """The share that each pool can still grant, considering the pools around it."""
        counts, granted = self.counts, self.granted
        result = [1000 * count - used for count, used in zip(counts, granted, strict=True)]
        for pool in reversed(self.tree.pools):
            limit = result[pool.id]
            for child in pool.children:
                result[child] = min(result[child], limit)
        return tuple(result)

    @cached_property
    def _removable_below(self) -> tuple[int, ...]:
        """Number of shared CPUs that the pools below each pool leave it to remove, by their own needs."""
        counts = self.counts
        below: list[int] = []
        removable: list[int] = []
        for pool in self.tree.pools:
            count = counts[pool.id]
            for child in pool.children:
                count -= counts[child] - removable[child]
            below.append(count)
            removable.append(max(0, min(count, self.spare(pool.id))))
        return tuple(below)

    def spare(self, pool: int, milli: int = 0, users: int = 0) -> int:
        """Return how many CPUs a pool could lose by its own needs, with further shares and users."""
        return self.counts[pool] - self._needed(pool, milli, users)

    def removable(self, pool: int, milli: int = 0, users: int = 0) -> int:
        """Return how many shared CPUs of a pool can become exclusive.

        All pools around it and below keep what their containers need, and what further shares and users of this pool
        would.
        """
        return max(
            0,
            min(
                self._removable_below[pool],
                *(self.spare(above, milli, users) for above in self.tree.pools[pool].ancestors),
            ),
        )

    def with_users(self, pool: int, milli: int, users: int = 1) -> "Supply":
        """Return the supply with further shares and users of a pool; negative numbers free them."""
        granted, counts = list(self.granted), list(self.users)
        for above in self.tree.pools[pool].ancestors:
            granted[above] += milli
            counts[above] += users
        changed = replace(self, granted=tuple(granted), users=tuple(counts))
        if "counts" in self.__dict__:
            changed.__dict__["counts"] = self.counts
        return changed

    def with_shared(self, shared: int, isolated: int) -> "Supply":
        """Return the supply with other shared and isolated CPUs."""
        return (
            self
            if (shared, isolated) == (self.shared, self.isolated)
            else replace(self, shared=shared, isolated=isolated)
        )

    def broken_pool(self) -> int | None:
        """Return the first pool whose containers need more than it has, None where there is none."""
        return next((pool.id for pool in self.tree.pools if self.spare(pool.id) < 0), None)

    def _needed(self, pool: int, milli: int, users: int) -> int:
        needed = max(-(-(self.granted[pool] + milli) // 1000), 1 if self.users[pool] + users else 0)
        return max(needed, self.awaited) if pool == self.tree.root.id else needed
