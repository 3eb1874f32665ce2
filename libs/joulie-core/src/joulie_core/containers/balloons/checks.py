"""Invariants of the state of the balloons policy."""

from joulie_core.containers.balloons.instances import Draft
from joulie_core.containers.balloons.pinning import ALONE
from joulie_core.containers.balloons.state import Balloon, BalloonsState
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_core.containers.topology import HardwareTopology


def check_state(draft: Draft, state: BalloonsState, available: Cpus, topology: HardwareTopology) -> None:
    """Raise AssertionError where the parts of a state contradict each other."""
    _check_cpus(state, available)
    for balloon in state.balloons.values():
        _check_balloon(draft, state, balloon)
        _check_placements(state, balloon, topology)
    homes = {container: key for key, balloon in state.balloons.items() for container in balloon.seats}
    assert homes == state.homes, "homes of containers are not the balloons that they are in"
    assert state.placements.keys() == homes.keys() | state.alone, "placements are not those of the containers"
    assert all(state.placements[container].zone == ALONE for container in state.alone)
    assert state.memory.grants.keys() <= homes.keys(), "memory is granted to containers that have left"
    for name, count in _counts(draft, state).items():
        most = draft.types.by_name[name].max_balloons
        assert most is None or count <= most, f"there are {count} balloons of type {name}, which allows {most}"


def _counts(draft: Draft, state: BalloonsState) -> dict[str, int]:
    counts = dict.fromkeys(draft.types.by_name, 0)
    for balloon in state.balloons.values():
        for key in balloon.all_keys():
            counts[key.type] += 1
    return counts


def _check_cpus(state: BalloonsState, available: Cpus) -> None:
    used = state.free
    for balloon in state.balloons.values():
        for leaf in balloon.leaves():
            assert leaf.cpus.isdisjoint(used), (
                f"CPUs {leaf.cpus & used} of {leaf.key} are also idle or in another balloon"
            )
            used |= leaf.cpus
    assert used == available, f"idle CPUs and balloons are {used}, available are {available}"
    classes = EMPTY
    for name, cpus in state.cpu_classes.items():
        assert cpus.isdisjoint(classes), f"CPUs {cpus & classes} of class {name} are in another class as well"
        classes |= cpus
    assert classes <= available


def _check_balloon(draft: Draft, state: BalloonsState, balloon: Balloon) -> None:
    kind = draft.types.by_name[balloon.key.type]
    size, target = len(balloon.cpus), draft.sizes.target(balloon)
    assert size <= draft.sizes.most(balloon), f"{balloon.key} has {size} CPUs, and may have {draft.sizes.most(balloon)}"
    assert size <= target, f"{balloon.key} has {size} CPUs for requests of {target}"
    assert size == target or not state.free, f"{balloon.key} has {size} of {target} CPUs while {state.free} are idle"
    assert balloon.requested_milli == sum(seat.request_milli for seat in balloon.seats.values())
    assert balloon.cpus or not balloon.seats, f"{balloon.key} has containers and no CPUs"
    if kind.exact is not None:
        assert balloon.cpus == kind.exact
    if balloon.components:
        union = EMPTY
        for component in balloon.components:
            union |= component.cpus
            assert not component.seats, f"{component.key} is a component with containers of its own"
            assert len(component.cpus) <= draft.sizes.most(component)
        assert union == balloon.cpus
        if size == target:
            for component in balloon.components:
                assert len(component.cpus) >= draft.sizes.least(component)


def _check_placements(state: BalloonsState, balloon: Balloon, topology: HardwareTopology) -> None:
    idle = state.shared_idle.get(balloon.key, EMPTY)
    assert idle <= state.free, f"{balloon.key} shares CPUs {idle - state.free}, which are not idle"
    for container, seat in balloon.seats.items():
        placement = state.placements[container]
        usable = balloon.cpus | idle
        assert placement.zone == str(balloon.key)
        if placement.cpus is not None and seat.hide_hyperthreads:
            cores = [core & usable for core in topology.cores.values() if core & usable]
            assert all(len(core & placement.cpus) == 1 for core in cores), f"{container} has two threads of a core"
            usable = placement.cpus & usable
        assert placement.cpus in (None, usable), f"{container} has CPUs {placement.cpus} instead of {usable}"
        grant = state.memory.grants.get(container)
        assert placement.memory == (grant.nodes if grant and seat.pin_memory else None)
