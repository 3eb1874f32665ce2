"""Trees of power domains, and those that are set aside."""

import tracemalloc

import pytest

from joulie_core.budget import BudgetDomain, BudgetProblem, plant


def domain(name, parent=None, *nodes, limit_mw=1000, **fields):
    return BudgetDomain(name, limit_mw, parent, nodes=nodes, **fields)


def chain_of(length):
    """Return domains whose parents lead back to them."""
    return [domain(f"c{at:02}", f"c{(at + 1) % length:02}") for at in range(length)]


GOOD = (domain("good"), domain("good-rack", "good", "n9"))


def test_a_tree_lists_parents_first_and_knows_the_domain_of_each_node():
    (tree,) = plant([domain("z-leaf", "row", "n1", "n2"), domain("row", "feed"), domain("feed")]).trees
    assert [each.name for each in tree.domains] == ["feed", "row", "z-leaf"]
    assert (tree.parents, tree.children) == ((-1, 0, 1), ((1,), (2,), ()))
    assert {node: tree.domains[leaf].name for node, leaf in tree.leaf_of.items()} == {"n1": "z-leaf", "n2": "z-leaf"}


@pytest.mark.parametrize(
    ("domains", "problems"),
    [
        pytest.param(
            [domain("a", "c"), domain("b", "a"), domain("c", "b"), domain("leaf", "a", "n1")],
            {("a", "Cycle"), ("b", "Cycle"), ("c", "Cycle")},
            id="cycle",
        ),
        pytest.param([domain("a", "a")], {("a", "Cycle")}, id="own parent"),
        pytest.param([domain("a", "gone"), domain("b", "a", "n1")], {("a", "ParentMissing")}, id="missing parent"),
        pytest.param(
            [domain("a"), domain("r1", "a", "n1", "n2"), domain("r2", "a", "n2")],
            {("r1", "NodeInTwoDomains"), ("r2", "NodeInTwoDomains")},
            id="node in two domains",
        ),
        pytest.param(
            [domain("a", None, "n1"), domain("b", "a", "n2")], {("a", "SelectorAboveDomains")}, id="selector above"
        ),
        pytest.param([domain("a", None, "n1"), domain("a")], {("a", "NamedTwice")}, id="named twice"),
    ],
)
def test_a_tree_that_cannot_be_used_is_named_and_the_others_go_on(domains, problems):
    forest = plant([*domains, *GOOD])
    assert {(each.domain, each.problem) for each in forest.problems} == problems
    assert [tree.domains[0].name for tree in forest.trees] == ["good"]


def test_messages_name_domains_and_nodes():
    forest = plant([domain("a", "gone"), *(domain(rack, None, *(f"n{i}" for i in range(5))) for rack in ("r1", "r2"))])
    texts = {each.domain: each.message for each in forest.problems}
    assert texts["a"] == "its parent gone does not exist"
    assert texts["r1"].startswith("n0 is selected by r1, r2; n1 is")
    assert texts["r1"].endswith(", and 2 more nodes")


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(
            [domain(f"rack-{rack:03}", None, *(f"n{node:03}" for node in range(300))) for rack in range(100)],
            id="selectors of a template that match every node",
        ),
        pytest.param([domain(f"{at}{'x' * 200}", f"{(at + 1) % 400}{'x' * 200}") for at in range(400)], id="cycle"),
    ],
)
def test_a_mistake_in_many_domains_takes_memory_for_what_is_said_of_it_alone(mistake):
    tracemalloc.start()
    forest = plant([*mistake, *GOOD])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {each.domain for each in forest.problems} == {each.name for each in mistake}
    assert max(len(each.message) for each in forest.problems) < 4_096
    assert peak_bytes < 5_000_000


def test_messages_about_many_domains_say_how_many_more():
    owners = [domain(f"r{rack}", None, "n1") for rack in range(8)]
    texts = {each.domain: each.message for each in plant([*owners, *chain_of(12)]).problems}
    assert texts["r7"] == "n1 is selected by r0, r1, r2, r3, r4 and 3 more"
    assert texts["c03"].endswith("c08, c09 and 2 more")


def test_both_trees_of_a_node_that_two_select_are_set_aside():
    forest = plant([domain("a"), domain("r1", "a", "n1"), domain("b", None, "n1"), *GOOD])
    assert {each.problem for each in forest.problems} == {BudgetProblem.NODE_IN_TWO_DOMAINS}
    assert len(forest.trees) == 1


def test_nodes_are_released_only_where_all_domains_above_them_release():
    (tree,) = plant([domain("a", releases=True), domain("b", "a", "n1", releases=True), domain("c", "a", "n2")]).trees
    assert tree.releases == (True, True, False)
    (tree,) = plant([domain("a"), domain("b", "a", "n1", releases=True)]).trees
    assert tree.releases == (False, False)


def test_a_domain_that_cannot_be_read_sets_its_tree_aside_and_tells_which():
    forest = plant([domain("rack", "row", "n1"), domain("feed"), *GOOD], unread=["row"])
    assert [(each.domain, each.problem) for each in forest.problems] == [("row", BudgetProblem.UNREADABLE)]
    assert forest.lost == {"row": "row", "rack": "row"}
    assert [tree.domains[0].name for tree in forest.trees] == ["feed", "good"]


def test_an_earlier_version_of_a_domain_that_cannot_be_read_tells_its_tree():
    forest = plant([domain("feed"), domain("row", "feed"), *GOOD], unread=["row"])
    assert forest.lost == {"row": "row", "feed": "row"}


def chain(levels):
    return [domain("d0"), *(domain(f"d{level}", f"d{level - 1}") for level in range(1, levels))]


def test_a_tree_of_32_levels_is_planted_and_a_deeper_one_is_set_aside_by_name():
    assert plant(chain(32)).problems == ()
    forest = plant([*chain(5_000), *GOOD])
    assert [(each.domain, each.problem) for each in forest.problems] == [("d32", BudgetProblem.TOO_DEEP)]
    assert forest.problems[0].message == "is at level 33 of its tree; 32 levels are the most"
    assert [tree.domains[0].name for tree in forest.trees] == ["good"]
    assert forest.lost["d4999"] == "d32"
