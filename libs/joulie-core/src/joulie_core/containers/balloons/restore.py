"""Grants as they are stored, and balloons made of the grants of containers that are still there.

A record holds the balloon of its container with all CPUs, the memory nodes, and the balloons without containers, which
have no record of their own.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from joulie_core.containers.balloons.state import Balloon, BalloonKey, BalloonsState, KeptMemory
from joulie_core.containers.balloons.types import BalloonType, BalloonTypes
from joulie_core.containers.container import ContainerId
from joulie_core.containers.differences import changes
from joulie_core.containers.idset import IdSet, InvalidIdListError, union
from joulie_core.containers.policy import GrantRecord, Placement

_BALLOON, _SPARE, _MEMORY = "balloon", "spare", "memory"
_TYPE, _NUMBER, _CPUS, _COMPONENTS = "type", "number", "cpus", "components"
#: Components of components of a configuration are few; a record must not make this recurse without end.
_DEEPEST: Final = 16


def make_records(
    balloons: Mapping[BalloonKey, Balloon],
    homes: Mapping[ContainerId, BalloonKey],
    placements: Mapping[ContainerId, Placement],
    before: BalloonsState,
) -> Mapping[ContainerId, GrantRecord]:
    """Return the record of every container; one that is as before is the same object.

    Args:
        balloons: The balloons that are no component of another.
        homes: The balloon of each container that is in one.
        placements: Of all containers.
        before: An earlier state.
    """
    spare = _spare(balloons)
    if spare != _spare(before.balloons):
        before = BalloonsState()  # it is in every record
    found = dict(before.records)
    for container in before.records.keys() - placements.keys():
        del found[container]
    changed: set[ContainerId] = set()
    for old, placement, containers in changes(placements, before.placements):
        if old is None or old.zone != placement.zone or old.memory != placement.memory:
            changed.update(containers)
    for key, balloon in balloons.items():
        if not is_alike(before.balloons.get(key), balloon):
            changed.update(balloon.seats)
    layouts: dict[BalloonKey, Mapping[str, object]] = {}
    for container in changed:
        home = homes.get(container)
        if home is None:
            found[container] = {_SPARE: spare}
            continue
        if home not in layouts:
            layouts[home] = _layout(balloons[home])
        memory = placements[container].memory
        found[container] = {
            _BALLOON: layouts[home],
            _MEMORY: None if memory is None else str(memory),
            _SPARE: spare,
        }
    return found


def _spare(balloons: Mapping[BalloonKey, Balloon]) -> list[Mapping[str, object]]:
    return [_layout(balloons[key]) for key in sorted(key for key, each in balloons.items() if not each.seats)]


def is_alike(balloon: Balloon | None, other: Balloon) -> bool:
    """Return whether a balloon has the CPUs of another, each component as well."""
    return balloon is other or (
        balloon is not None and balloon.cpus == other.cpus and balloon.components == other.components
    )


def _layout(balloon: Balloon) -> Mapping[str, object]:
    return {
        _TYPE: balloon.key.type,
        _NUMBER: balloon.key.number,
        _CPUS: str(balloon.cpus),
        _COMPONENTS: [_layout(component) for component in balloon.components],
    }


def kept_memory(record: GrantRecord) -> KeptMemory | None:
    """Return the memory nodes of a record, None where it is malformed."""
    nodes = record.get(_MEMORY)
    if nodes is None:
        return KeptMemory(None)
    known = _ids(nodes)
    return None if known is None else KeptMemory(known)


class Restorer:
    """Makes balloons of records."""

    def __init__(self, types: BalloonTypes) -> None:
        """Take the types that balloons may now be of."""
        self._types = types

    def balloon(self, record: GrantRecord) -> Balloon | None:
        """Return the balloon of a record without containers, None where it cannot be one of the configuration."""
        return self._balloon(record.get(_BALLOON), 0)

    def spare(self, record: GrantRecord) -> list[Balloon]:
        """Return the balloons of a record that had no containers."""
        layouts = record.get(_SPARE)
        found = [self._balloon(layout, 0) for layout in layouts] if isinstance(layouts, list | tuple) else []
        return [balloon for balloon in found if balloon is not None]

    def _balloon(self, layout: object, depth: int) -> Balloon | None:
        if not isinstance(layout, Mapping) or depth > _DEEPEST:
            return None
        name, number, cpus, parts = (layout.get(field) for field in (_TYPE, _NUMBER, _CPUS, _COMPONENTS))
        kind = self._types.by_name.get(name) if isinstance(name, str) else None
        own = _ids(cpus)
        if kind is None or own is None or type(number) is not int or number < 0 or not isinstance(parts, list | tuple):
            return None
        components = [self._balloon(part, depth + 1) for part in parts]
        whole = tuple(component for component in components if component is not None)
        if len(whole) != len(components) or not _fits(kind, whole):
            return None
        if whole:
            own = union(component.cpus for component in whole)
        return Balloon(key=BalloonKey(kind.name, number), cpus=own, components=whole)


def _ids(text: object) -> IdSet | None:
    try:
        return IdSet.parse(text) if isinstance(text, str) else None
    except InvalidIdListError:
        return None


def _fits(kind: BalloonType, components: Sequence[Balloon]) -> bool:
    """Return whether a balloon of a type can have these components."""
    names = [component.key.type for component in components]
    if kind.balance_components and kind.components:
        return len(names) == 1 and names[0] in kind.components
    return names == list(kind.components)
