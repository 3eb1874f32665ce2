"""From balloons to placements: CPUs with shared idle ones, memory nodes, weights and CPU classes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from joulie_core.containers.balloons.instances import Draft
from joulie_core.containers.balloons.restore import is_alike, make_records
from joulie_core.containers.balloons.state import Balloon, BalloonKey, BalloonsState, KeptMemory, Seat
from joulie_core.containers.balloons.types import DEFAULT_CLASS, BalloonTypes
from joulie_core.containers.container import ContainerId, QosClass
from joulie_core.containers.cpu_tree import CpuTree
from joulie_core.containers.differences import changed_keys
from joulie_core.containers.estimates import cpu_shares
from joulie_core.containers.idset import EMPTY, Cpus, IdSet, MemoryNodes
from joulie_core.containers.memory import (
    MemoryAllocator,
    MemoryPriority,
    MemoryRequest,
    MemoryRequestError,
    MemoryState,
)
from joulie_core.containers.policy import Placement, PolicyWarning
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.balloons_policy import RESERVED, BalloonsPolicySpec

#: The zone of containers that are left alone; no balloon has such a name.
ALONE: Final = "preserved"
_LEFT_ALONE: Final = Placement(zone=ALONE)
_PRIORITY: Final[Mapping[QosClass, MemoryPriority]] = {
    QosClass.GUARANTEED: MemoryPriority.GUARANTEED,
    QosClass.BURSTABLE: MemoryPriority.BURSTABLE,
    QosClass.BEST_EFFORT: MemoryPriority.BEST_EFFORT,
}


class Pinner:
    """Derives everything in a state that follows from its balloons."""

    def __init__(
        self, spec: BalloonsPolicySpec, topology: HardwareTopology, types: BalloonTypes, tree: CpuTree, reserved: Cpus
    ) -> None:
        """Take what does not change.

        Args:
            spec: The configuration.
            topology: The node.
            types: The resolved types.
            tree: The hardware.
            reserved: CPUs of a configured reserved set; only balloons of type `reserved` share them while idle.
        """
        self._topology = topology
        self._types = types
        self._tree = tree
        self._pin_cpu = spec.pin_cpu
        self._reserved = reserved
        self._idle_class = spec.idle_cpu_class or (DEFAULT_CLASS if DEFAULT_CLASS in spec.classes_by_name else "")
        self._memory = MemoryAllocator(topology.nodes)

    def finish(
        self, draft: Draft, before: BalloonsState, kept: Mapping[ContainerId, KeptMemory] | None = None
    ) -> tuple[BalloonsState, list[PolicyWarning]]:
        """Return the state that a draft has become.

        Args:
            draft: Balloons after a call.
            before: The state from which the draft was made.
            kept: Memory nodes that containers keep where that is possible.
        """
        changed = [balloon for key, balloon in draft.balloons.items() if before.balloons.get(key) is not balloon]
        memory, warnings = self._pin_memory(draft, before, changed, kept or {})
        shared = self._shared_idle(draft, before)
        placements = self._placements(draft, before, shared, memory)
        state = BalloonsState(
            balloons=draft.balloons,
            free=draft.free,
            homes=draft.homes,
            alone=frozenset(draft.alone),
            shared_idle=shared,
            memory=memory,
            placements=placements,
            records=make_records(draft.balloons, draft.homes, placements, before),
            cpu_classes=self._classes(draft, before, changed),
        )
        return state, warnings

    def _shared_idle(self, draft: Draft, before: BalloonsState) -> Mapping[BalloonKey, Cpus]:
        usable = draft.free - self._topology.isolated
        found = {}
        for key, balloon in draft.balloons.items():
            level = self._types.by_name[key.type].share_idle
            if draft.free == before.free and before.balloons.get(key) is balloon:
                found[key] = before.shared_idle.get(key, EMPTY)
            elif level is not None:
                idle = self._tree.around(balloon.cpus, level) & usable
                found[key] = idle if key.type == RESERVED else idle - self._reserved
        return {key: idle for key, idle in found.items() if idle}

    def _pin_memory(
        self,
        draft: Draft,
        before: BalloonsState,
        changed: Iterable[Balloon],
        kept: Mapping[ContainerId, KeptMemory],
    ) -> tuple[MemoryState, list[PolicyWarning]]:
        memory = before.memory
        for container in sorted(memory.grants.keys() - draft.homes.keys()):
            memory = self._memory.release(memory, container)
        requests = [
            self._request(seat, self._topology.nodes_of(balloon.cpus))
            for balloon in changed
            for seat in self._moved(balloon, before)
            if seat.pin_memory
        ]
        warnings = []
        # What is kept must not be in the way of nothing that is new.
        for request in sorted(requests, key=lambda each: (each.container not in kept, each.created_ns, each.container)):
            try:
                memory = self._granted(memory, request, kept.get(request.container))
            except MemoryRequestError as error:
                # An earlier grant was for another request, and would not be kept after a restart.
                memory = self._memory.release(memory, request.container)
                warnings.append(_not_pinned(request.container, error))
        return memory, warnings

    def _moved(self, balloon: Balloon, before: BalloonsState) -> Iterable[Seat]:
        """Return the containers of a balloon whose memory may have to be elsewhere than before."""
        old = before.balloons.get(balloon.key)
        if old is None or self._topology.nodes_of(old.cpus) != self._topology.nodes_of(balloon.cpus):
            return balloon.seats.values()
        return (seat for container, seat in balloon.seats.items() if old.seats.get(container) is not seat)

    def _request(self, seat: Seat, nodes: MemoryNodes) -> MemoryRequest:
        container = seat.container
        return MemoryRequest(
            container=container.id,
            size_bytes=container.resources.memory_limit_bytes or 0,
            affinity=nodes,
            kinds=seat.memory_kinds,
            priority=_PRIORITY[container.qos],
            created_ns=container.created_ns,
        )

    def _granted(self, memory: MemoryState, request: MemoryRequest, kept: KeptMemory | None) -> MemoryState:
        if kept is None:
            return self._memory.allocate(memory, request)
        if kept.nodes is None:
            return memory
        try:
            return self._memory.keep(memory, request, kept.nodes)
        except MemoryRequestError:
            return self._memory.allocate(memory, request)

    def _placements(
        self, draft: Draft, before: BalloonsState, shared: Mapping[BalloonKey, Cpus], memory: MemoryState
    ) -> Mapping[ContainerId, Placement]:
        placements = dict(before.placements)
        for container in before.placements.keys() - draft.homes.keys():
            del placements[container]
        placements.update(dict.fromkeys(draft.alone, _LEFT_ALONE))
        others = _with_other_memory(before, memory)
        for key, balloon in draft.balloons.items():
            idle = shared.get(key, EMPTY)
            if (
                before.balloons.get(key) is not balloon
                or before.shared_idle.get(key, EMPTY) != idle
                or not others.isdisjoint(balloon.seats)
            ):
                placements.update(self._placed(balloon, idle, before, memory))
        return placements

    def _placed(
        self, balloon: Balloon, idle: Cpus, before: BalloonsState, memory: MemoryState
    ) -> Iterator[tuple[ContainerId, Placement]]:
        """Return the placements in a balloon that are not the ones before; equal ones are one object."""
        old = before.balloons.get(balloon.key) or Balloon(key=balloon.key)
        same = (
            old.cpus == balloon.cpus
            and before.shared_idle.get(balloon.key, EMPTY) == idle
            and (len(old.seats) == 1) == (len(balloon.seats) == 1)
        )
        known: dict[tuple[object, ...], Placement] = {}
        for container, seat in balloon.seats.items():
            grant = memory.grants.get(container)
            nodes = grant.nodes if grant and seat.pin_memory else None
            if same and old.seats.get(container) is seat and before.memory.grants.get(container) is grant:
                continue
            mask = None if nodes is None else nodes.mask
            kind = seat.request_milli, seat.hide_hyperthreads, mask, seat.scheduling_class
            placement = known.get(kind)
            if placement is None:
                placement = known[kind] = self._placement(balloon, idle, seat, nodes)
            yield container, placement

    def _placement(self, balloon: Balloon, idle: Cpus, seat: Seat, nodes: MemoryNodes | None) -> Placement:
        cpus = balloon.cpus | idle
        if seat.hide_hyperthreads:
            cpus = self._one_thread_per_core(cpus)
        return Placement(
            zone=str(balloon.key),
            cpus=cpus if self._pin_cpu else None,
            memory=nodes,
            exclusive=cpus & balloon.cpus if self._pin_cpu and len(balloon.seats) == 1 else EMPTY,
            cpu_shares=cpu_shares(seat.request_milli),
            scheduling_class=seat.scheduling_class,
        )

    def _one_thread_per_core(self, cpus: Cpus) -> Cpus:
        first: dict[int, int] = {}
        for number in cpus:
            first.setdefault(self._topology.cpus[number].core, number)
        return IdSet(first.values())

    def _classes(self, draft: Draft, before: BalloonsState, changed: Sequence[Balloon]) -> Mapping[str, Cpus]:
        if (
            draft.free == before.free
            and len(draft.balloons) == len(before.balloons)
            and all(is_alike(before.balloons.get(balloon.key), balloon) for balloon in changed)
        ):
            return before.cpu_classes
        classes: dict[str, Cpus] = {}
        for balloon in draft.balloons.values():
            for leaf in balloon.leaves():
                name = self._types.by_name[leaf.key.type].cpu_class
                classes[name] = classes.get(name, EMPTY) | leaf.cpus
        classes[self._idle_class] = classes.get(self._idle_class, EMPTY) | draft.free
        return {name: cpus for name, cpus in classes.items() if name and cpus}


def _with_other_memory(before: BalloonsState, memory: MemoryState) -> set[ContainerId]:
    """Return the containers whose grant of memory is not the very one before."""
    if memory is before.memory:
        return set()
    old = before.memory.grants
    return {*changed_keys(memory.grants, old), *(old.keys() - memory.grants.keys())}


def _not_pinned(container: ContainerId, error: MemoryRequestError) -> PolicyWarning:
    return PolicyWarning(
        container=container,
        reason="MemoryNotPinned",
        message=f"the memory nodes of the container stay as they are: {error}",
    )
