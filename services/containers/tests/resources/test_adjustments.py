import json

import pytest

from joulie_containers.resources.adjustments import Adjustments
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)

POD = PodInfo(
    id=PodSandboxId("p"), uid="u", namespace="ns", name="pod", qos=QosClass.BURSTABLE, annotations={"other": "x"}
)
CONTAINER = ContainerInfo(
    id=ContainerId("c"),
    pod=POD,
    name="main",
    resources=ContainerResources(
        cpu_request_milli=500, cpu_limit_milli=1000, memory_request_bytes=100, memory_limit_bytes=200
    ),
)


def adjustments(**specs):
    result = Adjustments("n1")
    assert result.replace({name: json.dumps({"spec": spec}) for name, spec in specs.items()}) == {}
    return result


def resources(spec):
    return adjustments(a=spec).adjusted(CONTAINER).resources


def test_requests_and_limits_are_changed_and_the_rest_stays():
    spec = {"resources": {"requests": {"cpu": "750m"}, "limits": {"memory": 300}}}
    assert resources(spec) == ContainerResources(
        cpu_request_milli=750, cpu_limit_milli=1000, memory_request_bytes=300, memory_limit_bytes=300
    )


def test_a_missing_request_is_the_limit():
    assert resources({"resources": {"limits": {"cpu": 2}}}).cpu_request_milli == 2000


def test_a_request_of_zero_is_no_missing_one():
    assert resources({"resources": {"requests": {"cpu": "0"}, "limits": {"cpu": 2}}}).cpu_request_milli == 0


@pytest.mark.parametrize(
    ("scope", "concerned"),
    [
        ([], True),
        ([{"nodes": ["n*"]}], True),
        ([{"nodes": ["m*"]}], False),
        ([{"containers": [{"key": "name", "operator": "Equals", "values": ["main"]}]}], True),
        ([{"containers": [{"key": "name", "operator": "Equals", "values": ["x"]}]}], False),
        ([{"nodes": ["m1"]}, {"nodes": ["n1"]}], True),
        ([{"nodes": ["m1"], "containers": [{"key": "name", "operator": "Exists"}]}], False),
    ],
)
def test_the_scope_selects_nodes_and_containers(scope, concerned):
    found = adjustments(a={"scope": scope, "resources": {"requests": {"cpu": 1}}})
    assert (found.adjusted(CONTAINER) != CONTAINER) is concerned
    assert (found.of(CONTAINER).keys() == {"a"}) is concerned


def test_several_adjustments_of_a_container_conflict_and_change_nothing():
    both = adjustments(a={"resources": {"requests": {"cpu": 1}}}, b={"classes": {"rdt": "gold"}})
    assert both.adjusted(CONTAINER) == CONTAINER
    assert both.problems(CONTAINER) == {
        "a": "conflicts with b: the container is not changed",
        "b": "conflicts with a: the container is not changed",
    }


@pytest.mark.parametrize(
    ("amounts", "problem"),
    [
        ({"requests": {"cpu": 3}}, "the request of 3000m CPU exceeds the limit of 1000m"),
        ({"requests": {"memory": 250}}, "the request of 250 bytes exceeds the limit of 200"),
    ],
)
def test_a_request_above_the_limit_of_a_container_is_a_problem_of_that_container(amounts, problem):
    found = adjustments(a={"resources": amounts})
    assert found.problems(CONTAINER) == {"a": problem}
    assert found.adjusted(CONTAINER) == CONTAINER


def test_classes_become_annotations_of_the_container_alone():
    spec = {"classes": {"cpu": "eco", "rdt": "gold", "blockio": "slow"}}
    changed = adjustments(a=spec).adjusted(CONTAINER)
    assert changed.pod.annotations == {
        "other": "x",
        "cpu-class.resource-policy.nri.io/container.main": "eco",
        "rdtclass.resource-policy.nri.io/container.main": "gold",
        "blockioclass.resource-policy.nri.io/container.main": "slow",
    }
    assert changed.resources == CONTAINER.resources


def test_a_malformed_adjustment_is_reported_and_the_others_are_in_force():
    found = Adjustments("n1")
    errors = found.replace(
        {
            "a": "{",
            "b": "{}",
            "c": json.dumps({"spec": {"resources": {"requests": {"cpu": 3}, "limits": {"cpu": 1}}}}),
            "d": json.dumps({"spec": {"resources": {"requests": {"cpu": "600m"}}}}),
            "e": json.dumps({"spec": {"toptierLimit": "1Gi", "resources": {"requests": {"cpu": "700m"}}}}),
        }
    )
    assert errors.keys() == {"a", "b", "c", "e"}
    assert errors["e"].startswith(
        "spec: toptierLimit is not supported, since Linux has no limit for one tier of memory"
    )
    assert errors["c"] == "spec.resources: limits.cpu: 1 is less than the request 3"
    assert found.adjusted(CONTAINER).resources.cpu_request_milli == 600


@pytest.mark.parametrize("amount", ["9Ei", "1e30", "9" * 60])
@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_more_cpus_than_any_machine_has_are_a_problem_of_the_container(kind, amount):
    found = adjustments(a={"resources": {kind: {"cpu": amount}}})
    assert found.adjusted(CONTAINER) is CONTAINER
    assert "more than a container can have" in found.problems(CONTAINER)["a"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ('{"spec":' + "[" * 100_000, "nested too deeply"),
        ("[]", "not a Adjustment"),
        ("{}", "'spec' is absent"),
        ('{"spec":1e999999}', "not a Adjustment"),
    ],
    ids=lambda text: text[:12],
)
def test_an_adjustment_that_cannot_be_decoded_is_set_aside_alone(document, problem):
    found = Adjustments("n1")
    errors = found.replace({"bad": document, "good": json.dumps({"spec": {"resources": {"limits": {"cpu": 2}}}})})
    assert errors.keys() == {"bad"}
    assert problem in errors["bad"]
    assert found.adjusted(CONTAINER).resources.cpu_limit_milli == 2000


def test_without_adjustments_nothing_is_changed():
    found = Adjustments("n1")
    assert found.adjusted(CONTAINER) is CONTAINER
    assert found.problems(CONTAINER) == {}


def test_three_adjustments_of_a_container_name_each_other():
    spec = {"resources": {"limits": {"cpu": 2}}}
    assert adjustments(a=spec, b=spec, c=spec).problems(CONTAINER)["a"].startswith("conflicts with b, c: ")
