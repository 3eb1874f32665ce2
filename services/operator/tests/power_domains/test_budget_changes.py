"""Which specs of NodePowerBudgets are written after a decision, with what in them, and in which order."""

from dataclasses import replace
from fractions import Fraction

import pytest

from joulie_core.budget import BudgetDomain, BudgetNode, LimitAsk, plant
from joulie_core.budget.breaker import BreakerRating, curve_of
from joulie_core.budget.objects import stored_ask
from joulie_core.budget.oversubscription import RaiseState, TreeRaise
from joulie_core.budget.samples import ReportedSample, SampleTimes
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, OversubscribedLimit
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_operator.power_domains.budget_changes import (
    RENEWAL_S,
    TIMES,
    BudgetChange,
    SeenBudgets,
    budget_changes,
    is_released_without_control,
    kept_changes,
)
from joulie_operator.power_domains.oversubscription import NamedSamples
from joulie_operator.power_domains.sent import SeenBudget

NOW_S = 1_000.0
#: Between two renewals of "n1".
DUE_S = 66.59
MOST = 2**63 - 1


def tree_of(**fields):
    rack = BudgetDomain("rack", 600_000, parent="feed", nodes=("n1", "n2"), priority=7, **fields)
    (tree,) = plant([BudgetDomain("feed", 900_000, releases=True, priority=3), rack]).trees
    return tree


def spec_of(limit_watts=300.0, **fields):
    made = {
        "node_name": "n1", "node_uid": "uid", "boot_id": "boot", "term": 2, "sequence": 5, "limit_watts": limit_watts,
        "on_lost_control": DomainLostControl.KEEP_GUARANTEED, "lease_seconds": 300, "renewal": 9,
        "power_domain": "rack",
    }  # fmt: skip
    return NodePowerBudgetSpec(**(made | fields))


def ask_of(limit_mw, sequence=6, identity="uid/boot", ceiling_mw=400_000):
    return LimitAsk(identity, 3, sequence, limit_mw, ceiling_mw)


def seen_of(spec, **fields):
    return SeenBudget("v1", spec, stored_ask(spec), **fields)


def changed(seen, *asks, settling=False, last_s=None, tree=None, samples=None, boot="boot", **fields):
    """Return what is written to the node "n1", whose object is `seen`."""
    tree = tree or tree_of()
    node = BudgetNode("n1", f"uid/{boot}", 500_000, 100_000, ask=seen.ask)
    budgets = SeenBudgets(
        NOW_S, 3, {"n1": seen}, last_s={} if last_s is None else {"n1": last_s}, **{"bootless": frozenset()} | fields
    )
    decided = dict.fromkeys(("n1",), *asks) if asks else {}
    found = budget_changes(tree, {"n1": node}, budgets, decided, samples or NamedSamples(tree), settling=settling)
    return list(found)


def test_an_ask_is_written_with_all_that_the_agent_needs():
    (found,) = changed(seen_of(spec_of()), ask_of(200_000))
    assert found == BudgetChange("n1", "v1", found.spec, lowers=True, priority=7)
    assert found.spec.dump() == {
        "nodeName": "n1", "nodeUID": "uid", "bootID": "boot", "term": 3, "sequence": 6, "limitWatts": 200,
        "ceilingWatts": 400, "onLostControl": "KeepGuaranteed", "leaseSeconds": 300, "renewal": 10,
        "powerDomain": "rack",
    }  # fmt: skip


def test_a_node_without_an_object_gets_its_first():
    (found,) = changed(SeenBudget(), ask_of(200_000, sequence=1, ceiling_mw=None))
    assert (found.version, found.lowers, found.raises) == (None, True, False)
    assert (found.spec.renewal, found.spec.sequence, found.spec.ceiling_watts) == (1, 1, None)


def test_numbers_that_have_come_to_their_end_stay_what_an_object_can_have():
    (found,) = changed(seen_of(spec_of(renewal=MOST - 1)), ask_of(200_000, sequence=MOST + 5))
    assert (found.spec.renewal, found.spec.sequence) == (MOST, MOST)
    (found,) = changed(seen_of(spec_of(renewal=MOST)), ask_of(200_000))
    assert found.spec.renewal == MOST


@pytest.mark.parametrize(
    ("before_watts", "asked_mw", "raises", "lowers"),
    [
        (300.0, 300_001, True, False),
        (300.0, 300_000, False, False),
        (300.0, 299_999, False, True),
        (300.0, None, True, False),
        (None, 300_000, False, True),
        (None, None, False, False),
    ],
)
def test_a_change_raises_or_lowers_by_what_was_asked_before(before_watts, asked_mw, raises, lowers):
    seen = seen_of(spec_of(before_watts))
    (found,) = changed(seen, ask_of(asked_mw))
    assert (found.raises, found.lowers, found.renews) == (raises, lowers, False)
    # Before the agents have answered a new leader, nothing is raised.
    assert changed(seen, ask_of(asked_mw), settling=True, last_s=NOW_S) == ([] if raises else [found])


def test_an_ask_of_another_boot_counts_as_none():
    (found,) = changed(seen_of(spec_of(200.0)), ask_of(300_000, identity="uid/other"), boot="other", settling=True)
    assert (found.spec.boot_id, found.raises, found.lowers) == ("other", False, True)
    (found,) = changed(seen_of(spec_of(200.0)), ask_of(None, identity="uid/other"), boot="other", settling=True)
    assert (found.raises, found.lowers) == (False, False)


@pytest.mark.parametrize("asks", [(), (ask_of(200_000),)])
def test_nothing_is_written_over_what_is_on_its_way_or_cannot_be_read(asks):
    assert changed(seen_of(spec_of(), in_flight=True), *asks) == []
    assert changed(seen_of(spec_of()), *asks, unreadable=frozenset({"n1"})) == []
    assert len(changed(seen_of(spec_of()), *asks, unreadable=frozenset({"n2"}))) == 1


def test_a_node_that_is_passed_over_holds_up_no_other():
    tree = tree_of()
    nodes = {name: BudgetNode(name, "uid/boot", 500_000, 100_000) for name in ("n1", "n2")}
    for seen, unreadable in ((seen_of(spec_of(), in_flight=True), ()), (SeenBudget(), ("n1",))):
        budgets = SeenBudgets(NOW_S, 3, {"n1": seen}, unreadable=frozenset(unreadable))
        asks = {name: ask_of(200_000) for name in nodes}
        found = budget_changes(tree, nodes, budgets, asks, NamedSamples(tree), settling=False)
        assert [each.node for each in found] == ["n2"]


def test_a_limit_without_an_answer_is_sent_again_as_it_was():
    spec = spec_of()
    assert changed(seen_of(spec, unanswered=True), last_s=NOW_S) == [BudgetChange("n1", "v1", spec, priority=7)]
    assert changed(SeenBudget("v1", unanswered=True), last_s=NOW_S) == []


def test_a_raise_that_waits_does_not_keep_the_limit_before_it_from_being_sent_again():
    (found,) = changed(seen_of(spec_of(), unanswered=True), ask_of(None), settling=True)
    assert (found.spec.limit_watts, found.raises) == (300.0, False)


def test_a_renewal_changes_nothing_that_is_asked():
    spec = spec_of(ceiling_watts=350.0, term=3)
    (found,) = changed(seen_of(spec))
    assert found == BudgetChange("n1", "v1", spec.model_copy(update={"renewal": 10}), renews=True)
    assert changed(SeenBudget("v1", spec, None)) == [], "the object of a node that is asked nothing"
    assert changed(SeenBudget("v1", None, ask_of(200_000))) == []


@pytest.mark.parametrize(
    ("name", "share"), [("n1", 0.331726), ("n2", 0.020844), ("node-17", 0.956955), ("worker-a-3", 0.962326)]
)
def test_a_node_is_renewed_after_a_share_of_the_interval_that_its_name_gives(name, share):
    assert (RENEWAL_S, TIMES.lease_s, TIMES.margin_s) == (100.0, 300.0, 60.0)
    due_s = RENEWAL_S * (1.0 + share) / 2.0
    for after_s, is_due in ((due_s - 0.01, False), (due_s + 0.01, True)):
        assert SeenBudgets(NOW_S, 3, last_s={name: NOW_S - after_s}).renewal_is_due(name) is is_due
    assert SeenBudgets(NOW_S, 3).renewal_is_due(name)


def test_nothing_is_written_before_a_renewal_is_due():
    assert changed(seen_of(spec_of()), last_s=NOW_S - DUE_S + 0.1) == []
    assert len(changed(seen_of(spec_of()), last_s=NOW_S - DUE_S - 0.1)) == 1


def test_a_node_that_shall_be_released_is_told_at_once():
    released = tree_of(releases=True)
    (found,) = changed(seen_of(spec_of()), last_s=NOW_S, tree=released)
    assert (found.spec.on_lost_control, found.renews, found.spec.limit_watts) == (DomainLostControl.RELEASE, True, 300)
    told = seen_of(found.spec)
    assert is_released_without_control(told)
    assert changed(told, last_s=NOW_S, tree=released) == []
    assert not is_released_without_control(seen_of(spec_of()))
    assert not is_released_without_control(SeenBudget())
    (found,) = changed(told, ask_of(200_000), tree=released)
    assert found.spec.on_lost_control is DomainLostControl.RELEASE


RATING = BreakerRating(curve_of([(130, 60)]), cooling_s=100.0, reaction_s=20)


def named(names, tree):
    index, lowest = tree.leaf_of["n1"], {"n1": 100_000, "n2": 100_000}
    found = TreeRaise(RaiseState.RAISED, SampleTimes(20), (), {index: Fraction(1, 2)}, lowest, {})
    return NamedSamples(tree, found, names=names)


@pytest.mark.parametrize("asks", [(), (ask_of(300_000),)])
def test_a_sample_is_named_with_what_is_asked_and_with_a_renewal(asks):
    tree = tree_of(rating=RATING)
    seen = seen_of(spec_of(), sample=ReportedSample(4, 100_000, NOW_S))
    (found,) = changed(seen, *asks, tree=tree, samples=named(True, tree))
    assert found.spec.oversubscription == OversubscribedLimit(
        fallback_watts=200.0, sample_seconds=4, hold_seconds=8, sample=4
    )
    assert (found.renews, found.lowers) == (not asks, False)


def test_a_sample_is_named_and_withdrawn_before_a_renewal_is_due():
    tree = tree_of(rating=RATING)
    before = OversubscribedLimit(fallback_watts=200.0, sample_seconds=4, hold_seconds=8, sample=3)
    seen = seen_of(spec_of(oversubscription=before), sample=ReportedSample(3, 100_000, NOW_S))
    assert changed(seen, tree=tree, samples=named(True, tree), last_s=NOW_S) == []
    (found,) = changed(seen, tree=tree, samples=named(False, tree), last_s=NOW_S)
    assert (found.renews, found.lowers, found.spec.oversubscription.sample) == (True, True, None)
    newer = replace(seen, sample=ReportedSample(4, 100_000, NOW_S))
    (found,) = changed(newer, tree=tree, samples=named(True, tree), last_s=NOW_S)
    assert (found.renews, found.lowers, found.spec.oversubscription.sample) == (True, False, 4)
    # By the last write of this node, and no other time.
    stale = seen_of(spec_of(oversubscription=None), sample=None)
    assert changed(stale, tree=tree, samples=named(True, tree), last_s=NOW_S - 1.0) == []
    assert len(changed(stale, tree=tree, samples=named(True, tree), last_s=NOW_S - 2.0)) == 1


def kept(*names, term=3, **fields):
    spec = spec_of(ceiling_watts=350.0)
    return list(kept_changes(frozenset(names), SeenBudgets(NOW_S, term, {"n1": seen_of(spec)}, **fields)))


def test_nodes_of_a_tree_that_is_set_aside_are_renewed_with_what_they_have():
    (found,) = kept("n1")
    assert found == BudgetChange("n1", "v1", spec_of(ceiling_watts=350.0, renewal=10), renews=True)
    assert kept("n1", last_s={"n1": NOW_S}) == []
    assert kept("n1", term=2) == [found], "of the same term"
    assert kept("n1", term=1) == kept("n1", term=None) == kept("n1", unreadable=frozenset({"n1"})) == []


def test_a_kept_node_that_is_passed_over_holds_up_no_other():
    spec = spec_of()
    seen = {
        "a1": seen_of(spec, in_flight=True),
        "a2": SeenBudget(),
        "b2": seen_of(spec),
        "b1": seen_of(spec),
        "a4": seen_of(spec),
    }
    budgets = SeenBudgets(NOW_S, 3, seen, unreadable=frozenset({"a4"}))
    found = kept_changes(frozenset({"a0", "a1", "a2", "a4", "b1", "b2"}), budgets)
    assert [each.node for each in found] == ["b1", "b2"]


def test_lowerings_go_first_by_priority_then_raises_and_renewals_last():
    def change(name, **fields):
        return BudgetChange(name, "v1", spec_of(), **fields)

    wanted = [
        change("z", lowers=True, priority=1),
        change("b", lowers=True, priority=2, renews=True),
        change("c", lowers=True, priority=2),
        change("y", priority=5),
        change("a", priority=4),
        change("x", raises=True, priority=5),
        change("a", raises=True, priority=4),
        change("b", raises=True, priority=4),
        change("a", renews=True, priority=9),
        change("b", renews=True),
    ]
    by_order = {each.order: each for each in wanted}
    assert [by_order[order] for order in sorted(by_order)] == wanted
