"""Reserved CPUs, and what does not fit a node."""

import pytest

from joulie_core.containers.idset import IdSet
from joulie_core.containers.policy import PolicyConfigError
from joulie_testing.core.containers import container


def system(name, cpu_milli=0):
    return container(name, cpu_milli, namespace="kube-system")


@pytest.mark.parametrize(("reserved", "size"), [("1", 1), ("1500m", 2), ("0", 0)])
def test_a_quantity_is_the_least_size_of_the_reserved_balloon(node, reserved, size):
    found = node(reserved=reserved)
    assert found.balloons()["reserved[0]"] == size
    assert found.add(system("a", 3000)).balloons()["reserved[0]"] == 3
    assert found.remove("a").balloons()["reserved[0]"] == size


def test_a_set_is_exactly_the_reserved_balloon_whatever_is_requested(node):
    found = node({"name": "greedy", "namespaces": ["default"], "minBalloons": 1, "minCPUs": 4}, reserved="cpuset:2,8")
    assert str(found.balloon("reserved[0]")) == "2,8"
    found.add(system("a", 5000), container("b", 29_000))
    assert str(found.cpus("a")) == "2,8"
    assert found.cpus("b").isdisjoint(found.cpus("a"))
    assert found.update(system("a", 9000)).cpus("a") == IdSet.parse("2,8")
    assert found.remove("a").balloons()["reserved[0]"] == 2


def test_a_set_has_one_balloon_even_where_new_ones_are_preferred_without_limit(node):
    found = node({"name": "reserved", "maxBalloons": 0, "preferNewBalloons": True}, reserved="cpuset:2,8")
    found.add(system("a", 100), system("b", 100))
    assert str(found.cpus("a")) == str(found.cpus("b")) == "2,8"


def test_a_set_with_a_limit_of_the_type_is_preferred_and_may_be_exceeded(node):
    found = node({"name": "reserved", "maxCPUs": 4}, reserved="cpuset:8-9")
    assert str(found.balloon("reserved[0]")) == "8-9"
    found.add(container("b", 20_000), system("a", 4000))
    assert found.cpus("a") >= IdSet.parse("8-9")
    assert found.balloons()["reserved[0]"] == 4
    assert str(found.remove("a").balloon("reserved[0]")) == "8-9"


def test_several_reserved_balloons_share_a_set(node):
    options = {"name": "reserved", "minCPUs": 1, "maxCPUs": 1, "minBalloons": 2}
    found = node(options, reserved="cpuset:8-9")
    assert found.balloon("reserved[0]") | found.balloon("reserved[1]") == IdSet.parse("8-9")


@pytest.mark.parametrize(
    ("types", "options", "message"),
    [
        ([{"name": "reserved", "minCPUs": 2}], {"reserved": "1"}, "minCPUs of type reserved is 2, and"),
        (
            [{"name": "reserved", "maxCPUs": 1}],
            {"reserved": "2"},
            "maxCPUs of type reserved is 1, less than the 2",
        ),
        (
            [{"name": "reserved", "maxBalloons": 3}],
            {},
            "the CPUs 0, so it has one balloon, not 3; set its maxCPUs",
        ),
        (
            [{"name": "a", "minBalloons": 3, "minCPUs": 11}],
            {},
            r"need 34 CPUs \(1 for type reserved, 33 for type a\)",
        ),
        ([], {"reserved": "33"}, r"reservedResources\.cpu: '33' is not between 0 and the 32 available CPUs"),
        ([], {"reserved": "cpuset:40"}, "must be one or more of the available CPUs"),
        ([], {"availableResources": {"cpu": "4"}}, "is not a set of CPUs, such as cpuset:0-7"),
        (
            [{"name": "p", "minCPUs": 3}, {"name": "w", "maxCPUs": 4, "components": [{"balloonType": "p"}] * 2}],
            {},
            "maxCPUs of type w is 4, less than the 6 CPUs that its components have at least",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_the_node_is_refused(node, types, options, message):
    with pytest.raises(PolicyConfigError, match=message):
        node(*types, **options)
