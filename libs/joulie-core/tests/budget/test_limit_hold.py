"""How long a limit counts after a sample: numbers, holds, late and forged names, and restarts of the agent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget.ledger import LeaseTimes
from joulie_core.budget.limit_hold import MOST_SAMPLES, LimitHold, TakenSample, TakenSamples, limit_hold
from joulie_core.budget.node_limit import FollowedLimit, follow
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, NodePowerBudgetStatus, OversubscribedLimit

NOTHING = NodePowerBudgetStatus()
HOLD_S, SAMPLE_S = 10, 5


def asked(sample=None, fallback=700.0, **fields):
    return OversubscribedLimit.model_validate(
        {"fallback_watts": fallback, "sample_seconds": SAMPLE_S, "hold_seconds": HOLD_S, "sample": sample} | fields
    )


def spec(sample=None, *, limit=900.0, sequence=1, **fields):
    return NodePowerBudgetSpec.model_validate(
        {
            "node_name": "n1",
            "node_uid": "u1",
            "boot_id": "b1",
            "term": 1,
            "sequence": sequence,
            "limit_watts": limit,
            "on_lost_control": "KeepGuaranteed",
            "lease_seconds": 300,
            "renewal": 1,
            "oversubscription": {
                "fallback_watts": 700,
                "sample_seconds": SAMPLE_S,
                "hold_seconds": HOLD_S,
                "sample": sample,
            },
        }
        | fields
    )


def taken(*times, first=100):
    samples = TakenSamples.begin(first - 1)
    for now_s in times:
        samples = samples.take(now_s)
    return samples


def test_numbers_begin_at_random_and_grow_by_one():
    samples = taken(1.0, 2.0, 7.5, first=41)
    assert samples.taken == (TakenSample(41, 1.0), TakenSample(42, 2.0), TakenSample(43, 7.5))
    assert (samples.newest, samples.next_number) == (TakenSample(43, 7.5), 44)
    assert taken().newest is None


@pytest.mark.parametrize(("random", "first"), [(0, 1), (2**52 - 1, 2**52), (2**52, 1), (2**64 - 1, 2**52)])
def test_first_numbers_are_above_zero_and_leave_room_in_a_float(random, first):
    assert TakenSamples.begin(random).next_number == first
    # A sample each second for a million years.
    assert first + 3_600 * 24 * 366 * 1_000_000 < 2**53


def test_old_samples_are_forgotten_and_then_as_if_never_taken():
    samples = taken(*range(MOST_SAMPLES), first=1)
    assert (samples.taken_s(1), samples.taken_s(MOST_SAMPLES)) == (0.0, MOST_SAMPLES - 1)
    samples = samples.take(99.0)
    assert (len(samples.taken), samples.taken_s(1), samples.taken_s(2)) == (MOST_SAMPLES, None, 1.0)
    assert samples.taken_s(MOST_SAMPLES + 1) == 99.0


@pytest.mark.parametrize("number", [None, 0, 99, 103, 2**63 - 1])
def test_a_sample_that_was_not_taken_is_not_fresh(number):
    hold = limit_hold(asked(number), 900_000, taken(0.0, 5.0, 10.0))
    assert (hold.taken_s, hold.ends_s(), hold.is_fresh(0.0), hold.is_fresh(10.0)) == (None, None, False, False)


@pytest.mark.parametrize(("number", "ends_s"), [(100, 10.0), (101, 15.0), (102, 20.0)])
def test_a_limit_counts_until_the_hold_of_the_named_sample_has_passed(number, ends_s):
    hold = limit_hold(asked(number), 900_000, taken(0.0, 5.0, 10.0))
    assert (hold.sample_s, hold.hold_s, hold.fallback_mw) == (5.0, 10.0, 700_000)
    assert hold.ends_s() == ends_s
    assert hold.is_fresh(ends_s - 0.001)
    assert not hold.is_fresh(ends_s)


def test_a_fallback_is_never_above_the_limit():
    assert limit_hold(asked(fallback=950.0), 900_000, taken()).fallback_mw == 900_000
    assert limit_hold(asked(fallback=1e308), 900_000, taken()).fallback_mw == 900_000
    assert limit_hold(asked(fallback=0.0), 900_000, taken()).fallback_mw == 0


@pytest.mark.parametrize(("asked_s", "sample_s"), [(1, 1.0), (30, 30.0), (31, 30.0), (3600, 30.0)])
def test_samples_are_no_further_apart_than_a_renewal_can_wait(asked_s, sample_s):
    """By `LeaseTimes` a node whose renewals are not repeated is silent after a minute and more."""
    hold = limit_hold(asked(sample_seconds=asked_s), 900_000, taken())
    assert (hold.sample_s, hold.hold_s) == (sample_s, 10.0)
    assert hold.sample_s < LeaseTimes().margin_s


def test_without_a_limit_the_fallback_counts_whatever_sample_is_named():
    hold = limit_hold(asked(100), None, taken(0.0))
    assert (hold.fallback_mw, hold.is_fresh(0.0)) == (700_000, False)
    limit = follow(None, "o1", spec(100, limit=None), NOTHING, 0.0, samples=taken(0.0))
    assert (limit.sets_limit, limit.applies(0.0), limit.falls_back(0.0)) == (True, True, True)


def test_a_limit_without_oversubscription_counts_at_any_time():
    assert limit_hold(None, 900_000, taken(0.0)) is None
    limit = follow(None, "o1", spec(oversubscription=None), NOTHING, 0.0, samples=taken(0.0))
    assert (limit.hold, limit.falls_back(1e9)) == (None, False)


def test_a_node_falls_back_at_the_end_of_the_hold_and_returns_with_the_next_named_sample():
    samples = taken(0.0, 5.0)
    limit = follow(None, "o1", spec(), NOTHING, 6.0, samples=samples)
    assert limit.falls_back(6.0), "no sample is named"
    limit = follow(limit, "o1", spec(100), NOTHING, 7.0, samples=samples)
    assert (limit.falls_back(7.0), limit.falls_back(9.999), limit.falls_back(10.0)) == (False, False, True)
    assert limit.applies(10.0)
    limit = follow(limit, "o1", spec(101), NOTHING, 12.0, samples=samples)
    assert (limit.falls_back(14.9), limit.falls_back(15.0)) == (False, True)
    # An earlier name again ends sooner, and a repeated one renews nothing.
    assert follow(limit, "o1", spec(100), NOTHING, 13.0, samples=samples).falls_back(13.0)
    assert follow(limit, "o1", spec(101), NOTHING, 14.0, samples=samples).hold.ends_s() == 15.0


def test_a_fallback_that_is_not_lower_is_the_limit():
    limit = follow(None, "o1", spec(limit=700.0), NOTHING, 0.0, samples=taken())
    assert not limit.falls_back(0.0)
    assert follow(None, "o1", spec(limit=700.001), NOTHING, 0.0, samples=taken()).falls_back(0.0)


def test_an_older_ask_neither_names_a_sample_nor_ends_the_hold():
    samples = taken(0.0)
    limit = follow(None, "o1", spec(100, sequence=5), NOTHING, 1.0, samples=samples)
    older = follow(limit, "o1", spec(100, sequence=4, oversubscription=None), NOTHING, 8.0, samples=samples.take(8.0))
    assert (older.older, older.falls_back(9.9), older.falls_back(10.0)) == (4, False, True)
    renamed = follow(limit, "o1", spec(101, sequence=4), NOTHING, 8.0, samples=samples.take(8.0))
    assert renamed.hold.ends_s() == 10.0


def test_after_a_restart_an_older_ask_leaves_its_fallback_in_force():
    status = NodePowerBudgetStatus.model_validate(
        {"node_uid": "u1", "boot_id": "b1", "sequence": 9, "cpu_watts": 450.0}
    )
    limit = follow(None, "o1", spec(100, sequence=8), status, 0.0, samples=taken(0.0))
    assert (limit.ask.sequence, limit.hold.fallback_mw, limit.falls_back(0.0)) == (9, 700_000, True)


def test_the_same_ask_is_told_from_others():
    limit = follow(None, "o1", spec(), NOTHING, 0.0)
    assert limit.is_of(follow(limit, "o1", spec(100), NOTHING, 9.0, samples=taken(9.0)))
    assert limit.is_asked_by("o1", spec(100, limit=500.0))
    for uid, other in (
        ("o2", spec()),
        ("o1", spec(sequence=2)),
        ("o1", spec(node_uid="u2")),
        ("o1", spec(boot_id="b2")),
    ):
        assert not limit.is_asked_by(uid, other)
        assert not limit.is_of(follow(None, uid, other, NOTHING, 0.0))


#: What happens next: time passes, a sample is taken, a spec that names one of all numbers ever seen is delivered,
#: however late, the agent starts again, or the operator asks for another limit.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0.0, 12.0)),
        st.tuples(st.just("take"), st.just(0)),
        st.tuples(st.just("name"), st.integers(0, 40)),
        st.tuples(st.just("forge"), st.integers(0, 2**53)),
        st.tuples(st.just("restart"), st.integers(0, 2**64 - 1)),
        st.tuples(st.just("ask"), st.integers(1, 5)),
    ),
    max_size=40,
)


@given(steps)
def test_a_limit_counts_only_for_its_hold_after_a_sample_of_this_process(script):
    now_s, samples, limit = 0.0, TakenSamples.begin(7), None
    named, numbers, own = None, [], {}
    sequence = 1
    for action, value in script:
        match action:
            case "wait":
                now_s += value
            case "take":
                number = samples.next_number
                samples = samples.take(now_s)
                numbers.append(number)
                own[number] = now_s
            case "name":
                named = numbers[value % len(numbers)] if numbers else None
            case "forge":
                named = value
            case "restart":
                samples, limit, own = TakenSamples.begin(value), None, {}
            case "ask":
                sequence += value
        limit = follow(limit, "o1", spec(named, sequence=sequence), NOTHING, now_s, samples=samples)
        _is_as_told(limit, named, own, now_s)


def _is_as_told(limit: FollowedLimit, named, own, now_s):
    """Compare with what an observer has noted of all that this process took."""
    for later_s in (now_s, now_s + HOLD_S / 2, now_s + HOLD_S):
        counts = named in own and later_s < own[named] + HOLD_S
        assert limit.falls_back(later_s) is not counts
    assert isinstance(limit.hold, LimitHold)
    assert limit.hold.fallback_mw <= limit.ask.limit_mw
