"""Granting CPUs to one container."""

from dataclasses import replace

from joulie_core.containers.memory import MemoryRequest
from joulie_core.containers.topology_aware.attempt import Attempt, PlacementError
from joulie_core.containers.topology_aware.ledger import PoolGrant, PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.memory_grants import memory_request
from joulie_core.containers.topology_aware.need import CpuNeed, CpuUse
from joulie_core.containers.topology_aware.pools import Pool
from joulie_core.containers.topology_aware.scoring import has_isolated, hint_score
from joulie_core.containers.topology_aware.supply import Supply
from joulie_core.containers.topology_aware.widening import widen_for


def grant_cpus(machine: Machine, ledger: PoolLedger, attempt: Attempt) -> PoolLedger:
    """Return the ledger with CPUs for a container that has no grant.

    Raises:
        PlacementError: The CPUs are not there, or break a rule of the container.
    """
    cpu = attempt.need.cpu
    if cpu.use is CpuUse.UNCHANGED:
        return ledger.with_grant(ledger.supply, _grant(attempt, machine.tree.root, cpu))
    if cpu.use is CpuUse.RESERVED:
        if cpu.milli <= ledger.supply.reserved_milli:
            return _reserved(machine, ledger, attempt, cpu)
        attempt.warn("ReservedCpusFull", "the reserved CPUs are fully requested; the container runs on shared CPUs")
        cpu = replace(cpu, use=CpuUse.POOL)
    placed = _in_pool(machine, ledger, attempt, cpu)
    if placed is None and cpu.exclusive:
        placed = _exclusive_elsewhere(machine, ledger, attempt, cpu)
    if placed is None and (attempt.running or not cpu.exclusive):
        placed = _crowded(machine, ledger, attempt, cpu.shared())
    if placed is None:
        raise PlacementError(_shortage(ledger.supply, cpu))
    return placed


def _in_pool(machine: Machine, ledger: PoolLedger, attempt: Attempt, cpu: CpuNeed) -> PoolLedger | None:
    """Return the ledger with the grant in the best pool, None where no pool has the CPUs."""
    need = replace(attempt.need, cpu=cpu) if cpu is not attempt.need.cpu else attempt.need
    request = memory_request(machine, attempt, machine.tree.root) if machine.spec.pin_memory else None
    pool = machine.chooser.choose(ledger, need, request, attempt.affinity, attempt.previous.pool)
    if pool is None:
        return None
    if need.strict_hints and not attempt.running and hint_score(pool, need.hints) < 1:
        providers = ", ".join(hint.provider for hint in need.hints)
        raise PlacementError(f"fail strict hint: no pool that is close to {providers} has the CPUs")
    supply = ledger.supply.with_users(pool.id, cpu.milli) if cpu.users else ledger.supply
    exclusive = _pick(machine, supply, pool, attempt, cpu)
    if request is not None and not cpu.users and not need.hints:
        pool = _narrowed(machine, ledger, pool, exclusive, replace(request, affinity=pool.memory_for(request.kinds)))
    supply = supply.with_shared(supply.shared & ~exclusive, supply.isolated & ~exclusive)
    return ledger.with_grant(supply, _grant(attempt, pool, cpu, exclusive))


def _narrowed(machine: Machine, ledger: PoolLedger, pool: Pool, exclusive: int, request: MemoryRequest) -> Pool:
    """Return the smallest pool around exclusive CPUs whose memory suffices: the one chosen may be larger."""
    for each in map(machine.tree.pools.__getitem__, pool.subtree):
        if exclusive & ~each.cpus:
            continue
        offer = machine.memory.offer(ledger.memory, request, each.memory_for(request.kinds))
        if offer is not None and offer <= each.memory:
            return each
    return pool


def _pick(machine: Machine, supply: Supply, pool: Pool, attempt: Attempt, cpu: CpuNeed) -> int:
    if not cpu.exclusive:
        return 0
    preferred = attempt.previous.exclusive
    if not preferred and attempt.need.pick_by_hints:
        for hint in attempt.need.hints:
            preferred |= hint.cpus
    if has_isolated(supply, pool, cpu):
        return machine.slicer.choose(pool.cpus & supply.isolated, cpu.exclusive, cpu.priority, preferred)
    return machine.slicer.pick(supply, pool.id, cpu.exclusive, cpu.priority, preferred)


def _exclusive_elsewhere(machine: Machine, ledger: PoolLedger, attempt: Attempt, cpu: CpuNeed) -> PoolLedger | None:
    """Return the ledger with exclusive CPUs that are free in number only, or shared ones for a running container."""
    if not cpu.isolated_only:
        # One CPU may be free here and one there, where every pool keeps a CPU for the containers that share it.
        widened = widen_for(ledger, cpu)
        if widened is not None:
            return _in_pool(machine, widened, attempt, cpu)
    if not attempt.running:
        return None
    attempt.warn(
        "ExclusiveCpusUnavailable",
        f"{cpu.exclusive} exclusive CPUs are requested and not available; the container runs on shared CPUs",
    )
    return _in_pool(machine, ledger, attempt, cpu.shared())


def _crowded(machine: Machine, ledger: PoolLedger, attempt: Attempt, cpu: CpuNeed) -> PoolLedger | None:
    """Return the ledger with shared CPUs of which too little is left, or with reserved CPUs instead."""
    supply, root = ledger.supply, machine.tree.root
    left = max(0, supply.grantable[root.id])
    if attempt.running and supply.counts[root.id]:
        attempt.warn("CpusOvercommitted", f"{cpu.milli}m CPUs are requested and {left}m of the shared CPUs are left")
        part = replace(cpu, milli=left)
        return ledger.with_grant(supply.with_users(root.id, left), _grant(attempt, root, part))
    if machine.reserved and (attempt.running or cpu.milli <= supply.reserved_milli):
        attempt.warn("SharedCpusFull", f"{left}m of the shared CPUs are left; the container runs on reserved CPUs")
        return _reserved(machine, ledger, attempt, replace(cpu, milli=min(cpu.milli, supply.reserved_milli)))
    return None


def _reserved(machine: Machine, ledger: PoolLedger, attempt: Attempt, cpu: CpuNeed) -> PoolLedger:
    supply = replace(ledger.supply, reserved_milli=ledger.supply.reserved_milli - cpu.milli)
    grant = _grant(attempt, machine.tree.root, replace(cpu, use=CpuUse.RESERVED))
    return ledger.with_grant(supply, grant)


def _grant(attempt: Attempt, pool: Pool, cpu: CpuNeed, exclusive: int = 0) -> PoolGrant:
    return PoolGrant(container=attempt.container, need=attempt.need, pool=pool.id, cpu=cpu, exclusive=exclusive)


def _shortage(supply: Supply, cpu: CpuNeed) -> str:
    root = supply.tree.root.id
    if cpu.isolated_only:
        return f"{cpu.exclusive} isolated CPUs are required, {supply.isolated.bit_count()} are free"
    if cpu.exclusive:
        removable = supply.removable(root, cpu.milli, cpu.users)
        return f"{cpu.exclusive} exclusive CPUs are requested, {removable} are free"
    return f"{cpu.milli}m CPUs are requested, {max(0, supply.grantable[root])}m of the shared CPUs are left"
