"""The balloons policy."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from joulie_core.containers.balloons.capacity import class_capacity
from joulie_core.containers.balloons.checks import check_state
from joulie_core.containers.balloons.instances import Draft, NoRoomError
from joulie_core.containers.balloons.interrupts import balloon_interrupts
from joulie_core.containers.balloons.pinning import Pinner
from joulie_core.containers.balloons.resize import Resizer
from joulie_core.containers.balloons.restore import Restorer, kept_memory
from joulie_core.containers.balloons.selection import Selector
from joulie_core.containers.balloons.state import BalloonsState, KeptMemory
from joulie_core.containers.balloons.synchronize import Synchronizer
from joulie_core.containers.balloons.types import resolve_types
from joulie_core.containers.balloons.zones import balloon_zones
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.cpu_tree import CpuTree
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_core.containers.interrupts import InterruptPlacement
from joulie_core.containers.node_cpus import node_cpus
from joulie_core.containers.policy import (
    ContainerPolicy,
    GrantRecord,
    PlacementZone,
    PolicyEvent,
    PolicyResult,
    PolicyWarning,
)
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.balloons_policy import BalloonsPolicySpec

#: Repetitions of a synchronization; one suffices unless balloons have become smaller.
_MOST_PASSES: Final = 4


class BalloonsContainerPolicy(ContainerPolicy[BalloonsState]):
    """Containers share balloons: sets of CPUs that are as large as the requests of their containers.

    The size of a balloon follows from its containers at all times: it grows and shrinks when one comes, leaves or
    changes its request. A running container that has no room after a change of the configuration or the machine shares
    a balloon beyond its CPUs, with a warning, until there is room.
    """

    name: ClassVar[str] = "balloons"

    def __init__(
        self, spec: BalloonsPolicySpec, topology: HardwareTopology, devices: Mapping[str, Cpus] | None = None
    ) -> None:
        """Resolve the configuration on a node.

        Args:
            spec: The configuration.
            topology: The node.
            devices: CPUs close to devices, by the paths in `preferCloseToDevices`. NUMA nodes, CPUs and their caches
                need no entry. A path without entry is no preference: not all nodes have the same devices.

        Raises:
            PolicyConfigError: The configuration cannot be used on this node.
        """
        cpus = node_cpus(topology, spec.available_resources.cpu, spec.reserved_resources.cpu)
        tree = CpuTree(topology)
        self._topology = topology
        self._available = cpus.available
        self._types = resolve_types(spec, topology, cpus, devices or {})
        self._resizer = Resizer(tree, self._types, spec.load_classes)
        self._restorer = Restorer(self._types)
        self._selector = Selector(
            self._types, spec.preserve.match_expressions, [each.name for each in spec.scheduling_classes]
        )
        self._pinner = Pinner(spec, topology, self._types, tree, cpus.reserved_set or EMPTY)

    def synchronize(
        self, containers: Sequence[ContainerInfo], grants: Mapping[ContainerId, GrantRecord]
    ) -> PolicyResult[BalloonsState]:
        """Return the state for exactly these containers.

        A balloon stays with its CPUs where its type still exists and the CPUs are available to it; where it has to
        become smaller, its youngest containers leave it first. That may give room to others, so it is repeated until
        nothing changes: the next restart must move nothing.
        """
        result = self._synchronized(containers, grants)
        for _ in range(_MOST_PASSES):
            again = self._synchronized(containers, result.state.records)
            if again.state == result.state:
                break
            result = again
        return result

    def _synchronized(
        self, containers: Sequence[ContainerInfo], grants: Mapping[ContainerId, GrantRecord]
    ) -> PolicyResult[BalloonsState]:
        empty = BalloonsState(free=self._available)
        work = Synchronizer(self._draft(empty), self._restorer, self._selector, self._topology)
        work.run(containers, grants)
        return self._finish(work.draft, empty, work.warnings, work.kept, work.rejected)

    def allocate(self, state: BalloonsState, container: ContainerInfo) -> PolicyResult[BalloonsState]:
        """Place a new container in a balloon of its type."""
        if container.id in state.homes or container.id in state.alone:
            return self.update(state, container)
        choice = self._selector.choose(container)
        draft = self._draft(state)
        if choice.type is None:
            draft.alone.add(container.id)
            return self._finish(draft, state, choice.warnings)
        try:
            draft.place(choice.type, choice.seat)
        except NoRoomError as error:
            return PolicyResult(state=state, rejected={container.id: str(error)}, warnings=tuple(choice.warnings))
        return self._finish(draft, state, choice.warnings)

    def restore(
        self, state: BalloonsState, container: ContainerInfo, grant: GrantRecord
    ) -> PolicyResult[BalloonsState] | None:
        """Put a new container into the balloon of an earlier one, which is created with its CPUs where it has gone."""
        choice = self._selector.choose(container)
        recorded, memory = self._restorer.balloon(grant), kept_memory(grant)
        if choice.type is None or recorded is None or memory is None or recorded.key.type != choice.type.name:
            return None
        draft = self._draft(state)
        if not draft.place_in(recorded, choice.seat):
            return None
        return self._finish(draft, state, choice.warnings, {container.id: memory})

    def release(self, state: BalloonsState, container: ContainerId) -> PolicyResult[BalloonsState]:
        """Take a container out of its balloon, which shrinks."""
        if container not in state.homes and container not in state.alone:
            return PolicyResult(state=state)
        draft = self._draft(state)
        draft.alone.discard(container)
        if container in draft.homes:
            draft.unseat(container)
            draft.settle()
        return self._finish(draft, state)

    def update(self, state: BalloonsState, container: ContainerInfo) -> PolicyResult[BalloonsState]:
        """Resize the balloon of a container for its new request; it stays in its balloon."""
        if container.id in state.alone:
            return PolicyResult(state=state)
        if container.id not in state.homes:
            return self.allocate(state, container)
        choice = self._selector.choose(container)
        draft = self._draft(state)
        balloon = draft.balloons[draft.homes[container.id]]
        draft.seat(balloon, choice.seat)
        resized = draft.balloons[balloon.key]
        if resized.free_milli < min(0, balloon.free_milli) and not self._types.by_name[balloon.key.type].exact:
            reason = (
                f"{balloon.key} cannot grow from {len(balloon.cpus)} CPUs to the {-(-resized.requested_milli // 1000)} "
                f"that its containers would request: it may have {self._resizer.sizes.most(balloon)}, and "
                f"{len(state.free)} are idle"
            )
            return PolicyResult(state=state, rejected={container.id: reason}, warnings=tuple(choice.warnings))
        draft.settle()
        return self._finish(draft, state, choice.warnings)

    def handle(self, state: BalloonsState, event: PolicyEvent) -> PolicyResult[BalloonsState]:
        """Change nothing: sizes follow from requests, and CPU classes follow the power profile in the actuator."""
        del event
        return PolicyResult(state=state)

    def grants(self, state: BalloonsState) -> Mapping[ContainerId, GrantRecord]:
        """Return for each container its balloon with all CPUs, and its memory nodes."""
        return state.records

    def zones(self, state: BalloonsState) -> tuple[PlacementZone, ...]:
        """Return the balloons, each before its components."""
        return balloon_zones(self._draft(state), state, self._topology)

    def interrupts(self, state: BalloonsState) -> InterruptPlacement:
        """Return what the balloons want of the node's interrupts."""
        return balloon_interrupts(self._types, state)

    def class_capacity(self) -> Mapping[str, int]:
        """Return how many CPUs of a class balloons can have at most, in thousandths, by CPU class."""
        return class_capacity(self._types, len(self._available))

    def check(self, state: BalloonsState) -> None:
        """Check that balloons, idle CPUs, placements and memory fit together."""
        check_state(self._draft(state), state, self._available, self._topology)

    def _draft(self, state: BalloonsState) -> Draft:
        return Draft(self._types, self._resizer, state)

    def _finish(
        self,
        draft: Draft,
        before: BalloonsState,
        warnings: Sequence[PolicyWarning] = (),
        kept: Mapping[ContainerId, KeptMemory] | None = None,
        rejected: Mapping[ContainerId, str] | None = None,
    ) -> PolicyResult[BalloonsState]:
        state, memory_warnings = self._pinner.finish(draft, before, kept)
        return PolicyResult(state=state, rejected=rejected or {}, warnings=(*warnings, *memory_warnings))
