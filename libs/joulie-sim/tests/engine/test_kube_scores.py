"""Scores of kube-scheduler's resource plugins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_sim.engine.kube_scores import balance_improvement, balanced_allocation, least_allocated, most_allocated

_GIB = 1024**3


def _node(cpu: float, memory_gib: float) -> np.ndarray:
    return np.array([[cpu], [memory_gib * _GIB]])


@pytest.mark.parametrize(
    ("requested", "allocatable", "least", "most", "balanced"),
    [
        # 75 % of the CPU and 50 % of the memory free; half the difference of the used shares is 0.125.
        (_node(1000, 8), _node(4000, 16), 62, 37, 87),
        (_node(0, 0), _node(4000, 16), 100, 0, 100),
        (_node(4000, 16), _node(4000, 16), 0, 100, 100),
        # A third: 66.7 and 33.3 are rounded down before the mean, which is rounded down again.
        (_node(1000, 1), _node(3000, 3), 66, 33, 100),
        # What is requested without a request may exceed the node.
        (_node(5000, 8), _node(4000, 16), 25, 75, 75),
    ],
)
def test_the_scores_are_those_of_the_documented_formulas(requested, allocatable, least, most, balanced) -> None:
    assert least_allocated(requested, allocatable).tolist() == [least]
    assert most_allocated(requested, allocatable).tolist() == [most]
    assert balanced_allocation(requested, allocatable).tolist() == [balanced]


@pytest.mark.parametrize(
    ("before", "after", "score"),
    [
        # No change; then from 100 to 50, which is the least; from 50 to 100, the most; from 100 to 87, rounded down.
        (_node(0, 0), _node(0, 0), 75),
        (_node(0, 0), _node(4000, 0), 50),
        (_node(4000, 0), _node(4000, 16), 100),
        (_node(0, 0), _node(1000, 8), 68),
    ],
)
def test_the_improvement_of_the_balance_is_between_50_and_100(before, after, score) -> None:
    assert balance_improvement(before, after, _node(4000, 16)).tolist() == [score]


@given(
    st.lists(st.integers(0, 2**41), min_size=4, max_size=4),
    st.integers(1, 2**20),
    st.integers(1, 2**41),
)
def test_floats_give_the_same_whole_numbers_as_integers(requested, cpu, memory) -> None:
    used = (requested[0] % (2 * cpu), requested[1] % (2 * memory))
    sizes = (cpu, memory)
    exact = sum(max(0, size - use) * 100 // size for use, size in zip(used, sizes, strict=True)) // 2
    as_floats = least_allocated(np.array([[used[0]], [used[1]]], dtype=float), np.array([[cpu], [memory]], dtype=float))
    assert as_floats.tolist() == [exact]
    exact_most = sum(min(use, size) * 100 // size for use, size in zip(used, sizes, strict=True)) // 2
    most = most_allocated(np.array([[used[0]], [used[1]]], dtype=float), np.array([[cpu], [memory]], dtype=float))
    assert most.tolist() == [exact_most]
