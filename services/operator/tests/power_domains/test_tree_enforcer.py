"""What one leader decides about a tree by the objects that it sees: asks, states, and what it remembers between two."""

from dataclasses import replace

import pytest
from services.operator.tests.power_domains.oversubscribed_world import OversubscribedWorld

from joulie_core.budget import (
    BudgetDomain,
    BudgetNode,
    EventedTree,
    EventInputs,
    LimitAsk,
    LimitReport,
    TimedLimit,
    plant,
)
from joulie_core.kinds.base import WorkloadClass
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_operator.power_domains.budget_changes import SeenBudgets
from joulie_operator.power_domains.enforcement import KEPT, SETTLING_S, EnforcedDomain, TreeEnforcer
from joulie_operator.power_domains.oversubscription import RaiseState
from joulie_operator.power_domains.sent import SeenBudget

NOW_S = 5_000.0
TERM = 3
KEEPS, RELEASES = DomainLostControl.KEEP_GUARANTEED, DomainLostControl.RELEASE
NAMES = ("n1", "n2")


def tree_of(limit_mw=800_000, nodes=NAMES, **fields):
    (tree,) = plant([BudgetDomain("rack", limit_mw, nodes=nodes, **fields)]).trees
    return tree


def node(name, **fields):
    return BudgetNode(name, f"{name}/boot", **{"max_mw": 500_000, "min_mw": 100_000} | fields)


def facts(**fields):
    return {name: node(name, **fields) for name in NAMES}


def asked(name, watts=300, *, reported=None, term=TERM, sequence=4, boot="boot", lost=KEEPS, **fields):
    """The object of a node that was asked `watts`; None is no limit. Its agent has read back `reported` watts."""
    spec = NodePowerBudgetSpec(
        node_name=name, node_uid=name, boot_id="boot", term=term, sequence=sequence, limit_watts=watts,
        ceiling_watts=watts, on_lost_control=lost, lease_seconds=300, renewal=7,
    )  # fmt: skip
    mw = None if watts is None else watts * 1_000
    report = None
    if reported is not None:
        report = LimitReport(f"{name}/{boot}", sequence, reported * 1_000, fields.pop("refused", False))
    ask = LimitAsk(f"{name}/boot", term, sequence, mw, fields.pop("ceiling_mw", mw))
    return SeenBudget("v1", spec, ask, report, **{"renewed_s": NOW_S, "repeated": 7} | fields)


def confirmed(**fields):
    return {name: asked(name, reported=300, **fields) for name in NAMES}


def budgets(seen, now_s=NOW_S, term=TERM, **fields):
    return SeenBudgets(now_s, term, seen, last_s=dict.fromkeys(seen, now_s), **fields)


def decided(seen, tree=None, enforcer=None, *, nodes=None, events=None, **fields):
    options = () if events is None else (events,)
    return (enforcer or TreeEnforcer()).decide(tree or tree_of(), nodes or facts(), budgets(seen, **fields), *options)


def in_force(found):
    return found.decision.domains["rack"].in_force_mw


def test_a_tree_whose_agents_have_confirmed_their_limits_is_left_as_it_is():
    found = decided(confirmed(), tree_of(600_000))
    assert found.changes == ()
    assert found.domains == {"rack": EnforcedDomain(0, 0, 0, largest_mw=600_000)}
    assert (in_force(found), found.observed["rack"].sums.headroom_mw) == (600_000, 0)
    assert found.evented == EventedTree(tree_of(600_000))
    assert [(each.domain, each.available_mw) for each in found.available["rack"]] == [("rack", -400_000)]


# --- times ------------------------------------------------------------------------------------------------------------


def test_a_silent_agent_keeps_a_limit_for_as_long_as_the_longest_lease_of_its_actuator_less_a_minute():
    assert (KEPT.lease_s, KEPT.margin_s, SETTLING_S) == (3_600.0, 60.0, 60.0)
    for renewed_s, sum_mw in ((NOW_S - 3_539.9, 600_000), (NOW_S - 3_540.0, 800_000)):
        seen = confirmed() | {"n2": asked("n2", reported=300, renewed_s=renewed_s)}
        found = decided(seen)
        assert in_force(found) == sum_mw
        assert found.domains["rack"].silent == 1


def test_a_silent_agent_whose_lease_does_not_end_it_counts_with_its_highest_power_and_as_unconfirmed():
    seen = confirmed() | {"n2": asked("n2", reported=300, renewed_s=NOW_S - 3_540.0)}
    found = decided(seen)
    assert (found.domains["rack"].unconfirmed, found.domains["rack"].silent) == (1, 1)


def test_a_node_of_a_tree_that_releases_counts_by_its_own_lease():
    seen = confirmed(lost=RELEASES) | {"n2": asked("n2", reported=300, lost=RELEASES, renewed_s=NOW_S - 239.9)}
    assert in_force(decided(seen, tree_of(releases=True))) == 600_000
    seen["n2"] = replace(seen["n2"], renewed_s=NOW_S - 240.0)
    found = decided(seen, tree_of(releases=True))
    assert in_force(found) == 800_000
    # Its ask and report are as they were: it is silent, and has confirmed.
    assert (found.domains["rack"].unconfirmed, found.domains["rack"].silent) == (0, 1)


def test_agents_have_a_minute_to_answer_a_new_leader_and_nothing_is_raised_in_it():
    enforcer, seen = TreeEnforcer(), confirmed() | {"n2": asked("n2", reported=300, renewed_s=None)}
    for after_s, silent, changed in ((0.0, 0, []), (59.9, 0, []), (60.0, 1, ["n1"])):
        for each in NAMES[:1]:
            seen[each] = replace(seen[each], renewed_s=NOW_S + after_s)
        found = decided(seen, tree_of(1_000_000), enforcer, now_s=NOW_S + after_s)
        assert (found.domains["rack"].silent, [each.node for each in found.changes]) == (silent, changed)


def test_agents_that_have_all_answered_end_the_minute_and_it_does_not_come_again():
    enforcer = TreeEnforcer()
    assert [each.node for each in decided(confirmed(), tree_of(1_000_000), enforcer).changes] == ["n1", "n2"]
    late = confirmed() | {"n2": asked("n2", reported=300, renewed_s=None)}
    assert decided(late, tree_of(1_000_000), enforcer, now_s=NOW_S + 1).domains["rack"].silent == 1


def test_a_node_without_an_object_has_not_answered():
    found = decided({"n1": asked("n1", reported=300)}, tree_of(1_000_000))
    assert [(each.node, each.raises) for each in found.changes] == [("n2", False)]
    assert found.domains["rack"].silent == 0


def test_each_term_and_each_tree_has_a_minute_of_its_own():
    enforcer, seen = TreeEnforcer(), {name: asked(name, renewed_s=None) for name in NAMES}
    for term in (None, TERM):
        assert decided(seen, None, enforcer, term=term).domains["rack"].silent == 0
        assert decided(seen, None, enforcer, term=term, now_s=NOW_S + 59).domains["rack"].silent == 0
        assert decided(seen, None, enforcer, term=term, now_s=NOW_S + 60).domains["rack"].silent == 2
    (other,) = plant([BudgetDomain("other", 800_000, nodes=NAMES)]).trees
    assert decided(seen, other, enforcer, now_s=NOW_S + 60).domains["other"].silent == 0


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_other_trees_and_domains_are_forgotten_and_these_are_not():
    enforcer = TreeEnforcer()
    (other,) = plant([BudgetDomain("other", 800_000, nodes=NAMES)]).trees
    waiting = {name: asked(name, renewed_s=None) for name in NAMES}
    cut = EventInputs((TimedLimit("cut", "rack", 700_000, 0.0), TimedLimit("cut-2", "other", 700_000, 0.0)))
    for tree in (tree_of(), other):
        decided(confirmed(), tree, enforcer, events=cut, now_s=NOW_S - 100)
        decided(waiting, tree, enforcer, term=TERM + 1)
        decided(confirmed(), tree, enforcer, events=cut, now_s=NOW_S - 100)
    enforcer.retain({"rack"}, {"rack"})
    assert enforcer._planners.keys() == enforcer._plain.keys() == enforcer._largest.keys() == {"rack"}
    assert enforcer._settled_s.keys() == {("rack", TERM), ("rack", TERM + 1)}
    # A leader that goes on with a tree does not wait for agents again.
    assert decided(waiting, None, enforcer, now_s=NOW_S + 60, term=TERM + 1).domains["rack"].silent == 2
    enforcer.retain(set(), set())
    assert not any((enforcer._planners, enforcer._plain, enforcer._largest, enforcer._settled_s))


def test_what_is_remembered_of_events_ends_with_them():
    enforcer = TreeEnforcer()
    decided(confirmed(), None, enforcer, events=EventInputs((TimedLimit("cut", "rack", 700_000, 0.0),)))
    assert enforcer._plain.keys() == {"rack"}
    decided(confirmed(), None, enforcer)
    assert enforcer._plain == {}


def test_the_largest_sum_is_of_the_time_since_the_limit_was_first_kept():
    enforcer = TreeEnforcer()

    def largest(watts, tree):
        seen = {name: asked(name, watts, reported=watts) for name in NAMES}
        return decided(seen, tree, enforcer).domains["rack"].largest_mw

    limited = tree_of(620_000, reserve_mw=10_000, rest_mw=7_000)
    assert largest(302, limited) is None, "604 W and the rest of 7 W are above the 610 W that may be given"
    assert largest(300, limited) == 607_000
    assert largest(200, limited) == 607_000, "it is the largest"
    assert largest(400, limited) == 807_000, "also above the limit, once it was kept"
    assert largest(250, replace(limited, domains=tree_of(630_000, reserve_mw=10_000, rest_mw=7_000).domains)) == 507_000
    # The same is given by another limit and another reserve.
    assert largest(200, tree_of(640_000, reserve_mw=20_000, rest_mw=7_000)) == 507_000


def test_the_largest_sum_is_not_known_before_the_sum_is():
    assert decided(confirmed(), tree_of(rest_known=False)).domains["rack"].largest_mw is None
    assert decided(confirmed(), tree_of(600_000)).domains["rack"].largest_mw == 600_000, "the limit itself is kept"
    nothing = {name: asked(name, 0, reported=0) for name in NAMES}
    assert decided(nothing).domains["rack"].largest_mw == 0


# --- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "counts"),
    [
        (asked("n2", reported=300), (0, 0, 0)),
        (asked("n2", reported=300, refused=True), (0, 1, 0)),
        # A renewal counts where the agent of this boot has repeated it.
        (asked("n2"), (1, 0, 1)),
        (SeenBudget(), (1, 0, 0)),
        (replace(asked("n2", reported=300), report=LimitReport("n2/boot", 3, 300_000)), (1, 0, 0)),
        (asked("n2", reported=300, boot="another"), (1, 0, 1)),
    ],
    ids=["confirmed", "refused", "no report", "no object", "of another ask", "of another boot"],
)
def test_agents_are_counted_by_what_they_say_of_the_newest_ask(seen, counts):
    found = decided(confirmed() | {"n2": seen}).domains["rack"]
    assert (found.unconfirmed, found.refused, found.silent) == counts


@pytest.mark.parametrize("fields", [{"bootless": frozenset({"n2"})}, {"unreadable": frozenset({"n2"})}])
def test_a_node_that_cannot_be_asked_is_not_lowered_and_others_make_room(fields):
    seen = {name: asked(name, 500, reported=500) for name in NAMES}
    found = decided(seen, tree_of(600_000), **fields)
    assert {each.node: each.spec.limit_watts for each in found.changes} == {"n1": 100}


@pytest.mark.parametrize("term", [TERM, None])
def test_an_agent_that_would_lift_its_limit_is_asked_to_keep_it_and_counts_as_unlimited_until_then(term):
    seen = confirmed() | {"n2": asked("n2", reported=300, lost=RELEASES)}
    found = decided(seen, tree_of(600_000), term=term)
    assert in_force(found) == 800_000
    changes = [
        (each.node, each.spec.sequence, each.spec.limit_watts, each.spec.ceiling_watts) for each in found.changes
    ]
    assert changes == ([("n2", 5, 300.0, 500.0)] if term else [])
    assert all(each.spec.on_lost_control is KEEPS and each.spec.term == TERM for each in found.changes)


def test_nobody_is_asked_to_keep_a_limit_in_a_tree_that_releases_or_by_a_leader_that_has_been_replaced():
    seen = confirmed(lost=RELEASES)
    assert decided(seen, tree_of(600_000, releases=True)).changes == ()
    later = {name: asked(name, reported=300, lost=RELEASES, term=TERM + 1) for name in NAMES}
    found = decided(later)
    assert found.decision.deposed
    assert not any(each.spec.sequence > 4 for each in found.changes)


def test_another_server_of_the_name_is_not_asked_to_keep_what_the_one_before_it_had():
    seen = confirmed() | {"n2": asked("n2", reported=300, lost=RELEASES)}
    found = decided(seen, nodes=facts() | {"n2": replace(node("n2"), identity="n2/another")})
    (change,) = [each for each in found.changes if each.node == "n2"]
    assert change.spec.boot_id == "another"


def test_a_decision_goes_before_the_repetition_of_the_limit():
    seen = confirmed() | {"n2": asked("n2", reported=300, lost=RELEASES)}
    found = decided(seen, tree_of(400_000))
    assert {each.node: each.spec.limit_watts for each in found.changes} == {"n1": 200, "n2": 200}


@pytest.mark.parametrize(
    ("term", "stored", "known"), [(TERM, TERM, True), (None, TERM, False), (TERM, TERM + 1, False)]
)
def test_what_domains_can_supply_is_known_to_the_leader_alone(term, stored, known):
    found = decided(confirmed(term=stored), tree_of(900_000), nodes=facts(demand_mw=300_000), term=term)
    assert [each.domain for each in found.available["rack"]] == ["rack"]
    assert (found.available["rack"][0].available_mw is not None) is known
    assert found.domains["rack"].has_term is (term is not None)


def test_without_a_term_nothing_is_written():
    found = decided({name: asked(name, 500, reported=500) for name in NAMES}, tree_of(600_000), term=None)
    assert found.changes == ()
    assert found.decision.domains["rack"].allocated_mw == 600_000


# --- events and oversubscription --------------------------------------------------------------------------------------


def test_nodes_that_an_event_may_not_affect_keep_their_share():
    cut = TimedLimit("cut", "rack", 550_000, 0.0, may_affect=frozenset({WorkloadClass.STANDARD}))
    found = decided(confirmed(), events=EventInputs((cut,), frozenset({"n1"}), 1.0))
    assert found.evented.limits["rack"].limit_mw == 550_000
    assert found.evented.kept_mw == {"n1": 400_000}
    assert found.decision.targets_mw == {"n1": 410_000, "n2": 140_000}
    assert found.observed["rack"].sums.headroom_mw == 550_000 - 600_000
    assert [(each.node, each.spec.limit_watts) for each in found.changes if each.lowers] == [("n2", 140.0)]


def test_an_event_of_another_tree_changes_nothing():
    found = decided(confirmed(), events=EventInputs((TimedLimit("cut", "other", 200_000, 0.0),)))
    assert found.evented == EventedTree(tree_of())
    assert found.decision.targets_mw == dict.fromkeys(NAMES, 400_000)


@pytest.fixture
def raised():
    return OversubscribedWorld(cooling_s=30.0).begin().wait_for_raise()


def test_the_limits_of_a_tree_are_raised_while_its_nodes_are_measured(raised):
    found = raised.leader.found
    state = found.domains["feed"].oversubscription
    assert (state.state, found.domains["a"].oversubscription.raised) == (RaiseState.RAISED, True)
    assert found.decision.domains["feed"].allocated_mw > 1_300_000
    # The headroom is that below the domain's own limit, and so is what was given.
    sums = found.observed["feed"].sums
    assert sums.headroom_mw == 1_300_000 - sums.in_force_mw < 0
    # The sample by which it was decided is named.
    specs = [stored.last[2] for stored in raised.objects.values()]
    assert all(spec.oversubscription.sample is not None for spec in specs)


def test_an_event_ends_the_raise_and_its_limit_is_in_force(raised, monkeypatch):
    enforcer, cut = raised.leader.enforcer, EventInputs((TimedLimit("cut", "feed", 1_000_000, 0.0),), now_s=1.0)
    decide = enforcer.decide
    monkeypatch.setattr(enforcer, "decide", lambda *given: decide(*given, cut))
    raised.run(4.0)
    found = raised.leader.found
    assert found.domains["feed"].oversubscription.state is RaiseState.EVENT
    assert 999_000 < found.decision.domains["feed"].allocated_mw <= 1_000_000
