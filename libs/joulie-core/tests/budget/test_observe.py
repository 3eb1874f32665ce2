"""Observation of a tree: what would be decided, with nothing asked."""

from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget import BudgetDomain, BudgetNode, LimitAsk, LimitReport, observe, plant


def domain(name, parent=None, *nodes, limit_mw=1_000_000, **fields):
    return BudgetDomain(name, limit_mw, parent, nodes=nodes, **fields)


def node(name, max_mw=500_000, min_mw=100_000, demand_mw=None):
    return BudgetNode(name, f"uid-{name}", max_mw, min_mw, demand_mw)


def seen(domains, *nodes):
    (tree,) = plant(domains).trees
    return observe(tree, {each.name: each for each in nodes})


def test_the_highest_power_of_every_node_is_in_force_whatever_was_asked_or_reported():
    asked = BudgetNode(
        "n1",
        "uid-n1",
        500_000,
        100_000,
        ask=LimitAsk("uid-n1", 1, 1, 200_000, None),
        report=LimitReport("uid-n1", 1, 200_000),
    )
    found = seen([domain("rack", None, "n1", "n2", limit_mw=600_000)], asked, node("n2")).domains["rack"]
    assert found.sums.in_force_mw == 1_000_000
    assert found.sums.headroom_mw == -400_000
    assert found.sums.allocated_mw == 600_000
    assert found.limited == 2


def test_a_node_whose_power_is_not_known_leaves_all_sums_above_it_unknown_and_has_no_share():
    domains = [domain("feed"), domain("a", "feed", "n1", "n2"), domain("b", "feed", "n3")]
    found = seen(domains, node("n1", max_mw=None, min_mw=None), node("n2"), node("n3")).domains
    assert (found["feed"].sums.in_force_mw, found["feed"].sums.headroom_mw) == (None, None)
    assert found["a"].sums.in_force_mw is None
    assert found["b"].sums.in_force_mw == 500_000
    assert (found["feed"].unknown, found["b"].unknown) == ({"n1"}, set())
    assert (found["feed"].known_mw, found["a"].known_mw) == (1_000_000, 500_000)
    assert found["a"].sums.allocated_mw == 500_000
    assert [each.node for each in found["feed"].lowered] == []


def test_the_lowest_domain_with_nothing_left_is_named_and_the_larger_lack_comes_first():
    domains = [
        domain("feed", limit_mw=10_000_000),
        domain("a", "feed", "n1", "n2", limit_mw=700_000),
        domain("b", "feed", "n3"),
    ]
    nodes = node("n1", demand_mw=500_000), node("n2", demand_mw=300_000), node("n3", demand_mw=500_000)
    found = seen(domains, *nodes).domains["feed"]
    assert [(each.node, each.wanted_mw, each.share_mw) for each in found.lowered] == [
        ("n1", 500_000, 433_333),
        ("n2", 300_000, 266_666),
    ]
    assert {(each.binding, each.usable_mw, each.after_priority) for each in found.lowered} == {("a", 700_000, None)}


def test_the_priority_that_is_served_first_is_named():
    domains = [
        domain("feed", limit_mw=850_000),
        domain("high", "feed", "n1", priority=10),
        domain("middle", "feed", "n2", priority=5),
        domain("low", "feed", "n3"),
    ]
    found = seen(domains, node("n1"), node("n2"), node("n3")).domains["feed"]
    assert [(each.node, each.binding, each.after_priority) for each in found.lowered] == [
        ("n3", "feed", 5),
        ("n2", "feed", 10),
    ]


def test_a_node_that_cannot_be_limited_keeps_its_power_and_stands_before_no_priority():
    domains = [domain("feed", limit_mw=700_000), domain("high", "feed", "n1", priority=10), domain("low", "feed", "n2")]
    found = seen(domains, node("n1", min_mw=None), node("n2")).domains["feed"]
    assert [(each.node, each.share_mw, each.after_priority) for each in found.lowered] == [("n2", 200_000, None)]


def test_a_node_that_wants_less_than_its_limit_is_limited_and_not_lowered():
    found = seen([domain("rack", None, "n1", limit_mw=300_000)], node("n1", demand_mw=200_000)).domains["rack"]
    assert (found.limited, found.lowered) == (1, ())


def test_floors_that_do_not_fit_are_told():
    found = seen([domain("rack", None, "n1", "n2", limit_mw=300_000, floor_mw=200_000)], node("n1"), node("n2"))
    assert [each.message for each in found.problems] == ["floors of 400 W do not fit into 300 W"]
    assert found.domains["rack"].sums.guaranteed_mw == 200_000


_NODES = st.lists(
    st.tuples(
        st.none() | st.integers(200_000, 900_000), st.integers(0, 200_000), st.none() | st.integers(0, 1_000_000)
    ),
    min_size=1,
    max_size=6,
)


@given(_NODES, st.integers(1, 3_000_000), st.integers(1, 3_000_000))
def test_a_node_is_lowered_only_where_a_domain_above_it_has_nothing_left(nodes, feed_mw, rack_mw):
    names = [f"n{index}" for index in range(len(nodes))]
    domains = [
        domain("feed", limit_mw=feed_mw),
        domain("a", "feed", *names[::2], limit_mw=rack_mw),
        domain("b", "feed", *names[1::2], limit_mw=rack_mw, priority=1),
    ]
    budget = [
        node(name, max_mw, None if max_mw is None else min_mw, demand)
        for name, (max_mw, min_mw, demand) in zip(names, nodes, strict=True)
    ]
    found = seen(domains, *budget).domains
    for name, each in found.items():
        left = (feed_mw if name == "feed" else rack_mw) - each.sums.allocated_mw
        assert (
            left >= 0 or each.sums.shortfall_mw or any(one.min_mw is None and one.max_mw is not None for one in budget)
        )
        for share in each.lowered:
            assert share.share_mw < share.wanted_mw
            binding = found[share.binding]
            assert share.usable_mw - binding.sums.allocated_mw <= len(binding.nodes) + 3
