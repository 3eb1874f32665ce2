"""Figures of several pods."""

from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_sim.pod_figures import WaitFigures, mean, percentile


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0.0, 1.0))
def test_a_percentile_lies_between_the_values_that_its_share_of_all_others_separates(values, share):
    ordered = sorted(values)
    place = share * (len(values) - 1)
    low, high = ordered[floor(place + 1e-9)], ordered[ceil(place - 1e-9)]
    assert low - 1e-6 <= percentile(values, share) <= high + 1e-6


def test_a_percentile_between_two_values_is_in_proportion():
    assert percentile([4.0, 2.0, 10.0], 0.75) == 7.0
    assert percentile(np.array([4.0, 2.0, 10.0]), 0.5) == 4.0
    assert mean(np.array([4.0, 2.0, 12.0])) == 6.0


def test_no_values_have_neither_a_percentile_nor_a_mean():
    assert (percentile([], 0.5), mean(np.array([]))) == (None, None)


def test_figures_of_waits_leave_out_pods_without_a_node():
    waits_s = [*(float(each) for each in range(1, 101)), None]
    assert WaitFigures.of(waits_s) == WaitFigures(
        100, mean_s=50.5, median_s=50.5, p95_s=pytest.approx(95.05), p99_s=pytest.approx(99.01), longest_s=100.0
    )


def test_pods_that_have_no_node_yet_have_no_figures():
    assert WaitFigures.of([None]) == WaitFigures(0, None, None, None, None, None)
