import pytest

from joulie_api.resources import BALLOONS_POLICIES, TEMPLATE_POLICIES, TOPOLOGY_AWARE_POLICIES
from joulie_containers.node_agent.objects import NodeObject, ObjectKey
from joulie_containers.node_agent.selection import group_of, select


def objects(*names, resource=TEMPLATE_POLICIES):
    return [NodeObject(ObjectKey(resource, name), f"uid-{name}", 1, {}) for name in names]


ALL = objects("node.n1", "node.n2", "group.a", "group.b", "default")
A, B = {"joulie.io/container-policy-group": "a"}, {"config.nri/group": "b"}


@pytest.mark.parametrize(
    ("labels", "present", "applied"),
    [
        ({}, ALL, "node.n1"),
        (A, ALL, "node.n1"),
        (A, ALL[1:], "group.a"),
        (B, ALL[1:], "group.b"),
        ({**A, **B}, ALL[1:], "group.a"),
        ({}, ALL[1:], "default"),
        ({"joulie.io/container-policy-group": ""}, ALL[1:], "default"),
        (A, objects("default", "group.b", "node.n2"), None),
        (B, objects("default"), None),
        ({}, objects("group.a", "node.n2", "other"), None),
        ({}, [], None),
    ],
)
def test_the_node_precedes_its_group_which_excludes_the_default(labels, present, applied):
    selection = select("n1", labels, present)
    assert (selection.applied.key.name if selection.applied else None) == applied
    assert selection.conflict is None


def test_two_kinds_of_the_name_that_applies_are_a_conflict_that_names_both():
    both = [*objects("default"), *objects("default", resource=BALLOONS_POLICIES)]
    for order in (both, both[::-1]):
        selection = select("n1", {}, order)
        assert selection.applied is None
        assert "BalloonsPolicy/default, TemplatePolicy/default apply" in selection.conflict


def test_another_kind_of_a_name_that_does_not_apply_is_no_conflict():
    present = [*objects("node.n1"), *objects("default", "group.a", resource=TOPOLOGY_AWARE_POLICIES)]
    assert str(select("n1", {}, present).applied.key) == "TemplatePolicy/node.n1"


def test_a_node_without_a_label_of_a_group_is_in_none():
    assert group_of({"config.nri/other": "x"}) is None
