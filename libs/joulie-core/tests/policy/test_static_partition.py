"""`static_partition`: docs/decisions/0013-conventions.md, Planning."""

import pytest
from pydantic import ValidationError

from joulie_core.policy import build_policy
from joulie_core.policy.static_partition import StaticPartition, StaticPartitionSettings


def static(frac):
    return StaticPartition(StaticPartitionSettings(static_hp_frac=frac))


@pytest.mark.parametrize(
    ("total", "frac", "expected"),
    [(12, 0.5, 6), (5, 0.5, 3), (3, 0.5, 2), (1, 0.5, 1), (4, 0.6, 2), (10, 0, 0), (10, 1, 10), (0, 0.5, 0)],
)
def test_the_share_is_rounded_half_away_from_zero(total, frac, expected):
    assert static(frac).performance_count(total) == expected


def test_the_plan_has_the_share(nodes, context, performance):
    assert performance(static(0.5).plan(context(nodes(5)))) == {"node-0", "node-1", "node-2"}


@pytest.mark.parametrize("pods", [0, 1, 10_000])
def test_demand_changes_nothing(nodes, context, pods):
    assert static(0.5).plan(context(nodes(10), pods)).performance_count == 5


@pytest.mark.parametrize("frac", [1.1, -0.1, "nan"])
def test_a_share_out_of_range_is_refused_by_name(frac):
    with pytest.raises(ValidationError, match="static_hp_frac"):
        build_policy("static_partition", {"static_hp_frac": frac})
