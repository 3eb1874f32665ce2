"""Decisions about limits: what is asked now, and what waits until it was read back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget import (
    BudgetDomain,
    BudgetNode,
    BudgetPlanner,
    LeaseTimes,
    LimitAsk,
    LimitReport,
    may_be_in_force_mw,
    plant,
    supersedes,
)

TIMES = LeaseTimes(lease_s=120.0, margin_s=45.0)
NOW_S = 1000.0
TERM = 7


def tree(limit_mw, *names, releases=False, **fields):
    return plant([BudgetDomain("d", limit_mw, nodes=names, releases=releases, **fields)]).trees[0]


def node(name, limit_mw=None, *, reported=True, demand_mw=None, max_mw=1000, min_mw=100, term=TERM, age_s=0.0):
    """A node that was asked for a limit, and has reported it; without a limit it was asked for none yet."""
    ask = report = None
    if limit_mw is not None:
        ask = LimitAsk(f"{name}-1", term, 5, limit_mw, 900)
        report = LimitReport(f"{name}-1", 5 if reported else 4, limit_mw if reported else 900)
    return BudgetNode(name, f"{name}-1", max_mw, min_mw, demand_mw, ask, report, NOW_S - age_s)


def decide(limits, *nodes, term=TERM, **fields):
    planner = BudgetPlanner(tree(limits, *(each.name for each in nodes), **fields), term, TIMES)
    return planner.decide({each.name: each for each in nodes}, NOW_S)


def asked(decision):
    return {name: ask.limit_mw for name, ask in decision.asks.items()}


def confirm(nodes, decision):
    """The nodes after every ask was carried out and reported."""
    return [
        replace(each, ask=ask, report=LimitReport(each.identity, ask.sequence, ask.limit_mw))
        if (ask := decision.asks.get(each.name))
        else each
        for each in nodes
    ]


def test_nodes_that_were_never_asked_are_lowered_at_once_to_what_fits():
    assert asked(decide(1000, node("a"), node("b"))) == {"a": 500, "b": 500}


def test_a_node_is_raised_only_after_the_other_was_read_back():
    nodes = [node("a", 800, demand_mw=200), node("b", 200, demand_mw=800)]
    first = decide(1000, *nodes)
    assert asked(first) == {"a": 200}
    assert first.domains["d"].in_force_mw == 1000
    nodes[0] = replace(nodes[0], ask=first.asks["a"])
    assert asked(decide(1000, *nodes)) == {}
    second = decide(1000, *confirm(nodes, first))
    assert asked(second) == {"b": 800}


def test_what_was_asked_in_between_counts_until_the_last_ask_is_reported():
    lowered = node("a", 300, reported=False)
    assert may_be_in_force_mw(lowered, NOW_S, TIMES, releases=False) == 900
    assert "b" not in asked(decide(1000, lowered, node("b", 100, demand_mw=700)))


@pytest.mark.parametrize(("in_force_mw", "mw"), [(700, 700), (200, 350), (None, 1_000)])
def test_a_limit_that_was_applied_after_the_stored_ask_counts_and_the_node_is_asked_anew(in_force_mw, mw):
    stored = LimitAsk("a-1", TERM, 5, 300, 350)
    restored = replace(node("a", 300, demand_mw=100), ask=stored, report=LimitReport("a-1", 9, in_force_mw))
    decision = decide(1000, restored, node("b", 100, demand_mw=900))
    assert decision.domains["d"].in_force_mw == mw + 100
    # Before the object bears it, no other node is raised.
    assert decision.asks == {"a": LimitAsk("a-1", TERM, 10, 100, mw)}


def test_a_node_is_raised_by_no_stored_ask_that_is_older_than_what_was_applied():
    stored = LimitAsk("a-1", TERM, 5, 800, 800)
    restored = replace(node("a", 800, demand_mw=900), ask=stored, report=LimitReport("a-1", 9, 150))
    assert asked(decide(1000, restored, node("b", 100, demand_mw=900))) == {"a": 150}


def test_a_lowering_under_way_is_not_undone_while_the_sum_is_above_the_limit():
    lowered = node("a", 300, reported=False, demand_mw=900)
    others = [node("b", 100, demand_mw=100), node("c", 200, age_s=500.0)]
    assert asked(decide(2000, lowered, *others))["a"] == 980
    assert asked(decide(1100, lowered, *others)) == {}


def test_firmware_that_takes_no_lower_limit_counts_with_what_it_holds():
    clamped = replace(node("a", 200, demand_mw=100), report=LimitReport("a-1", 5, 350))
    decision = decide(1000, clamped, node("b", 300, demand_mw=900))
    assert asked(decision) == {"b": 650}
    assert decision.domains["d"].in_force_mw == 650


def test_a_node_of_unknown_power_blocks_raises_and_is_never_counted_as_nothing():
    decision = decide(5000, node("a", 300, demand_mw=900), node("b", max_mw=None))
    assert asked(decision) == {"b": None}
    assert (decision.domains["d"].in_force_mw, decision.domains["d"].headroom_mw) == (None, None)
    later = confirm([node("a", 300, demand_mw=900), node("b", max_mw=None)], decision)
    assert asked(decide(5000, *later)) == {}


def test_a_node_of_unknown_minimum_is_not_asked_for_a_limit_and_the_others_make_room():
    assert asked(decide(1500, node("a", 800, demand_mw=800), node("b", min_mw=None))) == {"a": 500, "b": None}


def test_a_replaced_node_counts_with_its_maximum_and_is_asked_again():
    replaced = replace(node("a", 200), identity="a-2")
    assert may_be_in_force_mw(replaced, NOW_S, TIMES, releases=False) == 1000
    ask = decide(1500, replaced, node("b", 500)).asks["a"]
    assert (ask.identity, ask.sequence, ask.ceiling_mw) == ("a-2", 6, None)


@pytest.mark.parametrize(("age_s", "mw"), [(74.9, 300), (75.0, 1000), (500.0, 1000)])
def test_a_silent_node_that_is_released_counts_with_its_maximum_before_its_lease_ends(age_s, mw):
    silent = node("a", 300, age_s=age_s)
    assert may_be_in_force_mw(silent, NOW_S, TIMES, releases=True) == mw
    assert may_be_in_force_mw(silent, NOW_S, TIMES, releases=False) == 300


def test_a_node_whose_lease_is_not_known_is_silent():
    assert may_be_in_force_mw(replace(node("a", 300), renewed_s=None), NOW_S, TIMES, releases=True) == 1000


def test_others_make_room_for_a_silent_node_and_the_shortfall_is_stated():
    nodes = [node("a", 300, age_s=80.0), node("b", 500), node("c", 500)]
    decision = decide(1300, *nodes, releases=True)
    assert asked(decision) == {"b": 150, "c": 150}
    assert decision.domains["d"].shortfall_mw == 0
    short = decide(1100, *nodes, releases=True)
    assert asked(short) == {"b": 100, "c": 100}
    assert short.domains["d"].shortfall_mw == 100


def test_a_raise_that_a_silent_node_has_not_confirmed_is_withdrawn():
    silent = replace(node("a", 600, reported=False, age_s=80.0), report=LimitReport("a-1", 4, 250))
    assert asked(decide(3000, silent)) == {"a": 250}


def test_a_new_leader_raises_nothing_before_every_node_bears_its_term():
    nodes = [node("a", 300, demand_mw=900), node("b", 300, demand_mw=300)]
    first = decide(2000, *nodes, term=TERM + 1)
    assert asked(first) == {"a": 300, "b": 300}
    assert {ask.term for ask in first.asks.values()} == {TERM + 1}
    half = [*confirm(nodes[:1], first), nodes[1]]
    assert asked(decide(2000, *half, term=TERM + 1)) == {"b": 300}
    assert asked(decide(2000, *confirm(nodes, first), term=TERM + 1)) == {"a": 1000, "b": 1000}


def test_a_leader_that_sees_a_later_term_asks_nothing():
    decision = decide(1000, node("a", 900, term=TERM + 1), node("b", 900))
    assert (asked(decision), decision.deposed) == ({}, True)


def test_small_changes_of_demand_ask_nothing_where_they_fit():
    nodes = [node("a", 500, demand_mw=505), node("b", 500, demand_mw=495)]
    assert asked(decide(1000, *nodes)) == {}
    assert asked(decide(980, *nodes)) != {}


def test_sums_name_what_is_allocated_guaranteed_in_force_and_left():
    sums = decide(1000, node("a", 400, demand_mw=400), node("b", 200, demand_mw=200), floor_mw=150).domains["d"]
    assert (sums.guaranteed_mw, sums.in_force_mw, sums.headroom_mw, sums.allocated_mw) == (300, 600, 400, 999)


def test_an_agent_applies_no_ask_that_is_not_newer_than_what_it_has_applied():
    ask = LimitAsk("a-1", TERM, 5, 300, None)
    assert supersedes(ask, None)
    assert supersedes(ask, LimitReport("a-1", 4, 300))
    assert not supersedes(ask, LimitReport("a-1", 5, 300))
    assert supersedes(ask, LimitReport("a-0", 9, 300))


@given(
    st.integers(500, 5000),
    st.lists(st.tuples(st.none() | st.integers(100, 1000), st.none() | st.integers(0, 1200)), min_size=1, max_size=6),
)
def test_nothing_more_is_asked_after_three_rounds_and_no_round_raises_the_sum_above_the_limit(limit_mw, states):
    nodes = [node(f"n{i}", limit, demand_mw=demand) for i, (limit, demand) in enumerate(states)]
    planner = BudgetPlanner(tree(limit_mw, *(each.name for each in nodes)), TERM, TIMES)
    for _ in range(3):
        decision = planner.decide({each.name: each for each in nodes}, NOW_S)
        before = decision.domains["d"].in_force_mw
        # With every ask of the round in force beside every limit that it replaces.
        worst = sum(
            max(may_be_in_force_mw(each, NOW_S, TIMES, releases=False), decision.asks[each.name].limit_mw)
            if each.name in decision.asks
            else may_be_in_force_mw(each, NOW_S, TIMES, releases=False)
            for each in nodes
        )
        assert worst <= max(before, limit_mw)
        nodes = confirm(nodes, decision)
    assert asked(planner.decide({each.name: each for each in nodes}, NOW_S)) == {}


def test_power_that_a_node_keeps_is_taken_from_the_others():
    assert asked(decide(1000, replace(node("a", demand_mw=800), kept_mw=800), node("b"))) == {"a": 800, "b": 200}


def test_a_node_keeps_no_more_than_its_highest_power_and_no_less_than_its_floor():
    decision = decide(1500, replace(node("a"), kept_mw=9000), replace(node("b"), kept_mw=50), floor_mw=300)
    assert decision.targets_mw == {"a": 1000, "b": 500}
    assert decision.floors_mw == {"a": 300, "b": 300}


@given(st.lists(st.lists(st.none() | st.integers(0, 1_200), min_size=3, max_size=3), min_size=1, max_size=4))
def test_shares_that_are_kept_are_those_of_a_decision_made_anew(demands):
    kept = BudgetPlanner(tree(1500, "a", "b", "c"), TERM, TIMES)
    for demand in demands:
        nodes = {name: node(name, 400, demand_mw=each) for name, each in zip("abc", demand, strict=True)}
        anew = BudgetPlanner(tree(1500, "a", "b", "c"), TERM, TIMES).decide(nodes, NOW_S)
        found = kept.shares(nodes, NOW_S)
        assert (found.targets_mw, found.floors_mw) == (anew.targets_mw, anew.floors_mw)
