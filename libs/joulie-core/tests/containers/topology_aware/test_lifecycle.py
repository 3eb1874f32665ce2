"""Restarts, other configurations and machines, resizes, crashes, rebalancing.

The machine: two sockets of two NUMA nodes of four CPUs, with 32 GiB each.
"""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from joulie_core.containers.container import ContainerId
from joulie_core.containers.differences import changed_keys
from joulie_core.containers.idset import IdSet
from joulie_core.containers.policy import PolicyConfigError, RebalanceRequested
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicySpec
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import LARGE, MachineShape
from joulie_testing.core.topology_aware import TopologyAwareNode

SHAPE = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4)
RESERVED = {"reservedResources": {"cpu": "cpuset:0"}}
GIB = 1024


def node(options=RESERVED, shape=SHAPE):
    return TopologyAwareNode(shape.topology(), options)


def available(text):
    return RESERVED | {"availableResources": {"cpu": f"cpuset:{text}"}}


def mixed(found):
    """Run containers of all kinds, some of which have left."""
    found.run(*(guaranteed(f"g{number}", 1000, 100, created_ns=number) for number in range(4)))
    found.run(*(best_effort(f"b{number}", created_ns=9 - number) for number in range(6)))
    found.run(burstable("u", 500, 100, created_ns=3), best_effort("k", namespace="kube-system"))
    found.end("g0", "g2", "b1")
    found.run(guaranteed("late", 3000, 100, created_ns=1), guaranteed("part", 1500, 100, created_ns=2))


def test_a_restart_moves_nothing():
    found = node()
    mixed(found)
    before = found.state
    result = found.restart()
    assert (found.state.placements, found.state.records) == (before.placements, before.records)
    assert not result.warnings


def test_an_event_makes_nothing_anew_but_what_it_changes():
    found = node()
    mixed(found)
    before = found.state
    after = found.policy.allocate(before, best_effort("x")).state
    assert set(changed_keys(after.placements, before.placements)) == {"x"}
    assert set(changed_keys(after.records, before.records)) == {"x"}
    gone = found.policy.release(after, ContainerId("x")).state
    assert not set(changed_keys(gone.placements, after.placements))
    assert not set(changed_keys(gone.records, after.records))
    exclusive = found.policy.allocate(before, guaranteed("e", 1000)).state
    assert set(changed_keys(exclusive.records, before.records)) == {"e"}
    assert set(changed_keys(exclusive.placements, before.placements)) == {
        name for name, each in exclusive.placements.items() if each != before.placements.get(name)
    }


def test_without_grants_the_order_of_creation_decides_and_not_the_order_of_the_list():
    found = node()
    mixed(found)
    containers = list(found.containers.values())
    result = found.policy.synchronize(containers, {})
    assert found.policy.synchronize(containers[::-1], {}) == result
    first = min(containers, key=lambda each: (each.created_ns, each.id))
    alone = found.policy.synchronize([first], {}).state
    assert result.state.placements[first.id].exclusive == alone.placements[first.id].exclusive


def test_a_container_that_is_started_again_has_the_grant_that_it_had():
    found = node()
    mixed(found)
    before = found.state
    for name in list(found.containers):
        container, grant = found.containers[name], found.policy.grants(before)[name]
        ended = found.policy.release(before, name).state
        again = found.policy.restore(ended, container, grant)
        assert again.state.placements == before.placements
        found.policy.check(again.state)


def test_a_grant_that_is_not_free_any_more_is_not_restored():
    found = node()
    a, b = guaranteed("a", 1000), guaranteed("b", 1000)
    grant = found.policy.grants(found.policy.allocate(found.state, a).state)[a.id]
    taken = found.policy.allocate(found.state, b).state
    assert found.policy.restore(taken, a, grant) is None
    assert found.policy.restore(found.state, a, {}) is None
    assert found.policy.restore(found.state, guaranteed("a", 2000), grant) is None


def test_two_grants_of_one_exclusive_cpu_leave_it_to_the_older_container():
    found = node()
    a, b = guaranteed("a", 1000, created_ns=1), guaranteed("b", 1000, created_ns=2)
    record = found.policy.grants(found.policy.allocate(found.state, b).state)[b.id]
    state = found.policy.synchronize([b, a], {a.id: record, b.id: record}).state
    found.policy.check(state)
    assert str(state.placements[a.id].exclusive) == record["exclusive"]


@pytest.mark.parametrize(
    "damage",
    [
        {"exclusive": "0-"},
        {"exclusive": "900"},
        {"exclusive": "0"},
        {"milli": -5},
        {"milli": None},
        {"use": "something"},
        {"needed_exclusive": 3},
        {"memory": "17"},
        {"memory": "x"},
        {"pool": "gone", "pool_cpus": "x"},
    ],
    ids=str,
)
def test_a_damaged_grant_is_made_anew(damage):
    found = node()
    container = guaranteed("a", 1000, 100)
    found.run(container)
    record = {**found.policy.grants(found.state)[container.id], **damage}
    state = found.policy.synchronize([container], {container.id: record, ContainerId("unknown"): record}).state
    found.policy.check(state)
    assert len(state.placements[container.id].exclusive) == 1


def test_a_grant_without_fields_is_made_anew():
    found = node()
    container = guaranteed("a", 1000, 100)
    assert found.policy.synchronize([container], {container.id: {}}).state.placements


def test_fewer_available_cpus_move_only_the_containers_that_had_them():
    found = node()
    found.run(*(guaranteed(name, 2000, 100) for name in "abcde"))
    before = found.cpus()
    gone = found.placement("c").exclusive
    result = found.restart(available(IdSet(range(16)) - gone))
    assert not result.warnings
    assert {name for name, cpus in found.cpus().items() if cpus != before[name]} == {"c"}


def test_a_container_that_loses_a_cpu_keeps_the_others():
    found = node()
    found.run(guaranteed("a", 3000, 100))
    lost = IdSet([max(found.placement("a").exclusive)])
    kept = found.placement("a").exclusive - lost
    found.restart(available(IdSet(range(16)) - lost))
    assert kept <= found.placement("a").exclusive
    assert len(found.placement("a").exclusive) == 3


def test_containers_that_run_are_not_rejected_when_too_few_cpus_are_left():
    found = node({})
    found.run(guaranteed("a", 2000, created_ns=1), guaranteed("b", 2000, created_ns=2), best_effort("c", created_ns=3))
    result = found.restart({"availableResources": {"cpu": "cpuset:0-2"}})
    assert {warning.reason for warning in result.warnings} == {"ExclusiveCpusUnavailable", "CpusOvercommitted"}
    assert [len(found.placement(name).exclusive) for name in "abc"] == [2, 0, 0]
    assert found.placement("b").cpus == found.placement("c").cpus


def test_a_container_that_got_less_keeps_it_over_a_restart_and_gets_all_with_other_cpus():
    found = node({})
    found.run(guaranteed("a", 2000, created_ns=1), guaranteed("b", 2000, created_ns=2))
    found.restart({"availableResources": {"cpu": "cpuset:0-2"}})
    crowded = found.state
    found.restart()
    assert (found.state.placements, found.state.records) == (crowded.placements, crowded.records)
    found.restart({})
    assert [len(found.placement(name).exclusive) for name in "ab"] == [2, 2]


def test_the_last_shared_cpu_is_left_to_a_container_that_is_new_to_the_policy():
    found = node({}, MachineShape(cores_per_node=4))
    found.run(guaranteed("a", 4000))
    found.containers[ContainerId("new")] = best_effort("new")
    found.restart()
    assert found.placement("new").cpus


def test_a_cpu_that_went_offline_is_replaced():
    found = node()
    found.run(guaranteed("a", 2000, 100), guaranteed("b", 2000, 100))
    before = found.cpus()
    lost = found.placement("a").exclusive.lowest(1)
    found.restart(topology=replace(SHAPE, offline=lost).topology())
    assert found.cpus("b") == {"b": before["b"]}
    assert len(found.placement("a").exclusive) == 2
    assert found.placement("a").exclusive.isdisjoint(lost)


def test_a_pool_is_recognized_after_its_lowest_cpu_went_offline():
    found = node({}, LARGE)
    found.run(guaranteed("x", 2000), best_effort("a"))
    cache = found.placement("a").cpus
    found.restart(topology=replace(LARGE, offline=cache.lowest(1)).topology())
    assert found.placement("a").cpus == cache - cache.lowest(1)


def test_memory_nodes_are_kept_over_a_restart_even_where_others_would_be_chosen():
    found = node()
    found.run(guaranteed("a", 100, 20 * GIB), guaranteed("b", 100, 20 * GIB), guaranteed("c", 100, 40 * GIB))
    before = found.memory()
    found.end("a")
    found.restart()
    assert found.memory() == {name: before[name] for name in "bc"}


def test_a_crash_moves_no_neighbour():
    found = node()
    mixed(found)
    found.run(guaranteed("crashing", 1000, 100, pod="p"))
    before = {name: (found.cpus(name), found.memory(name)) for name in found.containers}
    place = before.pop("crashing")
    found.end("crashing")
    found.run(guaranteed("again", 1000, 100, pod="p"))
    assert {name: (found.cpus(name), found.memory(name)) for name in before} == before
    assert found.cpus("again")["again"] == place[0]["crashing"]


def test_a_second_pod_of_the_same_name_is_another_container():
    found = node()
    found.run(guaranteed("first", 2000, pod="same"), guaranteed("second", 2000, pod="same"))
    assert found.placement("first").exclusive.isdisjoint(found.placement("second").exclusive)
    found.end("first")
    assert len(found.placement("second").exclusive) == 2


def test_a_resize_keeps_the_pool_and_the_cpus_as_far_as_they_suffice():
    found = node()
    found.run(guaranteed("a", 2000, 100))
    small = found.placement("a")
    found.resize(guaranteed("a", 3000, 200))
    large = found.placement("a")
    assert small.exclusive <= large.exclusive
    assert (small.zone, small.memory) == (large.zone, large.memory)
    found.resize(guaranteed("a", 1000, 100))
    assert found.placement("a").exclusive <= large.exclusive
    assert len(found.placement("a").exclusive) == 1


def test_a_resize_beyond_the_pool_uses_a_larger_one_and_narrows_again_with_memory():
    found = node()
    found.run(guaranteed("a", 4000, 100))
    found.resize(guaranteed("a", 6000, 100))
    assert (len(found.placement("a").exclusive), len(found.placement("a").memory)) == (6, 2)


def test_a_resize_that_is_not_possible_leaves_all_as_it_was():
    found = node(shape=MachineShape(cores_per_node=4))
    found.run(guaranteed("a", 2000), best_effort("b"))
    before = found.state
    result = found.policy.update(before, guaranteed("a", 4000))
    assert result.state is before
    assert result.rejected == {"a": "4 exclusive CPUs are requested, 2 are free"}


def test_a_resize_of_an_unknown_container_places_it():
    found = node()
    found.resize(best_effort("a"))
    assert found.placement("a").cpus


def test_a_container_that_is_created_again_under_its_id_is_placed_once():
    found = node()
    found.run(guaranteed("a", 2000), guaranteed("a", 2000))
    assert len(found.placement("a").exclusive) == 2


def test_the_release_of_an_unknown_container_changes_nothing():
    found = node()
    assert found.policy.release(found.state, ContainerId("unknown")).state is found.state


def test_a_rebalance_gives_a_container_what_it_could_not_get_before():
    found = node({})
    found.run(guaranteed("a", 2000, created_ns=1), guaranteed("b", 2000, created_ns=2))
    found.restart({"availableResources": {"cpu": "cpuset:0-2"}})
    found.end("a")
    assert len(found.placement("b").exclusive) == 0
    found.handle(RebalanceRequested())
    assert len(found.placement("b").exclusive) == 2


def test_a_rebalance_moves_a_container_out_of_a_busy_cache_within_its_memory_nodes():
    found = node({}, MachineShape(packages=2, cores_per_node=4, cores_per_l3=2))
    found.run(*(best_effort(name) for name in "abcdefgh"))
    together = [name for name in "abcdefgh" if found.zones(name)[name] == found.zones("a")["a"]]
    memory = found.memory()
    usage = {ContainerId(name): 1000 for name in together}
    found.handle(RebalanceRequested(usage))
    zones = found.zones(*together)
    assert len(set(zones.values())) == 2
    assert found.memory() == memory
    found.handle(RebalanceRequested(usage))
    assert found.zones(*together) == zones


def test_a_rebalance_without_need_changes_nothing():
    found = node()
    mixed(found)
    before = found.state
    found.handle(RebalanceRequested(dict.fromkeys(found.containers, 10)))
    assert found.state == before


def test_pools_are_reported_with_parents_first():
    found = node({"reservedResources": {"cpu": "cpuset:0"}}, replace(SHAPE, isolated=IdSet([5])))
    found.run(guaranteed("a", 2000), burstable("b", 500, 1, cpu_limit_milli=600, memory_limit_mib=1))
    zones = {zone.name: zone for zone in found.policy.zones(found.state)}
    assert list(zones) == [
        "root",
        "socket #1",
        "NUMA node #3",
        "NUMA node #2",
        "socket #0",
        "NUMA node #1",
        "NUMA node #0",
    ]
    root = zones["root"]
    assert (root.kind, root.capacity_milli, root.allocatable_milli, root.available_milli) == (
        "system",
        16_000,
        15_000,
        12_500,
    )
    assert root.attributes["reserved cpuset"] == "0"
    assert root.attributes["isolated cpuset"] == "5"
    assert root.attributes["exclusive cpuset"] == str(found.placement("a").exclusive)
    assert (zones["NUMA node #1"].parent, zones["NUMA node #1"].kind) == ("socket #0", "numa node")
    assert zones[found.zones("a")["a"]].containers == ("a",)


def test_a_configuration_that_names_unknown_classes_is_refused():
    with pytest.raises(ValidationError, match="sharedPoolCPUClass: 'fast' is not defined in cpuClasses"):
        TopologyAwarePolicySpec.model_validate({"sharedPoolCPUClass": "fast"})
    with pytest.raises(ValidationError, match=r"namespaceSchedulingClasses\.a: 'rt' is not defined in scheduling"):
        TopologyAwarePolicySpec.model_validate({"namespaceSchedulingClasses": {"a": "rt"}})
    with pytest.raises(ValidationError, match=r"podQoSSchedulingClasses\.BestEffort: 'rt' is not defined"):
        TopologyAwarePolicySpec.model_validate({"podQoSSchedulingClasses": {"BestEffort": "rt"}})
    with pytest.raises(ValidationError, match="podQoSSchedulingClasses: 'Best' is not one of Guaranteed"):
        TopologyAwarePolicySpec.model_validate({"podQoSSchedulingClasses": {"Best": "rt"}})


def test_a_configuration_that_does_not_fit_the_machine_is_refused():
    with pytest.raises(PolicyConfigError, match=r"availableResources\.cpu"):
        node({"availableResources": {"cpu": "cpuset:99"}})
