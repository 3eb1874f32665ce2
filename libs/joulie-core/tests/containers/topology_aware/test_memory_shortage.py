"""Memory nodes that are kept, given anew or shared by all where the memory does not suffice.

The machine: one socket of two NUMA nodes of four CPUs, with 32 GiB each.
"""

from joulie_core.containers.container import ContainerId
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import MachineShape
from joulie_testing.core.topology_aware import TopologyAwareNode

PLAIN = MachineShape(nodes_per_die=2, cores_per_node=4)
GIB = 1024
PRESERVED = {"memory.preserve.resource-policy.nri.io": "true"}


def node(shape=PLAIN, options=None):
    return TopologyAwareNode(shape.topology(), options or {})


def limited(name, gib, **options):
    return burstable(name, 100, gib * GIB, cpu_limit_milli=200, memory_limit_mib=gib * GIB, **options)


def reasons(result):
    return [(each.container, each.reason) for each in result.warnings]


def test_the_youngest_of_equal_containers_is_widened():
    found = node()
    found.run(guaranteed("big", 100, 20 * GIB), limited("a", 14, created_ns=2), limited("b", 14, created_ns=1))
    found.run(guaranteed("g", 100, 10 * GIB, created_ns=3))
    assert found.memory() == {"big": "0", "a": "1", "b": "1", "g": "0"}
    found.run(guaranteed("h", 100, 6 * GIB, created_ns=4))
    assert found.memory("a", "b") == {"a": "0-1", "b": "1"}


def test_a_resize_keeps_the_nodes_that_a_container_has():
    found = node()
    found.run(limited("a", 20), limited("b", 20), guaranteed("c", 100, 22 * GIB))
    (widened,) = (name for name, nodes in found.memory().items() if nodes == "0-1")
    found.end("c")
    found.resize(limited(widened, 19))
    assert found.memory(widened) == {widened: "0-1"}


def test_a_resize_that_does_not_fit_the_nodes_gets_others():
    found = node()
    found.run(guaranteed("a", 100, 10 * GIB), guaranteed("b", 100, 10 * GIB))
    found.resize(guaranteed("a", 100, 40 * GIB))
    assert found.memory() == {"a": "0-1", "b": "1"}


def test_preserved_memory_counts_on_the_whole_machine_and_is_not_pinned():
    found = node()
    found.run(guaranteed("a", 100, 40 * GIB, annotations=PRESERVED))
    assert found.placement("a").memory is None
    assert found.refuse(guaranteed("b", 100, 25 * GIB)).startswith("memory nodes 0-1 have")
    found.run(guaranteed("c", 100, 24 * GIB))
    assert found.memory("c") == {"c": "0"}


def test_a_guaranteed_container_is_refused_only_beside_guaranteed_ones():
    found = node()
    found.run(guaranteed("a", 100, 30 * GIB), burstable("b", 100, 30 * GIB))
    result = found.run(guaranteed("c", 100, 34 * GIB))
    assert reasons(result) == [("c", "MemoryOvercommitted")]
    assert found.refuse(guaranteed("d", 100, 35 * GIB)).startswith("memory nodes 0-1 have")


def test_overcommitted_memory_is_not_counted_and_the_message_says_how_much_is_missing():
    found = node()
    found.run(guaranteed("a", 100, 60 * GIB))
    result = found.run(burstable("b", 100, 20 * GIB))
    (warning,) = result.warnings
    assert warning.message == (
        f"memory nodes 0-1 have {64 << 30} bytes, {80 << 30} are needed there; the container may use all memory nodes"
    )
    assert found.state.records[ContainerId("b")]["memory_bytes"] == 0
    found.run(guaranteed("c", 100, 4 * GIB))
    assert found.state.records[ContainerId("c")]["memory_bytes"] == 4 << 30


def test_a_guaranteed_container_that_runs_is_not_refused():
    found = node()
    result = found.policy.synchronize(
        [guaranteed("a", 100, 60 * GIB, created_ns=1), guaranteed("b", 100, 60 * GIB, created_ns=2)], {}
    )
    assert (result.rejected, reasons(result)) == ({}, [("b", "MemoryOvercommitted")])
    assert str(result.state.placements[ContainerId("b")].memory) == "0-1"


def test_without_pinning_of_memory_none_is_granted_and_nothing_is_refused():
    found = node(options={"pinMemory": False})
    found.run(guaranteed("a", 100, 100 * GIB), guaranteed("b", 100, 100 * GIB), best_effort("c"))
    assert {each.memory for each in found.state.placements.values()} == {None}
    assert not found.restart().warnings


def test_memory_follows_the_cpus_to_another_pool():
    found = node()
    found.run(guaranteed("a", 2000, 10 * GIB), guaranteed("b", 3000, 10 * GIB))
    assert found.memory() == {"a": "0", "b": "1"}
    found.resize(guaranteed("a", 5000, 10 * GIB))
    assert (found.zones("a"), found.memory("a")) == ({"a": "socket #0"}, {"a": "0-1"})
    found.resize(guaranteed("a", 2000, 10 * GIB))
    assert found.memory("a") == {"a": found.zones("a")["a"].rpartition("#")[2]}
