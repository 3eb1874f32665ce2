"""Memory nodes of containers: kinds, shortage and cold starts.

The tiered machine: sockets of two NUMA nodes with 32 GiB of DRAM, 0 to 3, each with 128 GiB of PMEM, 4 to 7.
"""

import pytest

from joulie_core.containers.container import ContainerId
from joulie_core.containers.policy import ColdStartEnded, PolicyTimer
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import TIERED, AttachedMemory, MachineShape, MemoryKind
from joulie_testing.core.topology_aware import TopologyAwareNode

#: One socket of two NUMA nodes with 32 GiB each.
PLAIN = MachineShape(nodes_per_die=2, cores_per_node=4)
GIB = 1024
COLD = {"cold-start.resource-policy.nri.io": "60s"}


def kinds(text):
    return {"memory-type.resource-policy.nri.io": text}


def node(shape=TIERED, options=None):
    return TopologyAwareNode(shape.topology(), options or {})


@pytest.mark.parametrize(("wanted", "nodes"), [("dram", "0"), ("pmem", "4"), ("dram,pmem", "0,4")])
def test_a_container_gets_the_kinds_of_memory_that_it_requests(wanted, nodes):
    found = node()
    found.run(best_effort("a", annotations=kinds(wanted)))
    assert found.memory() == {"a": nodes}


def test_a_kind_that_the_machine_lacks_is_replaced():
    found = node(PLAIN)
    found.run(best_effort("a", annotations=kinds("hbm")))
    assert found.memory() == {"a": "0"}


def test_a_container_whose_memory_fits_one_node_gets_one():
    found = node(PLAIN)
    found.run(*(guaranteed(name, 100, 10 * GIB) for name in "abcdef"))
    assert {len(found.placement(name).memory) for name in "abcdef"} == {1}


def test_a_container_whose_memory_fits_no_single_node_gets_several():
    found = node(PLAIN)
    found.run(guaranteed("a", 100, 40 * GIB))
    assert found.memory() == {"a": "0-1"}


def test_a_burstable_container_is_widened_when_a_guaranteed_one_needs_its_node():
    found = node(PLAIN)
    found.run(burstable("a", 100, 20 * GIB, cpu_limit_milli=200, memory_limit_mib=20 * GIB))
    found.run(burstable("b", 100, 20 * GIB, cpu_limit_milli=200, memory_limit_mib=20 * GIB))
    result = found.run(guaranteed("c", 100, 22 * GIB))
    assert not result.warnings
    assert len(found.placement("c").memory) == 1
    assert "0-1" in found.memory("a", "b").values()


def test_a_guaranteed_container_that_exceeds_the_memory_is_refused():
    found = node(PLAIN)
    found.run(guaranteed("a", 100, 30 * GIB))
    reason = found.refuse(guaranteed("b", 100, 40 * GIB))
    assert reason == "memory nodes 0-1 have 68719476736 bytes, 75161927680 are needed there"


def test_a_guaranteed_container_is_not_refused_for_estimates_of_others():
    found = node(PLAIN)
    found.run(*(burstable(name, 100, 15 * GIB) for name in "abcd"))
    result = found.run(guaranteed("e", 100, 40 * GIB))
    assert [warning.reason for warning in result.warnings] == ["MemoryOvercommitted"]
    assert found.memory("e") == {"e": "0-1"}


def test_other_containers_that_exceed_the_memory_get_all_nodes_with_a_warning():
    found = node(PLAIN)
    found.run(guaranteed("a", 100, 30 * GIB), guaranteed("b", 100, 30 * GIB))
    result = found.run(burstable("c", 100, 20 * GIB))
    assert [warning.reason for warning in result.warnings] == ["MemoryOvercommitted"]
    assert found.memory("c") == {"c": "0-1"}
    assert not found.restart().warnings
    assert found.memory("c") == {"c": "0-1"}


def test_a_cold_start_uses_the_slower_memory_until_its_time_is_over():
    found = node()
    result = found.run(guaranteed("a", 1000, 100, annotations=COLD))
    assert found.memory() == {"a": "4"}
    assert result.timers == (PolicyTimer(after_s=60.0, event=ColdStartEnded(ContainerId("a"))),)
    found.handle(ColdStartEnded(ContainerId("a")))
    assert found.memory() == {"a": "0,4"}


def test_the_end_of_a_cold_start_that_is_not_going_on_changes_nothing():
    found = node()
    found.run(guaranteed("a", 1000, 100))
    before = found.state
    found.handle(ColdStartEnded(ContainerId("a")))
    found.handle(ColdStartEnded(ContainerId("unknown")))
    assert found.state is before


def test_a_cold_start_goes_on_after_a_restart_and_is_not_repeated_afterwards():
    found = node()
    found.run(guaranteed("a", 1000, 100, annotations=COLD))
    assert [timer.event for timer in found.restart().timers] == [ColdStartEnded(ContainerId("a"))]
    assert found.memory() == {"a": "4"}
    found.handle(ColdStartEnded(ContainerId("a")))
    assert not found.restart().timers
    assert not found.resize(guaranteed("a", 1000, 200, annotations=COLD)).timers
    assert found.memory() == {"a": "0,4"}


def test_a_resize_leaves_a_cold_start_going_on():
    found = node()
    found.run(guaranteed("a", 1000, 100, annotations=COLD))
    found.resize(guaranteed("a", 2000, 100, annotations=COLD))
    assert found.memory() == {"a": "4"}


@pytest.mark.parametrize(
    ("shape", "annotations"),
    [
        (PLAIN, COLD),
        (MachineShape(attached=(AttachedMemory(MemoryKind.PMEM, normal=False),)), COLD),
        (TIERED, COLD | kinds("dram")),
    ],
    ids=["no PMEM", "PMEM that the kernel cannot use alone", "no PMEM wanted"],
)
def test_a_cold_start_that_is_not_possible_is_a_warning(shape, annotations):
    found = node(shape)
    result = found.run(guaranteed("a", 1000, 100, annotations=annotations))
    assert [warning.reason for warning in result.warnings] == ["ColdStartUnavailable"]
    assert not result.timers
    assert 0 in found.placement("a").memory


def test_a_container_that_runs_already_has_no_cold_start():
    found = node()
    container = guaranteed("a", 1000, 100, annotations=COLD)
    result = found.policy.synchronize([container], {})
    assert not result.timers
    assert str(result.state.placements[container.id].memory) == "0,4"
