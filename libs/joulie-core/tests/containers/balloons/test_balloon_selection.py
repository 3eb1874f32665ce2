import pytest

from joulie_testing.core.containers import container

BALLOON = "balloon.balloons.resource-policy.nri.io"
A = {"name": "a", "namespaces": ["a", "shared-*"]}
B = {
    "name": "b",
    "namespaces": ["b", "shared-*"],
    "matchExpressions": [{"key": "pod/labels/app", "operator": "In", "values": ["db"]}],
}


def zone(node, each):
    return node.add(each).zone(each.id).partition("[")[0]


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("a", "a"),
        ("b", "b"),
        ("shared-x", "a"),
        ("other", "default"),
        ("kube-system", "reserved"),
        ("mon-1", "reserved"),
    ],
)
def test_the_first_type_with_the_namespace_is_chosen(node, namespace, expected):
    found = node(A, B, reservedPoolNamespaces=["mon-*"])
    assert zone(found, container("c", 100, namespace=namespace)) == expected


def test_namespaces_of_the_type_reserved_are_those_of_the_system_and_its_own(node):
    found = node({"name": "reserved", "namespaces": ["infra"]})
    assert zone(found, container("c", namespace="infra")) == "reserved"
    assert zone(found, container("d", namespace="kube-system")) == "reserved"


def test_a_condition_counts_before_all_namespaces(node):
    assert zone(node(A, B), container("c", namespace="a", labels={"app": "db"})) == "b"
    assert zone(node(A, B), container("c", namespace="kube-system", labels={"app": "db"})) == "b"


@pytest.mark.parametrize("suffix", ["", "/pod", "/container.main"])
def test_an_annotation_counts_before_conditions(node, suffix):
    each = container("c", namespace="b", labels={"app": "db"}, annotations={BALLOON + suffix: "a"})
    assert zone(node(A, B), each) == "a"


def test_an_annotation_with_an_unknown_type_is_ignored_with_a_warning(node):
    found = node(A, B)
    assert zone(found, container("c", namespace="b", annotations={BALLOON: "none"})) == "b"
    (warning,) = found.result.warnings
    assert (warning.container, warning.reason) == ("c", "UnknownName")
    assert warning.message == f"annotation {BALLOON} is ignored: the configuration has no 'none'"


@pytest.mark.parametrize(
    ("annotations", "options"),
    [
        ({"cpu.preserve.resource-policy.nri.io": "true"}, {}),
        ({}, {"preserve": {"matchExpressions": [{"key": "name", "operator": "Equals", "values": ["main"]}]}}),
    ],
    ids=["annotation", "condition"],
)
def test_a_preserved_container_is_left_alone(node, annotations, options):
    found = node(A, **options).add(container("c", 4000, namespace="a", annotations=annotations))
    placement = found.state.placements["c"]
    assert (placement.zone, placement.cpus, placement.memory, placement.cpu_shares) == ("preserved", None, None, None)
    assert found.balloons() == {"reserved[0]": 1, "default[0]": 0} | {}
    assert found.update(container("c", 9000, annotations=annotations)).zone("c") == "preserved"
    assert found.synchronize(container("c", annotations=annotations)).zone("c") == "preserved"
    assert not found.remove("c").state.placements


def test_a_user_entry_changes_the_built_in_default_type(node):
    found = node({"name": "default", "minCPUs": 2, "maxCPUs": 3, "minBalloons": 2})
    assert found.balloons() == {"reserved[0]": 1, "default[0]": 2, "default[1]": 2}
    assert "no balloon of type default has room for 4000 milli-CPUs" in found.refuse(container("c", 4000))


def test_a_type_without_cpus_refuses_its_containers(node):
    found = node({"name": "blocked", "namespaces": ["no"], "maxCPUs": -1})
    assert "no balloon of type blocked has room for 0 milli-CPUs" in found.refuse(container("c", namespace="no"))


def test_the_scheduling_class_is_that_of_the_annotation_or_the_type(node):
    classes = [{"name": "rt", "policy": "fifo"}, {"name": "bg", "policy": "idle"}]
    annotations = {"scheduling-class.resource-policy.nri.io": "bg"}
    found = node({"name": "default", "schedulingClass": "rt"}, schedulingClasses=classes).add(
        container("c"), container("d", annotations=annotations), container("e", namespace="kube-system")
    )
    assert [found.state.placements[name].scheduling_class for name in "cde"] == ["rt", "bg", None]


@pytest.mark.parametrize("preserved", ["false", "true"])
def test_a_limit_of_the_top_tier_is_ignored_with_a_warning(node, preserved):
    annotations = {"toptierlimit.resource-policy.nri.io": "1Gi", "cpu.preserve.resource-policy.nri.io": preserved}
    found = node()
    result = found.policy.allocate(found.state, container("x", annotations=annotations))
    assert [(each.container, each.reason) for each in result.warnings] == [("x", "UnsupportedAnnotation")]
