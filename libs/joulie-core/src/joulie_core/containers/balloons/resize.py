"""Sizes of balloons, and growing and shrinking them to a size."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from joulie_core.containers.balloons.state import Balloon
from joulie_core.containers.balloons.types import BalloonType, BalloonTypes
from joulie_core.containers.cpu_tree import CpuTree, CpuWish, TreeLevel
from joulie_core.containers.idset import EMPTY, Cpus, IdSet, union
from joulie_core.kinds.balloons_policy import LoadClassSpec, LoadLevel


class Sizes:
    """Sizes that balloons may and should have, in CPUs."""

    def __init__(self, types: BalloonTypes) -> None:
        """Take the bounds of the types."""
        self._types = types

    def least(self, balloon: Balloon) -> int:
        """Return the size of a balloon without containers."""
        own = self._types.by_name[balloon.key.type].min_cpus
        return min(max(own, sum(map(self.least, balloon.components))), self.most(balloon))

    def most(self, balloon: Balloon) -> int:
        """Return the largest size of a balloon, whatever is free."""
        own = self._types.by_name[balloon.key.type].max_cpus
        return min(own, sum(map(self.most, balloon.components))) if balloon.components else own

    def needed(self, balloon: Balloon, requested_milli: int) -> int:
        """Return the size for containers that request so much; more than `most` where it cannot be as large.

        A balloon with containers has at least one CPU, and a composite one as many CPUs of each component.
        """
        kind = self._types.by_name[balloon.key.type]
        if kind.exact is not None:
            return len(kind.exact)
        size = max(-(-max(1, requested_milli) // 1000), self.least(balloon))
        return size if size > self.most(balloon) else self._rounded(balloon, size)

    def target(self, balloon: Balloon) -> int:
        """Return the size that a balloon should have for the containers that it has."""
        if not balloon.seats:
            return self.least(balloon)
        return min(self.needed(balloon, balloon.requested_milli), self.most(balloon))

    def split(self, balloon: Balloon, count: int) -> list[int]:
        """Return sizes for the components of a balloon: `count` CPUs together, as even as their bounds allow.

        With fewer CPUs than they have at least, they are as even as possible.
        """
        level = bisect_right(range(count + 1), count, key=lambda each: sum(self._at(balloon, each))) - 1
        least = [self.least(component) for component in balloon.components]
        sizes = [0] * len(least)
        if level >= 0:
            sizes = self._at(balloon, level)
        elif sum(least) <= count:
            sizes = least
        most = [self.most(component) for component in balloon.components]
        for _ in range(count - sum(sizes)):
            growing = [index for index, size in enumerate(sizes) if size < most[index]]
            if not growing:
                break
            sizes[min(growing, key=lambda index: (sizes[index], index))] += 1
        return sizes

    def _at(self, balloon: Balloon, count: int) -> list[int]:
        """Return the sizes of the components of a balloon that are to have `count` CPUs each, within their bounds."""
        return [self._rounded(component, count) for component in balloon.components]

    def _rounded(self, balloon: Balloon, count: int) -> int:
        """Return the least size within the bounds of a balloon with which its components have `count` CPUs evenly."""
        wanted = max(self.least(balloon), min(count, self.most(balloon)))
        if not balloon.components:
            return wanted
        level = bisect_left(range(wanted), wanted, key=lambda each: sum(self._at(balloon, each)))
        return min(self.most(balloon), max(wanted, sum(self._at(balloon, level))))


class Resizer:
    """Grows and shrinks balloons."""

    def __init__(self, tree: CpuTree, types: BalloonTypes, loads: Sequence[LoadClassSpec]) -> None:
        """Take the hardware, and the loads that balloons of the types cause."""
        self.sizes = Sizes(types)
        self._tree = tree
        self._types = types
        self._loads = {load.name: load for load in loads}

    def resize(self, balloon: Balloon, free: Cpus, size: int, others: Sequence[Balloon]) -> tuple[Balloon, Cpus]:
        """Return a balloon with as many CPUs, and the CPUs that are then free.

        Args:
            balloon: The balloon as it is; its containers stay.
            free: CPUs of no balloon.
            size: The wanted size; not more than the balloon has and free CPUs together.
            others: Balloons that are no part of this one; those with the same loads are avoided.

        Raises:
            NotEnoughCpusError: Too few CPUs are free.
        """
        if balloon.components:
            return self._resize_components(balloon, free, size, others)
        delta = size - len(balloon.cpus)
        if delta == 0:
            return balloon, free
        kind = self._types.by_name[balloon.key.type]
        strained = {name: self._cpus_with(name, others) for name in sorted(kind.loads)}
        if delta > 0:
            taken = self._grow(kind, balloon, free, delta, strained)
            return replace(balloon, cpus=balloon.cpus | taken), free - taken
        released = self._shrink(kind, balloon, free, -delta, strained)
        return replace(balloon, cpus=balloon.cpus - released), free | released

    def _resize_components(
        self, balloon: Balloon, free: Cpus, size: int, others: Sequence[Balloon]
    ) -> tuple[Balloon, Cpus]:
        parts = list(balloon.components)
        sizes = self.sizes.split(balloon, size)
        # What shrinks makes room for what grows.
        for index in sorted(range(len(parts)), key=lambda index: sizes[index] >= len(parts[index].cpus)):
            siblings = [part for number, part in enumerate(parts) if number != index]
            parts[index], free = self.resize(parts[index], free, sizes[index], [*others, *siblings])
        return replace(balloon, components=tuple(parts), cpus=union(part.cpus for part in parts)), free

    def _grow(self, kind: BalloonType, balloon: Balloon, free: Cpus, count: int, strained: dict[str, Cpus]) -> Cpus:
        wish = self._wish(kind, balloon, strained)
        level = self._own_level(kind)
        if level is None:
            return self._tree.grow(balloon.cpus, free, count, wish)
        # Each CPU strains a core or cache for those after it, so the part must have as many of these.
        unstrained = free - union(self._with_own(strained, balloon.cpus).values())
        apart = self._tree.one_of_each(unstrained, level)
        local = free
        if len(apart) >= count:
            local &= self._tree.around(self._tree.part_for(balloon.cpus, apart, count, wish), level)
        grown = EMPTY
        for _ in range(count):
            wish = self._wish(kind, balloon, self._with_own(strained, balloon.cpus | grown))
            grown |= self._tree.grow(balloon.cpus | grown, local - grown, 1, wish)
        return grown

    def _shrink(self, kind: BalloonType, balloon: Balloon, free: Cpus, count: int, strained: dict[str, Cpus]) -> Cpus:
        wish = self._wish(kind, balloon, strained)
        level = self._own_level(kind)
        if level is None:
            return self._tree.shrink(balloon.cpus, free, count, wish)
        released = EMPTY
        for _ in range(count):
            kept = balloon.cpus - released
            crowded = kept - IdSet(cpu for cpu in kept if len(self._tree.around(IdSet([cpu]), level) & kept) == 1)
            released |= self._tree.shrink(kept, free | released, 1, replace(wish, far=(crowded, *wish.far)))
        return released

    def _own_level(self, kind: BalloonType) -> TreeLevel | None:
        """Return the largest level on which the CPUs of one balloon are to be apart, None where there is none."""
        loads = (self._loads[name] for name in kind.loads)
        return min((_LEVELS[load.level] for load in loads if load.overloads_level_in_balloon), default=None)

    def _with_own(self, strained: dict[str, Cpus], cpus: Cpus) -> dict[str, Cpus]:
        return {
            name: others | self._around(name, cpus) if self._loads[name].overloads_level_in_balloon else others
            for name, others in strained.items()
        }

    def _wish(self, kind: BalloonType, balloon: Balloon, strained: dict[str, Cpus]) -> CpuWish:
        """Return what the type prefers, with the devices of the containers and the loads of other balloons."""
        if not strained and not kind.close_resources:
            return kind.wish
        near = (
            union(seat.devices[name] for seat in balloon.seats.values() if name in seat.devices)
            for name in kind.close_resources
        )
        return replace(
            kind.wish,
            close=(*filter(None, near), *kind.wish.close),
            far=(*kind.wish.far, *filter(None, strained.values())),
        )

    def _cpus_with(self, load: str, balloons: Iterable[Balloon]) -> Cpus:
        """Return the CPUs that balloons with a load strain."""
        leaves = (leaf for balloon in balloons for leaf in balloon.leaves())
        return self._around(
            load, union(leaf.cpus for leaf in leaves if load in self._types.by_name[leaf.key.type].loads)
        )

    def _around(self, load: str, cpus: Cpus) -> Cpus:
        return self._tree.around(cpus, _LEVELS[self._loads[load].level])


_LEVELS: Final = {LoadLevel.CORE: TreeLevel.CORE, LoadLevel.L2CACHE: TreeLevel.L2CACHE}
