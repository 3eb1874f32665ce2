"""Domains as the decision takes them."""

from dataclasses import replace

from joulie_core.budget import BudgetDomain
from joulie_core.budget.breaker import BreakerCurve, BreakerRating
from joulie_core.kinds import PowerDomainSpec
from joulie_operator.power_domains.domains import budget_domains

_LABELS = {
    "n1": {"rack": "a", "pool": "x"},
    "n2": {"rack": "a", "pool": "y", "other": "a"},
    "n3": {"rack": "b", "pool": "x"},
    "n4": {},
}


def spec(**fields):
    return PowerDomainSpec.model_validate({"limitWatts": 1_000, "onLostControl": "KeepGuaranteed"} | fields)


def nodes(**selectors):
    found = budget_domains({name: spec(nodeSelector=each) for name, each in selectors.items()}, _LABELS)
    return {each.name: each.nodes for each in found}


def test_a_node_is_selected_where_all_labels_match():
    assert nodes(one={"rack": "a"}, two={"rack": "a", "pool": "x"}, three={"pool": "x"}) == {
        "one": ("n1", "n2"),
        "two": ("n1",),
        "three": ("n1", "n3"),
    }


def test_a_selector_that_matches_none_selects_none_and_one_that_is_absent_as_well():
    assert nodes(a={"rack": "c"}, b={"rack": "a", "pool": "z"}) == {"a": (), "b": ()}
    (found,) = budget_domains({"feed": spec()}, _LABELS)
    assert found == BudgetDomain("feed", 1_000_000)


def test_every_field_of_the_spec_is_taken():
    made = spec(
        parent="row",
        nodeSelector={"rack": "b"},
        limitWatts=2_000,
        reserveWatts=150,
        floor={"wattsPerNode": 300},
        priority=-4,
        onLostControl="Release",
    )
    share = spec(nodeSelector={"rack": "b"}, floor={"percentOfMax": 40.5})
    assert budget_domains({"a": made, "b": share}, _LABELS) == [
        BudgetDomain("a", 2_000_000, "row", 150_000, -4, 300_000, 0.0, releases=True, nodes=("n3",)),
        BudgetDomain("b", 1_000_000, None, 0, 0, 0, 40.5, releases=False, nodes=("n3",)),
    ]


def test_a_domain_has_the_rating_of_its_breaker_only_where_the_setting_is_on():
    points = [{"loadPercent": 140, "seconds": 60}, {"loadPercent": 110, "seconds": 1_020}]
    rated = spec(
        limitWatts=2_000,
        basis="Server",
        nodeSelector={"rack": "b"},
        oversubscription={"breaker": points, "coolingSeconds": 600, "reactionSeconds": 30},
    )
    plain = BudgetDomain("a", 2_000_000, nodes=("n3",), counts_servers=True)
    rating = BreakerRating(BreakerCurve(((1.1, 1_020.0), (1.4, 60.0))), cooling_s=600.0, reaction_s=30)
    specs = {"a": rated, "feed": spec()}
    feed = BudgetDomain("feed", 1_000_000)
    assert budget_domains(specs, _LABELS, oversubscribes=True) == [replace(plain, rating=rating), feed]
    assert budget_domains(specs, _LABELS) == budget_domains(specs, _LABELS, oversubscribes=False) == [plain, feed]
