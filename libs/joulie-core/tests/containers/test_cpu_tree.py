import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from joulie_core.containers.cpu_allocator import NotEnoughCpusError
from joulie_core.containers.cpu_tree import CpuTree, CpuWish, TreeLevel
from joulie_core.containers.idset import EMPTY, IdSet
from joulie_core.containers.topology import CpuPriority
from joulie_testing.core.machines import HYBRID, MachineShape, machines

#: Two packages of two NUMA nodes of four cores of two threads; node n has the CPUs 8n to 8n+7, cores are pairs.
SHAPE = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4, threads_per_core=2, siblings_apart=False)
MACHINE = SHAPE.topology()
TREE = CpuTree(MACHINE)
ALL = MACHINE.online
NODES = [node.cpus for node in MACHINE.nodes.values()]


def cpus(text):
    return IdSet.parse(text)


@pytest.mark.parametrize(
    ("level", "around"),
    [
        (TreeLevel.SYSTEM, "0-31"),
        (TreeLevel.PACKAGE, "0-15"),
        (TreeLevel.DIE, "0-15"),
        (TreeLevel.NUMA, "0-7"),
        (TreeLevel.L2CACHE, "2-3"),
        (TreeLevel.CORE, "2-3"),
        (TreeLevel.THREAD, "3"),
    ],
)
def test_the_part_of_a_level_around_a_cpu_is_found(level, around):
    assert str(TREE.around(cpus("3"), level)) == around
    assert TREE.around(EMPTY, level) == EMPTY


def test_parts_around_several_cpus_are_united():
    assert str(TREE.around(cpus("3,30"), TreeLevel.NUMA)) == "0-7,24-31"


def test_a_set_grows_into_the_deepest_part_with_room_for_all():
    # Six CPUs are free on node 1, and seven spread over nodes 2 and 3.
    assert TREE.grow(EMPTY, cpus("8-13,16-18,24-27"), 6, CpuWish()) == cpus("8-13")
    assert TREE.grow(EMPTY, cpus("8-13,16-18,24-27"), 7, CpuWish()) == cpus("16-18,24-27")


def test_a_set_grows_where_it_has_most_cpus():
    # In package 1, and there on node 3.
    held = cpus("0-1,16-17,24-27")
    assert TREE.grow(held, ALL - held, 2, CpuWish()) == cpus("28-29")


def test_a_set_completes_its_cores_before_it_takes_others():
    assert TREE.grow(cpus("0,2"), ALL - cpus("0,2"), 2, CpuWish()) == cpus("1,3")
    assert TREE.grow(cpus("0-2"), ALL - cpus("0-2"), 3, CpuWish()) == cpus("3-5")


def test_a_packed_set_starts_where_fewest_cpus_are_free_and_a_balanced_one_where_most_are():
    free = ALL - cpus("16")
    assert TREE.grow(EMPTY, free, 2, CpuWish()) <= NODES[2]
    assert TREE.grow(EMPTY, free, 2, CpuWish(balance=True)) <= NODES[0]


def test_equally_good_parts_are_taken_in_the_order_of_their_ids():
    machine = MachineShape(packages=12, cores_per_node=2).topology()
    assert CpuTree(machine).grow(EMPTY, machine.online - cpus("0-3"), 2, CpuWish()) == cpus("4-5")


def test_spreading_takes_one_thread_of_each_core_first():
    taken = TREE.grow(EMPTY, ALL, 4, CpuWish(spread=True))
    assert taken == cpus("0,2,4,6")
    assert TREE.grow(taken, ALL - taken, 2, CpuWish(spread=True)) == cpus("1,3")


def test_a_set_without_free_cpus_for_its_growth_is_refused():
    with pytest.raises(NotEnoughCpusError, match="3 CPUs requested of 2"):
        TREE.grow(EMPTY, cpus("0-1"), 3, CpuWish())
    with pytest.raises(NotEnoughCpusError, match="3 CPUs released of 2"):
        TREE.shrink(cpus("0-1"), EMPTY, 3, CpuWish())


def test_close_cpus_are_preferred_where_there_are_enough():
    wish = CpuWish(close=(NODES[3],))
    assert TREE.grow(EMPTY, ALL, 8, wish) == NODES[3]
    assert not TREE.grow(EMPTY, ALL, 9, wish) <= NODES[3]


def test_an_important_preference_outweighs_those_behind_it():
    wish = CpuWish(close=(NODES[1], NODES[2]), far=(cpus("8-11"),))
    assert TREE.grow(EMPTY, ALL, 3, wish) <= cpus("12-15")
    assert TREE.grow(EMPTY, ALL, 6, wish) <= NODES[1]


def test_far_cpus_are_avoided_where_there_are_enough_others():
    wish = CpuWish(far=(ALL - cpus("4-7"),))
    assert TREE.grow(EMPTY, ALL, 4, wish) == cpus("4-7")
    assert len(TREE.grow(EMPTY, ALL, 5, wish)) == 5


def test_a_set_shrinks_where_it_has_fewest_cpus():
    assert TREE.shrink(cpus("0-3,16-22"), ALL, 1, CpuWish()) <= NODES[0]
    assert TREE.shrink(cpus("0-3,16-22"), ALL, 5, CpuWish()) >= cpus("0-3")
    assert TREE.shrink(cpus("0-2"), ALL - cpus("0-2"), 1, CpuWish()) == cpus("2")


def test_among_equal_cpus_the_highest_is_released():
    assert TREE.shrink(NODES[0], EMPTY, 2, CpuWish()) == cpus("6-7")


def test_growing_and_shrinking_again_leaves_what_there_was():
    grown = TREE.grow(cpus("8-11"), ALL - cpus("8-11"), 6, CpuWish())
    assert TREE.shrink(cpus("8-11") | grown, ALL - grown - cpus("8-11"), 6, CpuWish()) == grown


def test_cpus_that_meet_fewest_preferences_are_released_first():
    wish = CpuWish(close=(cpus("0-3"),), far=(cpus("3"),))
    assert TREE.shrink(cpus("0-5"), EMPTY, 2, wish) == cpus("4-5")
    assert TREE.shrink(cpus("0-5"), EMPTY, 3, wish) == cpus("3-5")


def test_a_spread_set_releases_second_threads_first():
    assert TREE.shrink(cpus("0-5"), EMPTY, 3, CpuWish(spread=True)) != cpus("3-5")
    assert TREE.shrink(cpus("0,2-3"), EMPTY, 1, CpuWish(spread=True)) == cpus("3")


def test_the_priority_chooses_among_equally_close_cpus():
    machine = HYBRID.topology()
    tree = CpuTree(machine)
    assert tree.grow(EMPTY, machine.online, 4, CpuWish(priority=CpuPriority.LOW)) <= machine.efficient
    assert tree.grow(EMPTY, machine.online, 4, CpuWish(priority=CpuPriority.HIGH)).isdisjoint(machine.efficient)


@st.composite
def situations(draw):
    machine = draw(machines())
    online = sorted(machine.online)
    some = st.lists(st.sampled_from(online), unique=True).map(IdSet)
    held = draw(some)
    hints = st.lists(some, max_size=2).map(tuple)
    wish = st.builds(
        CpuWish,
        close=hints,
        far=hints,
        balance=st.booleans(),
        spread=st.booleans(),
        priority=st.sampled_from(CpuPriority),
    )
    return machine, held, draw(some) - held, draw(wish)


@settings(max_examples=50)
@given(situations(), st.data())
def test_a_set_grows_by_exactly_the_requested_number_of_free_cpus(situation, data):
    machine, held, free, wish = situation
    count = data.draw(st.integers(0, len(free)))
    grown = CpuTree(machine).grow(held, free, count, wish)
    assert len(grown) == count
    assert grown <= free


@settings(max_examples=50)
@given(situations(), st.data())
def test_a_set_shrinks_by_exactly_the_requested_number_of_its_cpus(situation, data):
    machine, held, free, wish = situation
    count = data.draw(st.integers(0, len(held)))
    released = CpuTree(machine).shrink(held, free, count, wish)
    assert len(released) == count
    assert released <= held


@settings(max_examples=50)
@given(situations(), st.data())
def test_a_new_set_stays_in_one_numa_node_where_one_has_room(situation, data):
    machine, _, free, wish = situation
    free -= machine.efficient  # only used where no package has enough other CPUs, whatever the NUMA node
    count = data.draw(st.integers(0, len(free)))
    grown = CpuTree(machine).grow(EMPTY, free, count, CpuWish(balance=wish.balance, spread=wish.spread))
    if any(len(node.cpus & free) >= count for node in machine.nodes.values()):
        assert len(machine.nodes_of(grown)) <= 1


@settings(max_examples=50)
@given(situations(), st.data())
def test_a_new_set_of_a_priority_stays_in_one_package_where_one_has_room(situation, data):
    machine, _, free, wish = situation
    count = data.draw(st.integers(0, len(free)))
    grown = CpuTree(machine).grow(EMPTY, free, count, CpuWish(priority=wish.priority))
    if any(len(package & free) >= count for package in machine.packages.values()):
        assert len({machine.cpus[number].package for number in grown}) <= 1


@settings(max_examples=50)
@given(situations(), st.data())
def test_a_packed_set_without_preferences_that_grows_and_shrinks_again_has_the_nodes_it_had(situation, data):
    machine, held, free, _ = situation
    tree = CpuTree(machine)
    start = tree.grow(EMPTY, held, data.draw(st.integers(0, len(held))), CpuWish())
    grown = tree.grow(start, free, data.draw(st.integers(0, len(free))), CpuWish())
    kept = (start | grown) - tree.shrink(start | grown, free - grown, len(grown), CpuWish())
    assert len(kept) == len(start)
    # Parts with as many CPUs of the set as another are told apart by their ids only.
    nodes = machine.nodes_of(start)
    if len(nodes) == 1 and nodes.isdisjoint(machine.nodes_of(grown)) and len(grown) < len(start):
        assert kept == start
