"""The status of a PowerDomain from the outcome of the decision: figures, roundings, reasons and messages."""

from dataclasses import replace

import pytest

from joulie_core.budget import BudgetNode, BudgetProblem, DomainProblem, DomainRest, EventLimit, LoweredShare
from joulie_core.budget.breaker_states import BreakerDamage
from joulie_core.budget.observe import ObservedDomain
from joulie_core.budget.transitions import DomainSums
from joulie_core.kinds import Condition, ConditionStatus, PowerDomainSpec
from joulie_core.kinds.power_domain import MOST_LOWERED, DomainLostControl, DomainMode
from joulie_core.kinds.raise_state import RaiseState
from joulie_operator.power_domains.decision import DomainOutcome
from joulie_operator.power_domains.enforcement import EnforcedDomain
from joulie_operator.power_domains.inputs import DomainNode, DrawnReading
from joulie_operator.power_domains.oversubscription import OversubscribedDomain
from joulie_operator.power_domains.status import dated, dated_conditions, domain_status, unreadable_status

SPEC = PowerDomainSpec(
    limit_watts=600,
    reserve_watts=50,
    node_selector={"rack": "a", "hall": "1"},
    on_lost_control=DomainLostControl.KEEP_GUARANTEED,
    mode=DomainMode.ENFORCE,
)
OBSERVES = SPEC.model_copy(update={"mode": DomainMode.OBSERVE})
SUMS = DomainSums(400_999, 200_999, 500_001, 49_999, 0)
SEEN = ObservedDomain(SUMS, frozenset({"n1", "n2", "n3"}), frozenset(), 500_001, 2, ())
ENFORCED = EnforcedDomain(unconfirmed=1, refused=2, silent=3, largest_mw=520_001)
REST = DomainRest(30_001, 2, 1, 10_001, 5_999, frozenset({"n3"}))


def node(watts, *, measured=False, server_watts=None):
    return DomainNode(
        BudgetNode("n", "boot", None, None),
        DrawnReading(watts, measured),
        DrawnReading(server_watts, measured=True),
    )


NODES = {"n1": node(100.2, measured=True, server_watts=150.0), "n2": node(50.2), "n3": node(None)}


def status(outcome, spec=SPEC, *, enforces=True):
    return domain_status("rack", spec, outcome, NODES, enforces=enforces)


def condition(kind, outcome, spec=SPEC, *, enforces=True):
    """Status, reason and message."""
    found = next(each for each in status(outcome, spec, enforces=enforces).conditions if each.type == kind)
    return found.status.value, found.reason, found.message


def summed(**fields):
    return replace(SEEN, sums=replace(SUMS, **fields))


def test_watts_of_an_enforced_domain_are_rounded_to_the_side_that_shows_less_room():
    found = status(DomainOutcome(SEEN, enforced=ENFORCED)).dump()
    found.pop("conditions")
    assert found == {
        "mode": "Enforce",
        "nodes": 3,
        "unknownNodes": 0,
        "allocatedWatts": 400,
        "inForceWatts": 501,
        "largestInForceWatts": 521,
        "unconfirmedNodes": 1,
        "refusedNodes": 2,
        "silentNodes": 3,
        "drawn": {
            "measuredWatts": 101,
            "measuredNodes": 1,
            "modelledWatts": 51,
            "modelledNodes": 1,
            "unknownNodes": 1,
        },
        "guaranteedWatts": 200,
        "headroomWatts": 49,
        "shortfallWatts": 0,
        "limitedNodes": 2,
        "loweredNodes": 0,
        "lowered": [],
    }


def test_what_an_observed_domain_has_none_of_is_absent():
    found = status(DomainOutcome(summed(in_force_mw=None, headroom_mw=None), event=EventLimit("e", 1)), OBSERVES)
    assert found.mode is DomainMode.OBSERVE
    absent = ("in_force_watts", "headroom_watts", "largest_in_force_watts", "rest", "binding_event", "oversubscription")
    assert {name: getattr(found, name) for name in absent} == dict.fromkeys(absent)
    assert (found.unconfirmed_nodes, found.refused_nodes, found.silent_nodes) == (None, None, None)


def test_headroom_is_never_below_zero_and_a_shortfall_is_rounded_up():
    found = status(DomainOutcome(summed(headroom_mw=-5_000, shortfall_mw=1)))
    assert (found.headroom_watts, found.shortfall_watts) == (0, 1)


def test_nothing_is_drawn_that_nobody_knows():
    outcome = DomainOutcome(replace(SEEN, nodes=frozenset({"n3"})))
    assert status(outcome).drawn.dump() == {"measuredNodes": 0, "modelledNodes": 0, "unknownNodes": 1}


def test_a_reading_of_zero_adds_nothing():
    outcome = DomainOutcome(replace(SEEN, nodes=frozenset({"n4", "n5"})))
    nodes = {"n4": node(0.0, measured=True), "n5": node(0.0)}
    drawn = domain_status("rack", SPEC, outcome, nodes).drawn
    assert (drawn.measured_watts, drawn.modelled_watts, drawn.unknown_nodes) == (0, 0, 0)


def test_the_rest_of_servers_is_in_the_sums_and_their_own_readings_count():
    found = status(DomainOutcome(SEEN, rest=REST))
    assert (found.allocated_watts, found.guaranteed_watts, found.in_force_watts) == (431, 231, 531)
    assert (found.drawn.measured_watts, found.drawn.measured_nodes, found.drawn.unknown_nodes) == (150, 1, 2)
    assert found.rest.dump() == {
        "watts": 31,
        "measuredNodes": 2,
        "modelledNodes": 1,
        "modelledWatts": 11,
        "modelledLeastWatts": 5,
        "unknownNodes": 1,
    }
    unknown = DomainOutcome(summed(in_force_mw=None), rest=REST)
    assert status(unknown).in_force_watts is None


def test_lowered_nodes_are_named_with_the_limit_that_binds_them():
    shares = [LoweredShare(f"n{number}", 300_001, 200_999, "row", 549_001) for number in range(MOST_LOWERED + 5)]
    shares[0] = replace(shares[0], after_priority=7)
    found = status(DomainOutcome(replace(SEEN, lowered=tuple(shares))))
    assert (found.lowered_nodes, len(found.lowered)) == (MOST_LOWERED + 5, MOST_LOWERED)
    assert [each.dump() for each in found.lowered[:2]] == [
        {
            "node": "n0",
            "wantedWatts": 301,
            "allocatedWatts": 200,
            "reason": "limit of row, of which nodes may get 550 W; priority 7 is served first",
        },
        {
            "node": "n1",
            "wantedWatts": 301,
            "allocatedWatts": 200,
            "reason": "limit of row, of which nodes may get 550 W",
        },
    ]
    long = LoweredShare("n", 2, 1, "x" * 5_000, 1)
    (only,) = status(DomainOutcome(replace(SEEN, lowered=(long,)))).lowered
    assert len(only.reason) == 1_024


def test_the_limit_of_an_event_replaces_that_of_the_domain_where_nodes_are_limited():
    event = EventLimit("cut", 500_001)
    found = status(DomainOutcome(SEEN, enforced=ENFORCED, event=event))
    assert found.binding_event == "cut"
    outcome = DomainOutcome(SEEN, enforced=ENFORCED, event=event)
    message = "the limits that may be in force exceed 451 W together; no node is raised"
    assert condition("Held", outcome) == ("False", "AboveLimit", message)
    observed = DomainOutcome(SEEN, event=event)
    assert condition("Held", observed)[1] == "WithinLimit"


@pytest.mark.parametrize(
    ("in_force_mw", "found"),
    [
        (550_000, ("True", "WithinLimit", "the limits that may be in force are within 550 W together")),
        (550_001, ("False", "AboveLimit", "the limits that may be in force exceed 550 W together; no node is raised")),
    ],
)
def test_an_enforced_domain_is_held_up_to_its_usable_power(in_force_mw, found):
    assert condition("Held", DomainOutcome(summed(in_force_mw=in_force_mw), enforced=ENFORCED)) == found


def test_fallbacks_hold_an_oversubscribed_domain():
    raised = replace(
        ENFORCED,
        oversubscription=OversubscribedDomain(RaiseState.RAISED, 900_000, 500_000, BreakerDamage(0.0, 0.0), "measured"),
    )
    outcome = DomainOutcome(summed(in_force_mw=600_000), enforced=raised)
    assert status(outcome).oversubscription.permitted_watts == 900
    assert condition("Held", outcome)[:2] == ("True", "Oversubscribed")
    assert condition("Held", replace(outcome, enforced=ENFORCED))[:2] == ("False", "AboveLimit")


@pytest.mark.parametrize(
    ("known_mw", "in_force_mw", "found"),
    [
        (550_000, 500_001, ("True", "WithinLimit", "the nodes may draw 501 W together, within 550 W")),
        (
            550_001,
            550_001,
            ("False", "AboveLimit", "the nodes may draw 551 W together, above 550 W; nothing is lowered"),
        ),
        (
            550_001,
            None,
            ("False", "AboveLimit", "the nodes may draw at least 551 W together, above 550 W; nothing is lowered"),
        ),
    ],
)
def test_an_observed_domain_is_held_where_its_nodes_cannot_draw_more(known_mw, in_force_mw, found):
    seen = replace(summed(in_force_mw=in_force_mw), known_mw=known_mw)
    assert condition("Held", DomainOutcome(seen), OBSERVES) == found


def test_the_rest_of_servers_counts_against_the_limit_of_an_observed_domain():
    seen = replace(SEEN, known_mw=530_000)
    assert condition("Held", DomainOutcome(seen))[1] == "WithinLimit"
    assert condition("Held", DomainOutcome(seen, rest=REST))[1] == "AboveLimit"


UNKNOWN = (
    "the highest power is not known of n1, n2, n3 and 1 more; they are not managed, or their hardware is neither read "
    "nor stated by labels"
)
REST_UNKNOWN = "the rest of the server is not known of n3; neither readings of a BMC nor models of its CPUs tell it"
UNREAD = "objects that cannot be read may belong to it: Node n9, PowerDomain row"


@pytest.mark.parametrize("enforced", [None, ENFORCED])
def test_what_is_not_known_is_neither_held_nor_above_the_limit(enforced):
    four = replace(summed(in_force_mw=None), unknown=frozenset({"n4", "n3", "n2", "n1"}))
    outcome = DomainOutcome(four, enforced=enforced)
    assert condition("Held", outcome) == ("Unknown", "PowerUnknown", UNKNOWN)
    assert condition("Held", replace(outcome, rest=REST)) == ("Unknown", "PowerUnknown", UNKNOWN)
    rest = DomainOutcome(summed(in_force_mw=None), rest=REST, enforced=enforced)
    assert condition("Held", rest) == ("Unknown", "RestUnknown", REST_UNKNOWN)
    unread = DomainOutcome(SEEN, unread=("PowerDomain row", "Node n9"), enforced=enforced)
    assert condition("Held", unread) == ("Unknown", "ObjectUnreadable", UNREAD)


def problem(domain, message):
    return DomainProblem(domain, BudgetProblem.PARENT_MISSING, message)


def test_a_domain_with_faults_has_no_figures_and_names_the_first_three():
    faults = tuple(problem("rack", f"fault {number}") for number in range(5))
    found = status(DomainOutcome(faults=faults))
    assert [each.type for each in found.conditions] == ["Accepted", "Enforced"]
    assert (found.mode, found.nodes) == (DomainMode.OBSERVE, None)
    message = "fault 0; fault 1; fault 2; and 2 more"
    assert condition("Accepted", DomainOutcome(faults=faults)) == ("False", "ParentMissing", message)
    assert condition("Accepted", DomainOutcome(faults=faults[:3]))[2] == "fault 0; fault 1; fault 2"
    long = DomainOutcome(faults=(problem("rack", "x" * 5_000),))
    assert len(condition("Accepted", long)[2]) == 4_096


def test_a_domain_whose_tree_is_set_aside_names_the_fault_of_the_other():
    faults = (problem("row", "no parent"), problem("feed", "twice"))
    message = "its tree is set aside: row: no parent; feed: twice"
    assert condition("Accepted", DomainOutcome(faults=faults)) == ("False", "TreeSetAside", message)


def test_a_domain_without_nodes_says_how_to_look_for_them():
    empty = DomainOutcome(replace(SEEN, nodes=frozenset()))
    selected = "spec.nodeSelector matches no node: kubectl get nodes -l hall=1,rack=a"
    assert condition("Accepted", empty) == ("True", "NoNodes", selected)
    root = SPEC.model_copy(update={"node_selector": None})
    none = "it selects no node, and no domain below it does"
    assert condition("Accepted", empty, root) == ("True", "NoNodes", none)
    assert condition("Accepted", DomainOutcome(SEEN)) == ("True", "Valid", "")


def test_floors_that_do_not_fit_are_told():
    message = "too high; the lowest limits of the hardware count instead"
    refused = DomainProblem("rack", BudgetProblem.FLOORS_DO_NOT_FIT, "too high")
    assert condition("FloorsFit", DomainOutcome(SEEN, floors=(refused,))) == ("False", "FloorsDoNotFit", message)
    assert condition("FloorsFit", DomainOutcome(SEEN)) == ("True", "Fit", "")


@pytest.mark.parametrize(
    ("outcome", "spec", "enforces", "reason", "message"),
    [
        (DomainOutcome(SEEN, enforced=ENFORCED), SPEC, True, "Enforced", ""),
        (
            DomainOutcome(SEEN, enforced=replace(ENFORCED, has_term=False)),
            SPEC,
            True,
            "TermNotKnown",
            "the leader of the operator cannot tell its limits from those of another one yet; none is asked for",
        ),
        (
            DomainOutcome(SEEN),
            OBSERVES,
            True,
            "Observe",
            "mode Observe lowers nothing: no node is limited, and no breaker is protected",
        ),
        (
            DomainOutcome(faults=(problem("rack", "no parent"),)),
            SPEC,
            False,
            "NotSwitchedOn",
            "POWER_DOMAINS of the operator is not Enforce: no node is limited, and no breaker is protected",
        ),
        (
            DomainOutcome(faults=(problem("rack", "no parent"),)),
            SPEC,
            True,
            "TreeSetAside",
            "its tree cannot be used: nodes that have a limit keep it, and no other is asked for",
        ),
        (
            DomainOutcome(SEEN, observing=("d", "c", "b", "a")),
            SPEC,
            True,
            "TreeObserved",
            "a tree is enforced as a whole, and these domains of it say Observe: a, b, c and 1 more",
        ),
    ],
)
def test_enforced_says_why_nothing_is_lowered(outcome, spec, enforces, reason, message):
    found = condition("Enforced", outcome, spec, enforces=enforces)
    assert found == ("True" if reason == "Enforced" else "False", reason, message)


def test_the_setting_is_not_enforce_unless_it_is_said():
    found = domain_status("rack", SPEC, DomainOutcome(SEEN), NODES)
    assert found.conditions[-1].reason == "NotSwitchedOn"


def test_the_status_of_an_unreadable_domain_has_its_reason():
    found = unreadable_status("spec.limitWatts: absent")
    assert found.mode is DomainMode.OBSERVE
    assert [(each.type, each.status, each.reason, each.message) for each in found.conditions] == [
        ("Accepted", ConditionStatus.FALSE, "Unreadable", "spec.limitWatts: absent"),
        (
            "Enforced",
            ConditionStatus.FALSE,
            "TreeSetAside",
            "its tree cannot be used: nodes that have a limit keep it, and no other is asked for",
        ),
    ]


def test_conditions_keep_their_time_while_they_stay_and_others_go():
    early, late = "2027-01-15T07:00:00Z", "2027-01-15T08:00:00Z"
    before = [
        Condition(type=kind, status=ConditionStatus.TRUE, reason="R", last_transition_time=early)
        for kind in ("Accepted", "Held", "Gone")
    ]
    found = [
        Condition(type="Accepted", status=ConditionStatus.TRUE, reason="R", message="m"),
        Condition(type="Held", status=ConditionStatus.FALSE, reason="R"),
    ]
    conditions = dated_conditions(iter(found), before, 4, late)
    assert conditions == (
        Condition(
            type="Accepted",
            status=ConditionStatus.TRUE,
            reason="R",
            message="m",
            last_transition_time=early,
            observed_generation=4,
        ),
        Condition(
            type="Held", status=ConditionStatus.FALSE, reason="R", last_transition_time=late, observed_generation=4
        ),
    )
    status = dated(unreadable_status("r"), before, 4, 1_800_000_000.0)
    assert (status.observed_generation, status.last_updated, status.mode) == (4, late, DomainMode.OBSERVE)
    shown = [(each.last_transition_time, each.observed_generation) for each in status.conditions]
    assert shown == [(late, 4), (late, 4)]
