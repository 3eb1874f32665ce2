"""What is left for containers on shared CPUs, and what they leave for others."""

from joulie_core.containers.idset import IdSet
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import MachineShape
from joulie_testing.core.topology_aware import TopologyAwareNode

SHARING = {"prefer-shared-cpus.resource-policy.nri.io": "true"}
#: Two sockets of two CPUs.
SMALL = MachineShape(packages=2, cores_per_node=2)


def node(options=None, shape=SMALL):
    return TopologyAwareNode(shape.topology(), options or {})


def test_the_last_shared_cpu_of_a_pool_is_not_taken_from_a_container_without_a_request():
    found = node(shape=MachineShape(cores_per_node=4))
    found.run(best_effort("a"))
    assert found.refuse(guaranteed("b", 4000)) == "4 exclusive CPUs are requested, 3 are free"
    found.run(guaranteed("b", 3000))
    assert len(found.placement("a").cpus) == 1


def test_a_pool_that_no_container_shares_can_be_emptied():
    found = node(shape=MachineShape(cores_per_node=4))
    found.run(guaranteed("a", 4000))
    assert found.cpus() == {"a": "0-3"}


def test_shared_cpus_are_left_for_all_requests():
    found = node(shape=MachineShape(cores_per_node=4))
    found.run(burstable("a", 1200, cpu_limit_milli=2000), burstable("b", 900, cpu_limit_milli=2000))
    assert found.refuse(guaranteed("c", 2000)) == "2 exclusive CPUs are requested, 1 are free"
    found.run(guaranteed("c", 1000))


def test_small_pools_keep_cpus_for_their_containers_when_the_large_one_gives_some():
    found = node(shape=MachineShape(packages=2, nodes_per_die=2, cores_per_node=4))
    found.run(*(burstable(name, 1500, 1, cpu_limit_milli=2000, memory_limit_mib=2) for name in "abcd"))
    assert len(set(found.zones().values())) == 4
    found.run(guaranteed("e", 8000))
    assert {len(found.placement(name).cpus) for name in "abcd"} == {2}


def test_a_container_is_not_refused_while_enough_cpus_are_free_in_number():
    """Every socket keeps a CPU for its one container, though both could use the same CPU."""
    found = node()
    found.run(best_effort("a"), best_effort("b"))
    assert sorted(found.zones().values()) == ["socket #0", "socket #1"]
    found.run(guaranteed("c", 3000))
    assert len(found.placement("c").exclusive) == 3
    assert found.placement("a").cpus == found.placement("b").cpus == IdSet(range(4)) - found.placement("c").cpus


def test_as_few_containers_as_possible_are_widened_to_a_larger_pool():
    found = node(shape=MachineShape(packages=3, cores_per_node=2))
    # The first socket needs two CPUs for three containers, and would need one without the smallest share.
    shared = {"annotations": SHARING}
    found.run(guaranteed("a", 900, **shared), guaranteed("b", 900, **shared), guaranteed("c", 900, **shared))
    found.run(guaranteed("d", 200, **shared), guaranteed("e", 300, **shared), guaranteed("f", 400, **shared))
    before = found.zones()
    found.run(guaranteed("x", 2000))
    moved = [name for name, zone in found.zones(*"abcdef").items() if zone != before[name]]
    assert 0 < len(moved) <= 2


def test_requests_beyond_the_shared_cpus_refuse_a_container():
    found = node()
    found.run(burstable("a", 3500))
    assert found.refuse(burstable("b", 600)) == "600m CPUs are requested, 500m of the shared CPUs are left"


def test_a_container_that_shares_goes_to_reserved_cpus_when_all_others_are_exclusive():
    found = node({"reservedResources": {"cpu": "cpuset:0"}})
    found.run(guaranteed("a", 3000))
    result = found.run(best_effort("b"))
    assert [warning.reason for warning in result.warnings] == ["SharedCpusFull"]
    assert found.cpus() == {"a": "1-3", "b": "0"}


def test_without_reserved_cpus_a_container_that_shares_is_refused_when_all_are_exclusive():
    found = node()
    found.run(guaranteed("a", 4000))
    assert found.refuse(best_effort("b")) == "0m CPUs are requested, 0m of the shared CPUs are left"


def test_a_container_with_exclusive_and_shared_cpus_leaves_a_cpu_for_its_share():
    found = node(shape=MachineShape(cores_per_node=2))
    found.run(guaranteed("a", 1500))
    assert found.cpus() == {"a": "0-1"}
    assert len(found.placement("a").exclusive) == 1
    assert found.refuse(guaranteed("b", 1000)).startswith("1 exclusive CPUs are requested, 0 are free")


def test_large_requests_take_cores_whole():
    found = node(shape=MachineShape(cores_per_node=4, threads_per_core=2))
    found.run(guaranteed("a", 2000), guaranteed("b", 2000))
    cores = [{cpu % 4 for cpu in found.placement(name).cpus} for name in "ab"]
    assert [len(used) for used in cores] == [1, 1]
