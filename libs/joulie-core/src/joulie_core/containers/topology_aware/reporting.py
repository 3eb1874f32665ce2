"""Pools as zones, for metrics and NodeResourceTopology."""

from collections.abc import Mapping, Sequence
from typing import Final

from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import IdSet, union
from joulie_core.containers.policy import PlacementZone
from joulie_core.containers.topology_aware.ledger import PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.need import WHOLE_CPU_MILLI
from joulie_core.containers.topology_aware.pools import Pool, PoolLevel

_KINDS: Final[Mapping[PoolLevel, str]] = {
    PoolLevel.SYSTEM: "system",
    PoolLevel.PACKAGE: "socket",
    PoolLevel.DIE: "die",
    PoolLevel.NUMA: "numa node",
    PoolLevel.L3_CACHE: "cache",
}


def pool_zones(machine: Machine, ledger: PoolLedger) -> tuple[PlacementZone, ...]:
    """Return the pools, parents first."""
    containers: dict[int, list[ContainerId]] = {}
    for name, grant in sorted(ledger.grants.items()):
        containers.setdefault(grant.pool, []).append(name)
    return tuple(_zone(machine, ledger, pool, containers.get(pool.id, ())) for pool in reversed(machine.tree.pools))


def class_capacity(machine: Machine) -> Mapping[str, int]:
    """Return how many CPUs containers can have of each CPU class at most, in thousandths.

    A class that no pool has may be that of exclusive CPUs by an annotation.
    """
    spec = machine.spec
    exclusive = machine.shared | machine.isolated
    pools = (
        (spec.shared_pool_cpu_class, machine.shared),
        (spec.reserved_pool_cpu_class, machine.reserved),
        (spec.default_exclusive_cpu_class, exclusive),
    )
    capacity = {}
    for name in sorted(machine.classes.cpu):
        cpus = union(cpus for each, cpus in pools if each == name)
        capacity[name] = WHOLE_CPU_MILLI * len(cpus or exclusive)
    return capacity


def _zone(machine: Machine, ledger: PoolLedger, pool: Pool, containers: Sequence[ContainerId]) -> PlacementZone:
    supply = ledger.supply
    granted_at_all = pool.cpus & (machine.shared | machine.isolated).mask
    free_isolated = (pool.cpus & supply.isolated).bit_count()
    sets = {
        "shared cpuset": pool.cpus & supply.shared,
        "exclusive cpuset": granted_at_all & ~supply.shared & ~supply.isolated,
        "reserved cpuset": pool.cpus & machine.reserved.mask,
        "isolated cpuset": pool.cpus & machine.isolated.mask,
    }
    return PlacementZone(
        name=pool.name,
        kind=_KINDS[pool.level],
        parent=machine.tree.pools[pool.ancestors[1]].name if pool.depth else "",
        cpus=IdSet.from_mask(pool.cpus),
        memory=pool.memory,
        capacity_milli=WHOLE_CPU_MILLI * pool.cpus.bit_count(),
        allocatable_milli=WHOLE_CPU_MILLI * granted_at_all.bit_count(),
        available_milli=max(0, supply.grantable[pool.id]) + WHOLE_CPU_MILLI * free_isolated,
        containers=tuple(containers),
        attributes={name: str(IdSet.from_mask(mask)) for name, mask in sets.items() if mask},
    )
