"""When limits of a tree are raised: one tree of two nodes, whose samples and objects a test sets."""

from dataclasses import replace
from fractions import Fraction

import pytest

from joulie_core.budget import BudgetDomain, BudgetNode, LimitAsk, LimitReport, plant
from joulie_core.budget.breaker import BreakerRating, curve_of
from joulie_core.budget.breaker_states import BreakerStates
from joulie_core.budget.oversubscription import (
    MeasuredNode,
    TreeOversubscription,
    are_within,
    is_oversubscribed,
)
from joulie_core.budget.samples import NodeSamples, ReportedSample, SampleTimes
from joulie_core.kinds.raise_state import RaiseState

RATING = BreakerRating(curve_of([(130, 60)]), cooling_s=100.0, reaction_s=20)
#: Time after which the breaker of a new leader has cooled.
COLD_S = 139.0


def tree_of(limit_mw=1_000, rating=RATING, nodes=("n1", "n2"), **fields):
    (tree,) = plant([BudgetDomain("rack", limit_mw, rating=rating, nodes=tuple(nodes), **fields)]).trees
    return tree


class Site:
    """A tree under one leader; each look is a second after the last one, with a new sample of each node."""

    def __init__(self, tree=None):
        self.tree = tree or tree_of()
        self.state = TreeOversubscription()
        self.now_s = 0.0
        self.number = 0
        self.drawn = dict.fromkeys(self.tree.leaf_of, 100)
        self.limits = dict.fromkeys(self.tree.leaf_of, 500)
        self.fallback_mw = 390
        #: Nodes that do not sample any more, by the sample that they reported last.
        self.silent = {}
        self.fields = {}
        self.lowered = False

    def node(self, name):
        limit = self.limits[name]
        ask = LimitAsk("id", 1, 1, limit, limit)
        node = BudgetNode(name, "id", max_mw=800, min_mw=100, ask=ask, report=LimitReport("id", 1, limit))
        sample = self.silent.get(name) or ReportedSample(self.number, self.drawn[name], self.now_s - 2.0)
        found = MeasuredNode(node, sample, self.fallback_mw, renewal=self.number, repeated=self.number)
        return replace(found, **self.fields.get(name, {}))

    def look(self, seconds=1.0):
        self.now_s += seconds
        self.number += 1
        found = self.state.look(
            self.tree, {name: self.node(name) for name in self.tree.leaf_of}, self.now_s, lowered=self.lowered
        )
        self.last = found
        return found.state

    def raise_(self):
        """Look until the limits are raised."""
        self.look()
        assert self.look(COLD_S) is RaiseState.RAISED
        return self


def test_a_new_leader_waits_until_any_breaker_has_cooled():
    site = Site()
    assert site.look() is RaiseState.BREAKER_WARM
    assert (site.last.subjects, site.last.damage["rack"].total, site.last.damage["rack"].counted) == (("rack",), 1, 0)
    assert site.look(COLD_S - 2) is RaiseState.BREAKER_WARM
    assert site.look() is RaiseState.BREAKER_WARM
    assert site.look() is RaiseState.RAISED
    assert site.last.damage["rack"].assumed == pytest.approx(0.249, abs=0.001)


def test_what_nodes_fall_back_to_follows_from_the_tree_and_their_limits():
    site = Site()
    site.look()
    assert site.last.shares == {0: Fraction(800, 1_100)}
    assert site.last.fallback_mw(site.tree, "n1", 500) == 100 + 400 * 800 // 1_100
    assert site.last.fallback_mw(site.tree, "n1", None) is None


def test_limits_are_withdrawn_near_the_limit_and_raised_again_after_a_pause_below_it():
    site = Site().raise_()
    site.drawn = {"n1": 490, "n2": 489}
    assert site.look() is RaiseState.RAISED
    site.drawn["n2"] = 490
    assert site.look() is RaiseState.NEAR_LIMIT
    site.drawn = {"n1": 450, "n2": 449}
    assert site.look() is RaiseState.NEAR_LIMIT, "each node counts with the higher of two samples"
    assert site.look() is RaiseState.PAUSE
    assert site.look(57.9) is RaiseState.PAUSE
    assert site.look(0.1) is RaiseState.RAISED


def test_they_are_not_raised_at_what_they_are_kept_at():
    site = Site()
    site.drawn = {"n1": 450, "n2": 450}
    site.look()
    assert site.look(COLD_S) is RaiseState.NEAR_LIMIT


def test_what_no_node_gets_counts_as_drawn():
    site = Site(tree_of(reserve_mw=300, rest_mw=400))
    site.fallback_mw = 100
    site.look()
    assert site.look(COLD_S) is RaiseState.NEAR_LIMIT
    site = Site(tree_of(rest_known=False))
    assert site.look() is RaiseState.POWER_UNKNOWN


def test_an_overload_warms_the_breaker_by_the_curve():
    site = Site().raise_()
    site.drawn = {"n1": 650, "n2": 650}
    site.look()
    before = site.last.damage["rack"]
    site.look(6.0)
    after = site.last.damage["rack"]
    assert after.counted - before.counted == pytest.approx(0.1)
    assert after.assumed == before.assumed, "it does not cool meanwhile"
    site.drawn = {"n1": 0, "n2": 0}
    site.look(6.0)
    assert site.last.damage["rack"].counted == pytest.approx(after.counted + 0.1), "as it was at the begin of this time"


def test_a_node_without_a_fresh_sample_counts_with_its_limit():
    site = Site().raise_()
    site.drawn = {"n1": 100, "n2": 490}
    site.silent["n1"] = ReportedSample(7, 100, site.now_s)
    assert site.look(12.0) is RaiseState.RAISED
    assert site.look(0.1) is RaiseState.NEAR_LIMIT, "12 s after the write that its agent had seen"


def test_limits_last_for_the_time_in_which_an_overload_ends_while_a_node_is_not_measured():
    site = Site().raise_()
    site.silent["n1"] = ReportedSample(7, None, site.now_s)
    site.drawn["n2"] = 0
    assert site.look(29.0) is RaiseState.RAISED
    assert site.look(1.0) is RaiseState.NOT_MEASURED
    assert site.last.subjects == ("n1",)


def test_they_are_raised_only_where_every_node_is_measured():
    site = Site()
    site.look()
    site.silent["n1"] = ReportedSample(7, 100, None)
    site.drawn["n2"] = 0
    assert site.look(COLD_S) is RaiseState.NOT_MEASURED
    site.silent.clear()
    site.fields["n1"] = {"sample": None}
    assert site.look() is RaiseState.NOT_MEASURED


def test_a_node_that_cannot_be_limited_is_not_asked_for_samples():
    site = Site(tree_of(limit_mw=2_000))
    fixed = BudgetNode("n1", "id", max_mw=800, min_mw=None)
    site.fields["n1"] = {"sample": None, "node": fixed}
    site.fallback_mw = 100
    site.look()
    assert site.look(COLD_S) is RaiseState.RAISED


def test_a_node_of_unknown_power_leaves_nothing_raised_and_the_breaker_unknown():
    site = Site().raise_()
    site.fields["n1"] = {"sample": None, "node": BudgetNode("n1", "id", max_mw=None, min_mw=None)}
    assert site.look() is RaiseState.POWER_UNKNOWN
    assert site.last.damage["rack"].assumed == 1.0
    site.fields.clear()
    assert site.look() is RaiseState.BREAKER_WARM


@pytest.mark.parametrize(
    "fields", [{"fallback_mw": None}, {"fallback_mw": 401}, {"repeated": None}, {"repeated": 0}, {"repeated": 1}]
)
def test_they_are_raised_only_where_every_agent_has_seen_what_its_node_falls_back_to(fields):
    site = Site()
    site.fallback_mw = 389
    site.fields["n1"] = fields
    site.look()
    assert site.look(COLD_S) is (RaiseState.RAISED if fields == {"repeated": 1} else RaiseState.NOT_SEEN)


def test_an_agent_has_seen_it_from_the_first_object_on_that_has_it():
    site = Site()
    site.fields["n1"] = {"renewal": 5, "repeated": 4}
    site.look()
    assert site.look(COLD_S) is RaiseState.NOT_SEEN
    site.fields["n1"] = {"renewal": 9, "repeated": 5}
    assert site.look() is RaiseState.RAISED


def test_a_lower_share_is_seen_again_before_limits_are_raised_by_it():
    site = Site().raise_()
    site.tree = tree_of(limit_mw=1_000, reserve_mw=100)
    assert site.look() is RaiseState.NOT_SEEN
    assert site.last.shares == {0: Fraction(700, 1_000)}
    site.fallback_mw = 380
    assert site.look() is RaiseState.PAUSE
    assert site.look(60.0) is RaiseState.RAISED


def test_a_floor_that_grows_is_seen_again_before_limits_are_raised_by_it():
    site = Site(tree_of(floor_mw=200)).raise_()
    assert site.last.fallback_mw(site.tree, "n1", 500) == 200 + 300 * 600 // 900
    site.tree = tree_of(floor_mw=300)
    assert site.look() is RaiseState.NOT_SEEN
    assert site.last.fallback_mw(site.tree, "n1", 500) == 300 + 200 * 400 // 700
    assert site.look() is RaiseState.PAUSE
    site.tree = tree_of(floor_mw=200)
    assert site.look(60.0) is RaiseState.RAISED


def test_a_floor_that_grows_by_what_another_shrinks_is_seen_again_although_the_share_stays():
    site = Site(tree_of(limit_mw=2_000)).raise_()
    held = replace(site.node("n1").node, min_mw=150)
    lower = replace(site.node("n2").node, min_mw=50)
    site.fields = {"n1": {"node": held}, "n2": {"node": lower}}
    assert site.look() is RaiseState.NOT_SEEN
    assert site.last.shares == {0: Fraction(1_800, 2_400)}


def test_a_floor_that_shrinks_leaves_limits_raised_by_the_share_of_before():
    site = Site(tree_of(floor_mw=300)).raise_()
    site.tree = tree_of(floor_mw=100)
    assert site.look() is RaiseState.RAISED
    assert site.last.shares == {0: Fraction(400, 700)}
    assert site.last.fallback_mw(site.tree, "n1", 500) == 100 + 400 * 400 // 700


def test_a_higher_share_is_not_used_while_limits_are_raised():
    site = Site().raise_()
    site.tree = tree_of(limit_mw=1_000, nodes=("n1",))
    assert site.look() is RaiseState.RAISED
    assert site.last.shares == {0: Fraction(800, 1_100)}


def test_the_first_raise_waits_for_the_breaker_alone():
    site = Site(tree_of(rating=replace(RATING, cooling_s=10.0)))
    site.look()
    assert site.look(14.0) is RaiseState.RAISED


def test_nodes_that_draw_nothing_are_measured():
    site = Site()
    site.drawn = dict.fromkeys(site.drawn, 0)
    site.raise_()
    assert site.last.raised
    assert site.last.times == SampleTimes(20)


def test_a_node_whose_sample_has_just_become_old_is_not_measured():
    site = Site()
    site.look()
    site.silent["n1"] = ReportedSample(7, 100, COLD_S - 11.6)
    assert site.look(COLD_S - 0.8) is RaiseState.BREAKER_WARM
    assert site.look(0.5) is RaiseState.NOT_MEASURED
    assert not site.last.raised


def test_lowest_limits_that_fill_a_domain_are_no_shortfall():
    assert Site(tree_of(limit_mw=200)).look() is RaiseState.NEAR_LIMIT
    assert Site(tree_of(limit_mw=199)).look() is RaiseState.SHORTFALL


def test_an_event_a_shortfall_and_a_curve_that_carries_nothing_are_told_before_all_else():
    site = Site().raise_()
    site.lowered = True
    assert site.look() is RaiseState.EVENT
    assert Site(tree_of(limit_mw=150)).look() is RaiseState.SHORTFALL
    slow = BreakerRating(curve_of([(130, 59)]), 100.0, 20)
    assert Site(tree_of(rating=slow)).look() is RaiseState.NOTHING_PERMITTED


def test_a_tree_of_too_many_nodes_has_no_fallbacks():
    assert Site(tree_of(10**6, nodes=[f"n{number}" for number in range(200)])).look() is RaiseState.BREAKER_WARM
    site = Site(tree_of(10**6, nodes=[f"n{number}" for number in range(201)]))
    assert site.look() is RaiseState.TOO_MANY_NODES
    assert site.last.fallback_mw(site.tree, "n1", 500) is None
    assert (site.last.times, site.last.damage["rack"].total) == (SampleTimes(20), 1.0)


def test_a_tree_with_too_many_nodes_meanwhile_is_raised_again_after_a_pause():
    few = [f"n{number}" for number in range(200)]
    site = Site(tree_of(10**6, nodes=few)).raise_()
    many = tree_of(10**6, nodes=[*few, "n200"])
    site.drawn["n200"], site.limits["n200"] = 100, 500
    small, site.tree = site.tree, many
    assert site.look() is RaiseState.TOO_MANY_NODES
    site.tree = small
    assert site.look(59.9) is RaiseState.PAUSE
    assert site.look(0.1) is RaiseState.RAISED


def test_another_breaker_is_not_known():
    site = Site().raise_()
    site.tree = tree_of(limit_mw=1_001)
    assert site.look() is RaiseState.BREAKER_WARM
    assert site.last.damage["rack"].total == 1.0


def test_limits_within_those_that_breakers_carry_for_long_are_told_from_others():
    tree = tree_of(reserve_mw=100)
    assert is_oversubscribed(tree)
    assert not is_oversubscribed(tree_of(rating=None))
    assert are_within(tree, {"rack": 900})
    assert not are_within(tree, {"rack": 901})
    assert not are_within(tree, {"rack": None})


@pytest.mark.parametrize(
    ("reaction_s", "sample_s", "hold_s", "fresh_s"), [(8, 1, 3, 5), (20, 4, 8, 12), (3_600, 720, 1_440, 2_160)]
)
def test_two_samples_and_their_ways_fit_into_the_age_up_to_which_one_counts(reaction_s, sample_s, hold_s, fresh_s):
    times = SampleTimes(reaction_s)
    assert (times.sample_s, times.hold_s, times.fresh_s) == (sample_s, hold_s, fresh_s)
    assert times.fresh_s > 2 * times.sample_s
    assert times.hold_s > times.sample_s


def test_a_sample_does_not_become_fresh_by_a_later_write():
    samples = NodeSamples()
    samples.take({"n1": ReportedSample(7, 100, 0.0)}, 1.0, SampleTimes(20))
    samples.take({"n1": ReportedSample(7, 100, 12.5)}, 13.0, SampleTimes(20))
    assert not samples.is_fresh("n1")
    samples.take({"n1": ReportedSample(8, 100, 12.5)}, 13.0, SampleTimes(20))
    assert samples.is_fresh("n1")


def test_a_leader_that_did_not_look_counts_the_load_after_it():
    states = BreakerStates()
    tree = tree_of()
    states.count(tree, {"rack": [500, 500]}, 0.0)
    states.count(tree, {"rack": [600, 700]}, 30.0)
    assert states.states["rack"].damage.counted == pytest.approx(0.5)
    assert states.states["rack"].load == 1.3
