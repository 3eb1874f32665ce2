"""Bringing the grants to a given set of containers: those that are still valid are kept, the others made anew."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from joulie_core.containers.container import ContainerId
from joulie_core.containers.policy import GrantRecord
from joulie_core.containers.topology_aware.affinity import affinity_scores
from joulie_core.containers.topology_aware.attempt import Attempt, PlacementError
from joulie_core.containers.topology_aware.cpu_grants import grant_cpus
from joulie_core.containers.topology_aware.ledger import PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.memory_grants import grant_memory
from joulie_core.containers.topology_aware.records import keep, read_record


@dataclass(slots=True)
class Synchronized:
    """Grants of exactly the given containers."""

    ledger: PoolLedger
    rejected: dict[ContainerId, str] = field(default_factory=dict)


def place(machine: Machine, ledger: PoolLedger, attempt: Attempt) -> PoolLedger:
    """Return the ledger with CPUs and memory for a container that has no grant.

    Raises:
        PlacementError: The container cannot be placed.
    """
    affinity = affinity_scores(ledger, attempt.container, attempt.need.affinities, machine.spec)
    attempt = replace(attempt, affinity=affinity)
    return grant_memory(machine, grant_cpus(machine, ledger, attempt), attempt)


def synchronize(
    machine: Machine, attempts: Iterable[Attempt], records: Mapping[ContainerId, GrantRecord]
) -> Synchronized:
    """Return grants for containers that run, in two passes by order of creation.

    Args:
        machine: The machine.
        attempts: The containers, each once.
        records: What was stored of their grants, under any configuration and topology.
    """
    ordered = sorted(attempts, key=lambda each: (each.container.created_ns, each.container.id))
    empty = machine.empty_ledger()
    ledger, missing = _keep_valid(machine, empty, ordered, records)
    if empty.supply.shared and any(each.need.cpu.users for each in missing):
        # Exclusive CPUs, kept or new, must not take the last shared CPU of those that are still to be placed.
        if not ledger.supply.shared:
            ledger, missing = _keep_valid(machine, _awaiting(empty, 1), ordered, records)
        ledger = _awaiting(ledger, 1)
    result = Synchronized(ledger)
    for attempt in missing:
        try:
            result.ledger = _complete(machine, result.ledger, attempt)
        except PlacementError as error:
            result.rejected[attempt.container.id] = str(error)
    result.ledger = _awaiting(result.ledger, 0)
    return result


def _awaiting(ledger: PoolLedger, awaited: int) -> PoolLedger:
    return replace(ledger, supply=replace(ledger.supply, awaited=awaited))


def _keep_valid(
    machine: Machine, ledger: PoolLedger, attempts: Iterable[Attempt], records: Mapping[ContainerId, GrantRecord]
) -> tuple[PoolLedger, list[Attempt]]:
    """Return the ledger with all grants that are still valid, and the containers that lack CPUs or memory."""
    missing = []
    for attempt in attempts:
        record = records.get(attempt.container.id)
        stored = read_record(machine, record) if record is not None else None
        if stored is None:
            missing.append(attempt)
            continue
        kept = keep(machine, ledger, attempt, stored)
        if kept is not None:
            ledger = kept.ledger
        if kept is None or not kept.with_memory:
            missing.append(replace(attempt, previous=stored.previous))
    return ledger, missing


def _complete(machine: Machine, ledger: PoolLedger, attempt: Attempt) -> PoolLedger:
    if attempt.container.id in ledger.grants:
        return grant_memory(machine, ledger, attempt)
    return place(machine, ledger, attempt)
