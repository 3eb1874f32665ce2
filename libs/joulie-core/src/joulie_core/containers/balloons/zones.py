"""Balloons as zones, for metrics and NodeResourceTopology."""

from collections.abc import Iterator

from joulie_core.containers.balloons.instances import Draft
from joulie_core.containers.balloons.state import Balloon, BalloonsState
from joulie_core.containers.idset import EMPTY, MemoryNodes, union
from joulie_core.containers.policy import PlacementZone
from joulie_core.containers.topology import HardwareTopology


def balloon_zones(draft: Draft, state: BalloonsState, topology: HardwareTopology) -> tuple[PlacementZone, ...]:
    """Return the balloons in the order of their types and numbers, each before its components."""
    balloons = (state.balloons[key] for key in draft.sorted_keys())
    return tuple(zone for balloon in balloons for zone in _zones(draft, state, topology, balloon, ""))


def _zones(
    draft: Draft, state: BalloonsState, topology: HardwareTopology, balloon: Balloon, parent: str
) -> Iterator[PlacementZone]:
    kind = draft.types.by_name[balloon.key.type]
    reach_milli = 1000 * draft.reach(balloon)
    yield PlacementZone(
        name=str(balloon.key),
        kind="balloon",
        parent=parent,
        cpus=balloon.cpus,
        shared_idle=state.shared_idle.get(balloon.key, EMPTY),
        memory=_memory(state, balloon) or topology.nodes_of(balloon.cpus),
        capacity_milli=1000 * len(topology.cpus),
        allocatable_milli=reach_milli,
        available_milli=max(0, reach_milli - balloon.requested_milli),
        containers=tuple(sorted(balloon.seats)),
        show_containers=kind.show_containers,
        attributes={
            "balloon type": kind.name,
            "cpu class": kind.cpu_class,
            "fewest cpus": str(draft.sizes.least(balloon)),
            "most cpus": str(draft.sizes.most(balloon)),
            "excess cpus": f"{max(0, balloon.free_milli)}m",
            "groups": ",".join(sorted({seat.group for seat in balloon.seats.values() if seat.group})),
        },
    )
    for component in balloon.components:
        yield from _zones(draft, state, topology, component, str(balloon.key))


def _memory(state: BalloonsState, balloon: Balloon) -> MemoryNodes:
    return union(state.placements[container].memory or EMPTY for container in balloon.seats)
