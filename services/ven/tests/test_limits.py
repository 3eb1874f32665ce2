"""What payloads mean, and how a schedule and a subscribed capacity fit together."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from services.ven.tests.events import HOUR, KW, capacity, interval, simple, subscription

from joulie_api.settings import read_settings
from joulie_core.timestamps import rfc3339
from joulie_ven.limits import MOST_LIMITS, MOST_PARTS, LimitKind, LimitRules, plan
from joulie_ven.objects import spec_of
from joulie_ven.settings import VenSettings
from joulie_ven.times import FOREVER, windows
from joulie_ven.wire import MOST_INTERVALS, PayloadDescriptor, VtnEvent, decode_event

NOW_S = 1_800_000_000.0
SETTINGS = read_settings(
    VenSettings, {"VTN_URL": "https://v", "VTN_PROGRAM": "p", "VEN_NAME": "v", "POWER_DOMAIN": "site"}
)
RULES = LimitRules("ven", frozenset(), 100_000, (300_000, None, 50_000))


def event(number=0, **fields):
    return decode_event(json.dumps({"id": f"e{number}", "programID": "p", **fields}).encode())


def limits(*events, rules=RULES, **more):
    """Watts, start and end after NOW_S of each limit, by its start."""
    made = [event(number, **fields) for number, fields in enumerate(events)]
    found = plan(made, rules, now_s=NOW_S, seen_s={}, **more)
    assert found.refused == {}
    return sorted(
        ((each.watts, each.start_s - NOW_S, each.end_s - NOW_S) for each in found.limits), key=lambda e: e[1:]
    )


def refusal(**fields):
    found = plan([event(**fields)], RULES, now_s=NOW_S, seen_s={})
    assert found.limits == ()
    return found.refused["e0"]


def described(units, value=500):
    return capacity(value, NOW_S) | {"payloadDescriptors": [{**KW[0], "units": units}]}


@pytest.mark.parametrize(
    ("units", "value", "watts"), [("KW", 500, 400_000), ("W", 250_000, 150_000), ("KW", 0.25, 0), ("KW", 0, 0)]
)
def test_the_rest_of_the_site_is_taken_from_its_limit(units, value, watts):
    assert limits(described(units, value)) == [(watts, 0, HOUR)]


def test_part_of_a_watt_is_rounded_down():
    assert limits(described("W", 200_000.9)) == [(100_000, 0, HOUR)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"payloadDescriptors": None}, "no units for IMPORT_CAPACITY_LIMIT, and OpenADR has no default"),
        ({"payloadDescriptors": [{**KW[0], "units": None}]}, "no units"),
        ({"payloadDescriptors": [{**KW[0], "payloadType": "PRICE"}]}, "no units"),
        ({"payloadDescriptors": [{**KW[0], "objectType": "REPORT_PAYLOAD_DESCRIPTOR"}]}, "no units"),
        ({"payloadDescriptors": [{**KW[0], "units": "KVA"}]}, "units 'KVA' of IMPORT_CAPACITY_LIMIT, must be KW or W"),
        ({"payloadDescriptors": [{**KW[0], "units": "kW"}]}, "must be KW or W"),
    ],
)
def test_units_are_never_guessed(fields, message):
    assert message in refusal(**(capacity(500, NOW_S) | fields))


def test_units_of_the_program_count_where_the_event_has_none():
    defaults = [PayloadDescriptor.model_validate({**KW[0], "units": "W"})]
    assert limits(capacity(500_000, NOW_S) | {"payloadDescriptors": []}, defaults=defaults) == [(400_000, 0, HOUR)]
    assert limits(capacity(500, NOW_S), defaults=defaults) == [(400_000, 0, HOUR)]


@pytest.mark.parametrize("value", [-1, -0.001, "500", True, None, [500], {"x": 1, "y": 2}, 1e12])
def test_a_value_that_is_no_power_is_refused(value):
    assert "intervals[0]: " in refusal(**capacity(value, NOW_S))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(text):
    raw = json.dumps({"id": "e0", "programID": "p", **capacity(12345, NOW_S)}).replace("12345", text)
    found = decode_event(raw.encode())
    if isinstance(found, VtnEvent):
        assert "is no power" in plan([found], RULES, now_s=NOW_S, seen_s={}).refused["e0"]
    else:
        assert found.id in {"e0", None}


@pytest.mark.parametrize("values", [[], [1, 2]])
def test_another_number_of_values_than_one_is_refused(values):
    fields = capacity(500, NOW_S)
    fields["intervals"][0]["payloads"][0]["values"] = values
    assert f"has {len(values)} values" in refusal(**fields)


@pytest.mark.parametrize(
    ("fields", "values", "message"),
    [
        (capacity(500, NOW_S), [], "intervals[0]: IMPORT_CAPACITY_LIMIT has 0 values, must have one"),
        (simple(1, NOW_S), [1, 2], "intervals[0]: SIMPLE has 2 values, must have one"),
        (simple(1, NOW_S), ["x" * 99], f"intervals[0]: '{'x' * 30}… is no level of SIMPLE: 0, 1, 2 or 3"),
    ],
)
def test_a_refusal_names_the_interval_and_shows_the_beginning_of_its_value(fields, values, message):
    fields["intervals"][0]["payloads"][0]["values"] = values
    assert refusal(**fields) == message


def test_levels_are_limits_of_the_domain():
    assert limits(simple(1, NOW_S)) == [(300_000, 0, HOUR)]
    assert limits(simple(3, NOW_S)) == limits(simple(3.0, NOW_S)) == [(50_000, 0, HOUR)]
    assert limits(simple(0, NOW_S)) == []


@pytest.mark.parametrize("level", [4, -1, 1.5, "1", True])
def test_what_is_no_level_is_refused(level):
    assert "is no level of SIMPLE" in refusal(**simple(level, NOW_S))


def test_a_level_without_a_limit_is_refused_with_the_name_of_the_setting():
    assert "set SIMPLE_LEVEL_2_WATTS" in refusal(**simple(2, NOW_S))


def test_of_a_level_and_a_limit_in_one_interval_the_lower_counts():
    both = capacity(900, NOW_S)
    both["intervals"][0]["payloads"].append({"type": "SIMPLE", "values": [1]})
    assert limits(both) == [(300_000, 0, HOUR)]


def test_a_price_before_a_limit_hides_it_neither_in_its_interval_nor_in_its_event():
    priced = capacity(500, NOW_S + HOUR)
    priced["intervals"][0]["payloads"].insert(0, {"type": "PRICE", "values": [0.2]})
    priced["intervals"].insert(0, interval(0.2, "PRICE", number=4, start=NOW_S, duration="PT1H"))
    priced["intervals"][1]["id"] = 7
    (limit,) = plan([event(**priced)], RULES, now_s=NOW_S, seen_s={"e0": NOW_S - 5}).limits
    assert (limit.interval_id, limit.index, limit.seen_s) == (7, 1, NOW_S - 5)
    assert (limit.watts, limit.start_s) == (400_000, NOW_S + HOUR)


def test_an_event_is_for_this_ven_where_they_share_a_target_or_one_has_none():
    rules = replace(RULES, targets=frozenset({"site-1", "row-2"}))
    others = [event(number, **capacity(500, NOW_S, targets=["row-3"])) for number in (1, 2)]
    mine = [event(3, **capacity(500, NOW_S, targets=["row-3", "row-2"])), event(4, **capacity(500, NOW_S, targets=[]))]
    found = plan([*others, *mine], rules, now_s=NOW_S, seen_s={})
    assert ([each.event_id for each in found.limits], found.ignored, found.deferred) == (["e3", "e4"], 2, 0)
    assert (len(plan([*others, *mine], RULES, now_s=NOW_S, seen_s={}).limits), found.refused) == (4, {})


def test_an_event_that_starts_now_starts_when_this_ven_first_read_it():
    now = simple(1, "0001-01-01")
    first, later = (plan([event(**now)], RULES, now_s=NOW_S, seen_s=seen) for seen in ({}, {"e0": NOW_S - 60}))
    assert [each.limits[0].start_s for each in (first, later)] == [NOW_S, NOW_S - 60]


def test_a_randomized_start_follows_from_the_name_of_the_ven():
    spread = {"intervals": [interval(1, "SIMPLE", start=NOW_S + HOUR, duration="PT1H", randomizeStart="PT10M")]}
    (limit,) = plan([event(**spread)], RULES, now_s=NOW_S, seen_s={}).limits
    (window,) = windows(event(**spread), seen_s=NOW_S, ven="ven")
    assert limit.start_s == window.start_s != NOW_S + HOUR


@pytest.mark.parametrize("intervals", [None, [], [interval(0.2, "PRICE", start="no time")]])
def test_an_event_without_a_limit_has_none_whatever_its_times_are(intervals):
    assert limits({"intervals": intervals}) == []


def test_what_has_ended_is_left_out():
    assert limits(capacity(500, NOW_S - 2 * HOUR), capacity(400, NOW_S - HOUR + 1)) == [(300_000, 1 - HOUR, 1)]
    assert limits(capacity(500, NOW_S - HOUR)) == []


def test_the_priority_is_that_of_the_event_and_the_lowest_without():
    found = plan(
        [event(**capacity(500, NOW_S)), event(1, **capacity(500, NOW_S, priority=7))], RULES, now_s=NOW_S, seen_s={}
    )
    assert {each.event_id: each.priority for each in found.limits} == {"e0": 1_000_000, "e1": 7}


def test_a_schedule_replaces_the_subscribed_capacity_and_a_level_does_not():
    found = limits(subscription(300), capacity(800, NOW_S + HOUR), simple(1, NOW_S + HOUR))
    since_s = found[0][1]
    assert found == [
        (200_000, since_s, HOUR),
        *sorted([(700_000, HOUR, 2 * HOUR), (300_000, HOUR, 2 * HOUR)], reverse=True),
        (200_000, 2 * HOUR, FOREVER),
    ]


def test_a_schedule_at_an_end_of_a_subscription_leaves_no_empty_part():
    day = subscription(300, rfc3339(NOW_S, "seconds"), "PT2H")
    assert limits(day, capacity(800, NOW_S)) == [(700_000, 0, HOUR), (200_000, HOUR, 2 * HOUR)]
    assert limits(day, capacity(800, NOW_S + HOUR)) == [(200_000, 0, HOUR), (700_000, HOUR, 2 * HOUR)]


def test_a_schedule_that_has_ended_and_is_not_listed_any_more_changes_no_part():
    with_it = plan(
        [event(**subscription(300)), event(1, **capacity(800, NOW_S - HOUR + 1))], RULES, now_s=NOW_S, seen_s={}
    )
    past = [each for each in with_it.limits if each.kind is LimitKind.CAPACITY_LIMIT]
    later = plan([event(**subscription(300))], RULES, now_s=NOW_S + 10, seen_s={"e0": NOW_S}, past=past)
    assert [each for each in with_it.limits if each.start_s > NOW_S] == list(later.limits)


@given(st.lists(st.tuples(st.integers(-5, 20), st.integers(1, 8)), max_size=8))
def test_at_every_moment_of_a_subscription_there_is_exactly_one_of_it_or_a_schedule(schedule):
    events = [capacity(800, NOW_S + start * HOUR, f"PT{hours}H") for start, hours in schedule]
    found = limits(subscription(300), *events)
    for half in range(60):
        at_s = half * HOUR / 2
        subscribed = [each for each in found if each[0] == 200_000 and each[1] <= at_s < each[2]]
        scheduled = any(start * HOUR <= at_s < (start + hours) * HOUR for start, hours in schedule)
        assert len(subscribed) == (not scheduled)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MOMENTS = st.sampled_from(["0001-01-01", "2026-03-01T12:00:00Z", "9999-12-31T23:59:59Z", "P9999Y", "PT1S", "P1Y", ""])
PERIODS = st.fixed_dictionaries({}, optional=dict.fromkeys(("start", "duration", "randomizeStart"), MOMENTS | ANYTHING))
PAYLOADS = st.fixed_dictionaries(
    {"type": st.sampled_from([*LimitKind, "PRICE"]), "values": st.lists(ANYTHING, min_size=1, max_size=1)}
)
INTERVALS = st.fixed_dictionaries(
    {"id": st.integers(-9, 9), "payloads": st.lists(PAYLOADS, max_size=2)}, optional={"intervalPeriod": PERIODS}
)


@given(
    st.fixed_dictionaries(
        {"payloadDescriptors": st.just([*KW, {**KW[0], "payloadType": "IMPORT_CAPACITY_SUBSCRIPTION"}])},
        optional={
            "intervals": st.lists(INTERVALS, max_size=3) | ANYTHING,
            "intervalPeriod": PERIODS,
            "duration": MOMENTS,
            "priority": ANYTHING,
            "targets": ANYTHING,
        },
    )
)
def test_whatever_an_event_has_it_is_refused_or_can_be_written(fields):
    found = event(**fields)
    if isinstance(found, VtnEvent):
        made = plan([found], RULES, now_s=NOW_S, seen_s={})
        for limit in made.limits:
            assert spec_of(limit, SETTINGS, "2026-03-01T12:00:00Z").limit_watts >= 0


def test_beyond_the_bound_what_has_no_end_and_what_begins_first_is_kept():
    many = [capacity(500, NOW_S + number * HOUR) for number in range(MOST_LIMITS + 5)]
    found = plan(
        [event(number, **each) for number, each in enumerate([*many, simple(1, NOW_S, "P9999Y")])],
        RULES,
        now_s=NOW_S,
        seen_s={},
    )
    assert (len(found.limits), found.deferred) == (MOST_LIMITS, 6)
    assert found.limits[0].end_s == FOREVER
    assert max(each.start_s for each in found.limits) == NOW_S + (MOST_LIMITS - 2) * HOUR


def windowed(number, kind, *spans):
    """An event of one kind with intervals from and to hours after NOW_S."""
    parts = [interval(1, kind, start=NOW_S + start * HOUR, duration=f"PT{end - start}H") for start, end in spans]
    return event(number, intervals=parts, payloadDescriptors=[{**KW[0], "payloadType": kind}])


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)).map(lambda e: (e[0], e[0] + e[1])), max_size=6)


@given(SPANS, SPANS)
def test_subscribed_capacities_are_in_force_in_each_hour_without_a_schedule_and_in_no_other(subscribed, scheduled):
    events = [
        windowed(1, "IMPORT_CAPACITY_SUBSCRIPTION", *subscribed),
        windowed(2, "IMPORT_CAPACITY_LIMIT", *scheduled),
    ]
    made = plan(events, RULES, now_s=NOW_S, seen_s={}).limits
    parts = [each for each in made if each.kind is LimitKind.SUBSCRIPTION]

    def hours(spans):
        return sorted(hour for start, end in spans for hour in range(int(start), int(end)))

    in_force = hours(((each.start_s - NOW_S) / HOUR, (each.end_s - NOW_S) / HOUR) for each in parts)
    assert in_force == [hour for hour in hours(subscribed) if hour not in hours(scheduled)]


@pytest.mark.timeout(30)
def test_capacities_that_thousands_of_schedules_cut_are_left_whole_beyond_the_bound():
    # Every other hour, so that each schedule makes a part of each subscription.
    hours = [(2 * each, 2 * each + 1) for each in range(MOST_INTERVALS)]
    schedules = [windowed(number, "IMPORT_CAPACITY_LIMIT", *hours) for number in range(3)]
    everywhere = [(0, 2 * MOST_INTERVALS)] * MOST_INTERVALS
    subscriptions = [windowed(number, "IMPORT_CAPACITY_SUBSCRIPTION", *everywhere) for number in range(3, 6)]
    found = plan([*schedules, *subscriptions], RULES, now_s=NOW_S, seen_s={})
    cut = MOST_PARTS // MOST_INTERVALS
    whole = 3 * MOST_INTERVALS - cut
    assert len(found.limits) + found.deferred == 3 * MOST_INTERVALS + cut * MOST_INTERVALS + whole
    assert found.refused == {}
