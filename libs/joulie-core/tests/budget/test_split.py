"""The budget of a node over its devices, and the limit that binds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget import BindingLimit, BudgetDevice, LimitSource, binding_limit, split_budget
from joulie_core.held_as import HeldAs

HOLDERS = st.sampled_from(HeldAs)


@st.composite
def devices(draw):
    count = draw(st.integers(0, 6))
    lowest = [draw(st.integers(0, 300)) for _ in range(count)]
    return [
        BudgetDevice(f"g{i}", least, least + draw(st.integers(0, 500)), draw(HOLDERS)) for i, least in enumerate(lowest)
    ]


@given(devices(), st.integers(0, 5000))
def test_limits_use_the_budget_up_and_never_exceed_it_unless_the_lowest_do(parts, budget_mw):
    split = split_budget(budget_mw, parts)
    lowest, highest = sum(each.min_mw for each in parts), sum(each.max_mw for each in parts)
    total = sum(split.limits_mw.values())
    assert split.shortfall_mw == max(lowest - budget_mw, 0)
    assert total <= max(budget_mw, lowest)
    assert total > min(max(budget_mw, lowest), highest) - max(len(parts), 1)
    assert all(each.min_mw <= split.limits_mw[each.name] <= each.max_mw for each in parts)


def gpus(*holders):
    return [BudgetDevice(f"g{i}", 100, 700, holder) for i, holder in enumerate(holders)]


@pytest.mark.parametrize(
    ("holders", "limits"),
    [
        (["performance", "standard", "free", "unknown"], [600, 100, 100, 600]),
        (["standard", "free", "free", "free"], [700, 233, 233, 233]),
        (["performance", "standard", "free", "free"], [700, 500, 100, 100]),
        (["outside", "standard", "standard", "standard"], [700, 233, 233, 233]),
        (["performance", "standard", "standard", "standard"], [700, 233, 233, 233]),
        (["unknown"] * 4, [350, 350, 350, 350]),
        (["standard", "free", "free", "standard"], [600, 100, 100, 600]),
    ],
)
def test_devices_of_performance_pods_are_served_first(holders, limits):
    parts = gpus(*map(HeldAs, holders))
    assert list(split_budget(1400, parts).limits_mw.values()) == limits


def test_a_device_that_is_full_leaves_its_part_to_the_others():
    parts = [BudgetDevice("cpu", 50, 200), BudgetDevice("g0", 100, 700), BudgetDevice("g1", 300, 700)]
    assert split_budget(1000, parts).limits_mw == {"cpu": 200, "g0": 400, "g1": 400}


@pytest.mark.parametrize(
    ("profile_mw", "budget_mw", "binds"),
    [
        (300, 200, BindingLimit(200, LimitSource.BUDGET)),
        (200, 300, BindingLimit(200, LimitSource.PROFILE)),
        (200, 200, BindingLimit(200, LimitSource.BUDGET)),
        (None, 300, BindingLimit(300, LimitSource.BUDGET)),
        (0, None, BindingLimit(0, LimitSource.PROFILE)),
        (None, None, None),
    ],
)
def test_the_lowest_limit_binds_and_is_named(profile_mw, budget_mw, binds):
    assert binding_limit({LimitSource.PROFILE: profile_mw, LimitSource.BUDGET: budget_mw}) == binds
