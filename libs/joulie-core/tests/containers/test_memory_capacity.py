from hypothesis import given
from hypothesis import strategies as st

from joulie_core.containers.memory_capacity import crowded_nodes

NODES = 5
CAPACITY = st.lists(st.integers(1, 20), min_size=NODES, max_size=NODES)
WANTED = st.dictionaries(st.integers(1, 2**NODES - 1), st.integers(1, 20), max_size=8)


def within(wanted: dict[int, int], nodes: int) -> int:
    return sum(size for zone, size in wanted.items() if not zone & ~nodes)


@given(WANTED, CAPACITY)
def test_nodes_are_crowded_exactly_where_some_set_of_nodes_is_exceeded(
    wanted: dict[int, int], sizes: list[int]
) -> None:
    capacity = {1 << number: size for number, size in enumerate(sizes)}

    def size(nodes: int) -> int:
        return sum(bytes_ for node, bytes_ in capacity.items() if node & nodes)

    crowded = crowded_nodes(wanted, capacity)
    if crowded:
        assert within(wanted, crowded) > size(crowded)
    else:
        assert all(within(wanted, nodes) <= size(nodes) for nodes in range(2**NODES))


def test_overlapping_sets_that_fit_one_by_one_can_be_crowded_together() -> None:
    assert crowded_nodes({0b011: 15, 0b110: 15, 0b101: 15}, {1: 10, 2: 10, 4: 10}) == 0b111


def test_memory_moves_within_its_set_to_make_room() -> None:
    # The set of both nodes is placed on node 0 first, which the set {0,2} then needs.
    assert crowded_nodes({0b011: 10, 0b101: 10}, {1: 10, 2: 10, 4: 1}) == 0
