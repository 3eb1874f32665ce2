"""Scores of kube-scheduler's resource plugins, for all candidates of one pod at once.

Source: the KubeSchedulerConfiguration reference, kubescheduler.config.k8s.io/v1 (`NodeResourcesFitArgs`,
`NodeResourcesBalancedAllocationArgs`), and kube-scheduler v1.34 to v1.37. Resources are CPU and memory with a weight
of 1 each, which is kube-scheduler's default. Scores are whole numbers from 0 to 100; other default plugins give every
node the same for pods without affinity, spread constraints and images that some node already holds.

Arrays have one row for CPU and one for memory, and a column for each node. Whole numbers are kept as floats, which
divide faster: exact as long as a hundred times the memory in bytes is below 2^53, which is 90 TB.
"""

from enum import StrEnum
from typing import Final

import numpy as np

from joulie_core.savings.kube_scores import MAX_NODE_SCORE
from joulie_sim.engine.arrays import Floats

#: kube-scheduler multiplies the score of an extender, 0 to 10 by its API, to the range of a plugin's.
EXTENDER_FACTOR: Final = 10.0


class FitStrategy(StrEnum):
    """Scoring strategy of the plugin NodeResourcesFit."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"


class Balance(StrEnum):
    """Measure that the plugin NodeResourcesBalancedAllocation scores."""

    #: Up to Kubernetes 1.35: how even the shares are with the pod in place.
    RESULT = "result"
    #: From Kubernetes 1.36: how much more even the pod makes them.
    IMPROVEMENT = "improvement"


def least_allocated(requested: Floats, allocatable: Floats) -> Floats:
    """Return the mean of the free shares, each rounded down to a whole percent, and rounded down itself.

    Args:
        requested: with the pod in place, shape (2, nodes); where it exceeds `allocatable` the resource scores 0.
        allocatable: above 0, shape (2, nodes).
    """
    free = np.floor((allocatable - requested) * MAX_NODE_SCORE / allocatable)
    np.maximum(free, 0.0, out=free)
    return _mean(free)


def most_allocated(requested: Floats, allocatable: Floats) -> Floats:
    """Return the mean of the used shares; arguments and rounding as in `least_allocated`."""
    used = np.floor(np.minimum(requested, allocatable) * MAX_NODE_SCORE / allocatable)
    return _mean(used)


def balanced_allocation(requested: Floats, allocatable: Floats) -> Floats:
    """Return how even the shares of CPU and memory are: 100 less half of their difference, rounded down.

    Arguments as in `least_allocated`.
    """
    share = requested / allocatable
    np.minimum(share, 1.0, out=share)
    deviation = np.abs((share[0] - share[1]) / 2.0)
    score: Floats = np.floor((1.0 - deviation) * MAX_NODE_SCORE)
    return score


def balance_improvement(before: Floats, after: Floats, allocatable: Floats) -> Floats:
    """Return 75 and half of what the pod adds to `balanced_allocation`, rounded down: from 50 to 100.

    Args:
        before: requested without the pod, shape (2, nodes).
        after: requested with the pod in place, shape (2, nodes).
        allocatable: above 0, shape (2, nodes).
    """
    added = balanced_allocation(after, allocatable) - balanced_allocation(before, allocatable)
    score: Floats = MAX_NODE_SCORE / 2 + np.floor((MAX_NODE_SCORE / 2 + added) / 2.0)
    return score


FIT_SCORES: Final = {
    FitStrategy.LEAST_ALLOCATED: least_allocated,
    FitStrategy.MOST_ALLOCATED: most_allocated,
}


def _mean(scores: Floats) -> Floats:
    mean: Floats = np.floor((scores[0] + scores[1]) / 2.0)
    return mean
