"""Pairs of arms on the control plane, and the count of reversals."""

import pytest
from experiments import live, live_class_limits
from experiments.live import PAIR
from experiments.live_pair import pair_table, read_pair
from experiments.transitions import reversals

_SLOWDOWNS = {f"{place}_{each}_slowdown": "1.0" for place in ("live", "engine") for each in ("performance", "standard")}


def test_energies_of_the_pair_count_up_to_the_end_of_the_last_of_the_four():
    short = {"live_s": "1800", "live_kwh": "9", "engine_s": "1800", "engine_kwh": "9"}
    long = {"live_s": "3600", "live_kwh": "9", "engine_s": "3600", "engine_kwh": "8"}
    rows = [{"arm": arm, "idle_kw": "2"} | _SLOWDOWNS | each for arm, each in zip(PAIR, (short, long), strict=True)]
    first, second = pair_table(rows).splitlines()[2:]
    assert first.startswith("| `kube_default` | 10.000 | 10.000 | 0.0 | 0.0 | 0.0 |")
    assert second.startswith("| `static_partition` | 9.000 | 8.000 | 11.1 | 10.0 | 20.0 |")


def test_slowdowns_are_those_over_the_first_arm():
    figures = {"live_s": "60", "live_kwh": "1", "engine_s": "60", "engine_kwh": "1", "idle_kw": "1"} | _SLOWDOWNS
    half = {"arm": "a"} | figures | {"live_standard_slowdown": "0.5", "engine_standard_slowdown": "0.5"}
    more = {"arm": "b"} | figures | {"live_standard_slowdown": "0.6", "engine_standard_slowdown": "0.55"}
    first, second = pair_table([half, more]).splitlines()[2:]
    assert first.endswith("| 1.000 / 1.000 | 1.000 / 1.000 |")
    assert second.endswith("| 1.000 / 1.000 | 1.200 / 1.100 |")


@pytest.mark.parametrize(
    ("counts", "found"), [([1, 2, 2, 3], 0), ([1, 3, 3, 2, 1], 1), ([5, 4, 5, 5, 4], 2), ([], 0), ([7], 0)]
)
def test_a_reversal_is_a_fall_after_a_rise_or_the_other_way_round(counts, found):
    assert reversals(counts) == found


@pytest.mark.parametrize(
    ("directory", "arms"), [(live.DIRECTORY, PAIR), (live_class_limits.DIRECTORY, [*live_class_limits.ARMS])]
)
def test_a_pair_has_no_row_of_another_arm(directory, arms):
    rows = read_pair(directory)
    assert [row["arm"] for row in rows] == list(arms)[: len(rows)]
