"""CPUs, memory nodes, weights and CPU classes of containers."""

import pytest

from joulie_core.containers.container import QosClass
from joulie_core.containers.idset import EMPTY, IdSet
from joulie_testing.core.containers import container
from joulie_testing.core.machines import GIB, TIERED, MachineShape

T = {"name": "t", "namespaces": ["default"]}


def test_a_container_has_the_cpus_of_its_balloon_which_are_exclusive_while_it_is_alone(node):
    found = node(T).add(container("a", 2000))
    assert found.cpus("a") == found.state.placements["a"].exclusive == found.balloon("t[0]")
    found.add(container("b", 1000))
    assert found.cpus("a") == found.cpus("b") == found.balloon("t[0]")
    assert found.state.placements["a"].exclusive == EMPTY


@pytest.mark.parametrize(
    ("level", "shared"),
    [("", "2"), ("thread", "2"), ("core", "2-3"), ("numa", "2-7"), ("package", "2-15"), ("system", "2-31")],
)
def test_idle_cpus_are_shared_around_the_balloon_up_to_the_level(node, level, shared):
    close = {"preferCloseToDevices": ["/sys/devices/system/cpu/cpu2"]}
    found = node(T | close | {"shareIdleCPUsInSame": level}, reserved="cpuset:0-1").add(container("a", 1000))
    assert str(found.cpus("a")) == shared
    assert found.state.placements["a"].exclusive == IdSet([2])
    (zone,) = (zone for zone in found.policy.zones(found.state) if zone.name == "t[0]")
    assert zone.shared_idle == IdSet.parse(shared) - IdSet([2])


def test_shared_cpus_leave_a_container_when_a_balloon_takes_them(node):
    found = node(T | {"shareIdleCPUsInSame": "system"}, {"name": "u", "namespaces": ["u"]}).add(container("a", 1000))
    found.add(container("b", 8000, namespace="u"))
    assert found.cpus("a").isdisjoint(found.cpus("b"))
    assert len(found.remove("b").cpus("a")) == 31


def test_isolated_and_reserved_cpus_are_not_shared_while_idle(node):
    machine = MachineShape(cores_per_node=8, isolated=IdSet.parse("6-7")).topology()
    # The reserved type may use less than the reserved set, so that a CPU of it is idle.
    reserved = {"name": "reserved", "minCPUs": 1, "maxCPUs": 2}
    found = node(T | {"shareIdleCPUsInSame": "system"}, reserved, machine=machine, reserved="cpuset:0-1")
    assert str(found.add(container("a", 1000)).cpus("a")) == "2-5"


@pytest.mark.parametrize("annotation", [None, "false", "true"])
def test_one_thread_of_each_core_is_used_where_the_others_are_hidden(node, annotation):
    notes = {"hide-hyperthreads.resource-policy.nri.io": annotation} if annotation else {}
    for by_type in (True, False):
        found = node(T | {"hideHyperthreads": by_type}).add(container("a", 4000, annotations=notes))
        hidden = by_type if annotation is None else annotation == "true"
        assert len(found.cpus("a")) == (2 if hidden else 4)
        assert found.balloons()["t[0]"] == 4


def test_memory_is_on_the_nodes_of_the_balloon(node):
    found = node(T).add(container("a", 8000, memory_bytes=GIB))
    assert found.memory("a") == str(found.machine.nodes_of(found.cpus("a")))
    assert len(found.machine.nodes_of(found.cpus("a"))) == 1


def test_memory_is_widened_and_narrowed_again_with_the_balloon(node):
    found = node(T).add(container("a", 4000, memory_bytes=GIB))
    before = found.memory("a")
    found.add(container("b", 10_000, memory_bytes=GIB))
    assert len(IdSet.parse(found.memory("a"))) == 2
    assert found.memory("a") == found.memory("b")
    assert found.remove("b").memory("a") == before


def test_memory_of_the_wanted_types_near_the_cpus_is_used(node):
    machine = TIERED.topology()
    pmem = {"memory-type.resource-policy.nri.io": "pmem"}
    found = node(T | {"memoryTypes": ["DRAM", "PMEM"]}, machine=machine).add(
        container("a", 1000), container("b", 1000, annotations=pmem)
    )
    home = machine.nodes_of(found.balloon("t[0]")).min()
    assert found.memory("a") == f"{home},{home + 4}"
    assert found.memory("b") == str(home + 4)


@pytest.mark.parametrize(
    ("own", "common", "annotations", "pinned"),
    [
        (None, True, {}, True),
        (None, False, {}, False),
        (True, False, {}, True),
        (False, True, {}, False),
        (True, True, {"memory.preserve.resource-policy.nri.io": "true"}, False),
    ],
)
def test_memory_is_pinned_where_the_container_the_type_and_the_policy_say_so(node, own, common, annotations, pinned):
    found = node(T | {"pinMemory": own}, pinMemory=common).add(container("a", 1000, annotations=annotations))
    assert (found.state.placements["a"].memory is not None) is pinned


def test_memory_that_does_not_fit_is_not_pinned_and_the_user_is_warned(node):
    found = node(T).add(container("a", 1000, memory_bytes=500 * GIB, qos=QosClass.GUARANTEED))
    assert found.state.placements["a"].memory is None
    (warning,) = found.result.warnings
    assert (warning.container, warning.reason) == ("a", "MemoryNotPinned")


def test_cpus_are_not_set_where_pinning_is_off(node):
    found = node(T, pinCPU=False).add(container("a", 2000))
    placement = found.state.placements["a"]
    assert (placement.cpus, placement.exclusive) == (None, EMPTY)
    assert found.balloons()["t[0]"] == 2


@pytest.mark.parametrize(("request_milli", "shares"), [(0, 2), (1, 2), (100, 102), (1000, 1024), (1500, 1536)])
def test_the_weight_follows_from_the_request(node, request_milli, shares):
    assert node(T).add(container("a", request_milli)).state.placements["a"].cpu_shares == shares


def test_cpus_have_the_class_of_their_balloon_or_of_idle_cpus(node):
    found = node(
        T | {"cpuClass": "performance"},
        {"name": "default", "cpuClass": "eco"},
        {"name": "plain", "namespaces": ["plain"]},
        idleCPUClass="idle",
        cpuClasses=[{"name": "idle"}],
    ).add(container("a", 2000), container("b", 1000, namespace="plain"), container("c", 3000, namespace="other"))
    assert found.state.cpu_classes == {
        "performance": found.balloon("t[0]"),
        "eco": found.balloon("default[0]"),
        "idle": found.state.free,
    }
    found.remove("a")
    assert "performance" not in found.state.cpu_classes


def test_a_class_named_default_is_that_of_all_other_cpus(node):
    found = node(T | {"cpuClass": "eco"}, cpuClasses=[{"name": "default"}]).add(container("a", 2000))
    assert found.state.cpu_classes == {
        "eco": found.balloon("t[0]"),
        "default": found.machine.online - found.balloon("t[0]"),
    }


def test_components_have_the_classes_of_their_types(node):
    parts = ({"name": "fast", "cpuClass": "performance"}, {"name": "slow", "cpuClass": "eco"})
    whole = T | {"components": [{"balloonType": "fast"}, {"balloonType": "slow"}]}
    found = node(*parts, whole).add(container("a", 4000))
    fast, slow = found.state.balloons[found.state.homes["a"]].components
    assert found.state.cpu_classes == {"performance": fast.cpus, "eco": slow.cpus}


def test_zones_describe_the_balloons(node):
    found = node(T | {"minCPUs": 2, "maxCPUs": 6, "cpuClass": "eco"}).add(container("a", 2500, memory_bytes=GIB))
    (zone,) = (zone for zone in found.policy.zones(found.state) if zone.name == "t[0]")
    assert (zone.kind, zone.parent, zone.containers) == ("balloon", "", ("a",))
    assert (zone.cpus, str(zone.memory)) == (found.balloon("t[0]"), found.memory("a"))
    assert (zone.capacity_milli, zone.allocatable_milli, zone.available_milli) == (32_000, 6000, 3500)
    assert zone.attributes["excess cpus"] == "500m"
    assert (zone.attributes["fewest cpus"], zone.attributes["most cpus"]) == ("2", "6")


def test_memory_that_no_longer_fits_after_an_update_is_not_pinned_before_and_after_a_restart(node):
    large = container("a", 1000, memory_bytes=500 * GIB)
    found = node(T).add(container("a", 1000, memory_bytes=GIB)).update(large)
    assert found.state.placements["a"].memory is None
    before = found.state
    assert found.synchronize(large).state == before
