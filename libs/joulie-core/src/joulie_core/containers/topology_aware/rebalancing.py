"""Placing containers again that got less than they need, or that run where measurements show no room."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from joulie_core.containers.container import ContainerId
from joulie_core.containers.topology_aware.attempt import Attempt, PlacementError
from joulie_core.containers.topology_aware.ledger import PoolGrant, PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.need import WHOLE_CPU_MILLI
from joulie_core.containers.topology_aware.pools import Pool
from joulie_core.containers.topology_aware.scoring import fits
from joulie_core.containers.topology_aware.synchronizing import place

#: A pool whose containers use more of its shared CPUs than this is too busy.
_BUSY: Final = 0.9
#: A container moves only where that leaves the busier of both pools this much less busy.
_GAIN: Final = 0.1


def rebalance(machine: Machine, ledger: PoolLedger, usage_milli: Mapping[ContainerId, int]) -> PoolLedger:
    """Return the ledger with a few containers placed again; most stay where they are.

    Args:
        machine: The machine.
        ledger: The grants.
        usage_milli: CPU usage by container, in thousandths of a CPU.
    """
    for grant in _in_order(ledger):
        if grant.cpu != grant.need.cpu:
            ledger = _retried(machine, ledger, grant)
    for pool in machine.tree.pools:
        if not pool.children:
            ledger = _relieved(machine, ledger, pool, usage_milli)
    return ledger


def _in_order(ledger: PoolLedger) -> list[PoolGrant]:
    return sorted(ledger.grants.values(), key=lambda grant: (grant.container.created_ns, grant.container.id))


def _retried(machine: Machine, ledger: PoolLedger, grant: PoolGrant) -> PoolLedger:
    """Return the ledger with what a container needs, or unchanged where that is still not there."""
    attempt = Attempt(container=grant.container, need=grant.need)
    try:
        retried = place(machine, machine.removed(ledger, grant.container.id), attempt)
    except PlacementError:
        return ledger
    return retried if retried.grants[grant.container.id].cpu == grant.need.cpu else ledger


def _relieved(machine: Machine, ledger: PoolLedger, pool: Pool, usage_milli: Mapping[ContainerId, int]) -> PoolLedger:
    """Return the ledger with one container of a busy pool in another pool with the same memory nodes."""
    before = _busy(ledger, pool, usage_milli)
    if before <= _BUSY:
        return ledger
    best: tuple[float, int, ContainerId] | None = None
    for grant in _in_order(ledger):
        usage = usage_milli.get(grant.container.id, 0)
        # A container that is close to a device or to other containers stays there.
        if grant.pool != pool.id or not grant.cpu.users or grant.exclusive or not usage or grant.need.tied:
            continue
        for other in machine.tree.pools:
            if other.children or other is pool or other.memory != pool.memory:
                continue
            moved = _moved(ledger, grant, other)
            if moved is None:
                continue
            busier = max(_busy(moved, pool, usage_milli), _busy(moved, other, usage_milli))
            best = min(best, (busier, other.id, grant.container.id)) if best else (busier, other.id, grant.container.id)
    if best is None or best[0] > before - _GAIN:
        return ledger
    return _moved(ledger, ledger.grants[best[2]], machine.tree.pools[best[1]]) or ledger


def _busy(ledger: PoolLedger, pool: Pool, usage_milli: Mapping[ContainerId, int]) -> float:
    """Return which part of the shared CPUs of a pool its own containers use; more than 1 where they wait."""
    usage = sum(
        usage_milli.get(name, 0)
        for name, grant in ledger.grants.items()
        if grant.pool == pool.id and grant.cpu.users and not grant.exclusive
    )
    return usage / (WHOLE_CPU_MILLI * ledger.supply.counts[pool.id]) if usage else 0.0


def _moved(ledger: PoolLedger, grant: PoolGrant, pool: Pool) -> PoolLedger | None:
    supply = ledger.supply.with_users(grant.pool, -grant.cpu.milli, -1)
    if not fits(supply, pool, grant.cpu):
        return None
    return ledger.with_grant(supply.with_users(pool.id, grant.cpu.milli), replace(grant, pool=pool.id))
