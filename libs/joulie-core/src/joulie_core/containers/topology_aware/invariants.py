"""Invariants of the state of the policy."""

from joulie_core.containers.idset import IdSet
from joulie_core.containers.memory_capacity import crowded_nodes
from joulie_core.containers.topology_aware.ledger import PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.need import WHOLE_CPU_MILLI, CpuUse
from joulie_core.containers.topology_aware.state import TopologyAwareState, new_state


def check_state(machine: Machine, state: TopologyAwareState) -> None:
    """Raise AssertionError where an invariant is broken."""
    _check_exclusive(machine, state.ledger)
    _check_shares(machine, state.ledger)
    _check_memory(machine, state.ledger)
    assert new_state(machine, state.ledger) == state, "placements and records do not follow from the grants"
    for name, placement in state.placements.items():
        use = state.ledger.grants[name].cpu.use
        pinned = machine.spec.pin_cpu and use is not CpuUse.UNCHANGED
        assert bool(placement.cpus) == pinned, f"{name} has the CPUs {placement.cpus}"
        assert placement.cpus is None or placement.cpus <= machine.available, f"{name} has CPUs that are not available"
    if not state.ledger.grants:
        assert state.ledger == machine.empty_ledger(), "something is granted to no container"


def _check_exclusive(machine: Machine, ledger: PoolLedger) -> None:
    supply = ledger.supply
    taken = 0
    for name, grant in ledger.grants.items():
        assert not grant.exclusive & taken, f"{name} has exclusive CPUs of another container"
        assert not grant.exclusive & ~machine.tree.pools[grant.pool].cpus, f"{name} has CPUs outside its pool"
        assert grant.exclusive.bit_count() == grant.cpu.exclusive
        assert grant.cpu.exclusive in (0, grant.need.cpu.exclusive), f"{name} has some of its exclusive CPUs"
        taken |= grant.exclusive
    free = supply.shared | supply.isolated
    assert not taken & free, "exclusive CPUs are granted again"
    assert taken | free == (machine.shared | machine.isolated).mask, "CPUs are lost"
    assert not supply.shared & ~machine.shared.mask, "isolated or reserved CPUs are shared"


def _check_shares(machine: Machine, ledger: PoolLedger) -> None:
    supply = ledger.supply
    reserved = WHOLE_CPU_MILLI * len(machine.reserved)
    for grant in ledger.grants.values():
        reserved -= grant.cpu.milli if grant.cpu.use is CpuUse.RESERVED else 0
    assert supply.reserved_milli == reserved >= 0
    for pool in machine.tree.pools:
        inside = [grant for grant in ledger.grants.values() if grant.cpu.users and grant.pool in pool.subtree]
        assert supply.users[pool.id] == len(inside)
        assert supply.granted[pool.id] == sum(grant.cpu.milli for grant in inside)
        left = (pool.cpus & supply.shared).bit_count()
        assert left or not inside, f"{pool.name} has no shared CPU for {len(inside)} containers"
        assert supply.granted[pool.id] <= WHOLE_CPU_MILLI * left, f"more is granted than {pool.name} has"


def _check_memory(machine: Machine, ledger: PoolLedger) -> None:
    memory = ledger.memory
    assert set(memory.grants) == (set(ledger.grants) if machine.spec.pin_memory else set())
    wanted: dict[int, int] = {}
    for name, grant in memory.grants.items():
        assert grant.nodes <= IdSet(machine.topology.nodes), f"{name} has memory nodes that are not there"
        if grant.request.size_bytes:
            wanted[grant.nodes.mask] = wanted.get(grant.nodes.mask, 0) + grant.request.size_bytes
    assert memory.wanted == wanted
    capacity = {1 << node.id: node.capacity_bytes for node in machine.topology.nodes.values()}
    assert not crowded_nodes(wanted, capacity), "memory is overcommitted"
