"""The status of a PowerEvent: what can be delivered, whether it is accepted, and whether its limit is in force."""

import json
from dataclasses import replace

import pytest

from joulie_api.wire import decode_kind
from joulie_core.budget import DomainRest, EventLimit, LoweredShare, ObservedDomain, TimedLimit
from joulie_core.budget.transitions import DomainSums
from joulie_core.kinds import PowerDomainSpec, PowerEvent, PowerEventStatus
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_core.kinds.power_event import MOST_AFFECTED, AffectedNodes, DrawnQuality, EventMinute, SourceLoss
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.decision import DomainOutcome
from joulie_operator.power_domains.enforcement import EnforcedDomain
from joulie_operator.power_domains.event_record import EventReading, EventRecord
from joulie_operator.power_domains.event_status import EventDomain, event_status
from joulie_operator.power_domains.event_tracker import FollowedEvent, KnownEvent
from joulie_testing.api import make_power_event

NOW_S = 1_800_000_000.0
SPEC = PowerDomainSpec(limit_watts=2_000, reserve_watts=100, on_lost_control=DomainLostControl.RELEASE)
SEEN = ObservedDomain(DomainSums(0, 0, 0, 0, 0), frozenset({"n1"}), frozenset(), 0, 0, ())
ENFORCED = EnforcedDomain(0, 0, 0, None)
CUT = TimedLimit("cut", "row", 1_500_000, NOW_S - 60, NOW_S + 600)
BINDS = DomainOutcome(SEEN, enforced=ENFORCED, event=EventLimit("cut", 1_500_000))
DOMAIN = EventDomain(SPEC, BINDS, 1_200_001)
READING = EventReading(1_390.06, DrawnQuality.MEASURED, 1_400.0, 1_800.0)


def followed(limit=CUT, *, baseline_watts=None, status=None):
    made = make_power_event("cut", domain="row")
    made["metadata"]["resourceVersion"] = "1"
    known = KnownEvent("u", NOW_S - 90, EventRecord(status or PowerEventStatus()))
    return FollowedEvent(decode_kind(PowerEvent)(json.dumps(made).encode()), known, limit, baseline_watts)


def status(domain=DOMAIN, limit=CUT, *, reading=READING, now_s=NOW_S):
    return event_status(followed(limit), domain, reading, now_s)


def conditions(domain=DOMAIN, limit=CUT, *, now_s=NOW_S):
    """Status, reason and message of Accepted and of Active."""
    found = status(domain, limit, now_s=now_s).conditions
    assert [each.type for each in found] == ["Accepted", "Active"]
    return [(each.status.value, each.reason, each.message) for each in found]


def decided(**fields):
    return replace(DOMAIN, outcome=replace(BINDS, **fields))


def test_all_figures_of_an_event_in_force_are_in_its_status():
    minutes = (
        EventMinute(start=rfc3339(NOW_S - 60), target_watts=1_000.0, drawn_watts=1_010.0),
        EventMinute(start=rfc3339(NOW_S + 600), target_watts=1_000.0, drawn_watts=1_200.0),
    )
    before = PowerEventStatus(minutes=minutes, dropped_minutes=4, seconds_to_90_percent=12.0)
    event = followed(baseline_watts=1_000.06, status=before)
    found = event_status(event, DOMAIN, READING, NOW_S).dump()
    found.pop("conditions")
    found.pop("minutes")
    assert found == {
        "firstSeen": rfc3339(NOW_S - 90),
        "state": "Active",
        "deliverableWatts": 1_101,
        "baselineWatts": 1_000.1,
        "targetWatts": 1_400.0,
        "drawnWatts": 1_390.1,
        "bindingEvent": "cut",
        "secondsTo90Percent": 12.0,
        "meanErrorWhileHeld": 1.0,
        "reboundPercent": 19.99,
        "affected": {"performanceNodes": 0, "standardNodes": 0, "nodes": []},
        "droppedMinutes": 4,
    }
    assert event_status(event, DOMAIN, READING, NOW_S).minutes == minutes


def test_the_target_is_the_limit_in_force_less_the_reserve():
    assert DOMAIN.target_watts == 1_400.0
    assert replace(DOMAIN, spec=None).target_watts == 1_500.0
    assert decided(event=None).target_watts is None
    assert decided(enforced=None).target_watts is None
    assert EventDomain().target_watts is None


def test_what_is_not_known_is_absent_and_what_can_be_delivered_is_never_below_zero():
    unknown = EventReading(None, DrawnQuality.UNKNOWN, 1_400.0)
    found = status(reading=unknown)
    assert (found.drawn_watts, found.baseline_watts, found.rebound_percent) == (None, None, None)
    assert status(replace(DOMAIN, reach_mw=None)).deliverable_watts is None
    assert status(replace(DOMAIN, reach_mw=50_000)).deliverable_watts == 0


def test_the_affected_nodes_are_the_lowered_ones_by_the_class_of_their_pods():
    names = [f"n{number:03}" for number in reversed(range(MOST_AFFECTED + 2))]
    lowered = tuple(LoweredShare(name, 2, 1, "row", 1) for name in names)
    domain = replace(decided(observed=replace(SEEN, lowered=lowered)), performance=frozenset({"n000", "n101", "other"}))
    found = status(domain).affected
    assert (found.performance_nodes, found.standard_nodes) == (2, MOST_AFFECTED)
    assert found.nodes == tuple(sorted(names)[:MOST_AFFECTED])
    assert EventDomain().affected() == AffectedNodes()


def test_the_nodes_that_were_affected_stay_when_the_limit_is_no_longer_in_force():
    event = followed()
    event.known.affected = AffectedNodes(standard_nodes=3)
    later = event_status(event, DOMAIN, READING, NOW_S + 600)
    assert (later.affected.standard_nodes, later.target_watts) == (3, None)
    assert event_status(event, DOMAIN, READING, NOW_S).affected.standard_nodes == 0


def test_an_event_of_no_domain_or_of_one_that_cannot_be_used_is_not_accepted():
    missing = ("False", "DomainUnknown", "there is no PowerDomain row that can be read")
    assert conditions(EventDomain())[0] == missing
    aside = ("False", "TreeSetAside", "the tree of row cannot be used: kubectl joulie power row")
    assert conditions(EventDomain(SPEC))[0] == aside
    accepted, active = conditions(EventDomain(SPEC, DomainOutcome()))
    assert accepted == aside
    assert active == ("False", "TreeSetAside", "no limit is in force by it")


@pytest.mark.parametrize(("now_s", "accepted"), [(NOW_S - 61, "Unknown"), (NOW_S, "False")])
def test_an_event_without_its_baseline_waits_for_it_until_its_start(now_s, accepted):
    found = conditions(limit=replace(CUT, limit_mw=None), now_s=now_s)[0]
    message = "too little is known of what row drew: docs/power-events.md, Baselines"
    assert found == (accepted, "NoBaseline", message)


def test_an_event_of_an_observed_domain_says_what_would_be_delivered():
    accepted, active = conditions(decided(enforced=None))
    depth = "the limit goes from 2000 W to 1500 W; 1201 W could be delivered"
    message = f"row is not enforced, and nothing is lowered; else: {depth}"
    assert accepted == ("False", "DomainNotEnforced", message)
    assert active == ("False", "DomainNotEnforced", "no limit is in force by it")


UNKNOWN_REST = DomainRest(0, 0, 0, 0, 0, frozenset({"n1"}))


@pytest.mark.parametrize(
    "fields", [{"observed": replace(SEEN, unknown=frozenset({"n1"}))}, {"rest": UNKNOWN_REST}], ids=["node", "rest"]
)
def test_where_the_power_of_a_node_is_not_known_what_can_be_delivered_is_not_either(fields):
    message = "the highest power of a node of row is not known, nor what can be delivered"
    assert conditions(decided(**fields))[0] == ("Unknown", "PowerUnknown", message)
    assert status(decided(**fields)).deliverable_watts is None
    known = decided(rest=replace(UNKNOWN_REST, unknown=frozenset()))
    assert status(known).deliverable_watts == 1_101


@pytest.mark.parametrize(
    ("asked_mw", "reach_mw", "found"),
    [
        (
            1_200_000,
            1_200_001,
            (
                "False",
                "DepthNotReachable",
                "1200 W are asked for, and 1201 W can be delivered, which is the limit instead",
            ),
        ),
        (1_200_001, 1_200_001, ("True", "Accepted", "the limit goes from 2000 W to 1201 W; 1201 W could be delivered")),
        (1_999_999, None, ("True", "Accepted", "the limit goes from 2000 W to 2000 W; 0 W could be delivered")),
        (2_000_000, 0, ("True", "NothingToDeliver", "the limit of the domain is 2000 W, and 2000 W are not below it")),
    ],
)
def test_an_event_is_accepted_where_its_whole_limit_can_be_delivered(asked_mw, reach_mw, found):
    assert conditions(replace(DOMAIN, reach_mw=reach_mw), replace(CUT, limit_mw=asked_mw))[0] == found


@pytest.mark.parametrize(("now_s", "state"), [(NOW_S - 61, "Pending"), (NOW_S + 600, "Ended")])
def test_an_event_is_not_active_before_its_start_and_after_its_end(now_s, state):
    assert conditions(now_s=now_s)[1] == ("False", state, "")
    found = status(now_s=now_s)
    assert (found.state, found.target_watts) == (state, None)


def test_an_event_whose_lost_source_ends_its_limit_is_not_active():
    lost = replace(CUT, if_source_lost=SourceLoss.RELEASE, renewed_s=NOW_S - 60, source_timeout_s=60.0)
    message = "the source has not renewed the event in time: its limit has ended"
    assert conditions(limit=lost)[1] == ("False", "SourceLost", message)
    kept = replace(lost, if_source_lost=SourceLoss.KEEP_UNTIL_END)
    assert conditions(limit=kept)[1] == ("True", "InForce", "")
    # Without its limit it had none that the source could end.
    unknown = conditions(decided(event=None), replace(lost, limit_mw=None))[1]
    assert unknown == ("False", "NoBaseline", "no limit is in force by it")


def test_while_no_limit_is_in_force_an_event_says_why():
    none = decided(event=None)
    assert conditions(none)[1] == ("False", "NoDepthYet", "no limit is in force by it")
    above = replace(CUT, limit_mw=2_000_000)
    assert conditions(none, above)[1] == ("False", "NothingToDeliver", "no limit is in force by it")
    assert status(none).binding_event is None


def test_another_event_that_binds_carries_out_this_one_unless_it_asks_for_nothing():
    other = decided(event=EventLimit("deeper", 1_300_000))
    message = "the limit of deeper is in force, which is as low or lower"
    assert conditions(other)[1] == ("True", "OtherEventBinds", message)
    assert status(other).binding_event == "deeper"
    for limit_mw, reason in ((None, "NoBaseline"), (2_000_000, "NothingToDeliver")):
        found = conditions(other, replace(CUT, limit_mw=limit_mw))[1]
        assert found == ("False", reason, "no limit is in force by it")
