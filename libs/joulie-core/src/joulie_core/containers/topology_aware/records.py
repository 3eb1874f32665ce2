"""Grants as they are stored across restarts, and keeping those that are still valid."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from joulie_core.containers.idset import IdSet, InvalidIdListError, MemoryNodes
from joulie_core.containers.memory import MemoryRequestError
from joulie_core.containers.policy import GrantRecord
from joulie_core.containers.topology_aware.attempt import Attempt, Previous
from joulie_core.containers.topology_aware.ledger import PoolGrant, PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.memory_grants import memory_request
from joulie_core.containers.topology_aware.need import CpuUse
from joulie_core.containers.topology_aware.pools import Pool


class _Record(BaseModel):
    """Stored form of one grant; sets of ids are lists in the format of the kernel."""

    model_config = ConfigDict(frozen=True)

    pool: str
    #: CPUs of the pool: its name may be another one under another configuration or topology.
    pool_cpus: str
    exclusive: str
    use: CpuUse
    milli: int
    #: What the container needed.
    needed_use: CpuUse
    needed_exclusive: int
    needed_milli: int
    memory: str
    #: Bytes that are accounted for; 0 where memory was overcommitted.
    memory_bytes: int
    cold: bool
    #: CPUs that were available: with others, a container that got less than it needed gets another chance.
    available: str


class StoredGrant(NamedTuple):
    """A record that could be read, on the present machine."""

    record: _Record
    pool: Pool
    #: A mask.
    exclusive: int
    memory: MemoryNodes

    @property
    def previous(self) -> Previous:
        """Pool, number of exclusive CPUs and memory that the container has had."""
        return Previous(pool=self.pool.id, exclusive=self.exclusive, memory=self.memory or None, cold=self.record.cold)


@dataclass(frozen=True, slots=True)
class Kept:
    """A ledger with a grant that was stored."""

    ledger: PoolLedger
    #: Whether its memory was kept as well; it has none otherwise.
    with_memory: bool


def to_record(machine: Machine, ledger: PoolLedger, grant: PoolGrant) -> GrantRecord:
    """Return what is stored of a grant."""
    pool = machine.tree.pools[grant.pool]
    needed = grant.need.cpu
    memory = ledger.memory.grants.get(grant.container.id)
    return {
        "pool": pool.name,
        "pool_cpus": machine.pool_cpus[pool.id],
        "exclusive": str(IdSet.from_mask(grant.exclusive)),
        "use": grant.cpu.use.value,
        "milli": grant.cpu.milli,
        "needed_use": needed.use.value,
        "needed_exclusive": needed.exclusive,
        "needed_milli": needed.milli,
        "memory": str(memory.nodes) if memory else "",
        "memory_bytes": memory.request.size_bytes if memory else 0,
        "cold": grant.cold,
        "available": machine.pool_cpus[machine.tree.root.id],
    }


def read_record(machine: Machine, source: GrantRecord) -> StoredGrant | None:
    """Return a stored grant on the present machine, None where it cannot be read."""
    try:
        record = _Record.model_validate(source)
        pool = machine.tree.by_name.get(record.pool) or _most_similar(machine, IdSet.parse(record.pool_cpus).mask)
        return StoredGrant(record, pool, IdSet.parse(record.exclusive).mask, IdSet.parse(record.memory))
    except (ValidationError, InvalidIdListError):
        return None


def keep(machine: Machine, ledger: PoolLedger, attempt: Attempt, stored: StoredGrant) -> Kept | None:
    """Return the ledger with exactly the CPUs of a stored grant, None where it is no longer valid."""
    needed, record = attempt.need.cpu, stored.record
    if (record.needed_use, record.needed_exclusive, record.needed_milli) != (
        needed.use,
        needed.exclusive,
        needed.milli,
    ):
        return None
    had_all = (record.use, stored.exclusive.bit_count(), record.milli) == (
        needed.use,
        needed.exclusive,
        needed.milli,
    )
    if not had_all and record.available != machine.pool_cpus[machine.tree.root.id]:
        return None
    cpu = replace(needed, use=record.use, exclusive=stored.exclusive.bit_count(), milli=record.milli)
    pool = stored.pool if cpu.use is CpuUse.POOL else machine.tree.root
    grant = PoolGrant(container=attempt.container, need=attempt.need, pool=pool.id, cpu=cpu, exclusive=stored.exclusive)
    with_cpus = _with_cpus(machine, ledger, grant)
    return None if with_cpus is None else _with_memory(machine, with_cpus, attempt, stored)


def _most_similar(machine: Machine, cpus: int) -> Pool:
    """Return the pool that has most of some CPUs, and few others."""
    return max(
        machine.tree.pools,
        key=lambda pool: ((pool.cpus & cpus).bit_count() / (pool.cpus | cpus).bit_count(), -pool.id),
    )


def _with_cpus(machine: Machine, ledger: PoolLedger, grant: PoolGrant) -> PoolLedger | None:
    supply, cpu = ledger.supply, grant.cpu
    if cpu.milli < 0:
        return None
    if cpu.use is CpuUse.UNCHANGED:
        return ledger.with_grant(supply, grant)
    if cpu.use is CpuUse.RESERVED:
        if not machine.reserved or cpu.milli > supply.reserved_milli:
            return None
        return ledger.with_grant(replace(supply, reserved_milli=supply.reserved_milli - cpu.milli), grant)
    free = supply.isolated if cpu.isolated_only else supply.shared | supply.isolated
    if grant.exclusive & ~(free & machine.tree.pools[grant.pool].cpus):
        return None
    if cpu.users:
        supply = supply.with_users(grant.pool, cpu.milli)
    supply = supply.with_shared(supply.shared & ~grant.exclusive, supply.isolated & ~grant.exclusive)
    return None if supply.broken_pool() is not None else ledger.with_grant(supply, grant)


def _with_memory(machine: Machine, ledger: PoolLedger, attempt: Attempt, stored: StoredGrant) -> Kept:
    if not machine.spec.pin_memory:
        return Kept(ledger, with_memory=True)
    cold = stored.record.cold
    pool = machine.tree.pools[ledger.grants[attempt.container.id].pool]
    request = memory_request(machine, attempt, pool, cold=cold)
    if not stored.record.memory_bytes:
        # It was granted without being accounted for.
        request = replace(request, size_bytes=0)
    if cold and attempt.need.memory.cold_start_s is None:
        return Kept(ledger, with_memory=False)
    try:
        memory = machine.memory.keep(ledger.memory, request, stored.memory)
    except MemoryRequestError:
        return Kept(ledger, with_memory=False)
    grant = replace(ledger.grants[attempt.container.id], cold=cold)
    grants = {**ledger.grants, attempt.container.id: grant}
    return Kept(PoolLedger(supply=ledger.supply, memory=memory, grants=grants), with_memory=True)
