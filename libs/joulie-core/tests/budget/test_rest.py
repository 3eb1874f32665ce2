"""Limits of whole servers: what devices cannot give is taken from the limit, and what is not known raises nothing."""

from dataclasses import replace

import pytest

from joulie_core.budget import (
    BudgetDomain,
    BudgetNode,
    BudgetPlanner,
    EventInputs,
    LeaseTimes,
    LimitAsk,
    LimitReport,
    PublishedRest,
    ServerRest,
    TimedLimit,
    plant,
    with_events,
    with_rest,
)
from joulie_core.demand import WorkloadClass

RESTS = {"a1": ServerRest(50, 20, measured=True), "a2": ServerRest(80, 30), "b1": ServerRest(10, 5)}


def tree(*, feed_servers=True, rack_servers=False, limit_mw=1_000):
    domains = [
        BudgetDomain("feed", limit_mw, reserve_mw=100, counts_servers=feed_servers),
        BudgetDomain("a", 500, "feed", nodes=("a1", "a2"), counts_servers=rack_servers),
        BudgetDomain("b", 500, "feed", nodes=("b1",)),
    ]
    return plant(domains).trees[0]


def usable(found):
    return {each.name: each.usable_mw for each in found.domains}


def test_each_domain_that_counts_servers_gives_less_by_the_rest_of_all_below_it():
    found, sums = with_rest(tree(), RESTS, {})
    assert usable(found) == {"feed": 1_000 - 100 - 140, "a": 500, "b": 500}
    assert set(sums) == {"feed"}
    rest = sums["feed"]
    assert (rest.mw, rest.measured_nodes, rest.modelled_nodes) == (140, 1, 2)
    assert (rest.modelled_mw, rest.modelled_least_mw, rest.unknown) == (90, 35, frozenset())
    assert usable(with_rest(tree(rack_servers=True), RESTS, {})[0]) == {"feed": 760, "a": 370, "b": 500}


def test_a_rest_of_nothing_is_none():
    rest = with_rest(tree(), dict.fromkeys(RESTS, ServerRest(0)), {})[1]["feed"]
    assert (rest.mw, rest.modelled_mw, rest.modelled_least_mw, rest.modelled_nodes) == (0, 0, 0, 3)


def test_a_tree_of_devices_stays_as_it_is():
    before = tree(feed_servers=False)
    assert with_rest(before, {}, {}) == (before, {})


def test_what_other_power_exceeds_leaves_nothing_to_give():
    found, _ = with_rest(tree(limit_mw=200), RESTS, {})
    assert usable(found)["feed"] == -40


SETTLING = {**RESTS, "a2": ServerRest(80, 30, settling=True)}


@pytest.mark.parametrize(
    ("published", "rests", "rest_mw"),
    [
        (PublishedRest(90, 3), SETTLING, 90),
        # Not below what the servers draw at least.
        (PublishedRest(0, 3), SETTLING, 55),
        # Not more than what is known now.
        (PublishedRest(900, 3), SETTLING, 140),
        # Of other nodes.
        (PublishedRest(90, 2), SETTLING, 140),
        # All were read.
        (PublishedRest(90, 3), RESTS, 140),
    ],
)
def test_the_published_sum_counts_while_readings_are_too_few(published, rests, rest_mw):
    assert with_rest(tree(), rests, {"feed": published})[1]["feed"].mw == rest_mw


def decided(found, limits):
    nodes = {
        name: BudgetNode(name, name, 500, 50, 500, LimitAsk(name, 1, 5, limit, 500), LimitReport(name, 5, limit), 0.0)
        for name, limit in limits.items()
    }
    return BudgetPlanner(found, 1, LeaseTimes()).decide(nodes, 0.0)


def total(limits, decision):
    asks = decision.asks
    return sum(asks[name].limit_mw if name in asks else limit for name, limit in limits.items())


def test_a_rest_that_rises_lowers_nodes_and_one_that_falls_raises_them():
    found, _ = with_rest(tree(), RESTS, {})
    limits = decided(found, {"a1": 50, "a2": 50, "b1": 50}).targets_mw
    assert decided(found, limits).asks == {}
    more, _ = with_rest(tree(), {**RESTS, "b1": ServerRest(110)}, {})
    assert total(limits, decided(more, limits)) <= 1_000 - 100 - 240
    less, _ = with_rest(tree(), {**RESTS, "a2": ServerRest(0)}, {})
    raised = decided(less, limits).asks
    assert sum(each.limit_mw - limits[name] for name, each in raised.items()) > 0


def test_where_the_rest_of_one_server_is_not_known_nothing_above_it_is_raised():
    rests = {**RESTS, "a2": ServerRest(None)}
    found, sums = with_rest(tree(), rests, {})
    assert sums["feed"].unknown == {"a2"}
    decision = decided(found, {"a1": 60, "a2": 60, "b1": 60})
    assert decision.asks == {}
    assert decision.domains["feed"].in_force_mw is None
    assert decision.domains["feed"].headroom_mw is None
    # A rack that counts devices knows what it has.
    assert decision.domains["a"].in_force_mw == 120
    # What is above the limit is lowered all the same.
    limits = {"a1": 250, "a2": 250, "b1": 500}
    assert total(limits, decided(found, limits)) <= 1_000 - 100 - 60


def test_the_limit_of_an_event_is_one_of_whole_servers_too():
    found, _ = with_rest(tree(), RESTS, {})
    both = frozenset(WorkloadClass)
    shares, floors = {"a1": 250, "a2": 250, "b1": 260}, {"a1": 50, "a2": 50, "b1": 50}
    events = EventInputs((TimedLimit("cut", "feed", 600, 0.0, may_affect=both),), frozenset(), 10.0)
    evented = with_events(found, events, shares, floors)
    assert usable(evented.tree)["feed"] == 600 - 100 - 140
    # The lowest limit that can be reached: floors, rest and reserve.
    assert evented.reach_mw == {"cut": 150 + 140 + 100}
    standard = frozenset({WorkloadClass.STANDARD})
    spared = replace(events, events=(replace(events.events[0], may_affect=standard),), performance=frozenset({"a1"}))
    assert with_events(found, spared, shares, floors).kept_mw == {"a1": 250}
    tight = replace(spared, events=(replace(spared.events[0], limit_mw=500),))
    assert with_events(found, tight, shares, floors).limits["feed"].limit_mw == 250 + 100 + 140 + 100
