"""The topology-aware policy."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from joulie_core.containers.annotations import Annotations
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.policy import (
    ColdStartEnded,
    ContainerPolicy,
    GrantRecord,
    PlacementZone,
    PolicyEvent,
    PolicyResult,
    PolicyTimer,
    PolicyWarning,
    PowerProfileChanged,
    RebalanceRequested,
)
from joulie_core.containers.topology import HardwareTopology
from joulie_core.containers.topology_aware.attempt import NOTHING, Attempt, PlacementError, Previous
from joulie_core.containers.topology_aware.invariants import check_state
from joulie_core.containers.topology_aware.ledger import PoolGrant, PoolLedger
from joulie_core.containers.topology_aware.machine import Machine
from joulie_core.containers.topology_aware.memory_grants import end_cold_start
from joulie_core.containers.topology_aware.need import read_need
from joulie_core.containers.topology_aware.rebalancing import rebalance
from joulie_core.containers.topology_aware.records import keep, read_record
from joulie_core.containers.topology_aware.reporting import class_capacity, pool_zones
from joulie_core.containers.topology_aware.state import TopologyAwareState, new_state
from joulie_core.containers.topology_aware.synchronizing import place, synchronize
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicySpec


class TopologyAwareContainerPolicy(ContainerPolicy[TopologyAwareState]):
    """Places each container on the smallest part of the machine that suits it.

    A Guaranteed container gets CPUs of its own; all others share the CPUs of a pool with its other containers. Every
    container gets the memory nodes that are nearest.
    """

    name: ClassVar[str] = "topology-aware"

    def __init__(self, spec: TopologyAwarePolicySpec, topology: HardwareTopology) -> None:
        """Resolve the configuration on this node.

        Raises:
            PolicyConfigError: It cannot be used on this node.
        """
        self._machine = Machine(spec, topology)

    def synchronize(
        self, containers: Sequence[ContainerInfo], grants: Mapping[ContainerId, GrantRecord]
    ) -> PolicyResult[TopologyAwareState]:
        """Keep all grants that are valid, and place the other containers in the order of their creation.

        A container that runs is not rejected for want of CPUs: it gets less than it needs, with a warning.
        """
        attempts = [self._attempt(container, running=True) for container in containers]
        done = synchronize(self._machine, attempts, grants)
        return PolicyResult(
            state=new_state(self._machine, done.ledger),
            rejected=done.rejected,
            warnings=_warnings(attempts),
            timers=tuple(_timer(grant) for grant in done.ledger.grants.values() if grant.cold),
        )

    def allocate(self, state: TopologyAwareState, container: ContainerInfo) -> PolicyResult[TopologyAwareState]:
        """Place a new container; one that is known is placed as by `update`."""
        if container.id in state.ledger.grants:
            return self.update(state, container)
        return self._placed(state, state.ledger, self._attempt(container))

    def restore(
        self, state: TopologyAwareState, container: ContainerInfo, grant: GrantRecord
    ) -> PolicyResult[TopologyAwareState] | None:
        """Place a new container with the pool, the exclusive CPUs and the memory nodes of an earlier one."""
        attempt = self._attempt(container)
        stored = read_record(self._machine, grant)
        kept = keep(self._machine, state.ledger, attempt, stored) if stored is not None else None
        if kept is None or not kept.with_memory:
            return None
        return self._changed(state, kept.ledger, [attempt])

    def release(self, state: TopologyAwareState, container: ContainerId) -> PolicyResult[TopologyAwareState]:
        """Free what a container was granted; containers on shared CPUs may use its exclusive ones again."""
        if container not in state.ledger.grants:
            return PolicyResult(state=state)
        return PolicyResult(state=new_state(self._machine, self._machine.removed(state.ledger, container), state))

    def update(self, state: TopologyAwareState, container: ContainerInfo) -> PolicyResult[TopologyAwareState]:
        """Place a container whose resources have changed, in its pool and on its CPUs as far as these suffice."""
        known = state.ledger.grants.get(container.id)
        if known is None:
            return self._placed(state, state.ledger, self._attempt(container))
        attempt = self._attempt(container, previous=_previous(state.ledger, known))
        return self._placed(state, self._machine.removed(state.ledger, container.id), attempt)

    def handle(self, state: TopologyAwareState, event: PolicyEvent) -> PolicyResult[TopologyAwareState]:
        """End cold starts, and on request place containers again that got less than they need."""
        match event:
            case ColdStartEnded(container):
                grant = state.ledger.grants.get(container)
                if grant is None or not grant.cold:
                    return PolicyResult(state=state)
                attempt = Attempt(container=grant.container, need=grant.need, running=True)
                ledger = end_cold_start(self._machine, state.ledger, attempt)
                return self._changed(state, ledger, [attempt])
            case RebalanceRequested(usage_milli):
                return self._changed(state, rebalance(self._machine, state.ledger, usage_milli), [])
            case PowerProfileChanged():
                return PolicyResult(state=state)

    def grants(self, state: TopologyAwareState) -> Mapping[ContainerId, GrantRecord]:
        """Return what is stored for each container."""
        return state.records

    def zones(self, state: TopologyAwareState) -> tuple[PlacementZone, ...]:
        """Return the pools, parents first."""
        return pool_zones(self._machine, state.ledger)

    def class_capacity(self) -> Mapping[str, int]:
        """Return how many CPUs the pools have for each CPU class at most, in thousandths."""
        return class_capacity(self._machine)

    def check(self, state: TopologyAwareState) -> None:
        """Raise AssertionError where CPUs or memory are granted twice or not there, or a needed pool is empty."""
        check_state(self._machine, state)

    def _placed(
        self, state: TopologyAwareState, ledger: PoolLedger, attempt: Attempt
    ) -> PolicyResult[TopologyAwareState]:
        """Return the result of placing a container that is not in the ledger."""
        try:
            return self._changed(state, place(self._machine, ledger, attempt), [attempt])
        except PlacementError as error:
            return PolicyResult(
                state=state, rejected={attempt.container.id: str(error)}, warnings=tuple(attempt.warnings)
            )

    def _changed(
        self, state: TopologyAwareState, ledger: PoolLedger, attempts: Sequence[Attempt]
    ) -> PolicyResult[TopologyAwareState]:
        names = [attempt.container.id for attempt in attempts]
        return PolicyResult(
            state=new_state(self._machine, ledger, state),
            warnings=_warnings(attempts),
            timers=tuple(_timer(ledger.grants[name]) for name in names if ledger.grants[name].cold),
        )

    def _attempt(self, container: ContainerInfo, *, previous: Previous = NOTHING, running: bool = False) -> Attempt:
        annotations = Annotations(container)
        machine = self._machine
        need = read_need(container, machine.spec, machine.classes, annotations, has_reserved=bool(machine.reserved))
        return Attempt(
            container=container, need=need, previous=previous, running=running, warnings=annotations.warnings
        )


def _previous(ledger: PoolLedger, grant: PoolGrant) -> Previous:
    memory = ledger.memory.grants.get(grant.container.id)
    return Previous(
        pool=grant.pool, exclusive=grant.exclusive, memory=memory.nodes if memory else None, cold=grant.cold
    )


def _timer(grant: PoolGrant) -> PolicyTimer:
    # A cold grant has a duration, or it would not have been granted.
    return PolicyTimer(after_s=grant.need.memory.cold_start_s or 0, event=ColdStartEnded(grant.container.id))


def _warnings(attempts: Sequence[Attempt]) -> tuple[PolicyWarning, ...]:
    ordered = sorted(attempts, key=lambda each: (each.container.created_ns, each.container.id))
    return tuple(warning for attempt in ordered for warning in attempt.warnings)
