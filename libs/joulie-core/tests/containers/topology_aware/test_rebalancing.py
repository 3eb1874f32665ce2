"""Placing a few containers again by their measured usage, or because they got less than they need.

The machine: one memory node of two or three caches of two CPUs; containers go to the caches in turn.
"""

from dataclasses import replace

import pytest

from joulie_core.containers.container import ContainerId, TopologyHint
from joulie_core.containers.policy import RebalanceRequested
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import MachineShape
from joulie_testing.core.topology_aware import TopologyAwareNode

FIRST, SECOND, THIRD = "L3 cache #0", "L3 cache #2", "L3 cache #4"
TWO, THREE = MachineShape(cores_per_node=4, cores_per_l3=2), MachineShape(cores_per_node=6, cores_per_l3=2)


def caches(*containers, shape=TWO):
    """A node with containers in its caches in turn."""
    found = TopologyAwareNode(shape.topology(), {})
    found.run(*containers)
    names = (FIRST, SECOND, THIRD)[: shape.cores_per_node // 2]
    assert list(found.zones().values()) == [names[place % len(names)] for place in range(len(containers))]
    return found


def moved(found, **usage):
    """Rebalance by usage; return the containers that are then in other pools."""
    before = found.zones()
    found.handle(RebalanceRequested({ContainerId(name): milli for name, milli in usage.items()}))
    return {name: zone for name, zone in found.zones().items() if zone != before[name]}


def test_a_pool_is_busy_above_nine_tenths_of_its_shared_cpus():
    shared = [best_effort(name) for name in "abcd"]
    assert moved(caches(*shared), a=900, c=900) == {}
    assert moved(caches(*shared), a=901, c=900) == {"a": SECOND}


def test_a_container_moves_only_where_that_makes_the_busier_pool_less_busy_by_a_tenth():
    shared = [best_effort(name) for name in "abcd"]
    # Of the first pool 0.95 is used; the second one has `b` and would have `c` besides.
    assert moved(caches(*shared), a=1000, c=900, b=800) == {"c": SECOND}
    assert moved(caches(*shared), a=1000, c=900, b=802) == {}


def test_the_container_moves_whose_leaving_leaves_the_busier_pool_least_busy():
    shared = [best_effort(name) for name in "abcdef"]
    assert moved(caches(*shared), a=1200, c=500, e=200) == {"a": SECOND}
    assert moved(caches(*shared), a=200, c=1100, e=600) == {"c": SECOND}
    assert moved(caches(*shared), a=300, c=600, e=1000) == {"e": SECOND}


def test_of_equal_pools_the_first_is_taken_and_of_equal_containers_the_first_by_name():
    shared = [best_effort(name) for name in "abcdef"]
    assert moved(caches(*shared, shape=THREE), a=1000, d=1000) == {"a": SECOND}
    assert moved(caches(*shared, shape=THREE), a=1000, d=1000, b=300) == {"a": THIRD}


def test_the_pool_that_is_busy_with_others_is_not_relieved_by_its_neighbours():
    shared = [best_effort(name) for name in "abcd"]
    assert moved(caches(*shared), b=1000, d=1000) == {"b": FIRST}


def test_one_container_of_each_busy_pool_moves():
    shared = [best_effort(name) for name in "abcdefghi"]
    found = caches(*shared, shape=THREE)
    usage = {"a": 1000, "d": 1000, "b": 1000, "e": 1000}
    assert moved(found, **usage) == {"a": THIRD}
    assert moved(found, **usage) == {}


@pytest.mark.parametrize(
    "tied",
    [
        {"annotations": {"resource-policy.nri.io/affinity": "main: [other]"}, "pod": "pair"},
        {"hints": (TopologyHint(provider="device:/sys/x", cpus="0-1"),)},
    ],
    ids=["affinity", "hint"],
)
def test_a_container_that_is_tied_to_something_stays(tied):
    found = TopologyAwareNode(TWO.topology(), {})
    found.run(best_effort("a", **tied), best_effort("b"), best_effort("c"), best_effort("d"))
    (first,) = found.zones("a").values()
    others = [name for name, zone in found.zones("b", "c", "d").items() if zone == first]
    assert others
    changes = moved(found, a=1900, **dict.fromkeys(others, 50))
    assert "a" not in changes


def test_usage_of_exclusive_cpus_makes_no_pool_busy_and_moves_nothing():
    found = TopologyAwareNode(TWO.topology(), {})
    found.run(guaranteed("own", 1500), best_effort("b"), best_effort("c"), best_effort("d"))
    (zone,) = found.zones("own").values()
    beside = [name for name, each in found.zones("b", "c", "d").items() if each == zone]
    assert moved(found, own=1500, **dict.fromkeys(beside, 100)) == {}


def test_a_container_stays_where_it_fits_no_other_pool():
    found = caches(guaranteed("a", 900), guaranteed("b", 900), guaranteed("c", 900), guaranteed("d", 600))
    assert moved(found, a=1000, c=1000) == {}
    found.end("d")
    assert moved(found, a=1000, c=1000) == {"a": SECOND}
    assert found.state.ledger.supply.granted[found.policy._machine.tree.by_name[SECOND].id] == 1800


def test_a_container_stays_with_its_memory_nodes():
    shape = MachineShape(nodes_per_die=2, cores_per_node=2)
    found = TopologyAwareNode(shape.topology(), {})
    found.run(*(best_effort(name) for name in "abcd"))
    (memory,) = found.memory("a").values()
    busy = [name for name, nodes in found.memory().items() if nodes == memory]
    assert len(busy) == 2
    assert moved(found, **dict.fromkeys(busy, 1000)) == {}


def test_the_oldest_container_that_got_too_little_is_placed_first():
    found = TopologyAwareNode(MachineShape(cores_per_node=6).topology(), {})
    found.run(*(guaranteed(name, 2000, created_ns=time) for name, time in (("z", 1), ("y", 2))), best_effort("s"))
    found.restart({"availableResources": {"cpu": "cpuset:0-1"}})
    assert {name: len(found.placement(name).exclusive) for name in "zy"} == {"z": 0, "y": 0}
    # What is possible on more CPUs is done by a rebalance, not by a restart that keeps what was granted.
    policy = found.policy
    found.restart({"availableResources": {"cpu": "cpuset:0-2"}})
    assert found.policy is not policy
    found.handle(RebalanceRequested())
    assert {name: len(found.placement(name).exclusive) for name in "zy"} == {"z": 2, "y": 0}


def test_a_container_that_still_gets_too_little_stays_as_it_is():
    reserved = {"reservedResources": {"cpu": "cpuset:0"}}
    found = TopologyAwareNode(MachineShape(cores_per_node=4).topology(), reserved)
    found.run(burstable("a", 2000, created_ns=1), burstable("b", 900, created_ns=2))
    found.restart(reserved | {"availableResources": {"cpu": "cpuset:0-2"}})
    before = found.state
    assert found.handle(RebalanceRequested()).state.placements == before.placements
    assert found.state.records == before.records
    found.resize(replace(found.containers[ContainerId("a")], resources=burstable("a", 500).resources))
    found.handle(RebalanceRequested())
    assert found.state.records[ContainerId("b")]["milli"] == 900
