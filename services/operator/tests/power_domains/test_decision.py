"""The decision about all trees: which are enforced, observed and set aside, and what is kept of nodes."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_core.budget import (
    BudgetNode,
    BudgetProblem,
    BudgetTree,
    EventInputs,
    EventLimit,
    LimitAsk,
    PublishedRest,
    ServerRest,
    TimedLimit,
)
from joulie_core.kinds import PowerDomainSpec
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec
from joulie_core.kinds.power_domain import BudgetBasis, DomainLostControl, DomainMode, FloorSpec
from joulie_operator.power_domains.budget_changes import SeenBudgets
from joulie_operator.power_domains.decision import DomainInputs, decide
from joulie_operator.power_domains.enforcement import TreeEnforcer
from joulie_operator.power_domains.inputs import DomainNode
from joulie_operator.power_domains.sent import SeenBudget

NOW_S = 1_800_000_000.0
ENFORCE, OBSERVE = DomainMode.ENFORCE, DomainMode.OBSERVE
#: Two feeds with a rack each.
RACKS = {"n1": "a", "n2": "a", "n3": "b"}


def spec(limit_watts=600, *, parent=None, rack=None, mode=ENFORCE, **fields):
    return PowerDomainSpec(
        parent=parent,
        node_selector=None if rack is None else {"rack": rack},
        limit_watts=limit_watts,
        on_lost_control=DomainLostControl.KEEP_GUARANTEED,
        mode=mode,
        **fields,
    )


FEEDS = {
    "feed-a": spec(),
    "rack-a": spec(parent="feed-a", rack="a"),
    "feed-b": spec(),
    "rack-b": spec(parent="feed-b", rack="b"),
}


def node(name, **fields):
    return DomainNode(BudgetNode(name, "boot", 500_000, 100_000, 400_000), **fields)


def inputs(specs=FEEDS, **fields):
    known = {
        "unread": frozenset(),
        "nodes": {name: node(name) for name in RACKS},
        "labels": {name: {"rack": rack} for name, rack in RACKS.items()},
        "budgets": SeenBudgets(NOW_S, 1),
    }
    return DomainInputs(specs, **(known | fields))


def decided(specs=FEEDS, enforcer=None, **fields):
    return decide(inputs(specs, **fields), enforcer or TreeEnforcer(), Failures(CollectorRegistry()))


def stored(limit_watts=300, term=1):
    """The object of a node that a leader has written."""
    budget = NodePowerBudgetSpec(
        node_name="n", term=term, sequence=4, limit_watts=limit_watts, on_lost_control="KeepGuaranteed",
        lease_seconds=300, renewal=7,
    )  # fmt: skip
    return SeenBudget("5", budget, LimitAsk("boot", term, 4, limit_watts * 1_000, limit_watts * 1_000))


def with_parent(parent, mode=ENFORCE):
    """Both trees, where the rack of the first has another parent."""
    return FEEDS | {"rack-a": spec(parent=parent, rack="a", mode=mode)}


def test_a_tree_is_enforced_where_all_its_domains_say_so():
    found = decided(FEEDS | {"feed-b": spec(mode=OBSERVE), "rack-b": spec(parent="feed-b", rack="b", mode=OBSERVE)})
    assert {name: each.enforced is not None for name, each in found.outcomes.items()} == {
        "feed-a": True,
        "rack-a": True,
        "feed-b": False,
        "rack-b": False,
    }
    assert [(each.node, each.spec.limit_watts) for each in found.changes] == [("n1", 300), ("n2", 300)]
    assert found.kept == {"n1", "n2"}
    assert {name: each.observing for name, each in found.outcomes.items()} == {
        "feed-a": (),
        "rack-a": (),
        "feed-b": ("feed-b", "rack-b"),
        "rack-b": ("feed-b", "rack-b"),
    }
    assert found.outcomes["rack-b"].observed.nodes == {"n3"}


def test_no_tree_is_compared_with_all_others(monkeypatch):
    def compare(_tree, _other):
        raise AssertionError("of thousands of trees, that takes longer than the decision")

    monkeypatch.setattr(BudgetTree, "__eq__", compare)
    assert all(each.enforced is not None for each in decided().outcomes.values())
    assert decided().outcomes.keys() == FEEDS.keys()


def test_without_the_setting_all_is_observed_and_nothing_kept():
    found = decided(budgets=None, unread=frozenset({"gone"}))
    assert all(each.enforced is None and each.observing == () for each in found.outcomes.values() if each.observed)
    assert (found.changes, found.available, found.kept) == ((), {}, frozenset())


def test_changes_of_all_trees_are_in_the_order_in_which_they_are_written():
    found = decided(FEEDS | {"rack-a": spec(parent="feed-a", rack="a", priority=5)})
    assert [each.node for each in found.changes] == ["n3", "n1", "n2"]


def test_what_the_domains_above_a_node_can_supply_is_known_by_node():
    found = decided()
    assert set(found.available) == {"n1", "n2", "n3"}
    assert [each.domain for each in found.available["n3"]] == ["rack-b", "feed-b"]
    assert all(each.available_mw is not None for each in found.available["n3"])


def test_a_node_that_cannot_be_read_may_draw_from_any_domain():
    found = decided(unread_nodes=frozenset({"n9", "n8"}))
    assert {each.unread for each in found.outcomes.values()} == {("Node n8", "Node n9")}
    assert [(each.domain, each.available_mw) for each in found.available["n3"]] == [("rack-b", None), ("feed-b", None)]
    assert found.kept == {"n1", "n2", "n3"}


def test_while_a_domain_cannot_be_read_at_all_the_objects_of_all_nodes_stay():
    found = decided(unread=frozenset({"row", "hall"}), unread_nodes=frozenset({"n9"}))
    assert found.kept is None
    names = ("PowerDomain hall", "PowerDomain row", "Node n9")
    assert found.outcomes["feed-a"].unread == names
    assert [each.problem for each in found.outcomes["row"].faults] == [BudgetProblem.UNREADABLE]


def test_a_domain_that_was_read_before_sets_aside_its_tree_and_no_other():
    found = decided(unread=frozenset({"rack-a"}), budgets=SeenBudgets(NOW_S, 1, {"n1": stored()}))
    assert found.kept == {"n1", "n2", "n3"}
    assert found.outcomes["feed-b"].unread == ()
    for name in ("feed-a", "rack-a"):
        (fault,) = found.outcomes[name].faults
        assert (fault.domain, fault.problem) == ("rack-a", BudgetProblem.UNREADABLE)
    # The limits of its nodes are renewed as they are.
    assert [(each.node, each.renews) for each in found.changes] == [("n3", False), ("n1", True)]
    renewed = found.changes[-1].spec
    assert (renewed.renewal, renewed.limit_watts, renewed.sequence) == (8, 300, 4)


def test_the_nodes_of_a_tree_that_cannot_be_used_keep_what_they_have():
    found = decided(with_parent("missing"), budgets=SeenBudgets(NOW_S, 1, {"n1": stored()}))
    assert found.kept == {"n1", "n2", "n3"}
    assert [each.node for each in found.changes if each.renews] == ["n1"]
    (fault,) = found.outcomes["rack-a"].faults
    assert (fault.domain, fault.problem) == ("rack-a", BudgetProblem.PARENT_MISSING)


def test_the_nodes_of_a_tree_are_released_where_the_domain_at_fault_says_observe():
    found = decided(with_parent("missing", OBSERVE), budgets=SeenBudgets(NOW_S, 1, {"n1": stored()}))
    assert found.kept == {"n3"}
    assert [each.node for each in found.changes] == ["n3"]


def test_a_domain_of_an_earlier_version_that_says_observe_releases_nothing():
    found = decided(FEEDS | {"rack-a": spec(parent="feed-a", rack="a", mode=OBSERVE)}, unread=frozenset({"rack-a"}))
    assert found.kept == {"n1", "n2", "n3"}


def test_a_domain_has_its_own_faults_and_else_the_first_of_another_of_its_tree():
    twice = FEEDS | {"other": spec(rack="a"), "below": spec(parent="other", rack="b")}
    outcomes = decided(twice).outcomes
    assert {each.domain for each in outcomes["other"].faults} == {"other"}
    assert len(outcomes["feed-a"].faults) == 1
    assert all(each.observed is None for each in outcomes.values())


def test_a_defect_in_one_tree_leaves_it_without_outcome_and_others_decided():
    class Enforcer(TreeEnforcer):
        def decide(self, tree, *rest):
            if tree.domains[0].name == "feed-a":
                raise ValueError("defect")
            return super().decide(tree, *rest)

    found = decided(enforcer=Enforcer())
    assert set(found.outcomes) == {"feed-b", "rack-b"}
    assert [each.node for each in found.changes] == ["n3"]
    # Its nodes are still those of a tree that is to be enforced.
    assert found.kept == {"n1", "n2", "n3"}


def test_an_enforcer_keeps_only_trees_that_are_enforced():
    class Enforcer(TreeEnforcer):
        def retain(self, roots, domains):
            self.retained = roots, domains

    enforcer = Enforcer()
    decided(FEEDS | {"feed-b": spec(mode=OBSERVE)}, enforcer)
    assert enforcer.retained == ({"feed-a"}, {"feed-a", "rack-a"})


CUT = TimedLimit("cut", "feed-a", 400_000, NOW_S - 60)


def test_the_limit_of_an_event_is_in_force_in_its_domain_and_its_reach_is_told():
    events = EventInputs((CUT,), now_s=NOW_S)
    for budgets, limits in ((SeenBudgets(NOW_S, 1), [200, 200, 500]), (None, [])):
        found = decided(events=events, budgets=budgets)
        assert found.outcomes["feed-a"].event == EventLimit("cut", 400_000)
        assert found.outcomes["rack-a"].event is None
        assert found.reach_mw == {"cut": 200_000}
        assert [each.spec.limit_watts for each in found.changes] == limits


def test_floors_that_are_refused_are_those_of_their_domain():
    specs = FEEDS | {"rack-a": spec(parent="feed-a", rack="a", floor=FloorSpec(watts_per_node=400))}
    for budgets in (SeenBudgets(NOW_S, 1), None):
        outcomes = decided(specs, budgets=budgets).outcomes
        assert [each.problem for each in outcomes["rack-a"].floors] == [BudgetProblem.FLOORS_DO_NOT_FIT]
        assert outcomes["rack-b"].floors == ()


def test_the_rest_of_servers_is_counted_where_the_domain_says_so():
    specs = FEEDS | {"rack-b": spec(parent="feed-b", rack="b", basis=BudgetBasis.SERVER)}
    nodes = inputs().nodes | {"n3": node("n3", rest=ServerRest(60_000, 50_000, measured=True))}
    for budgets in (SeenBudgets(NOW_S, 1), None):
        outcomes = decided(specs, nodes=nodes, budgets=budgets).outcomes
        assert (outcomes["rack-b"].rest.mw, outcomes["rack-b"].counts_servers) == (60_000, True)
        assert (outcomes["feed-a"].rest, outcomes["feed-a"].counts_servers) == (None, False)
    # While too little is measured, what the leader before has published counts.
    settling = inputs().nodes | {"n3": node("n3", rest=ServerRest(60_000, 50_000, settling=True))}
    found = decided(specs, nodes=settling, rests={"rack-b": PublishedRest(55_000, 1)}).outcomes["rack-b"]
    assert found.rest.mw == 55_000


def test_an_oversubscribed_domain_has_its_rating_only_by_the_setting():
    breaker = {"breaker": [{"loadPercent": 120, "seconds": 600}], "coolingSeconds": 600}
    specs = {"feed-b": replace_oversubscription(spec(rack="b"), breaker)}
    assert decided(specs).outcomes["feed-b"].enforced.oversubscription is None
    assert decided(specs, oversubscribes=True).outcomes["feed-b"].enforced.oversubscription is not None


def replace_oversubscription(found, oversubscription):
    return PowerDomainSpec.model_validate(found.dump() | {"oversubscription": oversubscription})


def test_inputs_that_are_left_out_are_of_nothing():
    bare = DomainInputs({}, frozenset(), {})
    found = decide(bare, TreeEnforcer(), Failures(CollectorRegistry()))
    assert (found.outcomes, found.changes, found.kept, found.reach_mw) == ({}, (), frozenset(), {})
    assert replace(bare, oversubscribes=False) == bare
