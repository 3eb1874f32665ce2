import pytest

from joulie_core.containers.idset import IdSet
from joulie_core.containers.topology import MemoryKind
from joulie_core.containers.topology_aware.pools import PoolTree
from joulie_testing.core.machines import HYBRID, LARGE, TIERED, AttachedMemory, MachineShape


def tree(shape, available=None):
    topology = shape.topology()
    return PoolTree(topology, topology.online if available is None else IdSet.parse(available))


def drawn(pools):
    """Return the pools with their CPUs and memory nodes, each below its parent."""
    return [
        f"{'  ' * pool.depth}{pool.name}: {IdSet.from_mask(pool.cpus)} / {pool.memory}"
        for pool in reversed(pools.pools)
    ]


def test_a_machine_is_divided_by_sockets_dies_numa_nodes_and_caches():
    shape = MachineShape(packages=2, dies_per_package=2, nodes_per_die=2, cores_per_node=4, cores_per_l3=2)
    assert drawn(tree(shape))[:10] == [
        "root: 0-31 / 0-7",
        "  socket #1: 16-31 / 4-7",
        "    die #1/1: 24-31 / 6-7",
        "      NUMA node #7: 28-31 / 7",
        "        L3 cache #30: 30-31 / 7",
        "        L3 cache #28: 28-29 / 7",
        "      NUMA node #6: 24-27 / 6",
        "        L3 cache #26: 26-27 / 6",
        "        L3 cache #24: 24-25 / 6",
        "    die #1/0: 16-23 / 4-5",
    ]


def test_the_root_of_a_machine_of_one_socket_is_the_socket():
    assert drawn(tree(HYBRID)) == ["socket #0: 0-23 / 0"]


def test_a_level_that_does_not_divide_is_left_out():
    pools = tree(LARGE)
    assert {pool.name.split(" #")[0] for pool in pools.pools} == {"root", "socket", "L3 cache"}
    assert len(pools.pools) == 1 + 2 + 16


def test_memory_without_cpus_belongs_to_the_nearest_node_with_cpus():
    assert [str(pool.memory) for pool in tree(TIERED).pools] == [
        "0,4",
        "1,5",
        "0-1,4-5",
        "2,6",
        "3,7",
        "2-3,6-7",
        "0-7",
    ]
    near_the_second = MachineShape(nodes_per_die=2, attached=(AttachedMemory(MemoryKind.HBM, near=1),))
    assert drawn(tree(near_the_second)) == [
        "socket #0: 0-7 / 0-2",
        "  NUMA node #1: 4-7 / 1-2",
        "  NUMA node #0: 0-3 / 0",
    ]


def test_children_come_before_their_parents_and_the_root_is_last():
    pools = tree(TIERED).pools
    for pool in pools:
        assert pools[pool.id] is pool
        assert all(child < pool.id for child in pool.children)
        assert pool.ancestors[0] == pool.id
        assert pool.ancestors[-1] == len(pools) - 1


def test_parts_without_an_available_cpu_are_no_pools():
    shape = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4)
    assert drawn(tree(shape, "0-5,14")) == [
        "root: 0-5,14 / 0-1,3",
        "  socket #1: 14 / 3",
        "  socket #0: 0-5 / 0-1",
        "    NUMA node #1: 4-5 / 1",
        "    NUMA node #0: 0-3 / 0",
    ]
    assert drawn(tree(shape, "0-1")) == ["socket #0: 0-1 / 0"]


def test_memory_of_a_numa_node_without_an_available_cpu_belongs_to_no_pool():
    attached = (AttachedMemory(MemoryKind.PMEM, near=0), AttachedMemory(MemoryKind.PMEM, near=1))
    pools = tree(MachineShape(nodes_per_die=2, attached=attached), "4-7")
    assert drawn(pools) == ["socket #0: 4-7 / 1,3"]


def test_cpus_whose_node_has_no_memory_use_any():
    topology = MachineShape(nodes_per_die=2).topology()
    without = with_nodes(topology, {1: {"capacity_bytes": 0}})
    assert drawn(PoolTree(without, IdSet.parse("4-7"))) == ["socket #0: 4-7 / 0"]


def test_high_bandwidth_memory_is_for_requests_that_name_a_kind():
    pools = tree(MachineShape(nodes_per_die=2, attached=(AttachedMemory(MemoryKind.HBM, near=1),)))
    assert [str(pool.memory_for(frozenset())) for pool in pools.pools] == ["0", "1", "0-1"]
    assert [str(pool.memory_for(frozenset({MemoryKind.HBM}))) for pool in pools.pools] == ["0", "1-2", "0-2"]


def test_high_bandwidth_memory_is_for_all_where_there_is_no_other():
    topology = with_nodes(MachineShape(nodes_per_die=2).topology(), {1: {"kind": MemoryKind.HBM}})
    assert [str(pool.memory_for(frozenset())) for pool in PoolTree(topology, topology.online).pools] == ["0", "1", "0"]


def test_a_numa_node_without_memory_is_no_pool():
    topology = MachineShape(nodes_per_die=3, cores_per_node=2).topology()
    empty = {0: {"capacity_bytes": 0}}
    assert drawn(PoolTree(with_nodes(topology, empty), topology.online)) == [
        "socket #0: 0-5 / 1-2",
        "  NUMA node #2: 4-5 / 2",
        "  NUMA node #1: 2-3 / 1",
    ]


def test_a_tree_needs_an_available_cpu():
    with pytest.raises(ValueError, match="no CPU is available"):
        tree(HYBRID, "900")


def with_nodes(topology, changes):
    from dataclasses import replace

    nodes = {number: replace(node, **changes.get(number, {})) for number, node in topology.nodes.items()}
    return replace(topology, nodes=nodes)
