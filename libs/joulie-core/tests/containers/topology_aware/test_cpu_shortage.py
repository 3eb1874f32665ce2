"""What a container gets where the CPUs that it needs are not there, and what is said about it.

The machine: one NUMA node of four CPUs, CPU 0 reserved, unless a test needs another.
"""

import pytest

from joulie_core.containers.container import TopologyHint
from joulie_core.containers.idset import IdSet
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import MachineShape
from joulie_testing.core.topology_aware import TopologyAwareNode

RESERVED = {"reservedResources": {"cpu": "cpuset:0"}}
FOUR = MachineShape(cores_per_node=4)


def key(name):
    return f"{name}.resource-policy.nri.io"


def node(shape=FOUR, options=RESERVED):
    return TopologyAwareNode(shape.topology(), options)


def reasons(result):
    return [(each.container, each.reason) for each in result.warnings]


def test_reserved_cpus_are_granted_to_the_last_thousandth():
    found = node()
    found.run(burstable("a", 600, namespace="kube-system"), burstable("b", 400, namespace="kube-system"))
    assert found.cpus() == {"a": "0", "b": "0"}
    result = found.run(burstable("c", 1, namespace="kube-system"))
    assert found.cpus("c") == {"c": "1-3"}
    assert [each.message for each in result.warnings] == [
        "the reserved CPUs are fully requested; the container runs on shared CPUs"
    ]
    found.end("b")
    assert reasons(found.run(burstable("d", 400, namespace="kube-system"))) == []
    assert found.cpus("d") == {"d": "0"}


def test_a_container_beyond_full_reserved_and_shared_cpus_is_refused():
    found = node()
    found.run(burstable("a", 1000, namespace="kube-system"), burstable("b", 2500))
    assert found.refuse(burstable("c", 501, namespace="kube-system")) == (
        "501m CPUs are requested, 500m of the shared CPUs are left"
    )
    assert found.refuse(burstable("d", 501)) == "501m CPUs are requested, 500m of the shared CPUs are left"
    found.run(burstable("e", 500))
    assert found.cpus("e") == {"e": "1-3"}


def test_a_container_that_shares_takes_room_on_the_reserved_cpus_while_there_is_some():
    found = node()
    found.run(burstable("a", 700, namespace="kube-system"), burstable("b", 3000))
    result = found.run(burstable("c", 300))
    assert [each.message for each in result.warnings] == [
        "0m of the shared CPUs are left; the container runs on reserved CPUs"
    ]
    assert found.cpus("c") == {"c": "0"}
    assert "0m of the shared CPUs are left" in found.refuse(burstable("d", 1))
    found.end("c")
    found.run(burstable("e", 300))
    assert found.cpus("e") == {"e": "0"}


def test_a_new_container_is_refused_exclusive_cpus_that_are_not_free_though_reserved_ones_are():
    found = node()
    found.run(guaranteed("a", 2000))
    assert found.refuse(guaranteed("b", 2000)) == "2 exclusive CPUs are requested, 1 are free"
    found.run(best_effort("c"))
    assert found.refuse(guaranteed("b", 1000)) == "1 exclusive CPUs are requested, 0 are free"


def test_isolated_cpus_that_are_required_and_not_free_are_counted():
    found = node(MachineShape(cores_per_node=4, isolated=IdSet([2, 3])))
    required = {key("require-isolated-cpus"): "true"}
    found.run(guaranteed("a", 1000, annotations=required))
    assert found.refuse(guaranteed("b", 2000, annotations=required)) == ("2 isolated CPUs are required, 1 are free")


def test_running_containers_share_where_exclusive_cpus_are_not_free():
    found = node(options={})
    found.run(guaranteed("a", 2000, created_ns=1), guaranteed("b", 1500, created_ns=2))
    result = found.restart({"availableResources": {"cpu": "cpuset:0-2"}})
    assert [each.message for each in result.warnings] == [
        "1 exclusive CPUs are requested and not available; the container runs on shared CPUs",
        "1500m CPUs are requested and 1000m of the shared CPUs are left",
    ]
    assert (found.cpus(), reasons(result)) == (
        {"a": "0-1", "b": "2"},
        [("b", "ExclusiveCpusUnavailable"), ("b", "CpusOvercommitted")],
    )
    assert found.state.records["b"]["milli"] == 1000


@pytest.mark.parametrize(("system_milli", "left_milli"), [(300, 700), (301, 699), (1000, 0)])
def test_running_containers_get_what_is_left_of_the_reserved_cpus_where_all_are_reserved(system_milli, left_milli):
    found = node(MachineShape(cores_per_node=1))
    system = burstable("s", system_milli, namespace="kube-system", created_ns=0)
    result = found.policy.synchronize([system, burstable("b", 700, created_ns=1)], {})
    assert (result.rejected, reasons(result)) == ({}, [("b", "SharedCpusFull")])
    assert {name: str(each.cpus) for name, each in result.state.placements.items()} == {"s": "0", "b": "0"}
    assert result.state.records["b"]["milli"] == left_milli


def test_a_container_that_is_left_alone_needs_no_cpus():
    found = node()
    found.run(guaranteed("a", 3000))
    found.run(guaranteed("b", 9000, annotations={key("cpu.preserve"): "true"}))
    assert found.placement("b").cpus is None
    assert found.zones("b") == {"b": "socket #0"}


@pytest.mark.parametrize(("cpus", "placed"), [("0-3", True), ("4-7", False)])
def test_strict_hints_refuse_other_pools_and_name_what_they_are_of(cpus, placed):
    found = node(MachineShape(packages=2, cores_per_node=4), {})
    found.run(guaranteed("full", 4000, hints=(TopologyHint(provider="device:/x", cpus="4-7"),)))
    hints = (TopologyHint(provider="mount:/a", cpus=cpus), TopologyHint(provider="device:/b", cpus=cpus))
    strict = guaranteed("a", 2000, hints=hints, annotations={key("strict.topologyhints"): "true"})
    if placed:
        found.run(strict)
        assert found.placement("a").cpus <= IdSet.parse(cpus)
    else:
        assert found.refuse(strict) == ("fail strict hint: no pool that is close to mount:/a, device:/b has the CPUs")


def test_strict_hints_do_not_reject_a_container_that_runs():
    found = node(MachineShape(packages=2, cores_per_node=4), {})
    hints = (TopologyHint(provider="device:/x", cpus="4-7"),)
    strict = guaranteed("a", 2000, hints=hints, annotations={key("strict.topologyhints"): "true"})
    result = found.policy.synchronize([guaranteed("full", 4000, hints=hints), strict], {})
    assert result.rejected == {}


@pytest.mark.parametrize(("flag", "cpus"), [("true", "2-3"), ("false", "0-1")])
def test_exclusive_cpus_are_those_of_a_hint_only_by_an_annotation(flag, cpus):
    found = node(options={})
    hints = (TopologyHint(provider="device:/x", cpus="2-3"),)
    found.run(guaranteed("a", 2000, hints=hints, annotations={key("pick-resources-by-hints"): flag}))
    assert found.cpus() == {"a": cpus}


def test_exclusive_cpus_of_one_part_use_the_memory_of_that_part():
    found = node(MachineShape(packages=2, nodes_per_die=2, cores_per_node=2), {})
    found.run(guaranteed("a", 3000), guaranteed("b", 1000), guaranteed("c", 1000))
    assert {name: found.placement(name).zone for name in "abc"} == {
        "a": "socket #0",
        "b": f"NUMA node #{min(found.placement('b').memory)}",
        "c": f"NUMA node #{min(found.placement('c').memory)}",
    }
