"""Limits of events: the lowest wins, none raises, ramps go one way, and no source frees another's."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget import EventLimit, TimedLimit
from joulie_core.budget.events import event_depth, event_state, limit_now_mw, limits_in_force, next_change_s
from joulie_core.kinds.power_event import EventState, SourceLoss

OWN = 1_000
START, END = 100.0, 200.0


def event(name="e", limit_mw=600, **fields):
    return TimedLimit(name, "row", limit_mw, **{"start_s": START, "end_s": END} | fields)


def limit(found, now_s, reach_mw=0):
    return limit_now_mw(found, OWN, reach_mw, now_s)


@st.composite
def events(draw, name="e"):
    start = draw(st.integers(0, 50))
    lossy = draw(st.sampled_from(SourceLoss))
    return TimedLimit(
        name,
        draw(st.sampled_from(["row", "rack"])),
        draw(st.one_of(st.none(), st.integers(0, 2_000))),
        start,
        draw(st.one_of(st.none(), st.integers(0, 100).map(float))),
        draw(st.integers(0, 40)),
        draw(st.integers(0, 40)),
        priority=draw(st.integers(0, 3)),
        if_source_lost=lossy,
        source_timeout_s=draw(st.one_of(st.none(), st.just(30.0))),
        source_lost_limit_mw=draw(st.integers(0, 2_000)) if lossy is SourceLoss.LIMIT else None,
        renewed_s=draw(st.one_of(st.none(), st.integers(0, 60).map(float))),
    )


def in_force(listed, now_s, reach_mw=None):
    return limits_in_force(listed, {"row": OWN, "rack": 500}, reach_mw or {}, now_s)


@pytest.mark.parametrize(
    ("now_s", "state", "expected"),
    [
        (99.9, EventState.PENDING, None),
        (100.0, EventState.ACTIVE, 600),
        (199.9, EventState.ACTIVE, 600),
        (200.0, EventState.ENDED, None),
    ],
)
def test_an_event_without_ramps_is_in_force_from_its_start_to_its_end(now_s, state, expected):
    assert (event_state(event(), now_s), limit(event(), now_s)) == (state, expected)


@pytest.mark.parametrize(
    ("now_s", "state", "expected"),
    [
        (100.0, EventState.RAMPING_DOWN, None),
        (105.0, EventState.RAMPING_DOWN, 800),
        (110.0, EventState.ACTIVE, 600),
        (200.0, EventState.RAMPING_UP, 600),
        (210.0, EventState.RAMPING_UP, 800),
        (220.0, EventState.ENDED, None),
    ],
)
def test_ramps_are_linear_and_begin_at_the_start_and_at_the_end(now_s, state, expected):
    ramped = event(ramp_down_s=10, ramp_up_s=20)
    assert (event_state(ramped, now_s), limit(ramped, now_s)) == (state, expected)


def test_an_event_that_ends_while_it_ramps_down_goes_up_from_there():
    cut = event(ramp_down_s=200, ramp_up_s=100)
    assert [limit(cut, now_s) for now_s in (200.0, 250.0, 300.0)] == [800, 900, None]


def test_a_standing_event_does_not_end():
    assert limit(event(end_s=None), 1e12) == 600


@pytest.mark.parametrize("end_s", [50.0, 100.0])
def test_an_event_that_ends_before_it_starts_is_never_in_force(end_s):
    early = event(end_s=end_s, ramp_up_s=100)
    for now_s in (0.0, end_s, 100.0, 150.0):
        assert limit(early, now_s) is None
    assert event_state(early, 150.0) is EventState.ENDED


@pytest.mark.parametrize("full", [1_000, 1_500, None])
def test_an_event_that_is_not_below_the_domain_changes_nothing(full):
    assert limit(event(limit_mw=full), 150.0) is None


def test_a_limit_goes_no_lower_than_can_be_reached():
    assert limit(event(), 150.0, reach_mw=700) == 700
    assert limit(event(), 150.0, reach_mw=1_000) is None


@pytest.mark.parametrize(
    ("loss", "expected"), [(SourceLoss.KEEP_UNTIL_END, 600), (SourceLoss.LIMIT, 900), (SourceLoss.RELEASE, None)]
)
def test_a_lost_source_keeps_replaces_or_ends_its_limit_until_it_renews(loss, expected):
    lost_limit = 900 if loss is SourceLoss.LIMIT else None
    fields = {"if_source_lost": loss, "source_timeout_s": 30.0, "source_lost_limit_mw": lost_limit}
    lost = event(renewed_s=110.0, **fields)
    assert (event_state(lost, 139.9), limit(lost, 139.9)) == (EventState.ACTIVE, 600)
    assert (event_state(lost, 140.0), limit(lost, 140.0)) == (EventState.SOURCE_LOST, expected)
    assert limit(event(renewed_s=150.0, **fields), 160.0) == 600
    # A source that writes no renewals is not watched.
    assert limit(event(**fields), 160.0) == 600


def test_a_released_event_does_not_ramp_up():
    lost = event(if_source_lost=SourceLoss.RELEASE, source_timeout_s=30.0, renewed_s=110.0, ramp_up_s=50)
    assert (event_state(lost, 210.0), limit(lost, 210.0)) == (EventState.ENDED, None)


def test_of_equal_limits_the_most_important_event_is_named_then_the_first_by_name():
    listed = [event("c", priority=1), event("b", priority=1), event("a", priority=2)]
    assert in_force(listed, 150.0) == {"row": EventLimit("b", 600)}


def test_an_event_of_an_unknown_domain_changes_nothing():
    assert limits_in_force([event()], {"other": OWN}, {}, 150.0) == {}


@given(st.lists(events(), max_size=5), st.integers(0, 200), st.integers(0, 1_500))
def test_no_event_raises_a_limit_and_the_lowest_is_in_force(listed, now_s, reach):
    named = [replace(each, name=f"e{number}") for number, each in enumerate(listed)]
    reaches = {each.name: reach for each in named}
    found = in_force(named, now_s, reaches)
    for domain, own in (("row", OWN), ("rack", 500)):
        single = [limit_now_mw(each, own, reach, now_s) for each in named if each.domain == domain]
        known = [each for each in single if each is not None]
        assert (domain in found) == bool(known)
        if known:
            assert found[domain].limit_mw == min(known)
            assert min(own, reach) <= found[domain].limit_mw < own


@given(st.lists(events(), max_size=4), events(), st.integers(0, 200))
def test_another_event_never_frees_what_is_in_force(listed, other, now_s):
    named = [replace(each, name=f"e{number}") for number, each in enumerate(listed)]
    before, after = in_force(named, now_s), in_force([*named, replace(other, name="other")], now_s)
    for domain, each in before.items():
        assert after[domain].limit_mw <= each.limit_mw


@given(events(), st.integers(0, 200), st.integers(0, 200))
def test_the_depth_grows_until_the_end_and_shrinks_after_it(found, first, second):
    first, second = sorted((first, second))
    assert 0.0 <= event_depth(found, first) <= 1.0
    if found.end_s is None or second <= found.end_s:
        assert event_depth(found, first) <= event_depth(found, second)
    elif first >= found.end_s:
        assert event_depth(found, first) >= event_depth(found, second)


@given(events(), st.integers(0, 200))
def test_nothing_changes_before_the_next_change(found, now_s):
    until = next_change_s(found, now_s)
    assert until is None or until > now_s
    last = until if until is not None else now_s + 1_000.0
    if last > now_s + 1.0:
        for share in (0.25, 0.5, 0.75):
            then = now_s + (last - now_s) * share
            assert event_state(found, then) == event_state(found, now_s)
            assert limit_now_mw(found, OWN, 0, then) == limit_now_mw(found, OWN, 0, now_s)
