"""Choice of CPUs."""

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from joulie_core.containers.cpu_allocator import NotEnoughCpusError, allocate, release
from joulie_core.containers.idset import EMPTY, Cpus, IdSet
from joulie_core.containers.topology import CpuPriority, HardwareTopology
from joulie_testing.core.machines import HYBRID, LARGE, MachineShape, machines


@st.composite
def requests(draw: st.DrawFn) -> tuple[HardwareTopology, Cpus, int, CpuPriority]:
    machine = draw(machines())
    free = IdSet(draw(st.lists(st.sampled_from(sorted(machine.online)), unique=True)))
    return machine, free, draw(st.integers(0, len(free))), draw(st.sampled_from(CpuPriority))


def parts(groups: dict[object, Cpus], cpus: Cpus) -> int:
    return sum(not group.isdisjoint(cpus) for group in groups.values())


@given(requests())
def test_it_takes_exactly_as_many_cpus_as_requested_out_of_the_candidates(request_of):
    machine, free, count, priority = request_of
    taken = allocate(machine, free, count, priority)
    assert len(taken) == count
    assert taken <= free


@given(requests())
def test_what_is_released_and_what_is_kept_are_what_was_held(request_of):
    machine, held, count, priority = request_of
    released = release(machine, held, count, priority)
    assert len(released) == count
    assert released <= held
    assert held - released == allocate(machine, held, len(held) - count, priority)


@given(requests())
def test_a_request_stays_in_one_package_where_one_has_room(request_of):
    machine, free, count, priority = request_of
    taken = allocate(machine, free, count, priority)
    if any(len(package & free) >= count for package in machine.packages.values()):
        assert parts(machine.packages, taken) <= 1


@given(requests())
def test_a_package_that_has_enough_of_the_wanted_priority_supplies_no_other(request_of):
    machine, free, count, _ = request_of
    for priority in (CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW):
        wanted = machine.priorities[priority]
        if any(len(package & free & wanted) >= count for package in machine.packages.values()):
            assert allocate(machine, free, count, priority) <= wanted


@given(machines(), st.data())
def test_an_idle_homogeneous_package_gives_whole_cores(machine, data):
    package = data.draw(st.sampled_from(list(machine.packages.values())))
    sizes = {len(core) for core in machine.cores.values() if core <= package}
    if len(sizes) == 1:
        (size,) = sizes
        cores = data.draw(st.integers(0, len(package) // size))
        taken = allocate(machine, package, cores * size)
        assert parts(machine.cores, taken) == cores


@given(machines(), st.data())
def test_a_single_cpu_comes_from_a_core_in_use_before_it_breaks_an_idle_one(machine, data):
    smt = [core for core in machine.cores.values() if len(core) > 1 and not machine.efficient & core]
    if len(smt) > 1 and parts(machine.node_groups, machine.online) == 1:
        used = data.draw(st.sampled_from(smt))
        free = machine.online - used.lowest(1) - machine.efficient
        whole = [core for core in machine.cores.values() if core <= free]
        if all(len(core) > 1 for core in whole):
            assert allocate(machine, free, 1) <= used


def test_the_tightest_cache_group_that_suffices_is_taken():
    machine = LARGE.topology()
    groups = list(machine.l3_groups.values())
    free = machine.online - groups[0].lowest(4) - groups[1].lowest(6)
    # The second group has ten CPUs left, four of them without their siblings.
    assert allocate(machine, free, 4) <= groups[1]


def test_several_caches_are_filled_one_after_the_other():
    machine = LARGE.topology()
    taken = allocate(machine, machine.online, 40)
    assert parts(machine.l3_groups, taken) == 3
    assert parts(machine.cores, taken) == 20


def test_more_than_a_package_takes_one_wholly_and_the_rest_nearby():
    machine = LARGE.topology()
    taken = allocate(machine, machine.online, 130)
    assert machine.packages[0] <= taken
    assert parts(machine.cores, taken) == 65


@pytest.mark.parametrize(
    ("priority", "efficient"), [(CpuPriority.LOW, True), (CpuPriority.NORMAL, False), (CpuPriority.NONE, False)]
)
def test_a_hybrid_processor_gives_efficient_cores_to_low_priority_only(priority, efficient):
    machine = HYBRID.topology()
    taken = allocate(machine, machine.online, 4, priority)
    assert (taken <= machine.efficient) is efficient
    assert (taken & machine.efficient == EMPTY) is not efficient


def test_an_efficient_request_fills_one_cluster():
    machine = HYBRID.topology()
    assert parts(machine.l2_groups, allocate(machine, machine.online, 4, CpuPriority.LOW)) == 1


def test_cpus_of_a_higher_base_frequency_are_of_high_priority():
    machine = MachineShape(cores_per_node=4, fast_cores_per_node=1).topology()
    assert machine.priorities == {
        CpuPriority.HIGH: IdSet([0]),
        CpuPriority.NORMAL: EMPTY,
        CpuPriority.LOW: IdSet([1, 2, 3]),
    }
    assert allocate(machine, machine.online, 1, CpuPriority.LOW) == IdSet([1])


#: Two packages of four CPUs, of which 0 and 4 are of high priority and the others of low.
TWO_SPEEDS = MachineShape(packages=2, cores_per_node=4, fast_cores_per_node=1).topology()


def test_one_package_outweighs_the_priority_of_cpus():
    assert allocate(TWO_SPEEDS, TWO_SPEEDS.online, 2, CpuPriority.HIGH) == IdSet([0, 1])
    assert allocate(TWO_SPEEDS, TWO_SPEEDS.online, 5, CpuPriority.HIGH) == IdSet([0, 1, 2, 3, 4])


def test_the_package_with_more_cpus_of_the_priority_is_taken():
    free = TWO_SPEEDS.online - IdSet([0])
    assert allocate(TWO_SPEEDS, free, 2, CpuPriority.HIGH) == IdSet([4, 5])
    assert allocate(TWO_SPEEDS, free, 3, CpuPriority.LOW) == IdSet([1, 2, 3])
    assert allocate(TWO_SPEEDS, free, 2, CpuPriority.NORMAL) == IdSet([1, 2])


def test_the_package_with_the_least_room_of_the_priority_is_taken():
    # Package 0 has fewer free CPUs and as many of low priority as package 1.
    free = TWO_SPEEDS.online - IdSet([0, 5])
    assert allocate(TWO_SPEEDS, free, 2, CpuPriority.LOW) == IdSet([6, 7])


def test_what_is_kept_has_the_priority():
    assert release(TWO_SPEEDS, IdSet([0, 1, 2]), 2, CpuPriority.HIGH) == IdSet([1, 2])
    assert release(TWO_SPEEDS, IdSet([0, 1, 2]), 1, CpuPriority.LOW) == IdSet([0])


def test_held_cpus_that_have_gone_offline_are_released_besides():
    machine = MachineShape(cores_per_node=4, offline=IdSet([3])).topology()
    assert release(machine, IdSet([0, 1, 3]), 1) == IdSet([1, 3])


#: Two NUMA nodes in one package; cores are 0-1, 2-3, 4-5, 6-7 on node 0, and 8-9 to 14-15 on node 1.
TWO_NODES = MachineShape(nodes_per_die=2, cores_per_node=4, threads_per_core=2, siblings_apart=False).topology()


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        # The node with least room that suffices.
        ("0-5,8-15", 4, "0-3"),
        ("0-7,8-13", 4, "8-11"),
        # Whole cores of a larger node before threads of a smaller one.
        ("0,2,8-15", 2, "8-9"),
        ("0,2-3,5,8-15", 4, "8-11"),
        # A single thread does not break a core where another is in use already.
        ("0-1,8-13,15", 1, "15"),
        ("0-3,8-13,15", 3, "8-9,15"),
        # The core with fewest free threads.
        ("0-2", 1, "2"),
        ("0,2-3,8,10-15", 1, "0"),
        # More than a node has: the larger one first.
        ("0-3,8-13", 8, "0-1,8-13"),
        ("0-7,8-13", 12, "0-7,8-11"),
        # No idle core is left.
        ("0,2,4", 2, "0,2"),
    ],
)
def test_nodes_cores_and_threads_are_chosen_so_that_the_others_stay_whole(free, count, taken):
    assert allocate(TWO_NODES, IdSet.parse(free), count) == IdSet.parse(taken)


def test_the_last_thread_is_near_the_others():
    machine = MachineShape(cores_per_node=8, threads_per_core=2, cores_per_l3=4, siblings_apart=False).topology()
    # Caches of CPUs 0-7 and 8-15. Core 0-1 is in use, and so is core 10-11.
    assert allocate(machine, IdSet.parse("1,8-9,11-15"), 5) == IdSet.parse("8-9,11-13")
    assert allocate(machine, IdSet.parse("0-4,8,10-15"), 7) == IdSet.parse("8,10-15")


def test_cpus_of_packages_are_not_compared_with_each_other():
    machine = MachineShape(packages=2, cores_per_node=2).topology()
    cpus = {number: replace(cpu, base_khz=2_000_000 + cpu.package) for number, cpu in machine.cpus.items()}
    assert replace(machine, cpus=cpus).priorities[CpuPriority.NORMAL] == machine.online


def test_a_cpu_of_unknown_base_frequency_is_of_normal_priority():
    machine = MachineShape(cores_per_node=3, fast_cores_per_node=1).topology()
    cpus = {**machine.cpus, 2: replace(machine.cpus[2], base_khz=None)}
    assert replace(machine, cpus=cpus).priorities[CpuPriority.NORMAL] == IdSet([2])


def test_cpus_that_are_alike_are_of_normal_priority():
    assert LARGE.topology().priorities[CpuPriority.NORMAL] == LARGE.topology().online


@pytest.mark.parametrize("count", [-1, 5])
def test_an_impossible_count_is_an_error(count):
    machine = MachineShape(cores_per_node=8).topology()
    with pytest.raises(NotEnoughCpusError, match=f"{count} CPUs requested of 4"):
        allocate(machine, IdSet(range(4)), count)


def test_a_candidate_that_is_not_online_is_never_chosen():
    machine = MachineShape(cores_per_node=4, offline=IdSet([0])).topology()
    assert allocate(machine, IdSet(range(3)), 1) == IdSet([1])


def test_whole_cores_of_several_nodes_are_used_before_a_core_is_split():
    """Node 0 has two idle cores and half of a third, node 1 two idle cores."""
    machine = MachineShape(nodes_per_die=2, cores_per_node=4, threads_per_core=2, siblings_apart=False).topology()
    assert allocate(machine, IdSet.parse("0-4,8-11"), 6) == IdSet.parse("0-3,8-9")


def test_what_is_left_beside_whole_cores_of_several_nodes_is_a_thread_of_a_core_that_is_in_use():
    machine = MachineShape(nodes_per_die=2, cores_per_node=4, threads_per_core=2, siblings_apart=False).topology()
    assert allocate(machine, IdSet.parse("0-4,8-11"), 7) == IdSet.parse("0-4,8-9")


@given(requests())
def test_whole_cores_are_used_where_several_parts_are_needed_and_have_enough(request_of):
    """In one package of one priority; hybrid machines and cores with an offline thread have no even cores."""
    machine, free, count, _ = request_of
    threads = machine.threads_per_core
    groups = [*machine.dies.values(), *machine.node_groups.values()]
    idle = [core for core in machine.cores.values() if core <= free]
    if (
        len(machine.packages) > 1
        or any(len(core) != threads for core in machine.cores.values())
        or len({cpu.base_khz for cpu in machine.cpus.values()}) > 1
        or count % threads
        or len(idle) * threads < count
        or any(count <= len(group & free) < len(machine.online) for group in groups)
    ):
        return
    taken = allocate(machine, free, count)
    assert all(core <= taken or core.isdisjoint(taken) for core in machine.cores.values())
