"""The rules by which a pool is chosen, in their order.

The machine: two sockets of two NUMA nodes of four CPUs, `0-3`, `4-7`, `8-11` and `12-15`, with 32 GiB each.
"""

from dataclasses import replace

import pytest

from joulie_core.containers.container import TopologyHint
from joulie_core.containers.idset import IdSet
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import TIERED, AttachedMemory, MachineShape, MemoryKind
from joulie_testing.core.topology_aware import TopologyAwareNode

SHAPE = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4)
GIB_IN_MIB = 1024
SUFFIX = "resource-policy.nri.io"


def key(name):
    return f"{name}.{SUFFIX}"


def node(options=None, shape=SHAPE):
    return TopologyAwareNode(shape.topology(), options or {})


def hint(cpus="", nodes="", provider="device:/dev/card"):
    return TopologyHint(provider=provider, cpus=cpus, nodes=nodes)


@pytest.mark.parametrize(
    "container",
    [
        guaranteed("a", 4000, 100),
        guaranteed("a", 300, 100),
        burstable("a", 300, 100, cpu_limit_milli=4000, memory_limit_mib=GIB_IN_MIB),
        best_effort("a"),
    ],
    ids=["exclusive", "shared", "burstable", "best effort"],
)
def test_a_container_that_fits_a_numa_node_gets_one(container):
    found = node()
    found.run(container)
    assert found.placement("a").zone.startswith("NUMA node")
    assert len(found.placement("a").memory) == 1


@pytest.mark.parametrize(("milli", "zone", "memory"), [(5000, "socket", 2), (9000, "root", 4)])
def test_a_container_that_fits_no_numa_node_gets_the_next_larger_part(milli, zone, memory):
    found = node()
    found.run(guaranteed("a", milli))
    assert found.placement("a").zone.startswith(zone)
    assert len(found.placement("a").memory) == memory


def test_whole_numa_nodes_fill_one_container_each():
    found = node()
    found.run(*(guaranteed(name, 4000) for name in "abcd"))
    assert sorted(found.cpus().values()) == ["0-3", "12-15", "4-7", "8-11"]


def test_exclusive_containers_are_spread_to_where_most_cpus_can_be_taken():
    found = node()
    found.run(*(guaranteed(name, 1000) for name in "abcd"))
    assert len(set(found.zones().values())) == 4


def test_sharing_containers_are_spread_to_where_fewest_are():
    found = node()
    found.run(*(best_effort(name) for name in "abcdefgh"))
    zones = list(found.zones().values())
    assert {zones.count(zone) for zone in zones} == {2}


def test_a_pool_with_isolated_cpus_is_preferred_for_containers_that_want_them():
    found = node(shape=MachineShape(packages=2, nodes_per_die=2, cores_per_node=4, isolated=IdSet([9])))
    found.run(guaranteed("a", 1000))
    assert found.cpus() == {"a": "9"}


def test_a_container_without_a_request_is_placed_where_something_is_left():
    found = node(shape=MachineShape(packages=2, cores_per_node=2))
    found.run(guaranteed("a", 1900, annotations={key("prefer-shared-cpus"): "true"}))
    found.run(guaranteed("b", 100, annotations={f"{SUFFIX}/affinity": "{main: [main]}"}, pod="a"))
    assert len(set(found.zones().values())) == 1
    found.run(*(best_effort(name) for name in "cdefg"))
    assert found.zones("a")["a"] not in found.zones(*"cdefg").values()


def test_containers_with_an_affinity_are_placed_together_and_with_an_anti_affinity_apart():
    affinity = {f"{SUFFIX}/affinity": "{main: [main]}"}
    anti = {f"{SUFFIX}/anti-affinity": "{main: [main]}"}
    together, apart = node(), node()
    together.run(best_effort("a", pod="p"), best_effort("b", pod="p", annotations=affinity))
    apart.run(*(best_effort(name, pod="p", annotations=anti) for name in "abcd"))
    assert len(set(together.zones().values())) == 1
    assert len(set(apart.zones().values())) == 4


@pytest.mark.parametrize("first", ["main", "other"])
def test_a_short_affinity_holds_in_both_directions(first):
    annotations = {f"{SUFFIX}/affinity": "{main: [other]}"}
    found = node()
    second = "other" if first == "main" else "main"
    for name in (first, second):
        found.run(replace(best_effort(name, pod="p", annotations=annotations), name=name))
    assert len(set(found.zones().values())) == 1


def test_an_affinity_weakens_with_the_distance_in_the_tree():
    found = node()
    affinity = {f"{SUFFIX}/affinity": "{main: [main]}"}
    found.run(guaranteed("a", 4000, pod="p"))
    # The node of `a` is full: the other node of its socket is nearer than the other socket.
    found.run(guaranteed("b", 4000, pod="p", annotations=affinity))
    sockets = {"NUMA node #0": 0, "NUMA node #1": 0, "NUMA node #2": 1, "NUMA node #3": 1}
    assert len({sockets[zone] for zone in found.zones().values()}) == 1


@pytest.mark.parametrize(
    ("option", "about"), [("colocatePods", {"pod": "p"}), ("colocateNamespaces", {"namespace": "n"})]
)
def test_options_place_containers_of_a_pod_or_namespace_together(option, about):
    found = node({option: True})
    found.run(*(best_effort(name, **about) for name in "abc"), best_effort("other"))
    assert len(set(found.zones("a", "b", "c").values())) == 1
    assert found.zones("other")["other"] != found.zones("a")["a"]


def test_an_affinity_counts_before_a_topology_hint():
    found = node()
    affinity = {f"{SUFFIX}/affinity": "{main: [main]}"}
    found.run(best_effort("a", pod="p", hints=(hint("0-3"),)))
    found.run(best_effort("b", pod="p", hints=(hint("12-15"),), annotations=affinity))
    assert found.cpus() == {"a": "0-3", "b": "0-3"}


@pytest.mark.parametrize("given", [hint(cpus="8-11"), hint(nodes="2")], ids=["CPUs", "memory nodes"])
def test_a_container_is_placed_near_its_devices(given):
    found = node()
    found.run(guaranteed("a", 1000, hints=(given,)))
    assert found.placement("a").cpus <= IdSet.parse("8-11")


def test_hints_of_several_devices_meet_in_the_smallest_part_that_has_both():
    found = node()
    found.run(best_effort("a", hints=(hint("0-3"), hint("4-7", provider="mount:/data"))))
    assert found.zones() == {"a": "socket #0"}


def test_hints_can_be_ignored():
    found = node()
    found.run(best_effort("x"), best_effort("a", hints=(hint("0-3"),), annotations={key("topologyhints"): "false"}))
    assert found.zones("a") != {"a": "NUMA node #0"}


def test_a_malformed_hint_is_a_warning_and_ignored():
    found = node()
    result = found.run(best_effort("a", hints=(hint("3-1"), hint("12-15"))))
    assert [warning.reason for warning in result.warnings] == ["InvalidTopologyHint"]
    assert found.cpus() == {"a": "12-15"}


def test_strict_hints_that_cannot_be_followed_refuse_a_container():
    found = node()
    strict = {key("strict.topologyhints"): "true"}
    found.run(guaranteed("a", 2000, hints=(hint("0-3"),), annotations=strict))
    reason = found.refuse(guaranteed("b", 3000, hints=(hint("0-3"),), annotations=strict))
    assert reason.startswith("fail strict hint: no pool that is close to device:/dev/card")
    found.run(guaranteed("b", 3000, hints=(hint("0-3"),)))
    assert found.placement("b").exclusive.isdisjoint(IdSet.parse("0-1"))


def test_exclusive_cpus_can_be_picked_by_hints():
    found = node(shape=MachineShape(cores_per_node=8))
    found.run(guaranteed("a", 2000, hints=(hint("5-6"),), annotations={key("pick-resources-by-hints"): "true"}))
    assert found.cpus() == {"a": "5-6"}


def test_a_pool_whose_memory_suffices_alone_is_preferred():
    found = node(shape=MachineShape(nodes_per_die=2, cores_per_node=4))
    found.run(guaranteed("a", 100, 20 * GIB_IN_MIB, hints=(hint("0-3"),)))
    # The other node has more containers, and more memory.
    found.run(*(best_effort(name, hints=(hint("4-7"),)) for name in "bcd"))
    found.run(guaranteed("e", 100, 20 * GIB_IN_MIB))
    assert found.memory("a", "e") == {"a": "0", "e": "1"}


def test_a_pool_with_exactly_the_wanted_kinds_of_memory_is_preferred():
    shape = MachineShape(nodes_per_die=2, attached=(AttachedMemory(MemoryKind.HBM, near=1),))
    found = node(shape=shape)
    found.run(best_effort("a", annotations={key("memory-type"): "hbm,dram"}))
    assert (found.zones(), found.memory()) == ({"a": "NUMA node #1"}, {"a": "1-2"})


def test_a_pool_whose_memory_has_room_for_the_limit_is_preferred():
    found = node(shape=MachineShape(nodes_per_die=2, cores_per_node=4))
    found.run(guaranteed("a", 100, 20 * GIB_IN_MIB, hints=(hint("0-3"),)))
    # The other node has more containers, and more memory.
    found.run(*(best_effort(name, hints=(hint("4-7"),)) for name in "bcd"))
    found.run(burstable("e", 100, 100, cpu_limit_milli=500, memory_limit_mib=25 * GIB_IN_MIB))
    assert found.memory("e") == {"e": "1"}


def test_a_burstable_container_without_a_memory_limit_is_not_confined_to_a_small_pool():
    found = node()
    found.run(burstable("a", 100, 100, cpu_limit_milli=500))
    assert found.zones()["a"].startswith("socket")


def test_a_burstable_container_gets_the_smallest_pool_that_has_its_cpu_limit():
    found = node()
    found.run(burstable("a", 100, cpu_limit_milli=4000, memory_limit_mib=100))
    found.run(burstable("b", 100, cpu_limit_milli=6000, memory_limit_mib=100))
    assert found.zones("a")["a"].startswith("NUMA node")
    assert found.zones("b")["b"].startswith("socket")


def test_a_burstable_container_whose_limit_no_pool_has_gets_the_largest():
    """Not one of the smallest, where it could not burst at all."""
    found = node()
    found.run(burstable("a", 100, cpu_limit_milli=64_000, memory_limit_mib=100))
    assert found.zones() == {"a": "root"}


@pytest.mark.parametrize(
    ("level", "zone"),
    [("system", "root"), ("package", "socket"), ("die", "socket"), ("numa", "NUMA node"), ("l3cache", "NUMA node")],
)
def test_a_burstable_container_without_a_limit_gets_the_configured_part_or_the_one_around(level, zone):
    configured, annotated = node({"unlimitedBurstable": level}), node()
    configured.run(burstable("a", 100))
    annotated.run(burstable("a", 100, annotations={key("unlimited-burstable"): level}))
    assert configured.zones()["a"].startswith(zone)
    assert annotated.zones() == configured.zones()


@pytest.mark.parametrize(("level", "request_milli", "zone"), [("numa", 5000, "socket"), ("package", 9000, "root")])
def test_a_request_above_its_level_gets_the_smallest_part_that_has_it_and_not_the_machine(level, request_milli, zone):
    found = node()
    found.run(burstable("a", request_milli, annotations={key("unlimited-burstable"): level}))
    assert found.zones()["a"].startswith(zone)


def test_burstable_containers_without_a_limit_are_spread_to_where_most_is_left():
    found = node()
    found.run(burstable("a", 3000), burstable("b", 1000), burstable("c", 1000))
    assert found.zones("b") != found.zones("a") | found.zones("b")
    assert found.zones("c")["c"] == found.zones("b")["b"] != found.zones("a")["a"]


def test_without_room_in_the_configured_part_a_wider_one_is_better_than_a_narrower_one():
    found = node(shape=MachineShape(packages=2, nodes_per_die=2, cores_per_node=2))
    found.run(*(burstable(name, 3500) for name in "ab"))
    found.run(burstable("c", 800))
    assert found.zones() == {"a": "socket #0", "b": "socket #1", "c": "root"}


def test_fast_cpus_are_used_where_a_container_prefers_them():
    found = node(shape=MachineShape(packages=2, cores_per_node=4, fast_cores_per_node=2))
    found.run(*(guaranteed(name, 1000, annotations={key("prefer-cpu-priority"): "high"}) for name in "abcd"))
    assert sorted(found.cpus().values()) == ["0", "1", "4", "5"]


def test_a_high_priority_is_met_by_performance_cores_of_a_hybrid_machine_while_such_are_free():
    """Pools are the caches; the efficient cores have more of them, and all cores the same base frequency."""
    shape = MachineShape(packages=2, cores_per_node=4, efficient_per_node=12, cores_per_l3=4)
    found = node(shape=shape)
    found.run(*(guaranteed(name, 2000, annotations={key("prefer-cpu-priority"): "high"}) for name in "abcd"))
    for name in "abcd":
        assert found.placement(name).cpus.isdisjoint(found.topology.efficient)


def test_no_cpu_of_the_worst_priority_counts_before_one_of_the_best():
    """The first package has two fast CPUs and none of normal speed; the second four of normal speed."""
    topology = MachineShape(packages=2, cores_per_node=4, fast_cores_per_node=2).topology()
    same = {number: replace(topology.cpus[number], base_khz=2_000_000) for number in topology.packages[1]}
    found = TopologyAwareNode(replace(topology, cpus={**topology.cpus, **same}), {})
    found.run(guaranteed("a", 4000, annotations={key("prefer-cpu-priority"): "high"}))
    assert found.placement("a").cpus == found.topology.packages[1]


def test_the_configuration_has_a_default_priority():
    found = node({"defaultCPUPriority": "low"}, MachineShape(cores_per_node=4, fast_cores_per_node=2))
    found.run(guaranteed("a", 2000))
    assert found.cpus() == {"a": "2-3"}


def test_a_pool_that_has_enough_cpus_of_the_priority_is_preferred():
    found = node(shape=MachineShape(packages=2, cores_per_node=4, fast_cores_per_node=2))
    high, low = ({key("prefer-cpu-priority"): priority} for priority in ("high", "low"))
    found.run(guaranteed("a", 1000, annotations=high), guaranteed("b", 2000, annotations=low, hints=(hint("4-7"),)))
    # More CPUs are left where fewer are fast.
    found.run(guaranteed("c", 2000, annotations=high))
    assert found.cpus() == {"a": "0", "b": "6-7", "c": "4-5"}


def test_all_memory_of_a_pool_is_used_where_no_kind_is_named():
    found = node(shape=TIERED)
    found.run(guaranteed("a", 1000, 100))
    assert found.memory() == {"a": "0,4"}


@pytest.mark.parametrize(("annotations", "memory"), [({}, "0"), ({key("memory-type"): "hbm,dram"}, "0-1")])
def test_only_a_container_with_the_annotation_gets_high_bandwidth_memory(annotations, memory):
    found = node(shape=MachineShape(attached=(AttachedMemory(MemoryKind.HBM),)))
    found.run(guaranteed("a", 1000, 100, annotations=annotations))
    assert found.memory() == {"a": memory}


def test_high_bandwidth_memory_takes_what_has_no_room_elsewhere():
    found = node(shape=MachineShape(attached=(AttachedMemory(MemoryKind.HBM),)))
    found.run(guaranteed("a", 1000, 40 * GIB_IN_MIB))
    assert found.memory() == {"a": "0-1"}


def test_memory_of_numa_nodes_without_an_available_cpu_is_not_used():
    found = node({"availableResources": {"cpu": "cpuset:0-5,12-15"}, "reservedResources": {"cpu": "cpuset:0"}})
    found.run(guaranteed("a", 6000, 100))
    assert found.memory() == {"a": "0-1,3"}


def test_exclusive_cpus_of_one_node_have_memory_of_that_node_whatever_pool_was_chosen():
    found = node()
    affinity = {f"{SUFFIX}/affinity": "{main: [main]}"}
    found.run(guaranteed("a", 4000, 100, pod="p"), guaranteed("b", 4000, 100, pod="p", annotations=affinity))
    assert (found.cpus(), found.memory()) == ({"a": "0-3", "b": "4-7"}, {"a": "0", "b": "1"})


def test_a_smaller_pool_is_not_used_where_its_memory_does_not_suffice():
    found = node()
    affinity = {f"{SUFFIX}/affinity": "{main: [main]}"}
    found.run(guaranteed("a", 4000, 100, pod="p"))
    found.run(guaranteed("b", 4000, 40 * GIB_IN_MIB, pod="p", annotations=affinity))
    assert (found.cpus("b"), found.memory("b")) == ({"b": "4-7"}, {"b": "0-1"})


def test_isolated_cpus_are_taken_where_most_of_them_are():
    found = node(shape=MachineShape(packages=2, cores_per_node=4, isolated=IdSet([3, 6, 7])))
    found.run(guaranteed("a", 1000))
    assert found.placement("a").cpus <= IdSet([6, 7])


def test_exclusive_cpus_are_taken_where_most_of_normal_speed_are():
    found = node(shape=MachineShape(packages=2, cores_per_node=4, efficient_per_node=4))
    first, second = (found.topology.packages[number] for number in (0, 1))
    low = {key("prefer-cpu-priority"): "low"}
    found.run(guaranteed("a", 4000, annotations=low, hints=(hint(str(first)),)))
    found.run(guaranteed("b", 2000, hints=(hint(str(second)),)))
    # More CPUs are left in the second package, but fewer performance cores.
    found.run(guaranteed("c", 1000))
    assert found.placement("c").cpus <= first
