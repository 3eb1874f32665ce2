"""A state in the making, and which balloon a container gets.

A draft lives during one call of the policy. Balloons in it are values, so that a trial is undone by putting back the
earlier value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import mean

from joulie_core.containers.balloons.resize import Resizer
from joulie_core.containers.balloons.state import Balloon, BalloonKey, BalloonsState, Seat
from joulie_core.containers.balloons.types import BalloonType, BalloonTypes
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import Cpus, union


class NoRoomError(Exception):
    """No balloon can take a container; the message has the reason."""


class Draft:
    """Balloons and idle CPUs while they change."""

    def __init__(self, types: BalloonTypes, resizer: Resizer, state: BalloonsState) -> None:
        """Start from a state, which stays as it is."""
        self.types = types
        self.resizer = resizer
        self.sizes = resizer.sizes
        self.free: Cpus = state.free
        self.balloons: dict[BalloonKey, Balloon] = dict(state.balloons)
        self.homes: dict[ContainerId, BalloonKey] = dict(state.homes)
        self.alone: set[ContainerId] = set(state.alone)

    def place(self, kind: BalloonType, seat: Seat) -> None:
        """Put a container into a balloon of a type, or change nothing.

        Raises:
            NoRoomError: No balloon of the type can take it.
        """
        self.seat(self._find(kind, seat), seat)

    def place_in(self, recorded: Balloon, seat: Seat) -> bool:
        """Put a container into the balloon of a record, and return whether that then has exactly the recorded CPUs.

        Where the balloon has gone, it is created. If it cannot have these CPUs, the draft must not be used any more.
        """
        balloon = self.balloons.get(recorded.key)
        if balloon is None:
            balloon = self.usable(recorded, self.free)
            if balloon is None:
                return False
            self.free -= balloon.cpus
        if not self._reachable(balloon, seat):
            return False
        self.seat(balloon, seat)
        return self.balloons[recorded.key].cpus == recorded.cpus

    def usable(self, recorded: Balloon, claimable: Cpus) -> Balloon | None:
        """Return a recorded balloon with those of its CPUs that may be claimed; None where it contradicts others."""
        keys = list(recorded.all_keys())
        existing = {key for balloon in self.balloons.values() for key in balloon.all_keys()}
        if existing.intersection(keys) or len(set(keys)) < len(keys):
            return None
        leaves = [leaf.cpus & claimable for leaf in recorded.leaves()]
        cpus = union(leaves)
        if sum(map(len, leaves)) != len(cpus) or not cpus <= self.free:
            return None
        for name in {key.type for key in keys}:
            most = self.types.by_name[name].max_balloons
            if most is not None and sum(key.type == name for key in (*existing, *keys)) > most:
                return None
        return _limited(recorded, cpus)

    def seat(self, balloon: Balloon, seat: Seat) -> None:
        """Add a container to a balloon, or replace it there, and resize the balloon as far as idle CPUs allow."""
        old = balloon.seats.get(seat.container.id)
        balloon = replace(
            balloon,
            seats={**balloon.seats, seat.container.id: seat},
            requested_milli=balloon.requested_milli + seat.request_milli - (old.request_milli if old else 0),
        )
        self.homes[seat.container.id] = balloon.key
        self.fit(balloon)

    def unseat(self, container: ContainerId) -> None:
        """Take a container out of its balloon, and delete the balloon where it is empty and not needed."""
        balloon = self.balloons[self.homes.pop(container)]
        seats = dict(balloon.seats)
        gone = seats.pop(container)
        balloon = replace(balloon, seats=seats, requested_milli=balloon.requested_milli - gone.request_milli)
        kind = self.types.by_name[balloon.key.type]
        if seats or self.count(kind) <= kind.min_balloons:
            self.fit(balloon)
        else:
            self.balloons.pop(balloon.key)
            self.free |= balloon.cpus

    def fit(self, balloon: Balloon) -> None:
        """Store a balloon with the size that it should have, or the nearest to that which idle CPUs allow."""
        size = min(self.sizes.target(balloon), len(balloon.cpus) + len(self.free))
        others = [other for other in self.balloons.values() if other.key != balloon.key]
        self.balloons[balloon.key], self.free = self.resizer.resize(balloon, self.free, size, others)

    def settle(self) -> None:
        """Use idle CPUs for balloons that always exist or are too small, and for displaced containers."""
        self._complete()
        while self._rehome():
            self._complete()

    def displaced(self) -> list[Seat]:
        """Return the containers that are not in a balloon of their type, the oldest first."""
        found = [seat for key, each in self.balloons.items() for seat in each.seats.values() if seat.type != key.type]
        return sorted(found, key=lambda seat: (seat.container.created_ns, seat.container.id))

    def _rehome(self) -> bool:
        """Move displaced containers to balloons of their types, and return whether one was moved."""
        failed: dict[str, int] = {}
        for seat in self.displaced():
            # What has no room for a container has none for one that requests more.
            if seat.request_milli >= failed.get(seat.type, seat.request_milli + 1):
                continue
            before = dict(self.balloons), self.free, dict(self.homes)
            self.unseat(seat.container.id)
            try:
                self.place(self.types.by_name[seat.type], seat)
            except NoRoomError:
                self.balloons, self.free, self.homes = before
                failed[seat.type] = seat.request_milli
            else:
                return True
        return False

    def _complete(self) -> None:
        for kind in self.types.in_creation_order():
            while self.count(kind) < kind.min_balloons and self.create(kind) is not None:
                pass
        for key in self.sorted_keys():
            if self.free and len(self.balloons[key].cpus) < self.sizes.target(self.balloons[key]):
                self.fit(self.balloons[key])

    def sorted_keys(self) -> list[BalloonKey]:
        """Return the keys of all balloons, in the order of their types and numbers."""
        return sorted(self.balloons, key=lambda key: (self.types.by_name[key.type].order, key.number))

    def of_type(self, kind: BalloonType) -> list[Balloon]:
        """Return the balloons of a type that are no components, by number."""
        return sorted(
            (each for each in self.balloons.values() if each.key.type == kind.name), key=lambda each: each.key
        )

    def count(self, kind: BalloonType) -> int:
        """Return how many balloons of a type there are, components included."""
        return len(self._indices(kind.name, ()))

    def create(self, kind: BalloonType, least: int | None = None) -> Balloon | None:
        """Create an empty balloon, or return None where the number of balloons or of idle CPUs does not allow it.

        Args:
            kind: Its type.
            least: How many CPUs must be idle; as many as it has at least by default.
        """
        balloon = self._new(kind, ())
        if balloon is None:
            return None
        if kind.exact is not None:
            self.balloons[balloon.key] = balloon = replace(balloon, cpus=kind.exact & self.free)
            self.free -= balloon.cpus
            return balloon
        if (self.sizes.least(balloon) if least is None else least) > len(self.free):
            return None
        self.balloons[balloon.key] = balloon
        self.fit(balloon)
        return self.balloons[balloon.key]

    def _new(self, kind: BalloonType, taken: Sequence[BalloonKey]) -> Balloon | None:
        """Return a balloon without CPUs and with its components, beside those that are being created."""
        numbers = self._indices(kind.name, taken)
        if kind.max_balloons is not None and len(numbers) >= kind.max_balloons:
            return None
        key = BalloonKey(kind.name, next(number for number in range(len(numbers) + 1) if number not in numbers))
        components: list[Balloon] = []
        for name in self._components(kind, [*taken, key]):
            existing = [*taken, key, *(each for component in components for each in component.all_keys())]
            component = self._new(self.types.by_name[name], existing)
            if component is None:
                return None
            components.append(component)
        return Balloon(key=key, components=tuple(components))

    def _components(self, kind: BalloonType, taken: Sequence[BalloonKey]) -> Sequence[str]:
        if not kind.balance_components:
            return kind.components
        return [min(kind.components, key=lambda name: self._share_in_use(name, taken))] if kind.components else ()

    def _share_in_use(self, name: str, taken: Sequence[BalloonKey]) -> float:
        """Return how many balloons there are of the types that a type consists of, by the mean of these types."""
        return mean(len(self._indices(leaf.name, taken)) for leaf in self.types.leaves(self.types.by_name[name]))

    def _indices(self, name: str, more: Sequence[BalloonKey]) -> set[int]:
        existing = (key for balloon in self.balloons.values() for key in balloon.all_keys())
        return {key.number for key in (*existing, *more) if key.type == name}

    def _find(self, kind: BalloonType, seat: Seat) -> Balloon:
        """Return the balloon for a container; it has room, or can grow to have it."""
        for method in self._methods(kind, seat):
            if found := method(kind, seat):
                return found
        raise NoRoomError(self._why(kind, seat))

    def _methods(self, kind: BalloonType, seat: Seat) -> "Iterator[_Method]":
        if seat.group is not None:
            yield self._sharing(lambda other: other.group == seat.group)
        if not kind.prefer_spreading_pods:
            yield self._sharing(lambda other: other.container.pod.id == seat.container.pod.id)
        if kind.prefer_per_namespace:
            yield self._sharing(lambda other: other.container.pod.namespace == seat.container.pod.namespace)
        if kind.prefer_per_namespace or kind.prefer_new:
            yield self._unused
        yield self._balanced
        yield self._inflated
        yield self._unused

    def _sharing(self, alike: Callable[[Seat], bool]) -> "_Method":
        def find(kind: BalloonType, seat: Seat) -> Balloon | None:
            found = [
                each
                for each in self.of_type(kind)
                if self._reachable(each, seat) and any(map(alike, each.seats.values()))
            ]
            return min(found, key=lambda each: self._rank(each, seat, each.free_milli), default=None)

        return find

    def _balanced(self, kind: BalloonType, seat: Seat) -> Balloon | None:
        """Return the balloon with the most room in its present size."""
        found = [each for each in self.of_type(kind) if self._needed(each, seat) <= len(each.cpus)]
        return min(found, key=lambda each: self._rank(each, seat, each.free_milli), default=None)

    def _inflated(self, kind: BalloonType, seat: Seat) -> Balloon | None:
        """Return the balloon with the most room in the size that it can grow to."""
        found = [each for each in self.of_type(kind) if self._reachable(each, seat)]
        return min(
            found,
            key=lambda each: self._rank(each, seat, 1000 * self.reach(each) - each.requested_milli),
            default=None,
        )

    def _unused(self, kind: BalloonType, seat: Seat) -> Balloon | None:
        """Return a balloon without containers, which may be a new one."""
        empty = (each for each in self.of_type(kind) if not each.seats and self._reachable(each, seat))
        found = next(empty, None)
        if found is not None or not self.free:
            return found
        before, free = dict(self.balloons), self.free
        created = self.create(kind)
        if created is not None and not self._reachable(created, seat):
            self.balloons, self.free = before, free
            return None
        return created

    def reach(self, balloon: Balloon) -> int:
        """Return how large a balloon can become."""
        return min(self.sizes.most(balloon), len(balloon.cpus) + len(self.free))

    def _needed(self, balloon: Balloon, seat: Seat) -> int:
        return self.sizes.needed(balloon, balloon.requested_milli + seat.request_milli)

    def _reachable(self, balloon: Balloon, seat: Seat) -> bool:
        return 0 < self._needed(balloon, seat) <= self.reach(balloon)

    def _rank(self, balloon: Balloon, seat: Seat, room_milli: int) -> tuple[int, int, int]:
        # Containers without a request fit anywhere; their number counts, not the room.
        count = len(balloon.seats)
        return (
            (-room_milli, count, balloon.key.number) if seat.request_milli else (count, -room_milli, balloon.key.number)
        )

    def _why(self, kind: BalloonType, seat: Seat) -> str:
        balloons = ", ".join(
            f"{each.key} has {each.free_milli} milli-CPUs and can grow to {self.reach(each)} CPUs"
            for each in self.of_type(kind)
        )
        limit = f"at most {kind.max_balloons} balloons" if kind.max_balloons else "any number of balloons"
        return (
            f"no balloon of type {kind.name} has room for {seat.request_milli} milli-CPUs: "
            f"{balloons or 'there is none'}; the type allows {limit} of {kind.min_cpus} to {kind.max_cpus} CPUs, "
            f"{len(self.free)} CPUs are idle"
        )


def _limited(balloon: Balloon, cpus: Cpus) -> Balloon:
    """Return a balloon with only those of its CPUs that are in a set."""
    return replace(
        balloon,
        cpus=balloon.cpus & cpus,
        components=tuple(_limited(component, cpus) for component in balloon.components),
    )


_Method = Callable[[BalloonType, Seat], Balloon | None]
