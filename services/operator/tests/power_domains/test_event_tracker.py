"""Facts of events beside their specs: when they were first seen, their baselines, renewals and limits."""

import json

import pytest

from joulie_api.wire import decode_kind
from joulie_core.budget import TimedLimit
from joulie_core.budget.events import event_depth, event_state
from joulie_core.kinds import PowerDomainSpec, PowerEvent
from joulie_core.kinds.base import WorkloadClass
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_core.kinds.power_event import EventMinute, EventState, SourceLoss
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.event_tracker import EventTracker
from joulie_testing.api import make_power_event

NOW_S = 1_800_000_000.0
ROW = PowerDomainSpec(limit_watts=2_000, reserve_watts=100, on_lost_control=DomainLostControl.RELEASE)


def moment(after_s):
    return rfc3339(NOW_S + after_s, "seconds")


def event(name="cut", *, uid="u", created_s=-30.0, status=None, **spec):
    made = make_power_event(name, status=status, domain="row", **spec)
    made["metadata"] |= {"uid": uid, "resourceVersion": "1", "creationTimestamp": moment(created_s)}
    return decode_kind(PowerEvent)(json.dumps(made).encode())


def timed(after_s=0.0, for_s=600.0, **fields):
    return event(start=moment(after_s), end=moment(after_s + for_s), standing=None, **fields)


class History:
    """Answers with its watts, and records the times that were asked for."""

    def __init__(self, watts=1_000.0):
        self.watts = watts
        self.asked = []

    def last_hour(self, start_s):
        self.asked.append(start_s)
        return self.watts

    def same_hours(self, start_s, end_s):
        self.asked.append((start_s, end_s))
        return self.watts


def follow(tracker, *events, after_s=0.0, passed_s=None, history=None, specs=None):
    """Follow events; `passed_s` is the time that has passed where the clock was set since."""
    objects = {each.name: each for each in events}
    histories = {} if history is None else {"row": history}
    clock_s = after_s if passed_s is None else passed_s
    return tracker.follow(objects, {"row": ROW} if specs is None else specs, histories, NOW_S + after_s, clock_s)


def only(tracker, one, **fields):
    (found,) = follow(tracker, one, **fields)
    return found


def test_all_of_a_spec_is_in_the_limit():
    spec = {
        "limitWatts": 1_500,
        "rampDownSeconds": 30,
        "rampUpSeconds": 90,
        "priority": 7,
        "mayAffect": ["performance"],
        "ifSourceLost": "Limit",
        "sourceTimeoutSeconds": 60,
        "sourceLostLimitWatts": 1_200,
        "sourceRenewed": moment(-500),
    }
    found = only(EventTracker(), timed(60, **spec))
    assert found.limit == TimedLimit(
        name="cut",
        domain="row",
        limit_mw=1_500_000,
        start_s=NOW_S + 60,
        end_s=NOW_S + 660,
        ramp_down_s=30.0,
        ramp_up_s=90.0,
        priority=7,
        may_affect=frozenset({WorkloadClass.PERFORMANCE}),
        if_source_lost=SourceLoss.LIMIT,
        source_timeout_s=60,
        source_lost_limit_mw=1_200_000,
        renewed_s=NOW_S,
    )
    assert (found.spec.limit_watts, found.baseline_watts) == (1_500, None)


def test_what_a_spec_leaves_out_is_not_in_the_limit():
    limit = only(EventTracker(), event()).limit
    assert limit == TimedLimit("cut", "row", 1_000_000, NOW_S)
    assert (limit.source_lost_limit_mw, limit.renewed_s, limit.end_s) == (None, None, None)


def test_events_are_in_the_order_of_their_names():
    found = follow(EventTracker(), event("b"), event("c"), event("a"))
    assert [each.limit.name for each in found] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("fields", "start_s"),
    [
        ({"start": moment(60)}, 60.0),
        ({"start": moment(-60)}, 0.0),
        ({"created_s": -30.0}, 0.0),
        ({"created_s": 5.0}, 5.0),
    ],
)
def test_an_event_starts_no_earlier_than_it_was_first_seen(fields, start_s):
    tracker = EventTracker()
    for after_s in (0.0, 20.0):
        assert only(tracker, event(**fields), after_s=after_s).limit.start_s == NOW_S + start_s


def test_an_event_goes_on_from_its_status_after_a_change_of_leader():
    minutes = [EventMinute(start=moment(-60)).dump()]
    status = {
        "firstSeen": moment(-90),
        "baselineWatts": 900.0,
        "minutes": minutes,
        "affected": {"standardNodes": 3, "performanceNodes": 1, "nodes": ["n1"]},
    }
    history = History()
    spec = {"limitWatts": None, "reduceByPercent": 10, "baseline": "LastHour", "created_s": -900.0}
    found = only(EventTracker(), event(status=status, **spec), history=history)
    assert (found.limit.start_s, found.baseline_watts, found.limit.limit_mw) == (NOW_S - 90, 900.0, 910_000)
    assert found.known.affected.standard_nodes == 3
    assert [each.start for each in found.known.record.minutes] == [moment(-60)]
    assert history.asked == []


def test_a_status_of_the_future_is_of_now_and_one_without_baseline_states_none():
    history = History()
    spec = {"baseline": "LastHour", "status": {"firstSeen": moment(100)}}
    found = only(EventTracker(), event(**spec), history=history)
    assert (found.known.first_seen_s, found.limit.start_s) == (NOW_S, NOW_S)
    assert history.asked == [NOW_S]
    unseen = event(baseline="LastHour", status={"baselineWatts": 900.0})
    assert only(EventTracker(), unseen, history=history).baseline_watts == 1_000.0


def test_another_object_of_the_same_name_is_another_event():
    tracker = EventTracker()
    follow(tracker, event())
    assert only(tracker, event(), after_s=10).limit.start_s == NOW_S
    assert only(tracker, event(uid="v"), after_s=20).limit.start_s == NOW_S + 20


def test_what_is_gone_is_forgotten():
    tracker = EventTracker()
    follow(tracker, event("a"), event("b"))
    assert set(tracker.known) == {"a", "b"}
    follow(tracker, event("b"))
    assert set(tracker.known) == {"b"}


def test_a_baseline_is_stated_once_at_the_start():
    tracker, history = EventTracker(), History()
    coming = timed(60, baseline="LastHour")
    assert only(tracker, coming, history=history).baseline_watts == 1_000.0
    history.watts = 900.0
    assert only(tracker, coming, history=history, after_s=30).baseline_watts == 900.0
    history.watts = 800.0
    assert only(tracker, coming, history=history, after_s=60).baseline_watts == 800.0
    history.watts = 700.0
    assert only(tracker, coming, history=history, after_s=90).baseline_watts == 800.0
    assert history.asked == [NOW_S, NOW_S + 30, NOW_S + 60]


def test_a_baseline_is_stated_again_where_the_start_is_put_off():
    tracker, history = EventTracker(), History()
    follow(tracker, timed(0, baseline="LastHour"), history=history)
    history.watts = 900.0
    assert only(tracker, timed(60, baseline="LastHour"), history=history, after_s=10).baseline_watts == 900.0


def test_a_baseline_that_is_not_known_at_the_start_stays_unknown():
    tracker, history = EventTracker(), History(None)
    cut = timed(0, baseline="LastHour", limitWatts=None, reduceByPercent=20)
    assert only(tracker, cut, history=history).limit.limit_mw is None
    history.watts = 900.0
    assert only(tracker, cut, history=history, after_s=10).baseline_watts is None
    assert only(EventTracker(), cut).baseline_watts is None


def test_the_same_hours_are_those_of_the_event():
    history = History()
    assert only(EventTracker(), timed(60, baseline="SameHoursOfDays"), history=history).baseline_watts == 1_000.0
    assert only(EventTracker(), event(baseline="SameHoursOfDays"), history=history).baseline_watts == 1_000.0
    assert history.asked == [(NOW_S, NOW_S + 660), (NOW_S, None)]


def test_an_event_without_baseline_asks_for_none():
    history = History()
    assert only(EventTracker(), event(), history=history).baseline_watts is None
    assert history.asked == []


@pytest.mark.parametrize(
    ("specs", "limit_mw"),
    [(None, 990_123 * 80 // 100 + 100_000), ({}, 990_123 * 80 // 100)],
    ids=["with its reserve", "of no domain"],
)
def test_a_reduction_is_of_the_baseline_and_the_reserve_is_beside_it(specs, limit_mw):
    cut = event(baseline="LastHour", limitWatts=None, reduceByPercent=20)
    assert only(EventTracker(), cut, history=History(990.1239), specs=specs).limit.limit_mw == limit_mw


def test_only_a_change_of_the_renewal_counts_at_the_time_at_which_it_is_seen():
    tracker = EventTracker()

    def renewed_s(renewed, after_s):
        one = event(sourceTimeoutSeconds=60, sourceRenewed=renewed)
        found = only(tracker, one, after_s=after_s).limit.renewed_s
        return None if found is None else found - NOW_S

    assert renewed_s(moment(-500), 0) == 0
    assert renewed_s(moment(-500), 50) == 0
    assert renewed_s(moment(-600), 70) == 70
    assert renewed_s(None, 80) is None
    assert renewed_s(moment(-600), 90) == 90


def test_a_clock_that_is_set_back_neither_lifts_a_limit_in_force_nor_starts_its_ramp_anew():
    tracker = EventTracker()
    cut = timed(-7_200, 14_400, rampDownSeconds=600)
    only(tracker, cut)
    assert event_depth(only(tracker, cut, after_s=300).limit, NOW_S + 300) == 0.5
    back = only(tracker, cut, after_s=-3_600)
    assert event_depth(back.limit, NOW_S - 3_600) == 0.5
    assert event_state(only(tracker, cut, after_s=-3_300).limit, NOW_S - 3_300) is EventState.ACTIVE


def test_a_start_that_is_still_to_come_by_a_clock_that_was_set_back_is_awaited():
    tracker = EventTracker()
    only(tracker, timed(-60, 600))
    assert only(tracker, timed(-60, 600), after_s=-120).limit.start_s == NOW_S - 60


@pytest.mark.parametrize("set_by_s", [3_600, -3_600])
def test_a_clock_that_is_set_neither_loses_nor_renews_a_source(set_by_s):
    tracker = EventTracker()
    one = event(sourceTimeoutSeconds=60, sourceRenewed=moment(-500))
    only(tracker, one)
    at_s = 40 + set_by_s
    assert only(tracker, one, after_s=at_s, passed_s=40).limit.lost_s == NOW_S + at_s + 20
