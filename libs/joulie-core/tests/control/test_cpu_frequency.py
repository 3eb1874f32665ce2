"""The frequency arbiter: lowest ceiling, highest floor below it, and the order in which classes are throttled."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.control.cpu_frequency import (
    NO_CLASS,
    ClassifiedPolicy,
    FrequencyBound,
    FrequencyClass,
    FrequencyName,
    Shortfall,
    ShortfallCause,
    arbitrate,
)
from joulie_core.control.throttle_plan import CpuCore, FreqPolicy, ThrottleOrder, plan_throttle, throttle_rank

LOWEST, BASE, HIGHEST = 1_000_000, 2_500_000, 3_900_000
THROTTLED = 1_500_000
ECO = FrequencyClass("eco", maximum=2_000_000, throttle_order=ThrottleOrder.ECO)
FAST = FrequencyClass("fast", minimum=FrequencyName.BASE, throttle_order=ThrottleOrder.PERFORMANCE)


def policy(*classes, package=0, core=0, **fields):
    key = f"p{package}c{core}"
    free = FreqPolicy(key, frozenset({CpuCore(package, 0, core)}))
    found = ClassifiedPolicy(free, LOWEST, HIGHEST, BASE, classes or (NO_CLASS,))
    return replace(found, **fields)


def decide(*policies, throttle_pct=0.0):
    return arbitrate(policies, throttle_pct, min_freq_khz=THROTTLED)


def decide_one(only, throttle_pct=0.0):
    return decide(only, throttle_pct=throttle_pct)[only.policy.key]


def test_a_policy_without_a_class_is_not_limited():
    found = decide_one(policy())
    assert (found.ceiling_khz, found.limit_khz, found.floor_khz) == (HIGHEST, None, None)


@pytest.mark.parametrize(
    ("maximum", "administrator_khz", "throttle_pct", "ceiling_khz", "limit_khz"),
    [
        (2_000_000, None, 0, 2_000_000, 2_000_000),
        (2_000_000, None, 100, THROTTLED, THROTTLED),
        (1_200_000, None, 100, 1_200_000, 1_200_000),
        (2_000_000, 1_100_000, 100, 1_100_000, THROTTLED),
        (2_000_000, 3_000_000, 0, 2_000_000, 2_000_000),
        (None, 3_000_000, 0, 3_000_000, None),
        (None, None, 100, THROTTLED, THROTTLED),
    ],
)
def test_the_ceiling_is_the_lowest_of_class_throttle_and_administrator(
    maximum, administrator_khz, throttle_pct, ceiling_khz, limit_khz
):
    found = decide_one(policy(replace(ECO, maximum=maximum), administrator_khz=administrator_khz), throttle_pct)
    assert (found.ceiling_khz, found.limit_khz) == (ceiling_khz, limit_khz)


@pytest.mark.parametrize(
    ("frequency", "khz"),
    [
        (FrequencyName.MIN, LOWEST),
        (FrequencyName.BASE, BASE),
        (1_800_000, 1_800_000),
        (1, LOWEST),
    ],
)
def test_frequencies_are_those_of_the_hardware(frequency, khz):
    assert decide_one(policy(replace(ECO, maximum=frequency))).limit_khz == khz


@pytest.mark.parametrize("frequency", [FrequencyName.TURBO, HIGHEST, 9_000_000])
def test_a_ceiling_that_the_hardware_never_exceeds_is_no_limit(frequency):
    assert decide_one(policy(replace(ECO, maximum=frequency))).limit_khz is None


def test_an_unknown_base_frequency_limits_nothing_and_is_reported():
    found = decide_one(policy(replace(ECO, minimum=FrequencyName.BASE, maximum=FrequencyName.BASE), base_khz=None))
    assert (found.limit_khz, found.floor_khz) == (None, None)
    assert found.shortfalls == (
        Shortfall("eco", FrequencyBound.CEILING, ShortfallCause.UNKNOWN_BASE),
        Shortfall("eco", FrequencyBound.FLOOR, ShortfallCause.UNKNOWN_BASE),
    )


def test_a_floor_above_the_ceiling_is_left_out_and_reported():
    found = decide_one(policy(FAST), throttle_pct=100)
    assert found.floor_khz is None
    assert found.shortfalls == (Shortfall("fast", FrequencyBound.FLOOR, ShortfallCause.ABOVE_CEILING),)


def test_an_administrators_limit_bounds_the_floor():
    assert decide_one(policy(FAST, administrator_khz=2_000_000)).floor_khz is None
    assert decide_one(policy(FAST, administrator_khz=BASE)).floor_khz == BASE


def test_the_highest_floor_counts_that_is_not_above_the_ceiling():
    low, high = FrequencyClass("low", minimum=1_200_000, maximum=2_000_000), FrequencyClass("high", minimum=2_200_000)
    assert decide_one(policy(low, high)).floor_khz == 2_200_000
    assert decide_one(policy(low, replace(high, maximum=2_100_000))).floor_khz == 1_200_000


def test_the_highest_ceiling_counts_where_classes_share_a_policy():
    found = decide_one(policy(ECO, replace(FAST, maximum=3_000_000)))
    assert found.limit_khz == 3_000_000
    assert found.leading.name == "fast"
    assert found.shortfalls == (Shortfall("eco", FrequencyBound.CEILING, ShortfallCause.SHARED_POLICY),)


def test_cpus_without_a_class_have_no_ceiling_where_they_share_a_policy():
    found = decide_one(policy(ECO, NO_CLASS))
    assert found.limit_khz is None
    assert found.leading == NO_CLASS
    assert [each.class_name for each in found.shortfalls] == ["eco"]


def test_a_class_precedes_none_of_the_same_order():
    assert decide_one(policy(NO_CLASS, replace(ECO, throttle_order=ThrottleOrder.STANDARD))).leading.name == "eco"


def test_the_highest_turbo_priority_of_a_package_has_turbo_alone():
    first = FrequencyClass("first", maximum=FrequencyName.TURBO, turbo_priority=2)
    second = FrequencyClass("second", maximum=FrequencyName.TURBO, turbo_priority=1)
    found = decide(policy(first), policy(second, core=1), policy(second, package=1))
    assert {key: each.ceiling_khz for key, each in found.items()} == {"p0c0": HIGHEST, "p0c1": BASE, "p1c0": HIGHEST}


def test_without_turbo_priorities_all_classes_have_turbo():
    turbo = FrequencyClass("a", maximum=FrequencyName.TURBO)
    found = decide(policy(turbo), policy(replace(turbo, name="b"), core=1))
    assert {each.ceiling_khz for each in found.values()} == {HIGHEST}


def test_eco_is_throttled_first_then_what_has_no_class_and_performance_last():
    machine = [policy(FAST, core=0), policy(core=1), policy(ECO, core=2), policy(ECO, core=3)]
    throttled = [
        "".join(key[-1] for key, each in decide(*machine, throttle_pct=pct).items() if each.throttled)
        for pct in (25, 50, 75, 100)
    ]
    assert [len(each) for each in throttled] == [1, 2, 3, 4]
    assert set(throttled[1]) == set("23")
    assert set(throttled[2]) == set("123")


CLASSES = st.lists(
    st.builds(
        FrequencyClass,
        st.sampled_from("abc"),
        minimum=st.none() | st.sampled_from(FrequencyName) | st.integers(1, 5_000_000),
        maximum=st.none() | st.sampled_from(FrequencyName) | st.integers(1, 5_000_000),
        turbo_priority=st.integers(0, 2),
        throttle_order=st.sampled_from(ThrottleOrder),
    )
    | st.just(NO_CLASS),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each.name,
)


@st.composite
def machines(draw):
    """Any machine: policies of one or several cores, cores with several policies, sparse knowledge."""
    policies = []
    for number in range(draw(st.integers(1, 10))):
        cores = draw(st.frozensets(st.builds(CpuCore, st.integers(0, 1), st.just(0), st.integers(0, 5)), min_size=1))
        lowest = draw(st.integers(400_000, 2_000_000))
        highest = draw(st.integers(lowest, 5_000_000))
        policies.append(
            ClassifiedPolicy(
                FreqPolicy(f"policy{number}", cores),
                lowest,
                highest,
                draw(st.none() | st.integers(lowest, highest)),
                tuple(draw(CLASSES)),
                draw(st.none() | st.integers(lowest, highest)),
            )
        )
    return policies


pcts = st.floats(0, 100)


@given(machines(), pcts, pcts)
def test_a_higher_throttle_never_raises_a_ceiling(machine, one, other):
    lower, higher = decide(*machine, throttle_pct=min(one, other)), decide(*machine, throttle_pct=max(one, other))
    assert all(higher[key].ceiling_khz <= lower[key].ceiling_khz for key in lower)


@given(machines(), pcts)
def test_any_decision_is_a_range_of_the_hardware(machine, pct):
    found = decide(*machine, throttle_pct=pct)
    for each in machine:
        decision = found[each.policy.key]
        assert each.lowest_khz <= decision.ceiling_khz <= each.highest_khz
        assert decision.ceiling_khz <= (each.administrator_khz or each.highest_khz)
        assert decision.limit_khz is None or decision.ceiling_khz <= decision.limit_khz
        assert decision.floor_khz is None or each.lowest_khz <= decision.floor_khz <= decision.ceiling_khz
        assert not decision.throttled or decision.limit_khz is not None


@given(machines(), pcts)
def test_an_order_is_throttled_only_where_all_policies_of_earlier_ones_are(machine, pct):
    found = decide(*machine, throttle_pct=pct)
    ranks = {each.policy.key: throttle_rank(found[each.policy.key].leading.throttle_order) for each in machine}
    cores = {each.policy.key: each.policy.cores for each in machine}

    def latest(key):
        """The rank of all that is throttled with a policy."""
        joined = {key}
        while more := {other for other in cores if any(cores[other] & cores[each] for each in joined)} - joined:
            joined |= more
        return max(ranks[each] for each in joined)

    throttled = [latest(key) for key, each in found.items() if each.throttled]
    free = [latest(key) for key, each in found.items() if not each.throttled]
    assert not throttled or not free or max(throttled) <= min(free)


@given(machines(), pcts, st.sampled_from(ThrottleOrder))
def test_with_equal_classes_the_choice_is_that_of_the_throttle_plan(machine, pct, order):
    wanted = FrequencyClass("all", throttle_order=order)
    found = decide(*(replace(each, classes=(wanted,)) for each in machine), throttle_pct=pct)
    plan = plan_throttle([each.policy for each in machine], pct)
    assert {key for key, each in found.items() if each.throttled} == plan


@given(machines(), pcts, st.randoms())
def test_neither_the_order_of_policies_nor_of_their_classes_matters(machine, pct, dice):
    found = decide(*machine, throttle_pct=pct)
    shuffled = [replace(each, classes=tuple(dice.sample(each.classes, len(each.classes)))) for each in machine]
    dice.shuffle(shuffled)
    again = decide(*shuffled, throttle_pct=pct)
    assert {key: replace(each, shortfalls=()) for key, each in found.items()} == {
        key: replace(each, shortfalls=()) for key, each in again.items()
    }
    assert all(set(found[key].shortfalls) == set(again[key].shortfalls) for key in found)
