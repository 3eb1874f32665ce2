"""Granting memory nodes to one container that has its CPUs."""

from dataclasses import replace
from typing import Final

from joulie_core.containers.idset import IdSet, MemoryNodes
from joulie_core.containers.memory import MemoryPriority, MemoryRequest, MemoryRequestError, MemoryState
from joulie_core.containers.topology import MemoryKind
from joulie_core.containers.topology_aware.attempt import NOTHING, Attempt, PlacementError
from joulie_core.containers.topology_aware.ledger import PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.pools import Pool

_COLD: Final = frozenset({MemoryKind.PMEM})
_COLD_AND_WARM: Final = frozenset({MemoryKind.PMEM, MemoryKind.DRAM})


def memory_request(machine: Machine, attempt: Attempt, pool: Pool, *, cold: bool = False) -> MemoryRequest:
    """Return the memory that a container needs near a pool; `cold` for the beginning, on the slower memory only."""
    memory = attempt.need.memory
    kinds = _COLD if cold else memory.kinds
    preserved = memory.priority is MemoryPriority.PRESERVED
    return MemoryRequest(
        container=attempt.container.id,
        size_bytes=memory.size_bytes,
        # What the runtime has set may be anywhere.
        affinity=machine.tree.root.memory if preserved else pool.memory_for(kinds),
        kinds=frozenset() if preserved else kinds,
        priority=memory.priority,
        created_ns=attempt.container.created_ns,
    )


def grant_memory(machine: Machine, ledger: PoolLedger, attempt: Attempt) -> PoolLedger:
    """Return the ledger with memory for a container whose CPUs are in it.

    Raises:
        PlacementError: The memory of the machine does not suffice.
    """
    if not machine.spec.pin_memory:
        return ledger
    grant = ledger.grants[attempt.container.id]
    pool = machine.tree.pools[grant.pool]
    cold = _starts_cold(machine, attempt, pool)
    request = memory_request(machine, attempt, pool, cold=cold)
    # Memory follows the CPUs to another pool.
    previous = attempt.previous.memory if attempt.previous.pool == pool.id else None
    memory = _granted(machine, ledger.memory, attempt, request, previous)
    if cold == grant.cold:
        return replace(ledger, memory=memory)
    grants = {**ledger.grants, attempt.container.id: replace(grant, cold=cold)}
    return PoolLedger(supply=ledger.supply, memory=memory, grants=grants)


def end_cold_start(machine: Machine, ledger: PoolLedger, attempt: Attempt) -> PoolLedger:
    """Return the ledger with the faster memory for a container that has started on the slower one."""
    grant = replace(ledger.grants[attempt.container.id], cold=False)
    request = memory_request(machine, attempt, machine.tree.pools[grant.pool])
    memory = _granted(machine, ledger.memory, attempt, request, None)
    return PoolLedger(supply=ledger.supply, memory=memory, grants={**ledger.grants, attempt.container.id: grant})


def _granted(
    machine: Machine, state: MemoryState, attempt: Attempt, request: MemoryRequest, previous: MemoryNodes | None
) -> MemoryState:
    """Return the state with the request granted: on the nodes that the container has had, or on others."""
    if previous is not None:
        kept = _kept(machine, state, request, previous)
        if kept is not None:
            return kept
    try:
        return machine.memory.allocate(state, request)
    except MemoryRequestError as error:
        if not attempt.running and _exceeds_guaranteed(machine, state, request):
            raise PlacementError(str(error)) from error
        # Requests of Burstable containers are estimates, and limits are no needs: the container is not refused.
        attempt.warn("MemoryOvercommitted", f"{error}; the container may use all memory nodes")
        everywhere = replace(request, size_bytes=0, affinity=IdSet(machine.topology.nodes))
        return machine.memory.allocate(state, everywhere)


def _kept(machine: Machine, state: MemoryState, request: MemoryRequest, nodes: MemoryNodes) -> MemoryState | None:
    try:
        return machine.memory.keep(state, request, nodes)
    except MemoryRequestError:
        return None


def _starts_cold(machine: Machine, attempt: Attempt, pool: Pool) -> bool:
    """Return whether a container uses the slower memory of its pool only, for the beginning."""
    memory = attempt.need.memory
    is_new = not attempt.running and attempt.previous is NOTHING
    if memory.cold_start_s is None or not (is_new or attempt.previous.cold):
        return False
    # Memory that the kernel may not use for its own data does not suffice alone.
    normal = IdSet(node for node in pool.memory if machine.topology.nodes[node].normal)
    has_both = machine.memory.kinds_of(pool.memory) >= _COLD_AND_WARM and MemoryKind.PMEM in machine.memory.kinds_of(
        normal
    )
    if has_both and (not memory.kinds or memory.kinds >= _COLD_AND_WARM):
        return True
    attempt.warn("ColdStartUnavailable", "a cold start needs PMEM of normal memory beside DRAM; there is none")
    return False


def _exceeds_guaranteed(machine: Machine, state: MemoryState, request: MemoryRequest) -> bool:
    """Return whether a Guaranteed container exceeds the machine beside Guaranteed ones alone, whose sizes are exact."""
    if request.priority < MemoryPriority.GUARANTEED:
        return False
    for grant in state.grants.values():
        if grant.request.priority < MemoryPriority.GUARANTEED:
            state = machine.memory.release(state, grant.request.container)
    return machine.memory.offer(state, request) is None
