"""Which CPUs a container gets by its quality of service, its request and its annotations.

The machine: two sockets of two NUMA nodes of four CPUs; CPU 0 is reserved.
"""

import pytest

from joulie_core.containers.idset import IdSet
from joulie_testing.core.containers import best_effort, burstable, guaranteed
from joulie_testing.core.machines import MachineShape
from joulie_testing.core.topology_aware import TopologyAwareNode

SHAPE = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4)
RESERVED = {"reservedResources": {"cpu": "cpuset:0"}}


def key(name):
    return f"{name}.resource-policy.nri.io"


def node(options=RESERVED, shape=SHAPE):
    return TopologyAwareNode(shape.topology(), options)


def exclusive(found, name="a"):
    return len(found.placement(name).exclusive)


def test_a_guaranteed_container_of_less_than_a_cpu_shares():
    found = node()
    found.run(guaranteed("a", 999))
    assert exclusive(found) == 0
    assert len(found.placement("a").cpus) >= 3


@pytest.mark.parametrize(("milli", "own"), [(1000, 1), (2000, 2), (4000, 4)])
def test_a_guaranteed_container_of_whole_cpus_gets_these_alone(milli, own):
    found = node()
    found.run(guaranteed("a", milli))
    assert exclusive(found) == own
    assert found.placement("a").cpus == found.placement("a").exclusive


def test_a_guaranteed_container_of_one_to_two_cpus_gets_one_alone_and_shares_the_rest():
    found = node()
    found.run(guaranteed("a", 1500))
    assert exclusive(found) == 1
    assert len(found.placement("a").cpus) > 1


def test_a_guaranteed_container_with_a_fraction_beside_two_or_more_cpus_shares():
    found = node()
    found.run(guaranteed("a", 2500))
    assert exclusive(found) == 0


def test_an_annotation_gives_whole_cpus_beside_the_fraction():
    found = node()
    found.run(guaranteed("a", 2500, annotations={key("prefer-shared-cpus"): "false"}))
    assert exclusive(found) == 2
    assert len(found.placement("a").cpus) > 2


@pytest.mark.parametrize("milli", [1000, 1500, 4000])
def test_an_annotation_or_an_option_makes_guaranteed_containers_share(milli):
    annotated, configured = node(), node(RESERVED | {"preferSharedCPUs": True})
    annotated.run(guaranteed("a", milli, annotations={key("prefer-shared-cpus"): "true"}))
    configured.run(guaranteed("a", milli))
    assert exclusive(annotated) == exclusive(configured) == 0


def test_burstable_and_best_effort_containers_share():
    found = node()
    found.run(burstable("a", 2000), best_effort("b"))
    assert exclusive(found, "a") == exclusive(found, "b") == 0


def test_exclusive_cpus_are_taken_from_those_that_share_at_once_and_returned():
    found = node(RESERVED, MachineShape(cores_per_node=4))
    found.run(best_effort("b"))
    assert found.cpus("b") == {"b": "1-3"}
    found.run(guaranteed("a", 1000))
    assert found.placement("b").cpus == IdSet([1, 2, 3]) - found.placement("a").exclusive
    found.end("a")
    assert found.cpus("b") == {"b": "1-3"}


@pytest.mark.parametrize("namespace", ["kube-system", "infra-dns"])
def test_containers_of_reserved_namespaces_use_the_reserved_cpus(namespace):
    found = node(RESERVED | {"reservedPoolNamespaces": ["infra-*"]})
    found.run(guaranteed("a", 500, namespace=namespace), best_effort("b"))
    assert found.cpus("a") == {"a": "0"}
    assert 0 not in found.placement("b").cpus


def test_an_annotation_decides_on_reserved_cpus():
    found = node()
    found.run(
        best_effort("a", annotations={key("prefer-reserved-cpus"): "true"}),
        best_effort("b", namespace="kube-system", annotations={key("prefer-reserved-cpus"): "false"}),
    )
    assert found.cpus("a") == {"a": "0"}
    assert 0 not in found.placement("b").cpus


def test_containers_that_the_reserved_cpus_have_no_room_for_share_others_with_a_warning():
    found = node()
    found.run(burstable("a", 900, namespace="kube-system"))
    result = found.run(burstable("b", 200, namespace="kube-system"))
    assert [warning.reason for warning in result.warnings] == ["ReservedCpusFull"]
    assert found.cpus("a") == {"a": "0"}
    assert 0 not in found.placement("b").cpus


def test_without_reserved_cpus_all_namespaces_are_equal():
    found = node({})
    found.run(best_effort("a", namespace="kube-system"))
    assert len(found.placement("a").cpus) == 4


def test_a_reserved_quantity_is_rounded_up_to_cpus_that_the_kernel_does_not_isolate():
    shape = MachineShape(cores_per_node=4, isolated=IdSet([0]))
    found = node({"reservedResources": {"cpu": "1500m"}}, shape)
    found.run(best_effort("a", namespace="kube-system"), best_effort("b"))
    assert found.cpus() == {"a": "1-2", "b": "3"}


def test_preserved_cpus_and_memory_are_left_alone():
    found = node()
    found.run(
        guaranteed("a", 2000, annotations={key("cpu.preserve"): "true"}),
        guaranteed("b", 2000, annotations={key("memory.preserve"): "true"}),
    )
    assert (found.placement("a").cpus, found.placement("a").cpu_shares) == (None, None)
    assert found.placement("a").memory is not None
    assert (len(found.placement("b").cpus), found.placement("b").memory) == (2, None)


def test_what_is_not_pinned_is_left_alone():
    found = node({"pinCPU": False, "pinMemory": False})
    found.run(guaranteed("a", 2000, 100))
    assert (found.placement("a").cpus, found.placement("a").memory) == (None, None)


@pytest.mark.parametrize(
    ("container", "shares"),
    [
        (best_effort("a"), 2),
        (burstable("a", 250), 256),
        (guaranteed("a", 3000), 3072),
        (guaranteed("a", 1500), 512),
        (burstable("a", 100, namespace="kube-system"), 102),
    ],
    ids=["no request", "shared", "exclusive", "the shared part only", "reserved"],
)
def test_cpu_shares_follow_the_request(container, shares):
    found = node()
    found.run(container)
    assert found.placement("a").cpu_shares == shares


ISOLATED = MachineShape(cores_per_node=8, isolated=IdSet([6, 7]))


def test_a_guaranteed_container_of_one_to_two_cpus_gets_an_isolated_cpu_where_there_is_one():
    found = node({}, ISOLATED)
    found.run(guaranteed("a", 1000), guaranteed("b", 1500), guaranteed("c", 1000))
    assert str(found.placement("a").exclusive | found.placement("b").exclusive) == "6-7"
    assert found.placement("c").exclusive <= IdSet.parse("0-5")


def test_isolated_cpus_can_be_left_out():
    found = node({"preferIsolatedCPUs": False}, ISOLATED)
    found.run(guaranteed("a", 1000))
    assert found.placement("a").exclusive <= IdSet.parse("0-5")


def test_containers_of_two_or_more_cpus_get_isolated_ones_only_by_an_annotation():
    found = node({}, ISOLATED)
    found.run(guaranteed("a", 2000))
    assert found.placement("a").exclusive <= IdSet.parse("0-5")
    found.run(guaranteed("b", 2000, annotations={key("prefer-isolated-cpus"): "true"}))
    assert found.cpus("b") == {"b": "6-7"}


def test_required_isolated_cpus_are_given_or_the_container_is_refused():
    found = node({}, ISOLATED)
    found.run(guaranteed("a", 1000))
    annotations = {key("require-isolated-cpus"): "true"}
    reason = found.refuse(guaranteed("b", 2000, annotations=annotations))
    assert reason == "2 isolated CPUs are required, 1 are free"
    found.end("a")
    found.run(guaranteed("b", 2000, annotations=annotations))
    assert found.cpus("b") == {"b": "6-7"}


def test_isolated_cpus_are_not_shared():
    found = node({}, ISOLATED)
    found.run(best_effort("a"))
    assert found.cpus() == {"a": "0-5"}


def test_a_machine_whose_cpus_are_all_isolated_shares_them():
    found = node({}, MachineShape(cores_per_node=2, isolated=IdSet([0, 1])))
    found.run(best_effort("a"))
    assert found.cpus() == {"a": "0-1"}


def test_hidden_hyperthreads_leave_one_thread_of_each_core():
    found = node({}, MachineShape(cores_per_node=4, threads_per_core=2))
    found.run(best_effort("a", annotations={key("hide-hyperthreads"): "true"}))
    assert found.cpus() == {"a": "0-3"}


def test_cpus_have_the_classes_of_the_configuration_and_of_annotations():
    options = RESERVED | {
        "sharedPoolCPUClass": "standard",
        "reservedPoolCPUClass": "eco",
        "defaultExclusiveCPUClass": "performance",
        "cpuClasses": [{"name": "realtime"}],
    }
    found = node(options, MachineShape(cores_per_node=8))
    result = found.run(
        guaranteed("a", 2000),
        guaranteed("b", 1000, annotations={key("cpu-class"): "realtime"}),
        guaranteed("c", 1000, annotations={key("cpu-class"): "unknown"}),
    )
    assert [warning.reason for warning in result.warnings] == ["UnknownName"]
    a, b, c = (found.placement(name).exclusive for name in "abc")
    assert found.state.cpu_classes == {
        "eco": IdSet([0]),
        "performance": a | c,
        "realtime": b,
        "standard": IdSet.parse("1-7") - a - b - c,
    }


def test_scheduling_classes_come_from_annotation_namespace_or_quality_of_service():
    options = {
        "schedulingClasses": [{"name": "batch"}, {"name": "rt"}, {"name": "idle"}],
        "namespaceSchedulingClasses": {"night": "batch"},
        "podQoSSchedulingClasses": {"BestEffort": "idle"},
    }
    found = node(options)
    found.run(
        best_effort("a", namespace="night"),
        best_effort("b"),
        burstable("c", 100),
        best_effort("d", namespace="night", annotations={key("scheduling-class"): "rt"}),
    )
    assert [found.placement(name).scheduling_class for name in "abcd"] == ["batch", "idle", None, "rt"]


def test_a_malformed_annotation_is_a_warning_and_ignored():
    found = node()
    result = found.run(
        guaranteed("a", 1000, annotations={key("prefer-shared-cpus"): "perhaps", key("cold-start"): "soon"})
    )
    assert {warning.reason for warning in result.warnings} == {"InvalidAnnotation"}
    assert len(result.warnings) == 2
    assert exclusive(found) == 1


def test_a_limit_of_the_top_tier_is_ignored_with_a_warning():
    result = node().run(guaranteed("a", 1000, annotations={key("toptierlimit"): "1Gi"}))
    assert [(each.container, each.reason) for each in result.warnings] == [("a", "UnsupportedAnnotation")]


def test_containers_of_a_pool_that_get_the_same_share_one_placement():
    found = node(RESERVED, MachineShape(cores_per_node=8))
    found.run(*(best_effort(name) for name in "abc"))
    found.run(guaranteed("g", 1000))
    assert found.state.placements["a"] is found.state.placements["b"] is found.state.placements["c"]


def test_hidden_hyperthreads_are_hidden_again_after_a_time_with_one_shared_cpu():
    found = node(RESERVED, MachineShape(cores_per_node=4, threads_per_core=2))
    found.run(best_effort("hidden", annotations={key("hide-hyperthreads"): "true"}), best_effort("plain"))
    found.run(*(guaranteed(f"g{number}", 1000) for number in range(6)))
    cpus = found.cpus()
    assert cpus["hidden"] == cpus["plain"] == "7"
    found.end(next(name for name in cpus if cpus[name] == "3"))
    assert (found.cpus()["hidden"], found.cpus()["plain"]) == ("3", "3,7")
