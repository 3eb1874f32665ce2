"""Invented machines, and what a topology knows of its CPUs."""

import pytest
from hypothesis import given

from joulie_core.containers.idset import EMPTY, IdSet
from joulie_core.containers.topology import HardwareTopology, MemoryKind
from joulie_testing.core.machines import GIB, HYBRID, LARGE, TIERED, AttachedMemory, MachineShape, machines

GROUPS = ("packages", "dies", "node_groups", "l3_groups", "l2_groups", "cores")


@given(machines())
def test_every_level_of_a_machine_has_every_cpu_once(machine: HardwareTopology):
    for name in GROUPS:
        groups = list(getattr(machine, name).values())
        assert sum(map(len, groups)) == len(machine.online), name
        assert IdSet(cpu for group in groups for cpu in group) == machine.online, name


@given(machines())
def test_parts_are_within_larger_parts(machine: HardwareTopology):
    for smaller, larger in (
        ("cores", "l2_groups"),
        ("l2_groups", "node_groups"),
        ("l3_groups", "node_groups"),
        ("dies", "packages"),
    ):
        for group in getattr(machine, smaller).values():
            assert any(group <= other for other in getattr(machine, larger).values()), (smaller, larger)


@given(machines())
def test_priorities_divide_the_cpus(machine: HardwareTopology):
    parts = list(machine.priorities.values())
    assert sum(map(len, parts)) == len(machine.online)
    assert IdSet(cpu for part in parts for cpu in part) == machine.online


@given(machines())
def test_distances_are_the_same_in_both_directions_and_shortest_to_the_node_itself(machine: HardwareTopology):
    for one in machine.nodes.values():
        assert one.distances.keys() == machine.nodes.keys()
        for other in machine.nodes.values():
            assert one.distances[other.id] == other.distances[one.id]
            assert one.distances[other.id] > one.distances[one.id] or other is one


@given(machines())
def test_nodes_of_cpus_are_those_that_the_cpus_are_on(machine: HardwareTopology):
    assert machine.nodes_of(machine.online) == IdSet(machine.node_groups)
    assert machine.nodes_of(EMPTY) == EMPTY
    for cpu in machine.cpus.values():
        assert machine.nodes_of(IdSet([cpu.id])) == IdSet([cpu.node])


@pytest.mark.parametrize(
    ("shape", "core"),
    [
        (MachineShape(threads_per_core=2), "0,4"),
        (MachineShape(threads_per_core=2, siblings_apart=False), "0-1"),
        (MachineShape(threads_per_core=2, id_step=97), "0,388"),
        (MachineShape(threads_per_core=4, siblings_apart=False), "0-3"),
        (MachineShape(packages=2, threads_per_core=2), "0,8"),
    ],
)
def test_the_threads_of_a_core_are_numbered_apart_or_in_a_row(shape, core):
    assert shape.topology().cores[0] == IdSet.parse(core)


def test_packages_may_be_numbered_alternately():
    assert MachineShape(packages=2, alternate_packages=True).topology().packages == {
        0: IdSet([0, 2, 4, 6]),
        1: IdSet([1, 3, 5, 7]),
    }


def test_a_cpu_that_is_offline_is_of_no_part():
    machine = MachineShape(threads_per_core=2, offline=IdSet([0, 99]), isolated=IdSet([0, 1])).topology()
    assert machine.offline == IdSet([0])
    assert machine.isolated == IdSet([1])
    assert machine.cores[4] == IdSet([4])
    with pytest.raises(ValueError, match="no CPU is online"):
        MachineShape(cores_per_node=1, offline=IdSet([0])).topology()


def test_the_machines_of_benchmarks_are_as_described():
    large, hybrid, tiered = LARGE.topology(), HYBRID.topology(), TIERED.topology()
    assert [len(group) for group in (large.online, large.packages, large.l3_groups, large.cores)] == [256, 2, 16, 128]
    assert (large.threads_per_core, hybrid.hybrid, large.hybrid) == (2, True, False)
    assert hybrid.efficient == IdSet.parse("8-15")
    assert [len(group) for group in hybrid.l2_groups.values()] == [2] * 8 + [4, 4]
    assert [node.kind for node in tiered.nodes.values()] == [MemoryKind.DRAM] * 4 + [MemoryKind.PMEM] * 4


def test_memory_only_nodes_are_closest_to_the_node_that_they_are_attached_to():
    machine = MachineShape(packages=2, nodes_per_die=2, attached=(AttachedMemory(MemoryKind.HBM, 2, GIB),)).topology()
    assert machine.nodes[4].distances == {0: 28, 1: 28, 2: 17, 3: 19, 4: 10}
    assert machine.nodes[4].capacity_bytes == GIB


def test_cores_of_one_kind_are_not_hybrid():
    assert not MachineShape(cores_per_node=1, efficient_per_node=4, offline=IdSet([0])).topology().efficient
