"""Figures of several pods."""

from hypothesis import given
from hypothesis import strategies as st

from joulie_sim.pod_figures import WaitFigures, percentile


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0.01, 1.0))
def test_a_percentile_is_a_value_that_enough_others_do_not_exceed(values, share):
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_figures_of_waits_leave_out_pods_without_a_node():
    waits_s = [*(float(each) for each in range(1, 101)), None]
    assert WaitFigures.of(waits_s) == WaitFigures(
        100, mean_s=50.5, median_s=50.0, p95_s=95.0, p99_s=99.0, longest_s=100.0
    )


def test_pods_that_have_no_node_yet_have_no_figures():
    assert WaitFigures.of([None]) == WaitFigures(0, None, None, None, None, None)
