"""What a decision about an oversubscribed tree makes of its state: what nodes are told, and what its status has."""

from dataclasses import replace
from fractions import Fraction

import pytest

from joulie_core.budget import BudgetDomain, BudgetNode, DomainSums, LimitAsk, LimitReport, ObservedDomain, plant
from joulie_core.budget.breaker import BreakerRating, curve_of
from joulie_core.budget.breaker_states import BreakerDamage
from joulie_core.budget.oversubscription import MeasuredNode, RaiseState, TreeRaise
from joulie_core.budget.samples import ReportedSample, SampleTimes
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, OversubscribedLimit
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_operator.power_domains.oversubscription import (
    NamedSamples,
    OversubscribedDomain,
    TreeRaises,
    named_samples,
    oversubscribed_domains,
    with_headroom,
)
from joulie_operator.power_domains.sent import SeenBudget

RATING = BreakerRating(curve_of([(130, 60)]), cooling_s=100.0, reaction_s=20)
NOW_S = 1_000.0


def tree_of(rating=RATING, root="feed"):
    rack = BudgetDomain("rack", 600_000, parent=root, nodes=("n1", "n2"), rating=rating, reserve_mw=10_000)
    (tree,) = plant([BudgetDomain(root, 900_000), rack]).trees
    return tree


TREE = tree_of()


def raise_of(state=RaiseState.RAISED, *subjects, reaction_s=20, lowest_mw=100_000, shares=None):
    lowest = dict.fromkeys(("n1", "n2"), lowest_mw)
    shares = {TREE.leaf_of["n1"]: Fraction(1, 2)} if shares is None else shares
    return TreeRaise(state, SampleTimes(reaction_s), subjects, shares, lowest, {"rack": BreakerDamage(0.1, 0.2)})


def limit_of(sample=None, fallback_watts=200.0):
    return OversubscribedLimit(fallback_watts=fallback_watts, sample_seconds=4, hold_seconds=8, sample=sample)


def spec_of(oversubscription=None, limit_watts=300.0, renewal=9):
    return NodePowerBudgetSpec(
        node_name="n1",
        term=2,
        sequence=5,
        limit_watts=limit_watts,
        on_lost_control=DomainLostControl.KEEP_GUARANTEED,
        lease_seconds=300,
        renewal=renewal,
        oversubscription=oversubscription,
    )


def seen_of(spec, sample=None, repeated=None, **fields):
    reported = None if sample is None else ReportedSample(sample, 100_000, NOW_S)
    return SeenBudget("v1", spec, repeated=repeated, sample=reported, **fields)


SEEN = seen_of(spec_of(), sample=4)


def test_a_node_with_a_limit_is_told_its_fallback_its_times_and_the_sample_that_counts():
    assert NamedSamples(TREE, raise_of(), names=True).limit("n1", 300_000, SEEN) == limit_of(4)
    assert NamedSamples(TREE, raise_of()).limit("n1", 300_000, SEEN) == limit_of()
    assert NamedSamples(TREE, raise_of(), names=True).limit("n1", 300_000, SeenBudget()) == limit_of()


def test_the_shortest_times_and_the_lowest_fallback_are_written_as_they_are():
    found = NamedSamples(TREE, raise_of(reaction_s=2, lowest_mw=0)).limit("n1", 0, SEEN)
    assert found == OversubscribedLimit(fallback_watts=0.0, sample_seconds=1, hold_seconds=1)


@pytest.mark.parametrize(("found", "limit_mw"), [(None, 300_000), (raise_of(), None), (raise_of(shares={}), 300_000)])
def test_a_node_without_a_limit_or_without_a_share_is_told_none(found, limit_mw):
    assert NamedSamples(TREE, found, names=True).limit("n1", limit_mw, SEEN) is None


@pytest.mark.parametrize(
    ("before", "names", "limit_watts", "withdrawn"),
    [
        (limit_of(4), False, 300.0, True),
        (limit_of(4), True, 300.0, False),
        (limit_of(), False, 300.0, False),
        (None, False, 300.0, False),
        # Without a limit there is nothing that could be held.
        (limit_of(4), False, None, False),
    ],
)
def test_a_sample_is_withdrawn_where_one_is_named_that_shall_not_count_any_more(before, names, limit_watts, withdrawn):
    seen = seen_of(spec_of(before, limit_watts), sample=4)
    assert NamedSamples(TREE, raise_of(), names=names).is_withdrawn("n1", seen) is withdrawn


def test_nothing_is_withdrawn_from_a_node_without_an_object():
    assert NamedSamples(TREE, raise_of()).is_withdrawn("n1", SeenBudget()) is False


def is_due(seen, after_s=None, *, names=True, found=None):
    samples = NamedSamples(TREE, raise_of() if found is None else found, names=names)
    return samples.is_due("n1", seen, NOW_S, None if after_s is None else NOW_S - after_s)


def test_another_sample_is_named_at_once_and_the_same_one_once():
    assert is_due(seen_of(spec_of(limit_of(3)), sample=4), 0.0)
    assert is_due(seen_of(spec_of(limit_of(3)), sample=3), 0.0, names=False)
    assert not is_due(seen_of(spec_of(limit_of(4)), sample=4), 0.0)
    assert not is_due(seen_of(spec_of(limit_of(4)), sample=4), 100.0)


def test_what_a_node_falls_back_to_is_written_half_the_time_between_samples_after_the_last_write():
    for before in (None, limit_of(4, fallback_watts=150.0)):
        seen = seen_of(spec_of(before), sample=4)
        assert [is_due(seen, after_s) for after_s in (0.0, 1.9, 2.0, 60.0, None)] == [False, False, True, True, True]


def test_a_sample_that_is_not_named_is_answered_once_the_agent_has_repeated_the_renewal():
    for repeated, due in ((9, True), (8, False), (None, False)):
        assert is_due(seen_of(spec_of(limit_of()), sample=4, repeated=repeated), names=False) is due
    assert not is_due(seen_of(spec_of(limit_of()), repeated=9), names=False), "there is none"
    assert not is_due(seen_of(spec_of(limit_of(4)), sample=4, repeated=9)), "it is named"


def test_a_node_without_an_object_is_due_for_no_sample():
    assert is_due(SeenBudget()) is False
    assert is_due(SeenBudget(sample=ReportedSample(4, 1, NOW_S))) is False


def test_what_nodes_fell_back_to_is_taken_from_them_where_their_tree_is_not_oversubscribed_any_more():
    samples = NamedSamples(TREE)
    assert samples.is_due("n1", seen_of(spec_of(limit_of(4))), NOW_S, NOW_S)
    assert not samples.is_due("n1", seen_of(spec_of()), NOW_S, None)


def sums_of(in_force_mw):
    return DomainSums(100_000, 50_000, in_force_mw, None, 0)


@pytest.mark.parametrize(
    ("state", "in_force_mw", "names"),
    [
        (RaiseState.RAISED, 700_000, True),
        (RaiseState.NEAR_LIMIT, 590_001, False),
        (RaiseState.NEAR_LIMIT, 590_000, True),
        (RaiseState.NEAR_LIMIT, None, False),
    ],
)
def test_samples_are_named_while_limits_are_raised_or_within_those_of_domains(state, in_force_mw, names):
    found = raise_of(state)
    sums = {"feed": sums_of(None), "rack": sums_of(in_force_mw)}
    assert named_samples(TREE, found, sums) == NamedSamples(TREE, found, names=names)


def test_without_a_state_no_sample_is_named():
    assert named_samples(TREE, None, {"rack": sums_of(1)}) == NamedSamples(TREE, None, names=False)


def nodes_of(*held_mw):
    def node(name, held):
        ask = None if held is None else LimitAsk("id", 1, 1, held, held)
        return BudgetNode(name, "id", None if held is None else 500_000, 100_000, ask=ask)

    return {name: node(name, held) for name, held in zip(("n1", "n2"), held_mw, strict=True)}


def test_the_state_of_a_domain_has_the_sum_of_what_its_nodes_fall_back_to():
    found = oversubscribed_domains(TREE, raise_of(), nodes_of(300_000, 400_000))
    expected = OversubscribedDomain(
        RaiseState.RAISED, 780_000, 200_000 + 250_000, BreakerDamage(0.1, 0.2), "what the nodes draw is measured"
    )
    assert found == {"rack": expected}
    # One of a hundred is as all of them.
    (found,) = oversubscribed_domains(TREE, raise_of(), nodes_of(300_000, None)).values()
    assert (found.raised, found.fallback_mw) == (True, None)
    assert oversubscribed_domains(TREE, None, nodes_of(300_000, 400_000)) == {}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (RaiseState.TOO_MANY_NODES, "more than 200 nodes of its tree are below oversubscribed domains"),
        (
            RaiseState.NOTHING_PERMITTED,
            "no breaker of its tree carries an overload for twice the time in which one ends",
        ),
        (RaiseState.EVENT, "a PowerEvent lowers a limit of its tree"),
        (RaiseState.POWER_UNKNOWN, "what the nodes of a, b, c and 1 more may draw is not known"),
        (RaiseState.SHORTFALL, "the lowest limits of the hardware do not fit into a, b, c and 1 more"),
        (
            RaiseState.NEAR_LIMIT,
            "what the nodes of a, b, c and 1 more draw is near the limit; without a fresh sample its limit counts",
        ),
        (RaiseState.BREAKER_WARM, "the breaker of a, b, c and 1 more has not cooled, or its state is not known"),
        (RaiseState.NOT_MEASURED, "no fresh sample of a, b, c and 1 more"),
        (RaiseState.NOT_SEEN, "agents have not seen yet what they fall back to: a, b, c and 1 more"),
        (RaiseState.PAUSE, "limits were withdrawn a short time ago"),
    ],
)
def test_the_status_says_why_limits_are_not_raised(state, reason):
    found = oversubscribed_domains(TREE, raise_of(state, "a", "b", "c", "d"), nodes_of(300_000, 400_000))
    assert (found["rack"].raised, found["rack"].reason) == (False, reason)


def test_headroom_is_below_the_limits_of_the_tree_that_are_not_raised():
    def observed(in_force_mw):
        return ObservedDomain(sums_of(in_force_mw), frozenset({"n1"}), frozenset(), 5, 1, ())

    found = with_headroom({"feed": observed(None), "rack": observed(500_000)}, TREE)
    expected = observed(500_000)
    assert found["rack"] == replace(expected, sums=replace(expected.sums, headroom_mw=90_000))
    assert found["feed"] == observed(None)


class Recorded:
    """Takes the place of the state of one tree: keeps what it is given."""

    def __init__(self):
        self.given = []

    def look(self, tree, nodes, now_s, *, lowered):
        self.given.append((tree, dict(nodes), now_s, lowered))
        return raise_of()


@pytest.fixture
def trees(monkeypatch):
    """All states that are made."""
    made = []

    def make():
        made.append(Recorded())
        return made[-1]

    monkeypatch.setattr("joulie_operator.power_domains.oversubscription.TreeOversubscription", make)
    return made


def look(raises, tree=TREE, *, term=1, nodes=None, seen=None, lowered=False):
    nodes = nodes_of(300_000, 400_000) if nodes is None else nodes
    return raises.look(tree, nodes, seen or {}, NOW_S, term=term, lowered=lowered)


def test_a_tree_that_is_not_oversubscribed_has_no_state_nor_one_of_a_leader_without_a_term(trees):
    assert look(TreeRaises(), tree_of(rating=None)) is None
    assert look(TreeRaises(), term=None) is None
    assert trees == []


def test_the_state_of_a_tree_lasts_for_one_term_of_the_leader_and_while_it_is_enforced(trees):
    raises = TreeRaises()
    for _ in range(2):
        assert look(raises) == raise_of()
        look(raises, tree_of(root="other"))
    assert [len(each.given) for each in trees] == [2, 2]
    look(raises, term=2)
    look(raises, tree_of(root="other"))
    look(raises, term=1)
    assert [len(each.given) for each in trees] == [2, 3, 1, 1], "what was known of an earlier term is forgotten"
    raises.retain(["feed"])
    look(raises, term=1)
    look(raises, tree_of(root="other"))
    assert [len(each.given) for each in trees] == [2, 3, 1, 2, 1]


def test_a_node_is_measured_by_what_its_own_boot_reports_and_by_what_it_was_asked(trees):
    seen = {
        "n1": seen_of(
            spec_of(limit_of(3, fallback_watts=150.0)), sample=4, repeated=7, report=LimitReport("id", 1, 300_000)
        ),
        "n2": seen_of(spec_of(), sample=4, repeated=8, report=LimitReport("other", 1, 300_000)),
    }
    nodes = nodes_of(300_000, 400_000)
    raises = TreeRaises()
    look(raises, nodes=nodes, seen=seen, lowered=True)
    look(raises, nodes=nodes, seen={"n1": replace(seen["n1"], report=None)})
    (first, second) = trees[0].given
    assert first == (
        TREE,
        {
            "n1": MeasuredNode(nodes["n1"], ReportedSample(4, 100_000, NOW_S), 150_000, 9, 7),
            "n2": MeasuredNode(nodes["n2"], None, None, 9, 8),
        },
        NOW_S,
        True,
    )
    assert second[1]["n1"] == MeasuredNode(nodes["n1"], None, 150_000, 9, 7)
    assert second[1]["n2"] == MeasuredNode(nodes["n2"], None, None, 0, None)
    assert second[3] is False
