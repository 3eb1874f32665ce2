"""What nodes fall back to, for any limits that a raised tree allows."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget import BudgetDomain, BudgetNode, LimitAsk, LimitReport, floors_of, plant
from joulie_core.budget.breaker import BreakerRating, curve_of
from joulie_core.budget.fallback import (
    fallback_floors,
    fallback_mw,
    fallback_shares,
    is_limitable,
    lowest_mw,
    permitted_mw,
    raised_tree,
)

RATING = BreakerRating(curve_of([(130, 60)]), 600.0, 20)


def tree_of(*domains):
    (tree,) = plant(domains).trees
    return tree


@st.composite
def limited_trees(draw, *, floors_fit=False):
    """A feed with two racks, any of them oversubscribed and with floors, and limits that fit into the raised tree."""
    least, least_feed, most_pct = (6_050, 10_050, 0) if floors_fit else (1, 1, 100)
    ratings = st.sampled_from((None, RATING, BreakerRating(curve_of([(110, 100), (180, 40)]), 10.0, 12)))
    racks = {"a": ("n1", "n2", "n3"), "b": ("n4", "n5")}
    lowest = {node: draw(st.integers(0, 1_000)) for nodes in racks.values() for node in nodes}
    domains = [
        BudgetDomain(
            name, draw(st.integers(least, 9_000)), "feed", draw(st.integers(0, 50)), rating=draw(ratings), nodes=nodes,
            floor_mw=draw(st.integers(0, 2_000)), floor_pct=draw(st.integers(0, most_pct)),
        )
        for name, nodes in racks.items()
    ]  # fmt: skip
    feed_mw, rest_mw = draw(st.integers(least_feed, 15_000)), draw(st.integers(0, 50))
    feed = BudgetDomain("feed", feed_mw, rating=draw(ratings), rest_mw=rest_mw)
    tree = tree_of(feed, *domains)
    limits = dict(lowest)
    raised = raised_tree(tree)
    for node in draw(st.permutations(sorted(limits))):
        sums = raised.sums(limits)
        leaf = tree.leaf_of[node]
        room = min(raised.domains[index].usable_mw - sums[index] for index in (leaf, 0))
        limits[node] += draw(st.integers(0, max(room, 0)))
    nodes = {
        name: BudgetNode(name, "id", max_mw=limits[name] + draw(st.integers(0, 500)), min_mw=least)
        for name, least in lowest.items()
    }
    return tree, nodes, limits


def falls_of(tree, nodes, limits):
    floors = fallback_floors(tree, nodes)
    shares = fallback_shares(tree, floors)
    return floors, {
        node: fallback_mw(limits[node], floors[node], shares[leaf]) if leaf in shares else limits[node]
        for node, leaf in tree.leaf_of.items()
    }


@given(limited_trees())
def test_fallbacks_add_up_to_no_more_than_any_domain_supplies(found):
    tree, nodes, limits = found
    _, falls = falls_of(tree, nodes, limits)
    raised = raised_tree(tree)
    lowest = tree.sums({name: each.min_mw for name, each in nodes.items()})
    allowed = zip(tree.domains, tree.sums(falls), lowest, raised.sums(limits), raised.domains, strict=True)
    for domain, total, least, held, above in allowed:
        if held <= above.usable_mw:
            assert total <= max(domain.usable_mw, least), domain.name
    for node, falls_to in falls.items():
        assert min(nodes[node].min_mw, limits[node]) <= falls_to <= limits[node]


@given(limited_trees(floors_fit=True))
def test_no_node_falls_back_below_its_floor_where_all_floors_fit(found):
    tree, nodes, limits = found
    floors, falls = falls_of(tree, nodes, limits)
    for node, leaf in tree.leaf_of.items():
        floor_mw = min(max(tree.domains[leaf].floor_mw, nodes[node].min_mw), nodes[node].max_mw)
        assert floors[node] == floor_mw
        assert falls[node] >= min(floor_mw, limits[node])


def test_floors_take_from_what_others_fall_back_to():
    tree = tree_of(
        BudgetDomain("feed", 1_000, rating=RATING),
        BudgetDomain("a", 1_000, "feed", floor_mw=400, nodes=("n1",)),
        BudgetDomain("b", 1_000, "feed", nodes=("n2",)),
    )
    nodes = {name: BudgetNode(name, "id", max_mw=700, min_mw=100) for name in ("n1", "n2")}
    floors, falls = falls_of(tree, nodes, {"n1": 650, "n2": 650})
    assert floors == {"n1": 400, "n2": 100}
    assert falls == {"n1": 400 + 250 * 500 // 800, "n2": 100 + 550 * 500 // 800}


def test_floors_that_do_not_fit_are_kept_by_no_fallback_and_are_the_same_in_the_raised_tree():
    tree = tree_of(BudgetDomain("rack", 1_000, rating=RATING, floor_mw=600, nodes=("n1", "n2")))
    nodes = {name: BudgetNode(name, "id", max_mw=700, min_mw=100) for name in ("n1", "n2")}
    assert fallback_floors(tree, nodes) == {"n1": 100, "n2": 100}
    floors, (refusal,) = floors_of(raised_tree(tree), dict.fromkeys(nodes, (100, 700)))
    assert floors == {"n1": 100, "n2": 100}
    assert refusal.message == "floors of 1.2 W do not fit into 1 W"


def test_a_node_that_cannot_be_limited_keeps_what_it_may_draw():
    tree = tree_of(BudgetDomain("rack", 2_000, rating=RATING, floor_pct=10, nodes=("n1", "n2", "n3")))
    nodes = {
        "n1": replace(NODE, name="n1", min_mw=None),
        "n2": replace(NODE, name="n2", max_mw=None),
        "n3": replace(asked(400, 700), name="n3"),
    }
    assert fallback_floors(tree, nodes) == {"n1": 500, "n2": 0, "n3": 700}


def test_a_limit_is_raised_to_the_load_that_its_breaker_carries_and_no_other_is():
    tree = tree_of(BudgetDomain("feed", 1_001), BudgetDomain("rack", 1_001, "feed", 100, rating=RATING, nodes=("n1",)))
    assert [each.limit_mw for each in raised_tree(tree).domains] == [1_001, 1_301]
    assert [permitted_mw(each) for each in tree.domains] == [1_001, 1_301]
    assert raised_tree(tree).domains[1].usable_mw == 1_201


def test_nodes_fall_back_by_the_least_share_of_the_oversubscribed_domains_above_them():
    tree = tree_of(
        BudgetDomain("feed", 2_000, rating=RATING),
        BudgetDomain("a", 1_000, "feed", rating=RATING, nodes=("n1",)),
        BudgetDomain("b", 1_000, "feed", nodes=("n2",)),
    )
    shares = fallback_shares(tree, {"n1": 200, "n2": 200})
    assert shares == {0: Fraction(1_600, 2_200), 1: Fraction(1_600, 2_200), 2: Fraction(1_600, 2_200)}
    assert fallback_shares(tree, {"n1": 700, "n2": 200})[1] == Fraction(300, 600)


def test_nodes_of_a_domain_that_is_not_oversubscribed_do_not_fall_back():
    tree = tree_of(
        BudgetDomain("feed", 2_000),
        BudgetDomain("a", 1_000, "feed", rating=RATING, nodes=("n1",)),
        BudgetDomain("b", 1_000, "feed", nodes=("n2",)),
    )
    assert fallback_shares(tree, {"n1": 0, "n2": 0}).keys() == {1}


@pytest.mark.parametrize(("lowest", "share"), [(1_000, 0), (1_100, 0), (1_300, 0), (2_000, 0), (0, Fraction(10, 13))])
def test_lowest_limits_that_do_not_fit_leave_no_more(lowest, share):
    tree = tree_of(BudgetDomain("rack", 1_000, rating=RATING, nodes=("n1",)))
    assert fallback_shares(tree, {"n1": lowest}) == {0: share}


def test_a_fallback_is_rounded_down_and_a_limit_below_the_lowest_stays():
    assert fallback_mw(500, 100, Fraction(1, 3)) == 233
    assert fallback_mw(100, 100, Fraction(1, 3)) == 100
    assert fallback_mw(90, 100, Fraction(1, 3)) == 90


NODE = BudgetNode("n1", "id", max_mw=500, min_mw=100)


def asked(limit_mw, in_force_mw=None, *, refused=False, sequence=1):
    report = LimitReport("id", sequence, in_force_mw, refused)
    return replace(NODE, ask=LimitAsk("id", 1, 1, limit_mw, 400), report=report)


def test_the_lowest_limit_is_one_that_the_node_holds_for_sure():
    assert lowest_mw(NODE) == 100
    assert lowest_mw(asked(300, 300)) == 100
    assert lowest_mw(asked(150, 180)) == 180, "firmware takes no lower limit"
    assert lowest_mw(asked(150, 180, sequence=0)) == 100, "which an earlier ask does not tell"
    assert lowest_mw(asked(300, 300, refused=True)) == 300
    assert lowest_mw(asked(None, 300)) == 100
    assert lowest_mw(replace(NODE, min_mw=600)) == 500
    assert lowest_mw(replace(NODE, min_mw=None)) == 500
    assert lowest_mw(replace(NODE, max_mw=None)) is None


def test_a_node_without_a_known_range_cannot_be_limited():
    assert is_limitable(NODE)
    assert not is_limitable(replace(NODE, min_mw=None))
    assert not is_limitable(replace(NODE, max_mw=None))
