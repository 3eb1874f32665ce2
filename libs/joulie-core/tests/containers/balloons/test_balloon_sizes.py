"""Sizes of balloons, and the CPUs that they get."""

from dataclasses import replace

import pytest

from joulie_core.containers.container import ContainerId, TopologyHint
from joulie_core.containers.idset import EMPTY, IdSet
from joulie_testing.core.containers import container
from joulie_testing.core.machines import HYBRID, TIERED, MachineShape

T = {"name": "t", "namespaces": ["default"]}


@pytest.mark.parametrize(
    ("requests", "size"),
    [((0,), 1), ((1,), 1), ((1000,), 1), ((1001,), 2), ((500, 500), 1), ((500, 501), 2), ((999, 999, 3), 3)],
)
def test_a_balloon_has_as_many_cpus_as_its_containers_request(node, requests, size):
    found = node(T).add(*(container(f"c{index}", milli) for index, milli in enumerate(requests)))
    assert found.balloons()["t[0]"] == size


def test_a_balloon_has_its_least_number_of_cpus(node):
    assert node(T | {"minCPUs": 4}).add(container("a", 100)).balloons()["t[0]"] == 4


def test_a_balloon_shrinks_when_a_container_leaves_and_is_deleted_with_the_last(node):
    found = node(T).add(container("a", 1000), container("b", 3000)).remove("b")
    assert found.balloons()["t[0]"] == 1
    assert "t[0]" not in found.remove("a").balloons()


def test_a_balloon_that_always_exists_shrinks_to_its_least_size(node):
    found = node(T | {"minBalloons": 1, "minCPUs": 2}).add(container("a", 5000)).remove("a")
    assert found.balloons()["t[0]"] == 2


def test_a_balloon_that_always_exists_is_created_once_there_is_room(node):
    found = node(T, {"name": "u", "minBalloons": 1, "minCPUs": 4}).add(container("a", 20_000))
    found.configure(T, {"name": "u", "minBalloons": 2, "minCPUs": 8})
    assert "u[1]" not in found.synchronize(container("a", 20_000)).balloons()
    assert found.remove("a").balloons()["u[1]"] == 8


@pytest.mark.parametrize(("request_milli", "size"), [(500, 1), (4000, 4), (6500, 7)])
def test_a_changed_request_changes_the_size_of_the_balloon(node, request_milli, size):
    found = node(T).add(container("a", 2000)).update(container("a", request_milli))
    assert found.balloons()["t[0]"] == size
    assert found.zone("a") == "t[0]"


def test_a_request_that_the_balloon_cannot_grow_to_is_refused_and_changes_nothing(node):
    found = node(T | {"maxCPUs": 4}).add(container("a", 2000), container("b", 1000))
    result = found.policy.update(found.state, container("a", 4000))
    assert result.state is found.state
    assert result.rejected == {
        "a": "t[0] cannot grow from 3 CPUs to the 5 that its containers would request: it may have 4, and 28 are idle"
    }


def test_an_update_of_an_unknown_container_places_it(node):
    assert node(T).update(container("a", 2000)).zone("a") == "t[0]"


def test_releasing_an_unknown_container_changes_nothing(node):
    found = node(T).add(container("a", 2000))
    assert found.policy.release(found.state, ContainerId("x")).state is found.state


def test_a_balloon_starts_in_the_smallest_part_of_the_machine_with_room(node):
    found = node(T).add(container("a", 8000))
    assert found.balloon("t[0]") in [each.cpus for each in found.machine.nodes.values()]


@pytest.mark.parametrize("own", [None, True])
def test_balloons_are_packed_unless_balancing_is_on(node, own):
    packed = node(T | {"preferNewBalloons": True}).add(container("a", 2000), container("b", 2000))
    assert len(packed.machine.nodes_of(packed.cpus("a") | packed.cpus("b"))) == 1
    balanced = node(
        T | {"preferNewBalloons": True} | ({"allocatorTopologyBalancing": own} if own else {}),
        allocatorTopologyBalancing=own is None,
    ).add(container("a", 2000), container("b", 2000))
    assert len(balanced.machine.nodes_of(balanced.cpus("a") | balanced.cpus("b"))) == 2


def test_cpus_are_spread_on_cores_where_the_type_or_the_policy_says_so(node):
    for found in (node(T | {"preferSpreadOnPhysicalCores": True}), node(T, preferSpreadOnPhysicalCores=True)):
        cpus = found.add(container("a", 4000)).cpus("a")
        assert all(len(core & cpus) <= 1 for core in found.machine.cores.values())
    found = node(T | {"preferSpreadOnPhysicalCores": False}, preferSpreadOnPhysicalCores=True)
    assert len([core for core in found.machine.cores.values() if core & found.add(container("a", 4000)).cpus("a")]) == 2


def test_balloons_prefer_cpus_close_to_their_devices_and_others_avoid_them(node):
    close = T | {"preferCloseToDevices": ["/sys/devices/system/node/node2"]}
    found = node(close, {"name": "u", "namespaces": ["u"]}).add(
        container("b", 8000, namespace="u"), container("a", 8000)
    )
    assert str(found.cpus("a")) == "16-23"


@pytest.mark.parametrize(
    ("path", "cpus"),
    [
        ("/sys/devices/system/cpu/cpu21", "21"),
        ("/sys/devices/system/cpu/cpu21/cache/index0", "20-21"),
        ("/sys/devices/system/cpu/cpu21/cache/index3", "16-23"),
        ("/sys/class/net/eth0", "24-25"),
    ],
)
def test_paths_of_caches_and_of_known_devices_are_close_to_cpus(node, path, cpus):
    found = node(T | {"preferCloseToDevices": [path]}, devices={"/sys/class/net/eth0": IdSet.parse("24-25")})
    wanted = IdSet.parse(cpus)
    assert found.add(container("a", 1000 * len(wanted))).cpus("a") == wanted


def test_a_memory_only_node_is_close_to_the_cpus_of_the_nearest_node(node):
    found = node(T | {"preferCloseToDevices": ["/sys/devices/system/node/node6"]}, machine=TIERED.topology())
    assert str(found.machine.nodes_of(found.add(container("a", 4000)).cpus("a"))) == "2"


def test_a_device_that_the_node_does_not_have_is_no_preference(node):
    paths = ["/sys/devices/system/node/node9", "/sys/devices/system/cpu/cpu99", "/sys/class/net/eth9"]
    assert node(T | {"preferCloseToDevices": paths}).add(container("a", 1000)).balloons()["t[0]"] == 1


def test_a_balloon_is_close_to_the_devices_of_its_container(node):
    found = node(T | {"preferCloseToDevices": ["podresourceapi:example.com/nic"]})
    hints = [
        TopologyHint(provider="resource:example.com/nic", cpus="24-31"),
        TopologyHint(provider="resource:example.com/other", cpus="8-15"),
        TopologyHint(provider="device:/dev/x", cpus="16-23"),
    ]
    assert found.add(container("a", 4000, hints=hints)).cpus("a") <= IdSet.parse("24-31")


def test_isolated_cpus_are_used_by_types_that_prefer_them_only(node):
    machine = replace(MachineShape(cores_per_node=8), isolated=IdSet.parse("1-3")).topology()
    found = node(T, {"name": "i", "namespaces": ["i"], "preferIsolCpus": True}, machine=machine)
    found.add(container("a", 4000), container("b", 2000, namespace="i"))
    assert found.cpus("b") <= IdSet.parse("1-3")
    assert found.cpus("a") == IdSet.parse("4-7")


def test_a_type_prefers_its_kind_of_cores_and_others_avoid_it(node):
    found = node(
        T | {"preferCoreType": "efficient"}, {"name": "u", "namespaces": ["u"]}, machine=HYBRID.topology()
    ).add(container("a", 3000), container("b", 3000, namespace="u"))
    assert found.cpus("a") <= found.machine.efficient
    assert found.cpus("b").isdisjoint(found.machine.efficient)


@pytest.mark.parametrize(("priority", "efficient"), [("low", True), ("high", False), ("normal", False)])
def test_the_priority_chooses_among_fast_and_slow_cpus(node, priority, efficient):
    machine = HYBRID.topology()
    cpus = node(T | {"allocatorPriority": priority}, machine=machine).add(container("a", 3000)).cpus("a")
    assert (cpus <= machine.efficient) is efficient
    assert cpus.isdisjoint(machine.efficient) is not efficient


def test_loads_of_one_class_keep_apart_on_cores(node):
    loads = {"preferNewBalloons": True, "loads": ["avx"]}
    found = node(T | loads, loadClasses=[{"name": "avx", "level": "core"}]).add(
        container("a", 1000), container("b", 1000), container("c", 1000)
    )
    cores = [{found.machine.cpus[number].core for number in found.cpus(name)} for name in "abc"]
    assert len(set.union(*cores)) == 3


def test_loads_keep_apart_within_a_balloon_where_their_class_says_so(node):
    for overloads, cores in ((True, 4), (False, 2)):
        classes = [{"name": "avx", "level": "core", "overloadsLevelInBalloon": overloads}]
        found = node(T | {"loads": ["avx"]}, loadClasses=classes).add(container("a", 4000))
        assert len({found.machine.cpus[number].core for number in found.cpus("a")}) == cores


def test_every_one_of_several_loads_is_avoided(node):
    """`both` shares a load with each of the two others, which share none."""
    kinds = [
        {"name": name, "namespaces": [name], "loads": loads}
        for name, loads in (("avx", ["avx"]), ("net", ["net"]), ("both", ["avx", "net"]))
    ]
    classes = [{"name": name, "level": "core"} for name in ("avx", "net")]
    found = node(*kinds, loadClasses=classes)
    found.add(*(container(name, 1000, namespace=name) for name in ("avx", "net", "both")))
    cores = {name: {found.machine.cpus[cpu].core for cpu in found.cpus(name)} for name in ("avx", "net", "both")}
    assert cores["both"].isdisjoint(cores["avx"] | cores["net"])


@pytest.mark.parametrize(("request_milli", "cores"), [(2000, 2), (4000, 4), (6000, 6), (8000, 8), (16_000, 15)])
def test_a_load_that_overloads_its_own_core_has_a_core_for_each_cpu_as_long_as_there_are_cores(
    node, request_milli, cores
):
    """Also where its CPUs fit into fewer cores of one NUMA node; one of the 16 cores is reserved."""
    classes = [{"name": "avx", "level": "core", "overloadsLevelInBalloon": True}]
    found = node(T | {"loads": ["avx"]}, {"name": "reserved", "loads": ["avx"]}, loadClasses=classes)
    found.add(container("a", request_milli))
    assert len({found.machine.cpus[number].core for number in found.cpus("a")}) == cores
    assert len(found.cpus("a")) == request_milli // 1000


def test_an_overloading_balloon_stays_in_the_smallest_part_with_enough_cores(node):
    classes = [{"name": "avx", "level": "core", "overloadsLevelInBalloon": True}]
    found = node(T | {"loads": ["avx"]}, loadClasses=classes).add(container("a", 4000))
    assert len(found.machine.nodes_of(found.cpus("a"))) == 1


def test_an_overloading_balloon_keeps_its_l2_caches_apart(node):
    # Efficient cores share their L2 cache in fours.
    machine = MachineShape(cores_per_node=1, efficient_per_node=12).topology()
    classes = [{"name": "net", "level": "l2cache", "overloadsLevelInBalloon": True}]
    found = node(T | {"loads": ["net"]}, machine=machine, loadClasses=classes).add(container("a", 3000))
    assert len({machine.cpus[number].l2 for number in found.cpus("a")}) == 3


def test_an_overloading_balloon_that_shrinks_gives_up_the_second_threads_first(node):
    classes = [{"name": "avx", "level": "core", "overloadsLevelInBalloon": True}]
    machine = MachineShape(cores_per_node=5, threads_per_core=2, siblings_apart=False).topology()
    found = node(T | {"loads": ["avx"]}, machine=machine, loadClasses=classes)
    found.add(container("a", 6000)).update(container("a", 4000))
    assert len({machine.cpus[number].core for number in found.cpus("a")}) == 4


def test_loads_keep_apart_on_l2_caches(node):
    # Efficient cores share their L2 cache in fours.
    machine = MachineShape(cores_per_node=2, efficient_per_node=12).topology()
    loads = T | {"preferNewBalloons": True, "loads": ["net"]}
    found = node(loads, machine=machine, loadClasses=[{"name": "net", "level": "l2cache"}]).add(
        container("a", 1000), container("b", 1000)
    )
    assert len({machine.cpus[number].l2 for number in found.cpus("a") | found.cpus("b")}) == 2


PART = {"name": "part", "namespaces": ["part"]}


def whole(*parts, **options):
    return T | {"components": [{"balloonType": each} for each in parts]} | options


@pytest.mark.parametrize(
    ("request_milli", "sizes"), [(4000, (2, 2)), (3000, (2, 2)), (2001, (2, 2)), (2000, (1, 1)), (1, (1, 1))]
)
def test_a_composite_balloon_has_as_many_cpus_of_each_component(node, request_milli, sizes):
    found = node(PART, whole("part", "part")).add(container("a", request_milli))
    components = found.state.balloons[found.state.homes["a"]].components
    assert tuple(len(each.cpus) for each in components) == sizes
    assert found.cpus("a") == components[0].cpus | components[1].cpus


def test_components_keep_their_bounds_and_the_others_take_the_rest(node):
    found = node(PART | {"maxCPUs": 2}, {"name": "more", "minCPUs": 3}, whole("part", "more")).add(container("a", 7000))
    assert [len(each.cpus) for each in found.state.balloons[found.state.homes["a"]].components] == [2, 5]
    assert found.update(container("a", 1000)).balloons()["t[0]"] == 3


def test_a_composite_balloon_grows_no_further_than_its_components(node):
    found = node(PART | {"maxCPUs": 2}, whole("part", "part", maxBalloons=1)).add(container("a", 4000))
    assert "can grow to 4 CPUs" in found.refuse(container("b", 100))


def test_a_balancing_composite_gets_the_component_with_the_fewest_balloons(node):
    other = {"name": "other"}
    options = {"componentCreation": "balance-balloons", "preferNewBalloons": True}
    found = node(PART, other, whole("part", "other", **options)).add(*(container(name, 100) for name in "abc"))
    types = [found.state.balloons[found.state.homes[name]].components[0].key for name in "abc"]
    assert [str(each) for each in types] == ["part[0]", "other[0]", "part[1]"]


def test_components_are_created_and_deleted_with_their_balloon(node):
    found = node(PART, whole("part", "part")).add(container("a", 4000))
    assert [zone.name for zone in found.policy.zones(found.state) if zone.parent == "t[0]"] == ["part[0]", "part[1]"]
    found.remove("a")
    assert found.state.free == found.machine.online - IdSet([0])
    assert [zone.name for zone in found.policy.zones(found.state)] == ["reserved[0]", "default[0]"]


def test_composites_may_be_parts_of_composites(node):
    inner = {"name": "inner", "components": [{"balloonType": "part"}, {"balloonType": "part"}]}
    found = node(PART, inner, whole("inner", "part")).add(container("a", 6000))
    leaves = list(found.state.balloons[found.state.homes["a"]].leaves())
    assert [str(each.key) for each in leaves] == ["part[0]", "part[1]", "part[2]"]
    assert [len(each.cpus) for each in leaves] == [2, 2, 3]


@pytest.mark.parametrize(("order", "sizes"), [(("inner", "part"), [2, 2, 3]), (("part", "inner"), [3, 2, 2])])
def test_nested_components_have_as_many_cpus_of_each_of_their_parts(node, order, sizes):
    inner = {"name": "inner", "components": [{"balloonType": "part"}, {"balloonType": "part"}]}
    found = node(PART, inner, whole(*order)).add(container("a", 6000))
    assert [len(each.cpus) for each in found.state.balloons[found.state.homes["a"]].leaves()] == sizes
    found.remove("a").add(container("b", 5000))
    assert [len(each.cpus) for each in found.state.balloons[found.state.homes["b"]].leaves()] == sizes


def test_a_limit_of_a_composite_balloon_counts_before_even_components(node):
    found = node(PART, whole("part", "part", maxCPUs=3)).add(container("a", 3000))
    assert [len(each.cpus) for each in found.state.balloons[found.state.homes["a"]].components] == [2, 1]


def test_a_balancing_composite_counts_the_balloons_of_nested_components(node):
    nodes = [{"name": f"node{number}"} for number in range(4)]
    first, second = (
        {"name": name, "components": [{"balloonType": each} for each in parts]}
        for name, parts in (("first", ("node0", "node1")), ("second", ("node2", "node3")))
    )
    single = {"name": "single", "namespaces": ["single"], "components": [{"balloonType": "node1"}]}
    balanced = whole("first", "second", componentCreation="balance-balloons", preferNewBalloons=True)
    found = node(*nodes, first, second, single, balanced).add(container("x", 100, namespace="single"))
    found.add(*(container(name, 100) for name in "abc"))
    types = [found.state.balloons[found.state.homes[name]].components[0].key.type for name in "abc"]
    assert types == ["second", "first", "second"]


def test_a_part_of_several_components_counts_no_more_than_a_simple_one(node):
    other, inner = {"name": "other"}, {"name": "inner", "components": [{"balloonType": "other"}] * 2}
    options = {"componentCreation": "balance-balloons", "preferNewBalloons": True}
    found = node(PART, other, inner, whole("part", "inner", **options)).add(*(container(name, 100) for name in "abcd"))
    types = [found.state.balloons[found.state.homes[name]].components[0].key.type for name in "abcd"]
    assert types == ["part", "inner", "part", "part"]


def test_balancing_parts_of_one_balloon_get_different_components(node):
    other = {"name": "other"}
    inner = {"name": "inner", "componentCreation": "balance-balloons"} | {
        "components": [{"balloonType": "part"}, {"balloonType": "other"}]
    }
    found = node(PART, other, inner, whole("inner", "inner")).add(container("a", 2000))
    leaves = found.state.balloons[found.state.homes["a"]].leaves()
    assert [each.key.type for each in leaves] == ["part", "other"]


def test_everything_is_idle_when_all_containers_have_left(node):
    found = node(T, PART).add(*(container(f"c{index}", 700) for index in range(20)))
    found.remove(*(f"c{index}" for index in range(20)))
    assert found.state.free == found.machine.online - IdSet([0])
    assert found.balloon("default[0]") == EMPTY
