"""The state of the topology-aware policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.containers.container import ContainerId
from joulie_core.containers.differences import changed_keys
from joulie_core.containers.idset import Cpus, IdSet
from joulie_core.containers.memory import MemoryPriority
from joulie_core.containers.policy import GrantRecord, Placement
from joulie_core.containers.topology_aware.ledger import PoolGrant, PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.need import WHOLE_CPU_MILLI, CpuUse
from joulie_core.containers.topology_aware.records import to_record

#: Limits of the kernel, and the shares of a whole CPU.
_FEWEST_SHARES: Final = 2
_MOST_SHARES: Final = 262_144
_SHARES_PER_CPU: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyAwareState:
    """All grants of a node, and what follows from them."""

    ledger: PoolLedger
    placements: Mapping[ContainerId, Placement]
    records: Mapping[ContainerId, GrantRecord]
    cpu_classes: Mapping[str, Cpus]


def new_state(machine: Machine, ledger: PoolLedger, before: TopologyAwareState | None = None) -> TopologyAwareState:
    """Return the state of a ledger.

    Args:
        machine: The machine.
        ledger: The grants.
        before: An earlier state of the same machine; what has not changed since is taken from it.
    """
    if before is None:
        names = set(ledger.grants)
        placements: dict[ContainerId, Placement] = {}
        records: dict[ContainerId, GrantRecord] = {}
    else:
        names = _changed(ledger, before.ledger)
        placements, records = dict(before.placements), dict(before.records)
        for name in before.ledger.grants.keys() - ledger.grants.keys():
            del placements[name], records[name]
    for name in names:
        records[name] = to_record(machine, ledger, ledger.grants[name])
        placements[name] = _placement(machine, ledger, ledger.grants[name])
    if before is not None and (pools := _pools_with_other_cpus(machine, ledger, before)):
        # Most containers of a pool get the same, which is one object; those that shared one before share one again.
        alike: dict[int, Placement] = {}
        equal: dict[tuple[Placement, bool], Placement] = {}
        for name, grant in ledger.grants.items():
            if grant.pool in pools and name not in names and grant.cpu.users:
                old = before.placements[name]
                placement = alike.get(id(old))
                if placement is None:
                    placement = _placement(machine, ledger, grant)
                    # Where one of them hides hyper-threads, they are equal only until there are more CPUs.
                    kind = placement, grant.need.hide_hyperthreads
                    placement = alike[id(old)] = equal.setdefault(kind, placement)
                placements[name] = placement
    return TopologyAwareState(
        ledger=ledger, placements=placements, records=records, cpu_classes=_cpu_classes(machine, ledger)
    )


def _changed(ledger: PoolLedger, before: PoolLedger) -> set[ContainerId]:
    """Return the containers whose grant is not the very one of an earlier ledger."""
    changed = set(changed_keys(ledger.grants, before.grants))
    if ledger.memory is not before.memory:
        memory, old = ledger.memory.grants, before.memory.grants
        changed.update(changed_keys(memory, old), (old.keys() - memory.keys()) & ledger.grants.keys())
    return changed


def _pools_with_other_cpus(machine: Machine, ledger: PoolLedger, before: TopologyAwareState) -> frozenset[int]:
    changed = ledger.supply.shared ^ before.ledger.supply.shared
    return frozenset(pool.id for pool in machine.tree.pools if pool.cpus & changed)


def _placement(machine: Machine, ledger: PoolLedger, grant: PoolGrant) -> Placement:
    cpus = machine.cpus_of(ledger.supply, grant) if machine.spec.pin_cpu else None
    exclusive = grant.exclusive if machine.spec.pin_cpu else 0
    if cpus is not None and grant.need.hide_hyperthreads:
        cpus = machine.one_thread_per_core(cpus)
        exclusive &= cpus
    memory = ledger.memory.grants.get(grant.container.id)
    pinned = memory and memory.nodes and memory.request.priority is not MemoryPriority.PRESERVED
    return Placement(
        zone=machine.tree.pools[grant.pool].name,
        cpus=None if cpus is None else IdSet.from_mask(cpus),
        memory=memory.nodes if memory and pinned else None,
        exclusive=IdSet.from_mask(exclusive),
        cpu_shares=_cpu_shares(grant),
        scheduling_class=grant.need.scheduling_class,
    )


def _cpu_shares(grant: PoolGrant) -> int | None:
    if grant.cpu.use is CpuUse.UNCHANGED:
        return None
    # Where a container also uses shared CPUs, its weight is for those: no other one runs on the exclusive CPUs.
    milli = grant.need.cpu.total_milli - (WHOLE_CPU_MILLI * grant.cpu.exclusive if grant.cpu.users else 0)
    return max(_FEWEST_SHARES, min(_MOST_SHARES, milli * _SHARES_PER_CPU // WHOLE_CPU_MILLI))


def _cpu_classes(machine: Machine, ledger: PoolLedger) -> Mapping[str, Cpus]:
    spec = machine.spec
    classes: dict[str, int] = {}
    for name, mask in (
        (spec.shared_pool_cpu_class, ledger.supply.shared),
        (spec.reserved_pool_cpu_class, machine.reserved.mask),
        *(
            (grant.need.cpu_class or spec.default_exclusive_cpu_class, grant.exclusive)
            for grant in ledger.grants.values()
            if grant.exclusive
        ),
    ):
        if name is not None and mask:
            classes[name] = classes.get(name, 0) | mask
    return {name: IdSet.from_mask(mask) for name, mask in sorted(classes.items())}
