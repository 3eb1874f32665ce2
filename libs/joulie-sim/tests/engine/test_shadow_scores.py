"""Scores of the estimate of savings beside those of the engine."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.savings.kube_scores import default_score
from joulie_sim.engine.kube_scores import balance_improvement, least_allocated

_GIB = 1024.0**3


@given(
    st.integers(1_000, 400_000),
    st.integers(1, 4_000),
    st.lists(st.integers(0, 100), min_size=4, max_size=4),
)
def test_scores_of_one_node_are_those_of_all_nodes_at_once(cpu, memory_gib, percents):
    allocatable = np.array([[float(cpu)], [memory_gib * _GIB]])
    before = np.floor(allocatable * np.array([[percents[0]], [percents[1]]]) / 200.0)
    after = before + np.floor(allocatable * np.array([[percents[2]], [percents[3]]]) / 200.0)
    both = least_allocated(after, allocatable) + balance_improvement(before, after, allocatable)
    rows = [(allocatable[row, 0], before[row, 0], after[row, 0]) for row in (0, 1)]
    assert default_score(rows[0], rows[1], (after[0, 0], after[1, 0])) == both[0]
