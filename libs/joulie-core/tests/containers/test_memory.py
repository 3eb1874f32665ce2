"""Machines of two sockets: DRAM on nodes 0 and 1; PMEM on 2 and 3, near 0 and 1; HBM on 4, near 0."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import EMPTY, IdSet, MemoryNodes
from joulie_core.containers.memory import (
    DRAM_ONLY,
    MemoryAllocator,
    MemoryPriority,
    MemoryRequest,
    MemoryRequestError,
    MemoryState,
)
from joulie_core.containers.topology import MemoryKind, MemoryNode

DRAM, PMEM, HBM = MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM
DISTANCES = [
    [10, 21, 17, 28, 12],
    [21, 10, 28, 17, 23],
    [17, 28, 10, 28, 20],
    [28, 17, 28, 10, 30],
    [12, 23, 20, 30, 10],
]
SIZES = [(DRAM, 100), (DRAM, 100), (PMEM, 400), (PMEM, 400), (HBM, 20)]


def nodes(count: int = 5, *, movable: tuple[int, ...] = (), empty: tuple[int, ...] = ()) -> Mapping[int, MemoryNode]:
    return {
        number: MemoryNode(
            id=number,
            kind=SIZES[number][0],
            capacity_bytes=0 if number in empty else SIZES[number][1],
            distances=dict(enumerate(DISTANCES[number][:count])),
            normal=number not in movable,
        )
        for number in range(count)
    }


def request(
    name: str,
    size: int,
    affinity: str = "0",
    *,
    kinds: frozenset[MemoryKind] = DRAM_ONLY,
    strict: bool = False,
    priority: MemoryPriority = MemoryPriority.BURSTABLE,
    created_ns: int = 0,
) -> MemoryRequest:
    return MemoryRequest(
        container=ContainerId(name),
        size_bytes=size,
        affinity=IdSet.parse(affinity),
        kinds=kinds,
        strict=strict,
        priority=priority,
        created_ns=created_ns,
    )


def granted(allocator: MemoryAllocator, *requests: MemoryRequest) -> MemoryState:
    state = MemoryState()
    for wanted in requests:
        state = allocator.allocate(state, wanted)
    return state


def zones(state: MemoryState) -> dict[str, str]:
    return {name: str(grant.nodes) for name, grant in state.grants.items()}


def test_memory_is_granted_on_the_nodes_of_the_cpus() -> None:
    assert zones(granted(MemoryAllocator(nodes()), request("a", 10, "1"))) == {"a": "1"}


def test_without_an_affinity_all_nodes_of_the_kind_are_granted() -> None:
    assert zones(granted(MemoryAllocator(nodes()), request("a", 10, ""))) == {"a": "0-1"}


def test_a_kind_that_the_cpus_are_not_near_is_taken_from_the_nearest_node_of_that_kind() -> None:
    allocator = MemoryAllocator(nodes())
    assert allocator.initial_nodes(request("a", 10, "1", kinds=frozenset({PMEM}))) == IdSet([3])
    assert allocator.initial_nodes(request("a", 10, "0", kinds=frozenset({DRAM, PMEM, HBM}))) == IdSet([0, 2, 4])


def test_all_nodes_at_the_least_distance_are_nearest_and_no_other() -> None:
    allocator = MemoryAllocator(nodes())
    # From node 2, DRAM of node 0 is nearer than that of node 1; from both sockets, each has its own PMEM.
    assert allocator.initial_nodes(request("a", 1, "2")) == IdSet([0])
    assert allocator.initial_nodes(request("a", 1, "0-1", kinds=frozenset({PMEM}))) == IdSet([2, 3])


def test_a_farther_node_that_is_found_first_is_not_kept() -> None:
    # Node 1 is met before node 2, and is farther from node 0.
    table = [[10, 30, 20], [30, 10, 30], [20, 30, 10]]
    machine = {
        number: MemoryNode(id=number, kind=kind, capacity_bytes=100, distances=dict(enumerate(table[number])))
        for number, kind in enumerate([DRAM, PMEM, PMEM])
    }
    assert MemoryAllocator(machine).initial_nodes(request("a", 1, kinds=frozenset({PMEM}))) == IdSet([2])


def test_asymmetric_distances_are_averaged() -> None:
    table = [[10, 20, 25], [40, 10, 30], [25, 30, 10]]
    machine = {
        number: MemoryNode(id=number, kind=kind, capacity_bytes=100, distances=dict(enumerate(table[number])))
        for number, kind in enumerate([DRAM, PMEM, PMEM])
    }
    assert MemoryAllocator(machine).initial_nodes(request("a", 1, kinds=frozenset({PMEM}))) == IdSet([2])


def test_any_kind_of_memory_is_taken_where_none_is_named() -> None:
    assert MemoryAllocator(nodes()).initial_nodes(request("a", 1, "0,2", kinds=frozenset())) == IdSet([0, 2])


def test_a_node_without_memory_is_replaced_by_the_nearest_with_memory() -> None:
    allocator = MemoryAllocator(nodes(2, empty=(0,)))
    assert allocator.initial_nodes(request("a", 1, "0")) == IdSet([1])
    assert allocator.initial_nodes(request("a", 1, "0", kinds=frozenset())) == IdSet([1])


def test_a_kind_that_the_machine_lacks_is_replaced_unless_the_request_is_strict() -> None:
    allocator = MemoryAllocator(nodes(2))
    assert allocator.initial_nodes(request("a", 1, "1", kinds=frozenset({HBM}))) == IdSet([1])
    with pytest.raises(MemoryRequestError, match="no memory of the kinds HBM"):
        allocator.initial_nodes(request("a", 1, "1", kinds=frozenset({HBM}), strict=True))


def test_movable_memory_is_never_granted_alone() -> None:
    allocator = MemoryAllocator(nodes(movable=(2, 3)))
    assert allocator.initial_nodes(request("a", 1, "1", kinds=frozenset({PMEM}))) == IdSet([1, 3])


def test_a_node_is_filled_before_grants_are_widened() -> None:
    assert zones(granted(MemoryAllocator(nodes(2)), request("a", 60), request("b", 40))) == {"a": "0", "b": "0"}


def test_the_least_important_grant_is_widened_to_the_nearest_node_of_its_kind() -> None:
    state = granted(
        MemoryAllocator(nodes()),
        request("guaranteed", 10, priority=MemoryPriority.GUARANTEED),
        request("burstable", 50, priority=MemoryPriority.BURSTABLE),
        request("new", 50, priority=MemoryPriority.GUARANTEED),
    )
    assert zones(state) == {"guaranteed": "0", "burstable": "0-1", "new": "0"}


def test_of_equal_grants_the_smallest_is_widened_then_the_youngest() -> None:
    allocator = MemoryAllocator(nodes(2))
    by_size = granted(allocator, request("a", 30), request("b", 50), request("c", 40))
    assert zones(by_size) == {"a": "0-1", "b": "0", "c": "0"}
    by_age = granted(allocator, request("a", 50, created_ns=1), request("b", 50, created_ns=3), request("c", 50))
    assert zones(by_age) == {"a": "0", "b": "0-1", "c": "0"}


def test_guaranteed_grants_are_widened_when_the_others_do_not_suffice() -> None:
    state = granted(
        MemoryAllocator(nodes(2)),
        request("guaranteed", 60, priority=MemoryPriority.GUARANTEED),
        request("burstable", 10),
        request("new", 90, priority=MemoryPriority.GUARANTEED),
    )
    assert zones(state) == {"guaranteed": "0-1", "burstable": "0-1", "new": "0"}


def test_a_guaranteed_grant_is_only_widened_where_no_kind_of_memory_helps_for_the_others() -> None:
    state = granted(
        MemoryAllocator(nodes()),
        request("kept", 100, "0", priority=MemoryPriority.PRESERVED),
        request("guaranteed", 10, "0", kinds=frozenset({DRAM, HBM}), priority=MemoryPriority.GUARANTEED),
        request("burstable", 15, "4", kinds=frozenset({HBM})),
    )
    assert zones(state) == {"kept": "0", "guaranteed": "0,4", "burstable": "1,4"}


def test_preserved_grants_are_never_widened() -> None:
    allocator = MemoryAllocator(nodes(2))
    state = granted(allocator, request("kept", 60, priority=MemoryPriority.PRESERVED))
    with pytest.raises(MemoryRequestError, match="memory nodes 0 have 100 bytes, 110 are needed there"):
        allocator.allocate(state, request("new", 50, priority=MemoryPriority.PRESERVED))


def test_other_kinds_are_used_when_the_own_kind_is_exhausted() -> None:
    state = granted(MemoryAllocator(nodes()), request("a", 90, "0"), request("b", 90, "1"), request("c", 80, "0"))
    assert zones(state) == {"a": "0", "b": "1", "c": "0-3"}


def test_a_strict_request_never_leaves_its_kinds() -> None:
    allocator = MemoryAllocator(nodes())
    state = granted(allocator, request("a", 90, "0", strict=True), request("b", 90, "1", strict=True))
    with pytest.raises(MemoryRequestError, match="memory nodes 0-1 have 200 bytes, 260 are needed"):
        allocator.allocate(state, request("c", 80, "0", strict=True))
    assert zones(allocator.allocate(state, request("c", 80, "0")))["c"] == "0-3"


def test_a_request_larger_than_a_node_gets_several_nodes() -> None:
    assert zones(granted(MemoryAllocator(nodes(2)), request("a", 150))) == {"a": "0-1"}


def test_a_request_larger_than_the_machine_is_refused() -> None:
    with pytest.raises(MemoryRequestError):
        granted(MemoryAllocator(nodes(2)), request("a", 201))


def test_a_request_without_a_size_is_granted_on_a_full_node() -> None:
    assert zones(granted(MemoryAllocator(nodes(2)), request("a", 100), request("b", 0))) == {"a": "0", "b": "0"}


def test_a_container_that_is_granted_again_is_narrowed_to_its_new_cpus() -> None:
    allocator = MemoryAllocator(nodes(2))
    state = granted(allocator, request("a", 10, "0-1"))
    assert zones(allocator.allocate(state, request("a", 10, "1"))) == {"a": "1"}


def test_kept_nodes_are_granted_as_they_are_or_refused() -> None:
    allocator = MemoryAllocator(nodes(movable=(3,)))
    state = granted(allocator, request("a", 90, "0"))
    assert zones(allocator.keep(state, request("b", 10, "0"), IdSet([0, 2])))["b"] == "0,2"
    for wanted, kept in [
        (request("b", 20, "0"), "0"),
        (request("b", 1, "0"), "7"),
        (request("b", 1, "0"), ""),
        (request("b", 1, "0"), "3"),
        (request("b", 1, "0", strict=True), "0,2"),
    ]:
        with pytest.raises(MemoryRequestError):
            allocator.keep(state, wanted, IdSet.parse(kept))


def test_releasing_all_leaves_nothing() -> None:
    allocator = MemoryAllocator(nodes(2))
    state = granted(allocator, request("a", 90, "0"), request("b", 90, "0"), request("c", 0))
    for name in ("b", "a", "c", "unknown"):
        state = allocator.release(state, ContainerId(name))
    assert state == MemoryState()


def test_an_offer_is_what_would_be_granted() -> None:
    allocator = MemoryAllocator(nodes(2))
    state = granted(allocator, request("a", 90))
    assert allocator.offer(state, request("b", 20)) == IdSet([0, 1])
    assert allocator.offer(state, request("b", 111)) is None
    assert allocator.free_bytes(state, IdSet([0])) == 10
    assert allocator.free_bytes(state, EMPTY) == 0
    assert allocator.capacity_bytes(IdSet([0, 1])) == 200
    assert allocator.kinds_of(IdSet([0])) == {DRAM}


REQUESTS = st.builds(
    MemoryRequest,
    container=st.sampled_from([ContainerId(name) for name in "abcdefgh"]),
    size_bytes=st.integers(0, 200),
    affinity=st.sets(st.integers(0, 4), max_size=3).map(IdSet),
    kinds=st.frozensets(st.sampled_from(MemoryKind)),
    strict=st.booleans(),
    priority=st.sampled_from(MemoryPriority),
    created_ns=st.integers(0, 3),
)


def fits(state: MemoryState) -> bool:
    sizes = [size for _, size in SIZES]
    return all(
        sum(grant.request.size_bytes for grant in state.grants.values() if not grant.nodes.mask & ~mask)
        <= sum(size for number, size in enumerate(sizes) if mask >> number & 1)
        for mask in range(2 ** len(sizes))
    )


def check(allocator: MemoryAllocator, state: MemoryState) -> None:
    assert fits(state)
    wanted: dict[int, int] = {}
    for grant in state.grants.values():
        if grant.request.size_bytes:
            wanted[grant.nodes.mask] = wanted.get(grant.nodes.mask, 0) + grant.request.size_bytes
        assert grant.nodes.mask & 0b10111, "only movable memory"
        if grant.request.strict and grant.request.kinds:
            assert allocator.kinds_of(grant.nodes) - {DRAM} <= grant.request.kinds
    assert state.wanted == wanted


@given(st.lists(st.tuples(REQUESTS, st.booleans()), max_size=25))
def test_memory_is_never_overcommitted_and_earlier_grants_only_widen(steps: list[tuple[MemoryRequest, bool]]) -> None:
    allocator = MemoryAllocator(nodes(movable=(3,)))
    state = MemoryState()
    for wanted, leaves in steps:
        before: Mapping[ContainerId, MemoryNodes] = {name: grant.nodes for name, grant in state.grants.items()}
        if leaves:
            state = allocator.release(state, wanted.container)
        else:
            try:
                state = allocator.allocate(state, wanted)
            except MemoryRequestError:
                continue
        check(allocator, state)
        for name, grant in state.grants.items():
            if name != wanted.container:
                assert before[name] <= grant.nodes
                assert before[name] == grant.nodes or grant.request.priority < MemoryPriority.PRESERVED
