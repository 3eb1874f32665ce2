"""The state for exactly the containers that a runtime lists: valid grants stay, everything else is placed anew."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from joulie_core.containers.balloons.instances import Draft, NoRoomError
from joulie_core.containers.balloons.restore import Restorer, kept_memory
from joulie_core.containers.balloons.selection import BalloonChoice, Selector
from joulie_core.containers.balloons.state import Balloon, BalloonKey, KeptMemory, Seat
from joulie_core.containers.balloons.types import BalloonType
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import GrantRecord, PolicyWarning
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.balloons_policy import DEFAULT, RESERVED

_OVERCOMMITTED: Final = "Overcommitted"


class Synchronizer:
    """One synchronization; used once."""

    def __init__(self, draft: Draft, restorer: Restorer, selector: Selector, topology: HardwareTopology) -> None:
        """Start from a draft without balloons, whose free CPUs are all available ones."""
        self.draft = draft
        self.kept: dict[ContainerId, KeptMemory] = {}
        self.rejected: dict[ContainerId, str] = {}
        self.warnings: list[PolicyWarning] = []
        self._restorer = restorer
        self._selector = selector
        self._topology = topology
        #: CPUs that recorded balloons can have; the others are not available, or belong to balloons of fixed CPUs.
        self._claimable = draft.free
        #: The CPUs of kept balloons as they were recorded.
        self._recorded: dict[BalloonKey, Cpus] = {}
        #: The kept balloon of each container.
        self._kept_in: dict[ContainerId, BalloonKey] = {}

    def run(self, containers: Iterable[ContainerInfo], grants: Mapping[ContainerId, GrantRecord]) -> None:
        """Place all containers."""
        waiting: list[BalloonChoice] = []
        choices = [
            self._selector.choose(each) for each in sorted(containers, key=lambda each: (each.created_ns, each.id))
        ]
        self._create_exact()
        self._claimable = self.draft.free
        for choice in choices:
            self.warnings += choice.warnings
            container = choice.seat.container.id
            if choice.type is None:
                self.draft.alone.add(container)
            elif not self._keep(choice.seat, grants.get(container, {})):
                waiting.append(choice)
        by_container = {choice.seat.container.id: choice for choice in choices}
        waiting += [by_container[container] for container in self._fit()]
        self._restore_spare(choices, grants)
        self.draft.settle()
        for choice in sorted(waiting, key=lambda each: (each.seat.container.created_ns, each.seat.container.id)):
            self._place(choice)
        self.draft.settle()
        self._keep_memory(grants)
        self._warn_of_displaced()

    def _create_exact(self) -> None:
        """Create balloons of fixed CPUs first; other balloons that had these CPUs lose them."""
        for kind in self.draft.types.by_name.values():
            if kind.exact is not None:
                self.draft.create(kind)

    def _keep(self, seat: Seat, record: GrantRecord) -> bool:
        """Put a container into the balloon of its record, and return whether that was possible.

        Where it now belongs to another type, it moves to a balloon of that type later, if one has room.
        """
        recorded = self._restorer.balloon(record)
        if recorded is None:
            return False
        balloon = self.draft.balloons.get(recorded.key)
        if balloon is None:
            balloon = self.draft.usable(recorded, self._claimable)
            if balloon is None:
                return False
            self.draft.free -= balloon.cpus
        self._recorded.setdefault(recorded.key, recorded.cpus)
        self.draft.balloons[balloon.key] = replace(
            balloon,
            seats={**balloon.seats, seat.container.id: seat},
            requested_milli=balloon.requested_milli + seat.request_milli,
        )
        self.draft.homes[seat.container.id] = self._kept_in[seat.container.id] = balloon.key
        return True

    def _fit(self) -> list[ContainerId]:
        """Give kept balloons their sizes, and return the containers of CPUs that cannot be replaced."""
        draft, keys = self.draft, self.draft.sorted_keys()
        for key in sorted(
            keys, key=lambda key: draft.sizes.target(draft.balloons[key]) >= len(draft.balloons[key].cpus)
        ):
            draft.fit(draft.balloons[key])
        evicted: list[ContainerId] = []
        for key in keys:
            fixed = draft.types.by_name[key.type].exact is not None
            if not fixed and len(draft.balloons[key].cpus) < len(self._recorded[key]):
                evicted += self._evict(key)
        return evicted

    def _evict(self, key: BalloonKey) -> list[ContainerId]:
        """Take the youngest containers out of a balloon until the others fit."""
        evicted: list[ContainerId] = []
        for container in reversed(list(self.draft.balloons[key].seats)):
            balloon = self.draft.balloons[key]
            if balloon.cpus and balloon.free_milli >= 0:
                break
            evicted.append(container)
            self.draft.unseat(container)
        return evicted

    def _restore_spare(self, choices: Iterable[BalloonChoice], grants: Mapping[ContainerId, GrantRecord]) -> None:
        """Create the balloons without containers where they were by the oldest container's record."""
        draft = self.draft
        known = (grants[choice.seat.container.id] for choice in choices if choice.seat.container.id in grants)
        for spare in next((found for record in known if (found := self._restorer.spare(record))), ()):
            kind = draft.types.by_name[spare.key.type]
            balloon = draft.usable(spare, self._claimable)
            if (
                balloon is not None
                and len(draft.of_type(kind)) < kind.min_balloons
                and len(balloon.cpus) == draft.sizes.least(balloon)
            ):
                draft.balloons[balloon.key] = balloon
                draft.free -= balloon.cpus

    def _keep_memory(self, grants: Mapping[ContainerId, GrantRecord]) -> None:
        """Note the memory nodes of containers whose balloon has CPUs on the same nodes as before."""
        for container, key in self._kept_in.items():
            kept = kept_memory(grants[container])
            if kept is None or self.draft.homes.get(container) != key:
                continue
            nodes = self._topology.nodes_of(self.draft.balloons[key].cpus)
            if nodes == self._topology.nodes_of(self._recorded[key]):
                self.kept[container] = kept

    def _place(self, choice: BalloonChoice) -> None:
        """Place a container that runs already: where nothing else is possible, beyond the CPUs of a balloon."""
        if choice.type is None:
            return
        container = choice.seat.container.id
        try:
            self.draft.place(choice.type, choice.seat)
        except NoRoomError as error:
            balloon = self._last_resort(choice.type)
            if balloon is None:
                self.rejected[container] = str(error)
                return
            self.draft.seat(balloon, choice.seat)
            self._warn(container, f"the container shares {balloon.key} beyond its CPUs: {error}")

    def _warn_of_displaced(self) -> None:
        warned = {warning.container for warning in self.warnings if warning.reason == _OVERCOMMITTED}
        for seat in self.draft.displaced():
            if seat.container.id not in warned:
                balloon = self.draft.homes[seat.container.id]
                self._warn(
                    seat.container.id, f"no balloon of type {seat.type} has room: the container stays in {balloon}"
                )

    def _warn(self, container: ContainerId, message: str) -> None:
        self.warnings.append(PolicyWarning(container=container, reason=_OVERCOMMITTED, message=message))

    def _last_resort(self, kind: BalloonType) -> Balloon | None:
        """Return a balloon for a running container that has no room: of its type, of a built-in one, or any."""
        if kind.max_cpus == 0:
            return None
        draft, by_name = self.draft, self.draft.types.by_name
        for each in (kind, by_name[DEFAULT], by_name[RESERVED]):
            found = [balloon for balloon in draft.of_type(each) if draft.reach(balloon)]
            if not found and each is kind and draft.free:
                found = self._incomplete(kind)
            if found:
                return max(found, key=self._room)
        return max((each for each in draft.balloons.values() if each.cpus), key=self._room, default=None)

    def _incomplete(self, kind: BalloonType) -> list[Balloon]:
        """Return a new balloon that may have fewer CPUs than its type demands; none where it could have no CPUs."""
        created = self.draft.create(kind, least=1)
        if created is None:
            return []
        if not self.draft.reach(created):
            del self.draft.balloons[created.key]
            return []
        return [created]

    def _room(self, balloon: Balloon) -> tuple[int, int, int]:
        order = self.draft.types.by_name[balloon.key.type].order
        return 1000 * self.draft.reach(balloon) - balloon.requested_milli, -order, -balloon.key.number
